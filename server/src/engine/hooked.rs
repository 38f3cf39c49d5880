//! What the engine lets its hooks do.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_core::{ConnectionId, Core};
use zoolet_protocol::{ErrorCode, SessionId};

use super::connection::{Connection, Treatment};
use super::hooks::{Closed, ConnectionInfo, HookedConnection, HookedServer, ResetError};
use super::lock::Engine;
use super::registry::Peer;
use super::replace::NotReplaced;
use super::ticker;

impl HookedConnection for Connection {
    fn id(&self) -> ConnectionId {
        self.peer.id
    }

    fn is_open(&self) -> bool {
        self.peer.outbox.is_open()
    }

    fn is_established(&self) -> bool {
        Self::is_established(self)
    }

    fn handle(&self, frame: Bytes) -> Result<(), Closed> {
        Self::handle(self, frame, Treatment::CarryOut)
    }

    fn refuse(&self, frame: Bytes, code: ErrorCode) -> Result<(), Closed> {
        Self::handle(self, frame, Treatment::Refuse(code))
    }

    fn cut(&self) {
        self.peer.outbox.cut();
    }

    fn finish(&self) {
        self.peer.outbox.finish();
    }
}

impl HookedServer for Engine {
    fn is_shut_down(&self) -> bool {
        Self::is_shut_down(self)
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        let info = |peer: &Arc<Peer>| ConnectionInfo {
            id: peer.id,
            session: peer.stats.session(),
            address: peer.address,
        };
        self.registry.peers().iter().map(info).collect()
    }

    fn session_of(&self, connection: ConnectionId) -> Option<SessionId> {
        self.registry.peer(connection).map(|peer| peer.stats.session())
    }

    fn is_open(&self, connection: ConnectionId) -> bool {
        self.registry.peer(connection).is_some_and(|peer| peer.outbox.is_open())
    }

    fn cut(&self, connection: ConnectionId) {
        if let Some(peer) = self.registry.peer(connection) {
            peer.outbox.cut();
        }
    }

    fn wake(&self, connection: ConnectionId) {
        if let Some(peer) = self.registry.peer(connection) {
            peer.outbox.wake();
        }
    }

    fn sessions(&self) -> Vec<SessionId> {
        self.registry.sessions().iter().map(|liveness| liveness.session).collect()
    }

    fn expire(&self, session: SessionId) {
        if let Some(liveness) = self.registry.session(session) {
            Self::expire(self, &liveness);
        }
    }

    fn tick(&self) {
        ticker::tick_now(self);
    }

    fn await_tick(&self) {
        drop(self.sweeps.lock());
    }

    fn sweep(&self) {
        Self::sweep(self);
    }

    fn reset(&self) -> Result<(), ResetError> {
        match Self::reset(self) {
            Ok(zxid) => {
                tracing::warn!("the state was reset; it goes on at {zxid}");
                Ok(())
            }
            Err(NotReplaced::ShutDown) => Err(ResetError::ShutDown),
            Err(NotReplaced::Storage(error)) => Err(ResetError::Storage(error)),
            Err(NotReplaced::Failed) => Err(ResetError::Failed),
            Err(NotReplaced::Overtaken) => unreachable!("its zxid is taken under the lock"),
        }
    }

    fn inspect(&self, inspect: &mut dyn FnMut(&Core)) {
        Self::inspect(self, inspect);
    }

    fn is_durable(&self) -> bool {
        self.is_all_durable()
    }

    fn since_start(&self) -> Duration {
        self.clock.since_start()
    }
}
