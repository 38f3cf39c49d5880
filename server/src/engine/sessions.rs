//! Sessions as the engine creates them, re-attaches clients to them and ends them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLockUpgradableReadGuard;
use zoolet_protocol::SessionId;

use super::hooks::ServerTxn;
use super::lock::{Engine, Wakers};
use super::message::Message;
use super::outbox::Outgoing;
use super::registry::{Liveness, Peer};
use crate::storage::committer::Origin;

impl Engine {
    /// Creates a session for `peer`, and pushes the handshake response, which leaves once the
    /// session is durable.
    pub(super) fn create_session(
        &self,
        peer: &Arc<Peer>,
        timeout_ms: i32,
        response: impl FnOnce(SessionId) -> Message,
    ) -> Arc<Liveness> {
        let session = SessionId(self.last_session.fetch_add(1, Ordering::Relaxed) + 1);
        let mut wakers = Wakers::default();
        let liveness = Arc::new(Liveness::new(session, timeout_ms, self.clock.now_ms()));
        liveness.attach(Arc::clone(peer));
        let mut state = self.state.write();
        let txn = state.core.prepare_create_session(session, timeout_ms, self.clock.wall_ms());
        let received = (Origin::Client, peer.stats.request_received_ms());
        let effects = self.commit(&mut state, &txn.into(), received, &mut wakers);
        self.registry.insert_session(Arc::clone(&liveness));
        let outgoing = Outgoing { after: effects.zxid, message: response(session) };
        wakers.add(peer.push(state.lock_held(), outgoing));
        drop(state);
        liveness
    }

    /// Makes `peer` the connection of a live session, and cuts the connection that it had.
    ///
    /// The password is checked only after that, as in ZooKeeper, so that a client that reconnects
    /// is not held up by its own old connection. With a wrong one the session lives on without a
    /// connection.
    pub(super) fn reattach_session(
        &self,
        session: SessionId,
        peer: &Arc<Peer>,
        has_password: bool,
        timeout_ms: i32,
    ) -> Option<Arc<Liveness>> {
        let liveness = self.registry.session(session)?;
        if let Some(displaced) = liveness.detach() {
            displaced.outbox.cut();
        }
        if !has_password {
            return None;
        }
        // Under the lock the session cannot end between the check and the touch.
        let state = self.state.read();
        if !state.core.has_session(session) {
            return None;
        }
        liveness.renegotiate(timeout_ms);
        liveness.touch(self.clock.now_ms());
        self.registry.relist_session(&liveness);
        let displaced = liveness.attach(Arc::clone(peer));
        drop(state);
        // Cut without the lock: the task that this wakes may take it.
        if let Some(displaced) = displaced {
            displaced.outbox.cut();
        }
        self.stats.sessions_revalidated.add(1);
        Some(liveness)
    }

    /// Expires a session if its timeout has passed.
    pub(super) fn expire_if_due(&self, liveness: &Liveness, now_ms: u64) {
        let tick_ms = u64::from(self.config.tick_time_ms);
        self.expire_if(liveness, || liveness.expires_ms(tick_ms) <= now_ms);
    }

    /// Expires a session as if its timeout had passed.
    pub(super) fn expire(&self, liveness: &Liveness) {
        self.expire_if(liveness, || true);
    }

    fn expire_if(&self, liveness: &Liveness, is_due: impl FnOnce() -> bool) {
        let mut wakers = Wakers::default();
        let state = self.state.upgradable_read();
        if !is_due() || !state.core.has_session(liveness.session) {
            return;
        }
        tracing::info!(
            session = %liveness.session,
            address = liveness.address_text(),
            timeout_ms = liveness.timeout_ms(),
            "session expired"
        );
        self.stats.sessions_expired.add(1);
        let txn = state.core.prepare_expiry(liveness.session, self.clock.wall_ms());
        let mut state = RwLockUpgradableReadGuard::upgrade(state);
        let now_ms = self.clock.now_ms();
        self.stats.expiry_lag.record(now_ms.saturating_sub(liveness.timeout_at_ms()));
        let received = (Origin::Server, now_ms);
        let effects = self.commit(&mut state, &txn.into(), received, &mut wakers);
        self.tell_hooks(ServerTxn::Expiry(liveness.session), effects.zxid);
        drop(state);
        self.remove_session(liveness.session);
        self.settled();
    }
}
