//! What a simulation needs of the server's hooks: to look at its state, to expire sessions, and to
//! learn which have expired.

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use zoolet_core::{ConnectionId, Core};
use zoolet_protocol::{SessionId, Zxid};
use zoolet_server::hooks::{
    Admission, ClockOffset, Closed, HookedConnection, HookedServer, Hooks, Message, ServerTxn,
};

use super::record::Record;

/// Hooks of one server that change nothing.
pub(super) struct SimHooks {
    record: Arc<Record>,
    server: Mutex<Option<Weak<dyn HookedServer>>>,
    changed: Notify,
}

impl SimHooks {
    pub(super) fn new(record: &Arc<Record>) -> Self {
        let (server, changed) = (Mutex::default(), Notify::new());
        Self { record: Arc::clone(record), server, changed }
    }

    fn server(&self) -> Option<Arc<dyn HookedServer>> {
        let server = self.server.lock().as_ref().and_then(Weak::upgrade);
        server.filter(|server| !server.is_shut_down())
    }

    /// Calls `inspect` with the state, if the server runs and the state would survive a crash. What
    /// would not may be gone with the next start, and no client has seen it.
    pub(super) fn inspect_durable(&self, mut inspect: impl FnMut(&Core)) {
        if let Some(server) = self.server()
            && server.is_durable()
        {
            server.inspect(&mut inspect);
        }
    }

    /// Whether the server has a session, or does not run: it may have it then.
    pub(super) fn may_have_session(&self, session: SessionId) -> bool {
        self.server().is_none_or(|server| server.sessions().contains(&session))
    }

    /// Expires a session, if the server runs.
    pub(super) fn expire(&self, session: SessionId) {
        if let Some(server) = self.server() {
            server.expire(session);
        }
    }
}

impl Hooks for SimHooks {
    fn started(&self, server: Weak<dyn HookedServer>) {
        *self.server.lock() = Some(server);
    }

    fn stopping(&self) {}

    fn changed(&self) -> &Notify {
        &self.changed
    }

    fn clock_offset(&self) -> ClockOffset {
        ClockOffset::default()
    }

    fn is_server_frozen(&self) -> bool {
        false
    }

    fn refuses_connection(&self) -> bool {
        false
    }

    fn is_frozen(&self, _connection: ConnectionId) -> bool {
        false
    }

    fn receive(&self, connection: Arc<dyn HookedConnection>, frame: Bytes) -> Result<(), Closed> {
        connection.handle(frame)
    }

    fn send(&self, _connection: ConnectionId, _number: u64, _message: &mut Message) -> Admission {
        Admission::Queue
    }

    fn discard(&self, _connection: ConnectionId, _message: &Message) {}

    fn may_leave(&self, _connection: ConnectionId, _number: u64) -> bool {
        true
    }

    fn may_wake(&self, _connection: ConnectionId) -> bool {
        true
    }

    fn server_txn(&self, txn: ServerTxn, _zxid: Zxid) {
        if let ServerTxn::Expiry(session) = txn {
            self.record.expired(session);
        }
    }

    fn closed(&self, _connection: ConnectionId) {}

    fn settled(&self) {
        self.record.state_changed();
    }
}

impl fmt::Debug for SimHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimHooks").finish_non_exhaustive()
    }
}
