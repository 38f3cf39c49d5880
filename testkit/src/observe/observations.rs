//! What the hooks count while a server runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use zoolet_core::ConnectionId;
use zoolet_protocol::limits::REQUEST_HEADER_BYTES;
use zoolet_protocol::{
    ConnectRequest, Incoming, Request, RequestHeader, SessionId, Zxid, decode_incoming,
    decode_request,
};
use zoolet_server::hooks::{HookedServer, Message, ServerTxn};

use super::recording::{Entry, Interference, Log, Recording, Requested};
use super::stats::{PathStats, SessionStats, Stats};
use crate::faults::scope::Client;
use crate::request_paths;

/// The bytes of the length before a frame.
const PREFIX_BYTES: u64 = 4;

/// What the hooks count while a server runs.
#[derive(Default)]
pub(crate) struct Observations {
    counted: Mutex<Counted>,
    changed: Notify,
    /// How often something may have changed, for threads that wait.
    changes: Mutex<u64>,
    changed_for_threads: Condvar,
    /// The server that was started last.
    server: Mutex<Option<Weak<dyn HookedServer>>>,
}

#[derive(Debug, Default)]
struct Counted {
    sessions: BTreeMap<SessionId, SessionStats>,
    paths: BTreeMap<String, PathStats>,
    /// The bytes that came before a connection had its session.
    early_bytes: HashMap<ConnectionId, u64>,
    log: Log,
}

impl Counted {
    fn session(&mut self, session: SessionId) -> &mut SessionStats {
        self.sessions.entry(session).or_default()
    }

    fn path(&mut self, path: &str) -> &mut PathStats {
        if !self.paths.contains_key(path) {
            self.paths.insert(path.to_owned(), PathStats::default());
        }
        self.paths.get_mut(path).expect("it was just inserted")
    }
}

impl fmt::Debug for Observations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observations").finish_non_exhaustive()
    }
}

/// What the hooks report.
impl Observations {
    /// A server has started, which is observed from now on.
    pub(crate) fn started(&self, server: Weak<dyn HookedServer>) {
        *self.server.lock() = Some(server);
        let mut counted = self.counted.lock();
        counted.early_bytes.clear();
        counted.log.note(&Entry::Restarted);
        drop(counted);
        self.changed();
    }

    /// A frame came in.
    pub(crate) fn frame_received(&self, client: Client, frame: &Bytes) {
        let bytes = PREFIX_BYTES + frame.len() as u64;
        let mut counted = self.counted.lock();
        match client.session {
            SessionId::NONE => *counted.early_bytes.entry(client.connection).or_default() += bytes,
            session => counted.session(session).bytes_received += bytes,
        }
    }

    /// The frame is a handshake.
    pub(crate) fn handshake(&self, client: Client, request: &ConnectRequest) {
        let log = &mut self.counted.lock().log;
        if log.is_on() {
            log.handshake(client.connection, request);
        }
    }

    /// The frame is a request, whose body may be unreadable.
    pub(crate) fn requested(
        &self,
        client: Client,
        frame: &Bytes,
        header: RequestHeader,
        request: Option<&Request>,
    ) {
        let mut counted = self.counted.lock();
        if counted.log.is_on() {
            let body = frame.slice(REQUEST_HEADER_BYTES..);
            let request = request.cloned();
            let requested = Requested { header, request, body, interference: None };
            counted.log.requested(client.connection, requested);
        }
        counted.session(client.session).requests.add(header.op);
        if let Some(request) = request {
            request_paths::each(request, |op, path| counted.path(path).requests.add(op));
        }
    }

    /// A fault interferes with the request that was reported last.
    pub(crate) fn interfere(&self, connection: ConnectionId, interference: Interference) {
        self.counted.lock().log.interfere(connection, interference);
    }

    /// A fault has lost a frame on its way to the server.
    pub(crate) fn lost(&self, connection: ConnectionId, frame: &Bytes) {
        let log = &mut self.counted.lock().log;
        if log.is_on()
            && let Ok((header, request)) = decode_request(frame)
        {
            let body = frame.slice(REQUEST_HEADER_BYTES..);
            let interference = Some(Interference::Lost);
            let requested = Requested { header, request: request.ok(), body, interference };
            log.note(&Entry::Unanswered { connection, requested });
        }
    }

    /// The server has handled a frame; without a reply by now there is none.
    pub(crate) fn handled(&self, connection: ConnectionId) {
        self.counted.lock().log.handled(connection);
    }

    /// A frame was neither a handshake nor a request.
    pub(crate) fn unreadable(&self, frame: &Bytes) {
        self.counted.lock().log.note(&Entry::Unreadable { frame: frame.clone() });
    }

    /// A message enters the outbox of a connection, or is lost by a fault.
    pub(crate) fn sent(&self, client: Client, message: &Message, is_lost: bool) {
        let mut counted = self.counted.lock();
        counted.log.sent(client.connection, message, is_lost);
        if is_lost {
            return;
        }
        let early_bytes = match message {
            Message::Connected(_) => counted.early_bytes.remove(&client.connection).unwrap_or(0),
            _ => 0,
        };
        let stats = counted.session(client.session);
        stats.bytes_received += early_bytes;
        stats.bytes_sent += PREFIX_BYTES + message.encoded_len() as u64;
        match message {
            Message::Connected(_) => stats.connections += 1,
            Message::Reply(header, _) => {
                stats.replies += 1;
                stats.refusals += u64::from(!header.err.is_ok());
            }
            Message::Event(frame) => {
                stats.events += 1;
                if let Ok(Incoming::Event { event, .. }) = decode_incoming(frame)
                    && let Some(path) = event.path.text()
                {
                    counted.path(path).events += 1;
                }
            }
        }
    }

    /// A message was meant for a connection that is closed already.
    pub(crate) fn discarded(&self, connection: ConnectionId, message: &Message) {
        let log = &mut self.counted.lock().log;
        if matches!(message, Message::Reply(..)) {
            log.sent(connection, message, true);
        }
        // The client receives nothing from here on, although the server may close the connection
        // later.
        log.note(&Entry::Closed { connection });
    }

    /// A connection is closed.
    pub(crate) fn closed(&self, connection: ConnectionId) {
        let mut counted = self.counted.lock();
        counted.early_bytes.remove(&connection);
        counted.log.closed(connection);
    }

    /// The server has made a transaction by itself; its events are in the outboxes.
    pub(crate) fn server_txn(&self, txn: ServerTxn, zxid: Zxid) {
        let entry = match txn {
            ServerTxn::Expiry(session) => Entry::Expired { session, zxid },
            ServerTxn::Sweep => Entry::Swept { zxid },
        };
        self.counted.lock().log.note(&entry);
    }

    /// Something may have changed. The caller holds no lock of the server, because waiting threads
    /// may read its state at once.
    pub(crate) fn changed(&self) {
        *self.changes.lock() += 1;
        self.changed_for_threads.notify_all();
        self.changed.notify_waiters();
    }
}

/// The queries of the observer.
impl Observations {
    /// The server, if it runs.
    pub(super) fn server(&self) -> Option<Arc<dyn HookedServer>> {
        self.server.lock().as_ref().and_then(Weak::upgrade)
    }

    /// What was counted; no watches.
    pub(super) fn counts(&self) -> Stats {
        let counted = self.counted.lock();
        Stats { sessions: counted.sessions.clone(), paths: counted.paths.clone() }
    }

    /// Begins a recording after the zxid `base`, when `sessions` live.
    pub(super) fn begin_recording(
        &self,
        base: Zxid,
        sessions: BTreeSet<SessionId>,
    ) -> Arc<Recording> {
        self.counted.lock().log.begin(base, sessions)
    }

    /// Notified when something may have changed.
    pub(super) fn when_changed(&self) -> &Notify {
        &self.changed
    }

    /// How often something may have changed.
    pub(super) fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    /// Blocks until [`Observations::changes`] differs from `seen`. Returns `false` after `left()`
    /// is over.
    pub(super) fn block_until_changed(&self, seen: u64, left: impl Fn() -> Duration) -> bool {
        let mut changes = self.changes.lock();
        while *changes == seen {
            let left = left();
            if left.is_zero() {
                return false;
            }
            self.changed_for_threads.wait_for(&mut changes, left);
        }
        true
    }
}
