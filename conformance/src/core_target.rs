//! The state machine in this process as a target: without sockets, log or threads, and with a clock
//! that each write advances by one millisecond.
//!
//! This is the least that makes a server of a [`Core`]: handshake, sessions, identities, and the
//! order of events and replies. It shares no code with the real server on purpose: if a script
//! fails on one of the two only, that one is wrong.

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

/// The least and the greatest session timeout of every server that scripts run against, in
/// milliseconds.
pub const SESSION_TIMEOUTS_MS: (i32, i32) = (400, 60_000);

/// A state machine to which clients can connect.
#[derive(Debug, Clone)]
pub struct CoreTarget {
    server: Rc<RefCell<CoreServer>>,
}

impl CoreTarget {
    /// A new server.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { server: Rc::new(RefCell::new(CoreServer::new(settings))) }
    }

    /// The same server, which answers a client only after the client has an identity of this
    /// scheme.
    #[must_use]
    pub fn enforcing(self, scheme: &'static str) -> Self {
        self.server.borrow_mut().enforced_scheme = Some(scheme);
        self
    }
}

impl Target for CoreTarget {
    fn dial(&self) -> io::Result<Box<dyn Link>> {
        let id = self.server.borrow_mut().accept();
        Ok(Box::new(CoreLink { server: Rc::clone(&self.server), id }))
    }

    fn expire(&self, session: SessionId) {
        self.server.borrow_mut().expire(session);
    }

    fn sweep(&self) {
        self.server.borrow_mut().sweep();
    }
}

struct CoreLink {
    server: Rc<RefCell<CoreServer>>,
    id: ConnectionId,
}

impl Link for CoreLink {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.server.borrow_mut().receive(self.id, bytes);
        Ok(())
    }

    fn receive(&mut self) -> Received {
        let mut server = self.server.borrow_mut();
        match server.connections.get_mut(&self.id) {
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
        let mut server = self.server.borrow_mut();
        server.core.remove_watches_of(self.id, usize::MAX);
        server.connections.remove(&self.id);
    }
}

/// A state machine and the connections to it.
struct CoreServer {
    core: Core,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
    next_session: i64,
    now_ms: i64,
    enforced_scheme: Option<&'static str>,
}

impl fmt::Debug for CoreServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreServer").field("core", &self.core).finish_non_exhaustive()
    }
}

/// The first session id. As in ZooKeeper, the highest byte is the number of the server.
const FIRST_SESSION: i64 = 0x0100_0000_0000_0000;
/// Where the clock starts. It differs from 0, the time of the built-in znodes.
const START_MS: i64 = 1_000_000;
/// How far a sweep advances the clock: longer than any time to live in the scripts.
const SWEEP_AGE_MS: i64 = 10_000;

impl CoreServer {
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

    /// Applies a transaction, and gives its events to the connections that receive them, before any
    /// reply.
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

    /// Closes the connection of a session, if it has one, without sending anything.
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

    /// Expires a session, and closes its connection without sending anything.
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
