//! The core in process as a target: no sockets, no log, no threads, a clock that a write turns by
//! one millisecond.
//!
//! This is the least that makes a server of a [`Core`]: handshake, sessions, identities, the order
//! of events and replies. It is written apart from the real server on purpose, so that a
//! difference between the two runs of a script tells which of them is wrong.

mod connection;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use zoolet_core::{ConnectionId, Core, Effects, Settings, Txn};
use zoolet_protocol::{SessionId, encode_event};

use self::connection::Connection;
use crate::target::{Link, Received, Target};

/// The bounds of session timeouts, the same for every server that scripts run against.
pub const SESSION_TIMEOUTS_MS: (i32, i32) = (400, 60_000);

/// A core that can be connected to.
#[derive(Debug, Clone)]
pub struct CoreTarget {
    shell: Rc<RefCell<Shell>>,
}

impl CoreTarget {
    /// A server that has seen nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { shell: Rc::new(RefCell::new(Shell::new(settings))) }
    }

    /// The same server, which answers nobody before he has an identity of this scheme.
    #[must_use]
    pub fn enforcing(self, scheme: &'static str) -> Self {
        self.shell.borrow_mut().enforced_scheme = Some(scheme);
        self
    }
}

impl Target for CoreTarget {
    fn dial(&self) -> io::Result<Box<dyn Link>> {
        let id = self.shell.borrow_mut().accept();
        Ok(Box::new(CoreLink { shell: Rc::clone(&self.shell), id }))
    }

    fn expire(&self, session: SessionId) {
        self.shell.borrow_mut().expire(session);
    }

    fn sweep(&self) {
        self.shell.borrow_mut().sweep();
    }
}

struct CoreLink {
    shell: Rc<RefCell<Shell>>,
    id: ConnectionId,
}

impl Link for CoreLink {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.shell.borrow_mut().take_in(self.id, bytes);
        Ok(())
    }

    fn receive(&mut self) -> Received {
        let mut shell = self.shell.borrow_mut();
        match shell.connections.get_mut(&self.id) {
            None => Received::Closed,
            Some(connection) => match connection.outgoing.pop_front() {
                Some(frame) => Received::Frame(frame),
                None if connection.is_closed => Received::Closed,
                None => Received::Silence,
            },
        }
    }
}

impl Drop for CoreLink {
    fn drop(&mut self) {
        let mut shell = self.shell.borrow_mut();
        shell.core.remove_watches_of(self.id, usize::MAX);
        shell.connections.remove(&self.id);
    }
}

/// A core and the connections to it.
struct Shell {
    core: Core,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
    next_session: i64,
    now_ms: i64,
    enforced_scheme: Option<&'static str>,
}

impl fmt::Debug for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell").field("core", &self.core).finish_non_exhaustive()
    }
}

/// Any begin will do; ZooKeeper's ids carry the server's number in the highest byte.
const FIRST_SESSION: i64 = 0x0100_0000_0000_0000;
/// Any time will do, as long as it is not that of the built-in znodes.
const START_MS: i64 = 1_000_000;
/// What passes when time is let pass: longer than any time to live in a script that waits for it.
const SWEEP_AGE_MS: i64 = 10_000;

impl Shell {
    fn new(settings: Settings) -> Self {
        Self {
            core: Core::new(settings),
            connections: BTreeMap::new(),
            next_connection: 1,
            next_session: FIRST_SESSION,
            now_ms: START_MS,
            enforced_scheme: None,
        }
    }

    fn accept(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(id, Connection::new());
        id
    }

    fn new_session(&mut self, timeout_ms: i32) -> SessionId {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let txn = self.core.prepare_create_session(session, timeout_ms, self.now_ms);
        self.apply(&txn);
        session
    }

    /// Carries a transaction out, and puts its events into the connections of those who hear of
    /// them, before any reply.
    fn apply(&mut self, txn: &Txn) -> Effects {
        self.now_ms += 1;
        let effects = self.core.apply(txn);
        for fired in &effects.events {
            let frame = encode_event(effects.zxid, &fired.event);
            for receiver in &fired.receivers {
                if let Some(connection) = self.connections.get_mut(receiver)
                    && fired.may_be_told(&connection.identities)
                {
                    connection.give(frame.clone());
                }
            }
        }
        effects
    }

    /// Closes the connection of a session, if it has one, without a word.
    fn close_connection_of(&mut self, session: SessionId) {
        let bound = |connection: &Connection| connection.session == Some(session);
        let ids: Vec<_> =
            self.connections.iter().filter(|(_, c)| bound(c)).map(|(id, _)| *id).collect();
        for id in ids {
            self.close(id);
        }
    }

    fn close(&mut self, id: ConnectionId) {
        self.core.remove_watches_of(id, usize::MAX);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_closed = true;
        }
    }

    fn give(&mut self, id: ConnectionId, frame: Bytes) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.give(frame);
        }
    }

    /// Ends a session; its connection is closed without a word.
    fn expire(&mut self, session: SessionId) {
        let txn = self.core.prepare_expiry(session, self.now_ms);
        self.apply(&txn);
        self.close_connection_of(session);
    }

    fn sweep(&mut self) {
        self.now_ms += SWEEP_AGE_MS;
        for path in self.core.sweepable(self.now_ms, 0) {
            let txn = self.core.prepare_sweep(&path, self.now_ms);
            self.apply(&txn);
        }
    }
}
