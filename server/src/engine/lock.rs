//! The lock around the state machine, and what comes out of it.
//!
//! Invariant: **the lock is the order.** Whatever is produced under the lock, a reply or an event,
//! enters its outbox before the lock is released. Pushed after it, an event could overtake the
//! reply of the request that armed the watch, and the client would drop it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use parking_lot::{Mutex, RwLock, RwLockUpgradableReadGuard};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use zoolet_core::{Audience, Core, Effects, Fired, Requester, Txn};
use zoolet_protocol::{
    ErrorCode, Read, ReplyHeader, Response, SessionId, Watch, WatchedEvent, Write, Xid, Zxid,
    encode_event,
};

use super::clock::Clock;
use super::hooks::{Hooks, ServerTxn};
use super::journal::Journal;
use super::message::Message;
use super::outbox::Outgoing;
use super::registry::{Liveness, Peer, Registry};
use super::stats::ServerStats;
use crate::config::Config;
use crate::limits::{FORGET_WATCHES_PER_TURN, REPORTS_AT_ONCE};
use crate::storage::durable::Durable;

/// One server's state, shared by all its connections.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) registry: Registry,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) hooks: Option<Arc<dyn Hooks>>,
    /// When the ticker last looked for due containers and TTL znodes, in milliseconds of the server's
    /// clock. Locked during a tick, so that only one runs at a time.
    pub(crate) last_sweep_ms: Mutex<u64>,
    /// Admits the connections whose last turn took long: they share half of the workers.
    pub(crate) dear_turns: Semaphore,
    /// Admits those who ask for a report.
    pub(crate) reports: Arc<Semaphore>,
    durable: Durable,
    state: RwLock<State>,
    /// The last session id that was given.
    last_session: AtomicI64,
    shut_down: AtomicBool,
    local_addr: OnceLock<SocketAddr>,
    /// The timeouts that sessions may have, in milliseconds.
    timeouts_ms: std::ops::RangeInclusive<i32>,
}

/// What the lock guards.
#[derive(Debug)]
struct State {
    core: Core,
    journal: Journal,
}

/// Whoever has something to take out of an outbox, woken when this is dropped: declared before the
/// lock is taken, it is dropped after the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    fn add(&mut self, waker: Option<Waker>) {
        self.0.extend(waker);
    }
}

impl Drop for Wakers {
    fn drop(&mut self) {
        for waker in self.0.drain(..) {
            waker.wake();
        }
    }
}

/// The session is over, and its requests are dropped without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionOver;

impl Engine {
    /// An engine with the state that the journal gave. Its sessions have their full time again.
    ///
    /// # Panics
    ///
    /// If the configuration contradicts itself; it is checked before.
    pub(crate) fn new(
        config: Config,
        hooks: Option<Arc<dyn Hooks>>,
        journal: Journal,
        core: Core,
    ) -> Self {
        let timeouts_ms = config.session_timeouts_ms().expect("the configuration was checked");
        let clock = Clock::new(config.wall_time, hooks.clone());
        let sessions = core.sessions();
        let ids = sessions.iter().map(|(id, _)| *id);
        let first = first_session(clock.wall_ms(), core.last_zxid(), ids);
        let last_session = AtomicI64::new(first.0);
        let registry = Registry::default();
        for (session, timeout_ms) in sessions {
            registry.insert_session(Arc::new(Liveness::new(session, timeout_ms, clock.now_ms())));
        }
        let stats = Arc::<ServerStats>::default();
        stats.log_tails_cut.add(journal.tails_cut());
        Self {
            durable: journal.durable(),
            state: RwLock::new(State { core, journal }),
            registry,
            stats,
            hooks,
            last_sweep_ms: Mutex::default(),
            dear_turns: Semaphore::new((workers() / 2).max(1)),
            reports: Arc::new(Semaphore::new(REPORTS_AT_ONCE)),
            last_session,
            shut_down: AtomicBool::new(false),
            local_addr: OnceLock::new(),
            timeouts_ms,
            clock,
            config,
        }
    }

    /// Nobody is served any more, and nobody is told anything.
    pub(crate) fn give_up(&self) {
        self.shut_down.store(true, Ordering::SeqCst);
        for peer in self.registry.peers() {
            peer.outbox.cut();
        }
    }

    /// Writes everything that was decided, and nothing from then on.
    pub(crate) fn close_journal(&self) {
        let log = self.state.write().journal.close();
        drop(log);
    }

    /// From now on nobody new is served.
    pub(crate) fn shut_down(&self) {
        self.shut_down.store(true, Ordering::SeqCst);
        for peer in self.registry.peers() {
            peer.outbox.finish();
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::SeqCst)
    }

    /// Remembers where the server listens, for those who ask it.
    pub(crate) fn listens_at(&self, address: Option<SocketAddr>) {
        if let Some(address) = address {
            self.local_addr.get_or_init(|| address);
        }
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr.get().copied()
    }

    pub(crate) fn durable(&self) -> Durable {
        self.durable.clone()
    }

    /// Whether so much waits for the disk that no further request should be taken.
    pub(crate) fn is_behind(&self) -> bool {
        self.durable.is_behind()
    }

    /// The session timeout that is nearest to what a client wishes.
    pub(crate) fn negotiate_ms(&self, wished_ms: i32) -> i32 {
        wished_ms.clamp(*self.timeouts_ms.start(), *self.timeouts_ms.end())
    }

    /// The least and the greatest session timeout in milliseconds.
    pub(crate) fn session_timeouts_ms(&self) -> (i32, i32) {
        (*self.timeouts_ms.start(), *self.timeouts_ms.end())
    }

    /// The state, to be looked at.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Core) -> T) -> T {
        look(&self.state.read().core)
    }

    pub(crate) fn last_zxid(&self) -> Zxid {
        self.state.read().core.last_zxid()
    }

    /// Answers a read under the shared lock.
    pub(crate) fn read(
        &self,
        peer: &Peer,
        requester: &Requester,
        read: &Read,
    ) -> Result<Zxid, SessionOver> {
        let mut wakers = Wakers::default();
        let mut state = self.state.read();
        check_session(&state.core, requester)?;
        let reply = match read {
            Read::GetAllChildrenNumber(path) => match state.core.few_descendants(path, requester) {
                Ok(None) => {
                    let frozen = state.core.freeze_tree();
                    drop(state);
                    // Nobody waits for a count of many. What happens meanwhile is not in it.
                    let count = frozen.descendants(path.text().unwrap_or_default());
                    state = self.state.read();
                    check_session(&state.core, requester)?;
                    Ok(Response::Number(count))
                }
                Ok(Some(few)) => Ok(Response::Number(few)),
                Err(code) => Err(code),
            },
            _ => state.core.read(read, requester),
        };
        let zxid = state.core.last_zxid();
        wakers.add(answer(peer, requester.xid, zxid, reply));
        Ok(zxid)
    }

    /// Answers what leaves or takes back watches, under the exclusive lock.
    pub(crate) fn watch(
        &self,
        peer: &Peer,
        requester: &Requester,
        watch: &Watch,
    ) -> Result<Zxid, SessionOver> {
        let mut wakers = Wakers::default();
        let mut state = self.state.write();
        check_session(&state.core, requester)?;
        let zxid = state.core.last_zxid();
        let watched = state.core.watch(watch, requester);
        for event in &watched.events {
            wakers.add(tell(peer, Zxid::NONE, zxid, event));
        }
        #[cfg(feature = "planted-bugs")]
        let _state = zoolet_planted_bugs::release_early(state);
        wakers.add(answer(peer, requester.xid, zxid, watched.reply));
        Ok(zxid)
    }

    /// Decides and carries out a write, and answers it.
    pub(crate) fn write(
        &self,
        peer: &Peer,
        requester: &Requester,
        write: &Write,
    ) -> Result<Zxid, SessionOver> {
        let time_ms = self.clock.wall_ms();
        self.change(peer, requester, |core| core.prepare(write, requester, time_ms))
    }

    /// Answers a write that could not be read, which takes a zxid all the same.
    pub(crate) fn refuse(
        &self,
        peer: &Peer,
        requester: &Requester,
        code: ErrorCode,
    ) -> Result<Zxid, SessionOver> {
        let time_ms = self.clock.wall_ms();
        self.change(peer, requester, |core| core.refuse(requester, code, time_ms))
    }

    fn change(
        &self,
        peer: &Peer,
        requester: &Requester,
        prepare: impl FnOnce(&Core) -> Txn,
    ) -> Result<Zxid, SessionOver> {
        let mut wakers = Wakers::default();
        let mut state = self.state.write();
        check_session(&state.core, requester)?;
        let txn = prepare(&state.core);
        let effects = self.commit(&mut state, &txn, &mut wakers);
        peer.wakes(wakers.0.len());
        #[cfg(feature = "planted-bugs")]
        let state = zoolet_planted_bugs::release_early(state);
        wakers.add(answer(peer, requester.xid, effects.zxid, effects.reply));
        drop(state);
        if let Some(session) = effects.ended {
            self.bury(session);
        }
        Ok(effects.zxid)
    }

    /// Keeps a decision, carries it out, and delivers its events.
    fn commit(&self, state: &mut State, txn: &Txn, wakers: &mut Wakers) -> Effects {
        state.journal.append(txn);
        let effects = state.core.apply(txn);
        self.stats.commits.add(1);
        let mut audience = Audience::default();
        for fired in &effects.events {
            self.deliver(effects.zxid, fired, &mut audience, wakers);
        }
        if state.journal.wants_snapshot() {
            state.journal.take_snapshot(state.core.freeze());
        }
        effects
    }

    /// Sends an event to all whose watches it fired and who may know of it.
    fn deliver(&self, zxid: Zxid, fired: &Fired, audience: &mut Audience, wakers: &mut Wakers) {
        let frame = encode_event(zxid, &fired.event);
        let is_public = audience.is_everyone(fired);
        self.count_watches(fired);
        for receiver in &fired.receivers {
            // A connection that is being torn down may still have watches.
            let Some(peer) = self.registry.peer(*receiver) else { continue };
            if is_public || audience.includes(fired, *receiver, || peer.identities()) {
                peer.stats.message_sent();
                let message = Message::Event(frame.clone());
                wakers.add(peer.push(Outgoing { after: zxid, message }));
            }
        }
    }

    fn count_watches(&self, fired: &Fired) {
        let index = usize::try_from(fired.event.event_type.0 - 1).ok();
        if let Some(counter) = index.and_then(|index| self.stats.watches_fired.get(index)) {
            counter.add(fired.receivers.len() as u64);
        }
    }

    /// Begins a session and returns it. `peer` is told once that is durable.
    pub(crate) fn begin_session(
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
        let effects = self.commit(&mut state, &txn, &mut wakers);
        self.registry.insert_session(Arc::clone(&liveness));
        let message = response(session);
        peer.stats.message_sent();
        wakers.add(peer.push(Outgoing { after: effects.zxid, message }));
        drop(state);
        liveness
    }

    /// Makes `peer` the connection of a session that lives, cutting the one that was. The
    /// password is checked after that, as in ZooKeeper, so that a client which comes back is not
    /// held up by its own old connection; the session survives a wrong one.
    pub(crate) fn take_up_session(
        &self,
        session: SessionId,
        peer: &Arc<Peer>,
        is_proven: bool,
        timeout_ms: i32,
    ) -> Option<Arc<Liveness>> {
        let liveness = self.registry.session(session)?;
        if let Some(displaced) = liveness.detach() {
            displaced.outbox.cut();
        }
        if !is_proven {
            return None;
        }
        // Under the lock the session cannot end between the look and the touch.
        let state = self.state.read();
        if !state.core.has_session(session) {
            return None;
        }
        liveness.renegotiate(timeout_ms);
        liveness.touch(self.clock.now_ms());
        let displaced = liveness.attach(Arc::clone(peer));
        drop(state);
        // Who came in between is cut when the lock is released: whoever waits for it may come here.
        if let Some(displaced) = displaced {
            displaced.outbox.cut();
        }
        self.stats.sessions_revalidated.add(1);
        Some(liveness)
    }

    /// Ends a session if it was not heard of in time.
    pub(crate) fn expire_if_due(&self, liveness: &Liveness, now_ms: u64) {
        let tick_ms = u64::from(self.config.tick_time_ms);
        self.expire_if(liveness, || liveness.expires_ms(tick_ms) <= now_ms);
    }

    /// Ends a session as if its timeout had passed.
    pub(crate) fn expire(&self, liveness: &Liveness) {
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
            timeout_ms = liveness.timeout_ms(),
            "session expired"
        );
        self.stats.sessions_expired.add(1);
        let txn = state.core.prepare_expiry(liveness.session, self.clock.wall_ms());
        let mut state = RwLockUpgradableReadGuard::upgrade(state);
        self.commit(&mut state, &txn, &mut wakers);
        self.tell_hooks(ServerTxn::Expiry(liveness.session), txn.zxid);
        drop(state);
        self.bury(liveness.session);
        self.settled();
    }

    /// Takes an ended session out of the registry; its connection ends once it has been sent
    /// what waits for it.
    fn bury(&self, session: SessionId) {
        if let Some(liveness) = self.registry.remove_session(session)
            && let Some(peer) = liveness.detach()
        {
            peer.outbox.finish();
        }
    }

    /// Deletes the containers and TTL znodes whose time has come, at most `most` of them.
    pub(crate) fn sweep(&self, most: usize) {
        let now_ms = self.clock.wall_ms();
        let never_used_ms = self.config.container_max_never_used_ms;
        let due = self.look(|core| core.sweepable(now_ms, never_used_ms));
        for path in due.iter().take(most) {
            let mut wakers = Wakers::default();
            let mut state = self.state.write();
            let txn = state.core.prepare_sweep(path, self.clock.wall_ms());
            self.commit(&mut state, &txn, &mut wakers);
            self.tell_hooks(ServerTxn::Sweep, txn.zxid);
            drop(state);
            self.stats.containers_swept.add(1);
            drop(wakers);
            self.settled();
        }
    }

    /// Tells the hooks, under the lock, of a transaction that no client asked for.
    fn tell_hooks(&self, txn: ServerTxn, zxid: Zxid) {
        if let Some(hooks) = &self.hooks {
            hooks.server_txn(txn, zxid);
        }
    }

    /// Tells the hooks that a transaction of the server's own is done. The caller holds no lock.
    fn settled(&self) {
        if let Some(hooks) = &self.hooks {
            hooks.settled();
        }
    }

    /// Whether a hook lets the whole server stand still.
    pub(crate) fn is_frozen(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.is_server_frozen())
    }

    /// Whether a hook refuses the connection that has just come.
    pub(crate) fn refuses_connection(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.refuses_connection())
    }

    /// Takes the watches of a connection back that is about to go, and lets others have their turn
    /// in between.
    pub(crate) async fn forget_watches(&self, peer: &Peer) {
        peer.outbox.cut();
        while self.forget_some(peer) {
            tokio::task::yield_now().await;
        }
    }

    /// Takes some watches of a connection back, and tells whether there may be more.
    fn forget_some(&self, peer: &Peer) -> bool {
        self.state.write().core.forget(peer.id, FORGET_WATCHES_PER_TURN)
    }

    /// A connection is gone: its watches go with it, its session does not.
    pub(crate) fn forget(&self, peer: &Peer) {
        peer.outbox.cut();
        self.registry.remove_peer(peer);
        // Piece by piece, so that many watches hold nobody up.
        while self.forget_some(peer) {}
        if let Some(liveness) = self.registry.session(peer.stats.session()) {
            liveness.detach_if(peer.id);
        }
        if let Some(hooks) = &self.hooks {
            hooks.closed(peer.id);
        }
    }
}

/// How many threads of this runtime serve clients.
fn workers() -> usize {
    Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers())
}

fn check_session(core: &Core, requester: &Requester) -> Result<(), SessionOver> {
    if core.has_session(requester.session) { Ok(()) } else { Err(SessionOver) }
}

/// Puts the answer to a request into the client's outbox.
pub(crate) fn answer(
    peer: &Peer,
    xid: Xid,
    zxid: Zxid,
    reply: Result<Response, ErrorCode>,
) -> Option<Waker> {
    let (err, response) = match reply {
        Ok(response) => (ErrorCode::OK, response),
        Err(code) => (code, Response::Empty),
    };
    peer.stats.message_sent();
    let message = Message::Reply(ReplyHeader { xid, zxid, err }, response);
    peer.push(Outgoing { after: zxid, message })
}

/// Puts an event into one client's outbox.
fn tell(peer: &Peer, zxid: Zxid, after: Zxid, event: &WatchedEvent) -> Option<Waker> {
    peer.stats.message_sent();
    peer.push(Outgoing { after, message: Message::Event(encode_event(zxid, event)) })
}

/// Where session ids start: from the time, so that they differ after a restart, and below the
/// server id 1, as a standalone ZooKeeper has (`SessionTrackerImpl.initializeNextSessionId`).
///
/// The clock may have gone back since the last of the living sessions began, and to a millisecond in
/// which others began that are over. Whoever had one of those must not find it again: each has taken
/// a zxid, and so the last zxid tells the ids of one millisecond apart.
fn first_session(
    wall_ms: i64,
    last_zxid: Zxid,
    living: impl Iterator<Item = SessionId>,
) -> SessionId {
    const SERVER_ID: i64 = 1;
    const BELOW_MILLISECONDS: i64 = 0xffff;
    let from_time = ((wall_ms << 24) as u64 >> 8) as i64 | (SERVER_ID << 56);
    let newest = living.map(|id| id.0).filter(|id| id >> 56 == SERVER_ID).max().unwrap_or(0);
    let begin = from_time.max(newest & !BELOW_MILLISECONDS);
    SessionId((begin | (last_zxid.0 & BELOW_MILLISECONDS)).max(newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_carry_the_server_id_and_the_time() {
        let first = |wall_ms, zxid, living| first_session(wall_ms, Zxid(zxid), living);
        let none = || Vec::new().into_iter();
        let id = first(0x0000_0198_7654_3210, 0x7_0000, none());
        assert_eq!(id, SessionId(0x0198_7654_3210_0000 & 0x00ff_ffff_ffff_ffff | (1 << 56)));
        assert_eq!(id.0 >> 56, 1);
        // Three sessions have begun; the clock is where it was, or goes back, while one of them lives.
        let again = first(0x0000_0198_7654_3210, 0x7_0003, none());
        assert_eq!(again.0 - id.0, 3);
        let living = vec![SessionId(id.0 + 1)].into_iter();
        assert_eq!(first(0x0000_0198_7654_0000, 0x7_0003, living), again);
    }
}
