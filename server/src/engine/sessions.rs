//! Sessions as the engine creates them, re-attaches clients to them and ends them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{RwLockUpgradableReadGuard, RwLockWriteGuard};
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

    /// Makes `peer` the connection of a live session, pushes the handshake response, and cuts the
    /// connection that it had.
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
        response: impl FnOnce(SessionId) -> Message,
    ) -> Option<Arc<Liveness>> {
        if let Some(displaced) = self.registry.session(session)?.detach() {
            displaced.outbox.cut();
        }
        if !has_password {
            return None;
        }
        let mut wakers = Wakers::default();
        // Under the lock the session cannot end between the look, the touch and the response. A state that
        // has replaced the one of above has another record of it.
        let state = self.state.read();
        let liveness = self.registry.session(session)?;
        liveness.renegotiate(timeout_ms);
        liveness.touch(self.clock.now_ms());
        self.registry.relist_session(&liveness);
        let displaced = liveness.attach(Arc::clone(peer));
        let outgoing = Outgoing { after: state.core.last_zxid(), message: response(session) };
        wakers.add(peer.push(state.lock_held(), outgoing));
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

    fn expire_if(&self, liveness: &Liveness, is_due: impl Fn() -> bool) {
        let mut wakers = Wakers::default();
        let state = self.state.upgradable_read();
        // The session may have ended, or the state was replaced and has another record of it.
        if !is_due() || !self.registry.has_record(liveness) {
            return;
        }
        let txn = state.core.prepare_expiry(liveness.session, self.clock.wall_ms());
        let mut state = RwLockUpgradableReadGuard::upgrade(state);
        // Until here a request could extend the session, and its reply proves to the client that it
        // lives. A request that extends it from here on finds that it has ended.
        if !is_due() {
            return;
        }
        self.stats.sessions_expired.add(1);
        let now_ms = self.clock.now_ms();
        self.stats.expiry_lag.record(now_ms.saturating_sub(liveness.timeout_at_ms()));
        let received = (Origin::Server, now_ms);
        let effects = self.commit(&mut state, &txn.into(), received, &mut wakers);
        self.tell_hooks(ServerTxn::Expiry(liveness.session), effects.zxid);
        self.registry.remove_session(liveness.session);
        // Those who wait go first: the next expiry would otherwise have the lock before they have woken.
        RwLockWriteGuard::unlock_fair(state);
        tracing::info!(
            session = %liveness.session,
            address = liveness.address_text(),
            timeout_ms = liveness.timeout_ms(),
            "session expired"
        );
        liveness.finish_connection();
        self.settled();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use bytes::{Bytes, BytesMut};
    use zoolet_core::Core;
    use zoolet_protocol::{
        ConnectRequest, Encode, FrameCodec, Lookup, Password, Read, Request, SessionRequest, Xid,
        encode_request,
    };

    use super::*;
    use crate::clock::{ms_since, now};
    use crate::config::Config;
    use crate::engine::connection::{Connection, Treatment};
    use crate::engine::journal::Journal;
    use crate::engine::plain_reads::Unread;
    use crate::engine::registry::Entrance;

    const TIMEOUT_MS: i32 = 30_000;

    fn ping() -> Bytes {
        encode_request(Xid::PING, &Request::Session(SessionRequest::Ping))
    }

    fn handshake(request: ConnectRequest) -> Bytes {
        let mut frame = BytesMut::new();
        request.encode(&mut frame);
        frame.freeze()
    }

    /// An engine and a connection with a session. The response to its handshake was taken.
    fn connected() -> (Arc<Engine>, Connection, Arc<Liveness>) {
        let config = Config::default();
        let core = Core::new(config.settings.clone());
        let engine = Arc::new(Engine::new(config, None, Journal::in_memory(), core));
        let connection =
            Connection::open(Arc::clone(&engine), Entrance::IN_PROCESS).expect("it may");
        let request = handshake(ConnectRequest::new(TIMEOUT_MS));
        connection.handle(request, Treatment::CarryOut).expect("a session is to be had");
        let (messages, _) = connection.peer.outbox.take_all(usize::MAX);
        assert_eq!(messages.len(), 1);
        let session = connection.peer.stats.session();
        let liveness = engine.registry.session(session).expect("the session lives");
        (engine, connection, liveness)
    }

    #[test]
    fn a_session_that_was_heard_of_while_its_expiry_waited_for_the_lock_lives_on() {
        let (engine, connection, liveness) = connected();
        let due_ms = 2 * u64::try_from(TIMEOUT_MS).expect("it is positive");
        let answering = engine.state.read();
        thread::scope(|scope| {
            let expiring = scope.spawn(|| engine.expire_if_due(&liveness, due_ms));
            // As long as others read, the expiry has found that the session is due and waits to end it.
            while engine.state.try_read().is_some() {
                thread::yield_now();
            }
            // What a request does whose reply leaves under this lock.
            liveness.touch(due_ms);
            drop(answering);
            expiring.join().expect("it does not panic");
        });
        assert!(engine.inspect(|core| core.has_session(liveness.session)), "its client heard so");
        connection.handle(ping(), Treatment::CarryOut).expect("the connection goes on");
    }

    #[test]
    fn a_plain_read_extends_the_session_before_it_is_answered() {
        let (engine, connection, liveness) = connected();
        let read = Request::Read(Read::Lookup(Lookup::GetData("/".into())));
        let (codec, mut stream) = (FrameCodec::default(), BytesMut::new());
        FrameCodec::put(&encode_request(Xid(1), &read), &mut stream);
        let due_ms = 2 * u64::try_from(TIMEOUT_MS).expect("it is positive");
        let (timeout_at_ms, begin) = (liveness.timeout_at_ms(), now());
        let answered = thread::scope(|scope| {
            let held = engine.state.write();
            let answering = scope.spawn(|| {
                let unread = Unread { codec: &codec, stream: &stream, most: 1 };
                connection.begin_turn(due_ms).answer_plain_reads(unread, &mut BytesMut::new())
            });
            // It cannot be answered as long as the lock is held here.
            while liveness.timeout_at_ms() == timeout_at_ms {
                assert!(ms_since(begin) < 60_000, "the session is not extended before the answer");
                thread::yield_now();
            }
            drop(held);
            answering.join().expect("it does not panic")
        });
        assert_eq!(answered, Some((1, stream.len())));
        engine.expire_if_due(&liveness, due_ms);
        assert!(engine.inspect(|core| core.has_session(liveness.session)), "its client heard so");
    }

    #[test]
    fn a_ping_after_the_end_of_the_session_has_no_reply() {
        let (engine, connection, liveness) = connected();
        // The moment after the transaction of its end and before its connection learns of it.
        let mut state = engine.state.write();
        let txn = state.core.prepare_expiry(liveness.session, 0);
        engine.commit(&mut state, &txn.into(), (Origin::Server, 0), &mut Wakers::default());
        drop(state);
        let handled = connection.handle(ping(), Treatment::CarryOut);
        let (messages, _) = connection.peer.outbox.take_all(usize::MAX);
        assert!(handled.is_err() && messages.is_empty(), "{messages:?} say that the session lives");
    }

    #[test]
    fn a_client_that_comes_back_has_its_response_before_the_session_can_end() {
        let (engine, _former, liveness) = connected();
        let entrance = Entrance::IN_PROCESS;
        let resumed = Connection::open(Arc::clone(&engine), entrance).expect("it may");
        let (session, timeout_ms) = (liveness.session, TIMEOUT_MS + 1);
        let password = Password::of(session);
        let request = ConnectRequest { session, password, ..ConnectRequest::new(timeout_ms) };
        let before = engine.last_zxid();
        let places = engine.registry.hold_places();
        thread::scope(|scope| {
            scope.spawn(|| resumed.handle(handshake(request), Treatment::CarryOut));
            // That thread has found the session and noted its new timeout, and is about to list it.
            while liveness.timeout_ms() != timeout_ms {
                thread::yield_now();
            }
            scope.spawn(|| engine.expire(&liveness));
            // The expiry is the next to have the lock.
            while engine.state.try_read().is_some() {
                thread::yield_now();
            }
            drop(places);
        });
        assert!(!engine.inspect(|core| core.has_session(session)));
        let after = resumed.peer.outbox.next_after();
        assert_eq!(after, Some(before), "the end of the session came before its response");
    }
}
