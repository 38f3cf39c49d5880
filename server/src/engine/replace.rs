//! Replaces the whole state.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLockWriteGuard;
use zoolet_core::Core;
use zoolet_protocol::Zxid;

use super::audit::{Administrator, Outcome};
use super::lock::Engine;
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
        let connections = self.registry.peers();
        drop(state);
        for peer in connections {
            peer.outbox.cut();
        }
        // It takes a while, and needs no lock.
        drop(old);
        self.settled();
        Ok(zxid)
    }
}
