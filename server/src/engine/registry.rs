//! The open connections and the live sessions.
//!
//! Many tasks use these maps at once, without the engine's lock: every event looks up the connection that
//! receives it. Sessions come and go only with that lock held. A request needs none of the maps, because
//! its connection holds its [`Peer`] and its [`Liveness`] itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;
use zoolet_core::{ConnectionId, Identities};
use zoolet_protocol::SessionId;

use super::expiries::{Expiries, Turn};
use super::merge_block::MergeBlock;
use super::message::Message;
use super::outbox::{Outbox, Outgoing, Overflow};
use super::precedence::{Followers, Receiver, Woken};
use super::state::LockHeld;
use super::stats::{ConnectionStats, EventCounts};
use crate::limits::REGISTRY_PARTS;

/// Where a client has come in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entrance {
    /// The client's address; `None` in process.
    pub(crate) address: Option<SocketAddr>,
    /// Whether it came to the port that speaks only TLS.
    pub(crate) is_secure: bool,
}

impl Entrance {
    pub(crate) const IN_PROCESS: Self = Self { address: None, is_secure: false };
}

/// A connection, as the rest of the engine uses it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: ConnectionId,
    /// The client's address; `None` in process.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) outbox: Outbox,
    identities: Mutex<Identities>,
    /// The receivers that its writes have woken.
    woken: Mutex<Woken>,
    /// Whether there are any.
    has_woken: AtomicBool,
    /// Who goes on once its task has run next.
    pub(super) followers: Followers,
    /// Whether it came to the port that speaks only TLS.
    pub(crate) is_secure: bool,
    pub(crate) stats: ConnectionStats,
}

impl Peer {
    pub(crate) fn new(
        id: ConnectionId,
        Entrance { address, is_secure }: Entrance,
        outbox: Outbox,
        stats: ConnectionStats,
    ) -> Self {
        let ip = address.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip());
        let identities = Mutex::new(Identities::of_address(ip));
        let (woken, has_woken, followers) = Default::default();
        Self { id, address, outbox, identities, woken, has_woken, followers, is_secure, stats }
    }

    /// Whether it is not in process: a task sends its messages, of the server or of who serves a stream.
    pub(super) fn is_remote(&self) -> bool {
        self.address.is_some()
    }

    /// Takes note of the receivers that a write of this client has woken.
    pub(super) fn note_woken(&self, count: usize, first: Option<Receiver>) {
        if self.is_remote() {
            self.woken.lock().add(count, first);
            self.has_woken.store(true, Ordering::Relaxed);
        }
    }

    /// The receivers that its writes have woken since the last call. Only its task calls it.
    fn take_woken(&self) -> Option<Woken> {
        if !self.has_woken.load(Ordering::Relaxed) {
            return None;
        }
        self.has_woken.store(false, Ordering::Relaxed);
        Some(std::mem::take(&mut self.woken.lock()))
    }

    /// Its turn begins: whom earlier writes have woken is no longer of interest.
    pub(crate) fn forget_woken(&self) {
        drop(self.take_woken());
    }

    /// Lets those go first that its writes have woken in this turn.
    pub(crate) async fn let_woken_go_first(&self) {
        if let Some(woken) = self.take_woken() {
            woken.go_first(&self.followers).await;
        }
    }

    /// Runs the task that sends its messages, which is a task of the server's own.
    pub(crate) fn run_task<T>(
        &self,
        task: impl Future<Output = T> + Unpin,
    ) -> impl Future<Output = T> {
        self.followers.wake_after_polls(task)
    }

    pub(crate) fn identities(&self) -> Identities {
        self.identities.lock().clone()
    }

    pub(crate) fn identify(&self, identities: Identities) {
        *self.identities.lock() = identities;
    }

    /// The address as logs and lists show it.
    pub(crate) fn address_text(&self) -> String {
        self.address.map_or_else(|| "in-process".to_owned(), |address| address.to_string())
    }

    /// Adds a message to the client's outbox. The caller wakes the returned waker when it has
    /// released the lock.
    pub(super) fn push(&self, held: LockHeld<'_>, outgoing: Outgoing) -> Option<Waker> {
        let sent = |message: &Message, bytes| self.stats.message_sent(message, bytes);
        self.cut_on_overflow(self.outbox.push(held, outgoing, sent))
    }

    /// As [`Peer::push`], for one of the events of a transaction: the server counts them together.
    pub(super) fn push_counting(
        &self,
        held: LockHeld<'_>,
        outgoing: Outgoing,
        counts: &mut EventCounts,
    ) -> Option<Waker> {
        let sent = |_: &Message, bytes| counts.event_sent(&self.stats, bytes);
        self.cut_on_overflow(self.outbox.push(held, outgoing, sent))
    }

    fn cut_on_overflow(&self, pushed: Result<Option<Waker>, Overflow>) -> Option<Waker> {
        match pushed {
            Ok(receiver) => receiver,
            Err(overflow) => {
                self.stats.server.outboxes_overflowed.add(1);
                tracing::warn!(
                    address = self.address_text(),
                    session = %self.stats.session(),
                    cause = %overflow,
                    "connection cut"
                );
                overflow.receiver
            }
        }
    }
}

/// When a session was last heard of, and the connection that serves it.
#[derive(Debug)]
pub(crate) struct Liveness {
    pub(crate) session: SessionId,
    /// The timeout that its current connection negotiated, in milliseconds.
    timeout_ms: AtomicI32,
    /// When its client last sent a request, in milliseconds of the server's clock.
    last_heard_ms: AtomicU64,
    /// The tick with which [`Expiries`] lists it; `u64::MAX` before that.
    listed_ms: AtomicU64,
    /// The connection that serves it, if one does.
    connection: Mutex<Option<Arc<Peer>>>,
    _merge_block: MergeBlock,
}

impl Liveness {
    pub(crate) fn new(session: SessionId, timeout_ms: i32, now_ms: u64) -> Self {
        Self {
            session,
            timeout_ms: AtomicI32::new(timeout_ms),
            last_heard_ms: AtomicU64::new(now_ms),
            listed_ms: AtomicU64::new(u64::MAX),
            connection: Mutex::new(None),
            _merge_block: MergeBlock::of(session),
        }
    }

    /// Notes that the client has sent something: any request extends its session.
    pub(crate) fn touch(&self, now_ms: u64) {
        // Most requests come in the millisecond of the one before.
        if self.last_heard_ms.load(Ordering::Relaxed) < now_ms {
            self.last_heard_ms.fetch_max(now_ms, Ordering::Relaxed);
        }
    }

    pub(crate) fn renegotiate(&self, timeout_ms: i32) {
        self.timeout_ms.store(timeout_ms, Ordering::Relaxed);
    }

    pub(crate) fn timeout_ms(&self) -> i32 {
        self.timeout_ms.load(Ordering::Relaxed)
    }

    /// When it expires: at the first tick after its timeout, as in ZooKeeper's `ExpiryQueue`. In
    /// milliseconds of the server's clock.
    pub(crate) fn expires_ms(&self, tick_ms: u64) -> u64 {
        (self.timeout_at_ms() / tick_ms + 1).saturating_mul(tick_ms)
    }

    /// The tick with which it is listed. Only [`Expiries`] changes it.
    pub(super) fn listed_ms(&self) -> &AtomicU64 {
        &self.listed_ms
    }

    /// When its timeout passes, in milliseconds of the server's clock.
    pub(crate) fn timeout_at_ms(&self) -> u64 {
        let timeout_ms = u64::try_from(self.timeout_ms()).unwrap_or(0);
        self.last_heard_ms.load(Ordering::Relaxed).saturating_add(timeout_ms)
    }

    /// Makes `peer` its connection, and returns the previous one.
    pub(crate) fn attach(&self, peer: Arc<Peer>) -> Option<Arc<Peer>> {
        self.connection.lock().replace(peer)
    }

    /// Lets its connection read its socket and then end the session if nothing was unread. Returns
    /// `false` if no connection can hold unread input: in process all input is read at once.
    pub(crate) fn request_read(&self) -> bool {
        let connection = self.connection.lock();
        let Some(peer) = &*connection else { return false };
        let may_hold_input = peer.address.is_some() && peer.outbox.is_open();
        // Input that a hook holds back counts as not sent.
        let is_requested = may_hold_input && !peer.outbox.is_frozen();
        if is_requested {
            peer.outbox.request_read();
        }
        is_requested
    }

    /// The address of its connection, if it has one.
    pub(crate) fn address_text(&self) -> Option<String> {
        self.connection.lock().as_ref().map(|peer| peer.address_text())
    }

    /// Takes its connection away, which ends when its messages have left. The caller holds no lock.
    pub(super) fn finish_connection(&self) {
        if let Some(peer) = self.detach() {
            peer.outbox.finish();
        }
    }

    /// Takes its connection away.
    pub(crate) fn detach(&self) -> Option<Arc<Peer>> {
        self.connection.lock().take()
    }

    /// Takes its connection away if it is this one.
    pub(crate) fn detach_if(&self, id: ConnectionId) {
        let mut connection = self.connection.lock();
        if connection.as_ref().is_some_and(|peer| peer.id == id) {
            *connection = None;
        }
    }
}

/// The open connections and the live sessions.
#[derive(Debug)]
pub(crate) struct Registry {
    peers: DashMap<ConnectionId, Arc<Peer>, DefaultHashBuilder>,
    /// Those of the state, which come and go with the engine's lock held: a state that is restored has
    /// records of its own, perhaps of the same sessions.
    sessions: DashMap<SessionId, Arc<Liveness>>,
    expiries: Expiries,
    per_address: DashMap<IpAddr, usize>,
    /// The number of connections in `peers`, counted separately so that the limit also holds for
    /// connections that are opened at the same time.
    peer_count: AtomicUsize,
    last_connection: AtomicU64,
}

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    #[error("{0} connections from this address; maxClientCnxns sets the limit")]
    Address(usize),
    #[error("{0} connections; maxCnxns sets the limit")]
    Server(usize),
}

impl Registry {
    /// A registry of a server whose ticks are so many milliseconds apart.
    pub(crate) fn new(tick_ms: u32) -> Self {
        Self {
            peers: DashMap::with_hasher_and_shard_amount(
                DefaultHashBuilder::default(),
                REGISTRY_PARTS,
            ),
            sessions: DashMap::with_shard_amount(REGISTRY_PARTS),
            expiries: Expiries::new(tick_ms),
            per_address: DashMap::new(),
            peer_count: AtomicUsize::new(0),
            last_connection: AtomicU64::new(0),
        }
    }

    pub(crate) fn next_connection(&self) -> ConnectionId {
        ConnectionId(self.last_connection.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Adds a connection if the limits allow one more; 0 means no limit.
    pub(crate) fn admit(
        &self,
        peer: &Arc<Peer>,
        per_address_max: usize,
        connections_max: usize,
    ) -> Result<(), Full> {
        let one_more =
            |count: usize| (connections_max == 0 || count < connections_max).then_some(count + 1);
        if self.peer_count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Err(Full::Server(connections_max));
        }
        if let Some(address) = peer.address {
            let mut count = self.per_address.entry(address.ip()).or_insert(0);
            if per_address_max > 0 && *count >= per_address_max {
                self.peer_count.fetch_sub(1, Ordering::Relaxed);
                return Err(Full::Address(per_address_max));
            }
            *count += 1;
        }
        self.peers.insert(peer.id, Arc::clone(peer));
        Ok(())
    }

    pub(crate) fn remove_peer(&self, peer: &Peer) {
        if self.peers.remove(&peer.id).is_none() {
            return;
        }
        self.peer_count.fetch_sub(1, Ordering::Relaxed);
        if let Some(address) = peer.address
            && let Entry::Occupied(mut count) = self.per_address.entry(address.ip())
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    pub(crate) fn peer(&self, id: ConnectionId) -> Option<Arc<Peer>> {
        self.peers.get(&id).map(|peer| Arc::clone(&peer))
    }

    /// All connections, in the order in which they were opened.
    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        let mut peers: Vec<_> = self.peers.iter().map(|peer| Arc::clone(&peer)).collect();
        peers.sort_unstable_by_key(|peer| peer.id);
        peers
    }

    pub(crate) fn peer_count(&self) -> usize {
        self.peers.len()
    }

    /// Adds a session. The caller has the engine's lock exclusively.
    pub(crate) fn insert_session(&self, liveness: Arc<Liveness>) {
        self.sessions.insert(liveness.session, Arc::clone(&liveness));
        self.expiries.list(&liveness);
    }

    /// Notes that a session may expire earlier than before.
    pub(crate) fn relist_session(&self, liveness: &Liveness) {
        self.expiries.list(liveness);
    }

    /// Whether the tick of a session may have come.
    pub(crate) fn may_have_expiries(&self, now_ms: u64) -> bool {
        self.expiries.may_have_due(now_ms)
    }

    /// Sessions whose tick has come, as many as expire in a turn. One that lives on is due again at the
    /// next tick.
    pub(crate) fn next_expiries(&self, now_ms: u64) -> Turn {
        self.expiries.next_turn(now_ms, |session| self.session(session))
    }

    pub(crate) fn session(&self, session: SessionId) -> Option<Arc<Liveness>> {
        self.sessions.get(&session).map(|liveness| Arc::clone(&liveness))
    }

    /// Whether this is the record of a live session.
    pub(super) fn has_record(&self, liveness: &Liveness) -> bool {
        let known = self.sessions.get(&liveness.session);
        known.is_some_and(|known| std::ptr::eq(&**known, liveness))
    }

    /// Removes a session that has ended. The caller has the engine's lock exclusively.
    pub(crate) fn remove_session(&self, session: SessionId) -> Option<Arc<Liveness>> {
        let (_, liveness) = self.sessions.remove(&session)?;
        self.expiries.remove(&liveness);
        Some(liveness)
    }

    /// All live sessions, in the order of their ids.
    pub(crate) fn sessions(&self) -> Vec<Arc<Liveness>> {
        let mut sessions: Vec<_> = self.sessions.iter().map(|entry| Arc::clone(&entry)).collect();
        sessions.sort_unstable_by_key(|liveness| liveness.session);
        sessions
    }
}

#[cfg(test)]
impl Registry {
    /// Lets no session change its place in the order of expiry until the returned value is dropped.
    pub(super) fn hold_places(&self) -> impl Drop + '_ {
        self.expiries.hold()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use bytes::Bytes;
    use zoolet_core::Core;
    use zoolet_protocol::Zxid;

    use super::*;
    use crate::config::Config;
    use crate::engine::journal::Journal;
    use crate::engine::lock::Engine;
    use crate::engine::message::Message;
    use crate::engine::stats::ServerStats;
    use crate::storage::durable::Durable;

    const MAX: usize = 4;

    fn peer(registry: &Registry) -> Arc<Peer> {
        let id = registry.next_connection();
        let outbox = Outbox::new(id, Durable::always(), None);
        let stats = ConnectionStats::new(Arc::<ServerStats>::default(), 0);
        Arc::new(Peer::new(id, Entrance::IN_PROCESS, outbox, stats))
    }

    #[test]
    fn the_connection_limit_holds_for_connections_opened_at_the_same_time() {
        for _ in 0..300 {
            let registry = Registry::new(2_000);
            let start = Barrier::new(2 * MAX);
            let is_admitted = || {
                let peer = peer(&registry);
                start.wait();
                registry.admit(&peer, 0, MAX).is_ok()
            };
            let admitted = thread::scope(|scope| {
                let threads: Vec<_> = (0..2 * MAX).map(|_| scope.spawn(is_admitted)).collect();
                let results = threads.into_iter().map(|thread| thread.join().unwrap());
                results.filter(|is_admitted| *is_admitted).count()
            });
            assert_eq!(admitted, MAX);
        }
    }

    const SESSION: SessionId = SessionId(1);

    /// A state in which the session lives.
    fn state_after(zxid: Zxid) -> Core {
        let mut core = Core::starting_after(Config::default().settings, zxid);
        let txn = core.prepare_create_session(SESSION, 30_000, 0);
        core.apply(&txn);
        core
    }

    /// An engine in which the session lives, and its record.
    fn engine() -> (Engine, Arc<Liveness>) {
        let core = state_after(Zxid::ZERO);
        let engine = Engine::new(Config::default(), None, Journal::in_memory(), core);
        let record = engine.registry.session(SESSION).expect("it lives");
        (engine, record)
    }

    /// Replaces the state by another one in which the session lives, and returns its record there.
    fn restore(engine: &Engine) -> Arc<Liveness> {
        engine.replace(state_after(Zxid(100)), None, || Ok(())).expect("it is newer");
        engine.registry.session(SESSION).expect("it lives there, too")
    }

    #[test]
    fn nothing_is_restored_before_a_session_that_has_expired_has_lost_its_place() {
        let (engine, record) = engine();
        let list = engine.registry.hold_places();
        thread::scope(|scope| {
            scope.spawn(|| engine.expire(&record));
            // Now that thread is about to remove the place of the session.
            while engine.registry.session(SESSION).is_some() {
                thread::yield_now();
            }
            let may_restore = engine.state.try_write().is_some();
            drop(list);
            assert!(!may_restore, "the restored session would be listed, and lose its place");
        });
        let restored = restore(&engine);
        let turn = engine.registry.next_expiries(restored.expires_ms(3_000));
        assert!(turn.due.iter().any(|due| Arc::ptr_eq(due, &restored)), "{turn:?}");
    }

    #[test]
    fn the_record_of_a_state_that_was_replaced_does_not_expire_the_session() {
        let (engine, record) = engine();
        let restored = restore(&engine);
        engine.expire_if_due(&record, u64::MAX);
        assert!(engine.inspect(|core| core.has_session(SESSION)), "it has its timeout again");
        engine.expire_if_due(&restored, u64::MAX);
        assert!(!engine.inspect(|core| core.has_session(SESSION)));
    }

    #[test]
    fn a_client_that_comes_back_during_a_restore_has_the_restored_session() {
        let (engine, record) = engine();
        let peer = peer(&engine.registry);
        let held_up = record.connection.lock();
        let (attached, restored) = thread::scope(|scope| {
            let (engine, peer) = (&engine, &peer);
            let count = Arc::strong_count(&record);
            let response = |_| Message::Event(Bytes::new());
            let coming =
                scope.spawn(move || engine.reattach_session(SESSION, peer, true, 30_000, response));
            // That thread has looked the session up, and is about to cut its former connection.
            while Arc::strong_count(&record) == count {
                thread::yield_now();
            }
            let restored = restore(engine);
            drop(held_up);
            (coming.join().expect("it does not panic"), restored)
        });
        assert!(Arc::ptr_eq(&attached.expect("it lives"), &restored));
    }
}
