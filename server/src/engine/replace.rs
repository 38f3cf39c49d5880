//! Replaces the whole state.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLockWriteGuard;
use zoolet_core::Core;
use zoolet_protocol::Zxid;

use super::audit::{Administrator, Outcome};
use super::lock::{Engine, Wakers};
use super::registry::Liveness;
use super::session_ids::{first_session, time_of_ids};
use super::state::State;
use crate::storage::StorageError;
use crate::storage::directory::Directory;
use crate::storage::snapshot_file::{PublishError, Unpublished};

/// Why the state was not replaced.
#[derive(Debug)]
pub(crate) enum NotReplaced {
    /// The old state has reached the zxid of the new one.
    Overtaken,
    /// The server is shut down.
    ShutDown,
    /// The new state could not be made durable.
    Storage(StorageError),
    /// Nobody knows whether the next start finds the old state or the new one, so the server serves
    /// nobody any more.
    Failed,
}

impl Engine {
    /// Replaces the state by one with a greater zxid, and returns that. `publish` makes the new state
    /// durable, at once and for good; it is called while no request is carried out. The audit log names
    /// the administrator who has asked for it, if one has.
    ///
    /// All connections are cut: their watches are gone, and their sessions have ended or must be
    /// resumed. Each session of the new state has its full timeout.
    pub(crate) fn replace(
        &self,
        core: Core,
        administrator: Option<&Administrator>,
        publish: impl FnOnce() -> Result<(), PublishError>,
    ) -> Result<Zxid, NotReplaced> {
        let state = self.state.write();
        if state.core.last_zxid() >= core.last_zxid() && !self.is_shut_down() {
            return Err(NotReplaced::Overtaken);
        }
        self.go_on_with(state, core, publish, || {
            if let Some(audit) = &self.audit {
                audit.restored(administrator, Outcome::Success, self.clock.wall_ms());
            }
        })
    }

    /// Replaces the state by that of a new server, whose zxid follows the last one, and returns
    /// that. On a disk that waits it takes as long as two syncs, while no request is carried out.
    pub(crate) fn reset(&self) -> Result<Zxid, NotReplaced> {
        let state = self.state.write();
        let zxid = state.core.last_zxid().next();
        let core = Core::starting_after(self.config.settings.clone(), zxid);
        let Some(storage) = &self.config.storage else {
            return self.go_on_with(state, core, || Ok(()), || {});
        };
        let (directory, frozen) = (Directory::of(storage), core.freeze());
        let publish = || {
            Unpublished::write_on_request(&directory, storage, &frozen)
                .map_err(PublishError::Unpublished)?
                .publish()
                .map(drop)
        };
        self.go_on_with(state, core, publish, || {})
    }

    /// Publishes a state and replaces the old one by it. `replaced` is called before any other
    /// request is carried out.
    fn go_on_with(
        &self,
        mut state: RwLockWriteGuard<'_, State>,
        core: Core,
        publish: impl FnOnce() -> Result<(), PublishError>,
        replaced: impl FnOnce(),
    ) -> Result<Zxid, NotReplaced> {
        if self.is_shut_down() {
            return Err(NotReplaced::ShutDown);
        }
        match publish() {
            Ok(()) => {}
            Err(PublishError::Unpublished(error)) => return Err(NotReplaced::Storage(error)),
            Err(PublishError::Unsynced(error)) => {
                drop(state);
                self.durable().fail(error);
                return Err(NotReplaced::Failed);
            }
        }
        let zxid = core.last_zxid();
        let now_ms = self.clock.now_ms();
        for ended in self.registry.sessions() {
            self.registry.remove_session(ended.session);
        }
        let sessions = core.sessions();
        for &(session, timeout_ms) in &sessions {
            self.registry.insert_session(Arc::new(Liveness::new(session, timeout_ms, now_ms)));
        }
        let living = sessions.iter().map(|(session, _)| *session);
        let first = first_session(time_of_ids(self.config.seed, &self.clock, zxid), zxid, living);
        self.last_session.fetch_max(first.0, Ordering::Relaxed);
        let old = std::mem::replace(&mut state.core, core);
        state.journal.go_on_after(zxid);
        replaced();
        // Under the lock: the new state has no watches, and a reply from it would let a client believe that
        // it has heard of all changes until then.
        let mut wakers = Wakers::default();
        for peer in self.registry.peers() {
            wakers.add(peer.outbox.cut_before_waking());
        }
        drop(state);
        drop(wakers);
        // It takes a while, and needs no lock.
        drop(old);
        self.settled();
        Ok(zxid)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use super::*;
    use crate::config::Config;
    use crate::engine::connection::Connection;
    use crate::engine::journal::Journal;
    use crate::engine::registry::{Entrance, Peer};

    /// Counts the connections that are still open whenever it is woken.
    struct Witness {
        peers: Vec<Arc<Peer>>,
        open: AtomicUsize,
        wakings: AtomicUsize,
    }

    impl Wake for Witness {
        fn wake(self: Arc<Self>) {
            let open = self.peers.iter().filter(|peer| peer.outbox.is_open()).count();
            self.open.fetch_add(open, Ordering::Relaxed);
            self.wakings.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Where sessions live on, as after a restore, a client that is served by the new state, without its
    /// watches, misses an event for good: after its reconnect it says that it has seen what the last reply told.
    #[test]
    fn all_connections_end_before_anybody_is_woken() {
        let core = Core::new(Config::default().settings);
        let engine = Arc::new(Engine::new(Config::default(), None, Journal::in_memory(), core));
        let connect =
            || Connection::open(Arc::clone(&engine), Entrance::IN_PROCESS).expect("it may");
        let connections = [(); 3].map(|()| connect());
        let peers = connections.iter().map(|connection| Arc::clone(&connection.peer)).collect();
        let witness = Witness { peers, open: AtomicUsize::new(0), wakings: AtomicUsize::new(0) };
        let witness = Arc::new(witness);
        let waker = Waker::from(Arc::clone(&witness));
        for connection in &connections {
            let polled = connection.peer.outbox.poll_take(&Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        engine.reset().expect("nothing is in the way");
        assert_eq!(witness.wakings.load(Ordering::Relaxed), connections.len());
        assert_eq!(witness.open.load(Ordering::Relaxed), 0);
    }
}
