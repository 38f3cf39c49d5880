//! The lock around the state machine, and the requests that are handled under it.
//!
//! Invariant: **the lock is the order.** A reply or event enters its outbox before the lock is
//! released under which it was produced (`LockHeld`). Tasks that wait for a message are woken after
//! the lock is released (`Wakers`), because in process a woken client may take the lock at once.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use zoolet_core::{Core, Decided, Requester, Totals, Txn};
use zoolet_protocol::{ErrorCode, Read, Response, Watch, WatchedEvent, Write, Zxid, encode_event};

use super::audit::{Asked, Audit};
use super::clock::Clock;
use super::hooks::{Hooks, ServerTxn};
use super::journal::Journal;
use super::message::Message;
use super::outbox::Outgoing;
use super::registry::{Liveness, Peer, Registry};
use super::session_ids::{first_session, time_of_ids};
use super::state::{LockHeld, State};
use super::stats::{ServerStats, bytes_of};
use super::sweep::Sweeps;
use super::throttle::Throttle;
use super::turn::SoFar;
use super::warnings::Warnings;
use crate::config::Config;
use crate::limits::FORGET_WATCHES_PER_TURN;
use crate::random::Random;
use crate::reports::DEFAULT_TRACE_MASK;
use crate::reports::permits::Permits;
use crate::storage::durable::Durable;

/// One server's state, shared by all its connections.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) registry: Registry,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) hooks: Option<Arc<dyn Hooks>>,
    pub(crate) audit: Option<Audit>,
    /// The sweeps of the ticker. Locked during a tick, so that only one runs at a time.
    pub(crate) sweeps: Mutex<Sweeps>,
    /// Admits the connections whose last turn took long: they share half of the workers.
    pub(crate) expensive_turns: Semaphore,
    /// Admits the TLS handshakes that compute, for a millisecond and more each. They share half of the
    /// workers, and queue for them, so that connected clients get their turns in between.
    #[cfg(feature = "tls")]
    pub(crate) handshakes: Semaphore,
    /// Admits those that have not begun yet to that queue, so that those that have go before them.
    #[cfg(feature = "tls")]
    pub(crate) new_handshakes: Semaphore,
    /// Admits those who ask for a report.
    pub(crate) reports: Permits,
    pub(crate) throttle: Throttle,
    pub(crate) random: Random,
    /// The trace mask, which is shown and has no effect.
    pub(crate) trace_mask: AtomicI64,
    /// Admits who takes or restores a snapshot.
    pub(crate) backups: Arc<Semaphore>,
    pub(super) state: RwLock<State>,
    /// The id of the session that was created last.
    pub(super) last_session: AtomicI64,
    durable: Durable,
    shut_down: AtomicBool,
    local_addr: OnceLock<SocketAddr>,
    secure_addr: OnceLock<SocketAddr>,
    /// Limits how often the server warns of what any client can cause.
    pub(crate) warnings: Warnings,
    /// The session timeouts that clients may negotiate, in milliseconds.
    timeouts_ms: RangeInclusive<i32>,
}

/// Wakes the receivers of messages when it is dropped. It is declared before the lock is taken, so
/// it is dropped after the lock is released.
#[derive(Debug, Default)]
pub(super) struct Wakers {
    /// Needs no memory of its own: most writes wake one receiver or none.
    first: Option<Waker>,
    /// Empty while there is no first.
    others: Vec<Waker>,
}

impl Wakers {
    pub(super) fn add(&mut self, waker: Option<Waker>) {
        match waker {
            Some(waker) if self.first.is_none() => self.first = Some(waker),
            Some(waker) => self.others.push(waker),
            None => {}
        }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }
}

impl Drop for Wakers {
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            first.wake();
            self.others.drain(..).for_each(Waker::wake);
        }
    }
}

/// The session has ended; the server drops its requests without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionEnded;

impl Engine {
    /// An engine with the state that the journal recovered. Each session has its full timeout
    /// again.
    ///
    /// # Panics
    ///
    /// If the configuration was not checked and contradicts itself.
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
        let last_zxid = core.last_zxid();
        let first = first_session(time_of_ids(config.seed, &clock, last_zxid), last_zxid, ids);
        let last_session = AtomicI64::new(first.0);
        let registry = Registry::new(config.tick_time_ms);
        for (session, timeout_ms) in sessions {
            registry.insert_session(Arc::new(Liveness::new(session, timeout_ms, clock.now_ms())));
        }
        let stats = Arc::new(ServerStats::new(journal.stats()));
        stats.log_tails_cut.add(journal.tails_cut());
        Self {
            durable: journal.durable(),
            state: RwLock::new(State { core, journal }),
            registry,
            stats,
            hooks,
            audit: None,
            sweeps: Mutex::default(),
            expensive_turns: Semaphore::new((workers() / 2).max(1)),
            #[cfg(feature = "tls")]
            handshakes: Semaphore::new((workers() / 2).max(1)),
            #[cfg(feature = "tls")]
            new_handshakes: Semaphore::new((workers() / 2).max(1)),
            reports: Permits::default(),
            throttle: Throttle::new(&config.throttling, clock.now_ms()),
            random: Random::new(config.seed),
            trace_mask: AtomicI64::new(DEFAULT_TRACE_MASK),
            backups: Arc::new(Semaphore::new(1)),
            last_session,
            shut_down: AtomicBool::new(false),
            local_addr: OnceLock::new(),
            secure_addr: OnceLock::new(),
            warnings: Warnings::default(),
            timeouts_ms,
            clock,
            config,
        }
    }

    /// The engine with an audit log.
    pub(crate) fn audited(self, audit: Option<Audit>) -> Self {
        Self { audit, ..self }
    }

    /// Cuts all connections and serves no new ones.
    pub(crate) fn cut_all(&self) {
        self.shut_down.store(true, Ordering::SeqCst);
        for peer in self.registry.peers() {
            peer.outbox.cut();
        }
    }

    /// Writes the transactions that were appended and the lines of the audit log, and none from then
    /// on.
    pub(crate) fn close_files(&self) {
        let log = self.state.write().journal.close();
        drop(log);
        if let Some(audit) = &self.audit {
            audit.close();
        }
    }

    /// Whether the server writes to a disk that takes time.
    pub(crate) fn waits_for_disk(&self) -> bool {
        let storage = self.config.storage.as_ref();
        self.audit.is_some() || storage.is_some_and(|storage| !storage.disk.is_immediate())
    }

    /// Whether to start no thread where that would only spare others a wait: the runtime has one
    /// thread, and no disk takes time. Then a run repeats, and no thread races tokio's paused clock.
    pub(crate) fn is_single_threaded(&self) -> bool {
        let has_one = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::CurrentThread;
        !self.waits_for_disk() && Handle::try_current().is_ok_and(has_one)
    }

    /// Serves no new connections; open ones end when their messages have left.
    pub(crate) fn shut_down(&self) {
        self.shut_down.store(true, Ordering::SeqCst);
        for peer in self.registry.peers() {
            peer.outbox.finish();
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::SeqCst)
    }

    /// Sets the addresses on which the server listens, for reports.
    pub(crate) fn set_addresses(&self, plain: Option<SocketAddr>, secure: Option<SocketAddr>) {
        for (slot, address) in [(&self.local_addr, plain), (&self.secure_addr, secure)] {
            if let Some(address) = address {
                slot.get_or_init(|| address);
            }
        }
    }

    /// The address of plaintext connections.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr.get().copied()
    }

    /// The address of TLS connections.
    pub(crate) fn secure_addr(&self) -> Option<SocketAddr> {
        self.secure_addr.get().copied()
    }

    pub(crate) fn durable(&self) -> Durable {
        self.durable.clone()
    }

    /// Whether so much waits for a disk that no further request should be read.
    pub(crate) fn is_behind(&self) -> bool {
        self.durable.is_behind() || self.audit.as_ref().is_some_and(Audit::is_behind)
    }

    /// Waits until it is no longer behind.
    pub(crate) async fn caught_up(&self) {
        self.durable.caught_up().await;
        if let Some(audit) = &self.audit {
            audit.caught_up().await;
        }
    }

    /// Waits until more is durable than now, but no longer than `stall_time`.
    pub(crate) async fn stall(&self, stall_time: Duration) {
        let _ = tokio::time::timeout(stall_time, self.durable.progressed()).await;
    }

    /// The session timeout nearest to the one that a client requests.
    pub(super) fn negotiate_ms(&self, requested_ms: i32) -> i32 {
        requested_ms.clamp(*self.timeouts_ms.start(), *self.timeouts_ms.end())
    }

    /// The least and the greatest session timeout in milliseconds.
    pub(crate) fn session_timeouts_ms(&self) -> (i32, i32) {
        (*self.timeouts_ms.start(), *self.timeouts_ms.end())
    }

    /// Calls `inspect` with the core under the shared lock.
    pub(crate) fn inspect<T>(&self, inspect: impl FnOnce(&Core) -> T) -> T {
        inspect(&self.state.read().core)
    }

    /// The totals, read under the exclusive lock: a write could be carried out in this moment.
    pub(crate) fn totals_between_writes(&self) -> Totals {
        self.state.write().core.totals()
    }

    pub(super) fn last_zxid(&self) -> Zxid {
        self.state.read().core.last_zxid()
    }

    /// Whether a crash at this moment would undo nothing of the state.
    pub(super) fn is_all_durable(&self) -> bool {
        self.durable.covers(self.last_zxid())
    }

    /// Pushes the message that `outgoing` makes of the last zxid, under the shared lock, and
    /// returns that zxid.
    pub(super) fn send(&self, peer: &Peer, outgoing: impl FnOnce(Zxid) -> Outgoing) -> Zxid {
        let mut wakers = Wakers::default();
        let state = self.state.read();
        let zxid = state.core.last_zxid();
        wakers.add(peer.push(state.lock_held(), outgoing(zxid)));
        zxid
    }

    /// [`Engine::send`] to the client of a session that has not ended.
    pub(super) fn send_in_session(
        &self,
        peer: &Peer,
        requester: &Requester,
        outgoing: impl FnOnce(Zxid) -> Outgoing,
    ) -> Result<Zxid, SessionEnded> {
        let mut wakers = Wakers::default();
        let state = self.state.read();
        check_session(&state.core, requester)?;
        let zxid = state.core.last_zxid();
        wakers.add(peer.push(state.lock_held(), outgoing(zxid)));
        Ok(zxid)
    }

    /// Carries out a read under the shared lock, and replies.
    pub(super) fn read(
        &self,
        peer: &Peer,
        requester: &Requester,
        read: &Read,
        so_far: &mut SoFar,
    ) -> Result<Zxid, SessionEnded> {
        let mut wakers = Wakers::default();
        let mut state = self.state.read();
        check_session(&state.core, requester)?;
        let mut reply = match read {
            Read::GetAllChildrenNumber(path) => match state.core.few_descendants(path, requester) {
                Ok(None) => {
                    let frozen = state.core.freeze_tree();
                    drop(state);
                    // Counting many znodes holds no lock; later changes are not counted.
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
        let looked_up = match (read, &reply) {
            (Read::Lookup(lookup), Ok(response)) => Some((lookup, bytes_of(response))),
            (Read::MultiRead(ops), Ok(response)) => {
                let namespace = &mut so_far.counts.namespace;
                self.stats.namespaces.read_multi(namespace, ops, response);
                None
            }
            _ => None,
        };
        let zxid = state.core.last_zxid();
        wakers.add(so_far.push_reply(state.lock_held(), peer, requester.xid, zxid, &mut reply));
        drop(state);
        if let Some((lookup, bytes)) = looked_up {
            let path = lookup.path().text().unwrap_or_default();
            self.stats.namespaces.looked_up(&mut so_far.counts.namespace, path, bytes);
        }
        Ok(zxid)
    }

    /// Sets, removes or restores watches under the exclusive lock, and replies.
    pub(super) fn watch(
        &self,
        peer: &Peer,
        requester: &Requester,
        watch: &Watch,
        so_far: &mut SoFar,
    ) -> Result<Zxid, SessionEnded> {
        let mut wakers = Wakers::default();
        let mut state = self.state.write();
        check_session(&state.core, requester)?;
        let zxid = state.core.last_zxid();
        let mut watched = state.core.watch(watch, requester);
        let looked_up = match (watch, &watched.reply) {
            (Watch::Lookup(lookup), Ok(response)) => Some((lookup, bytes_of(response))),
            _ => None,
        };
        for event in &watched.events {
            wakers.add(push_event(state.lock_held(), peer, zxid, event));
        }
        wakers.add(so_far.push_reply(
            state.lock_held(),
            peer,
            requester.xid,
            zxid,
            &mut watched.reply,
        ));
        drop(state);
        if let Some((lookup, bytes)) = looked_up {
            let path = lookup.path().text().unwrap_or_default();
            self.stats.namespaces.looked_up(&mut so_far.counts.namespace, path, bytes);
        }
        Ok(zxid)
    }

    /// Prepares a write and applies it under the exclusive lock, and replies.
    pub(super) fn write(
        &self,
        peer: &Peer,
        requester: &Requester,
        write: &Write,
        so_far: &mut SoFar,
    ) -> Result<Zxid, SessionEnded> {
        // The clock is read under the lock, so that times are in the order of zxids.
        let (zxid, txn) = self.change(peer, requester, Asked::Write(write), so_far, |core| {
            core.decide(write, requester, self.clock.wall_ms())
        })?;
        self.stats.namespaces.wrote(&mut so_far.counts.namespace, &txn);
        if self.config.settings.enforce_quota {
            self.stats.namespaces.refused(write, &txn);
        }
        Ok(zxid)
    }

    /// Refuses a write with an error code. It takes a zxid like any other write.
    pub(super) fn refuse(
        &self,
        peer: &Peer,
        requester: &Requester,
        asked: Asked<'_>,
        code: ErrorCode,
        so_far: &mut SoFar,
    ) -> Result<Zxid, SessionEnded> {
        let refuse = |core: &Core| core.refuse(requester, code, self.clock.wall_ms()).into();
        self.change(peer, requester, asked, so_far, refuse).map(|(zxid, _)| zxid)
    }

    fn change(
        &self,
        peer: &Peer,
        requester: &Requester,
        asked: Asked<'_>,
        so_far: &mut SoFar,
        decide: impl FnOnce(&Core) -> Decided,
    ) -> Result<(Zxid, Txn), SessionEnded> {
        let mut wakers = Wakers::default();
        let mut state = self.state.write();
        check_session(&state.core, requester)?;
        // Another connection may have resumed the session since this request was read. Its client
        // may look there for what this request did: it is done before that look, or never.
        if !peer.outbox.is_open() {
            return Err(SessionEnded);
        }
        let decided = decide(&state.core);
        self.append_for(peer, &mut state, decided.txn());
        let mut effects = state.core.apply_decided(&decided);
        self.publish_for(peer, &mut state, &effects, so_far, &mut wakers);
        if let Some(audit) = &self.audit {
            audit.decided(peer, requester, asked, decided.txn());
        }
        let reply = &mut effects.reply;
        wakers.add(so_far.push_reply(state.lock_held(), peer, requester.xid, effects.zxid, reply));
        let ended = effects.ended.and_then(|session| self.registry.remove_session(session));
        drop(state);
        if let Some(ended) = ended {
            ended.finish_connection();
        }
        Ok((effects.zxid, decided.into_txn()))
    }

    /// Tells the hooks, under the lock, of a transaction that no client asked for.
    pub(super) fn tell_hooks(&self, txn: ServerTxn, zxid: Zxid) {
        if let Some(hooks) = &self.hooks {
            hooks.server_txn(txn, zxid);
        }
    }

    /// Tells the hooks that a transaction of the server's own is complete. The caller holds no
    /// lock.
    pub(super) fn settled(&self) {
        if let Some(hooks) = &self.hooks {
            hooks.settled();
        }
    }

    /// Whether a hook lets the whole server stand still.
    pub(crate) fn is_frozen(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.is_server_frozen())
    }

    /// Waits until no hook lets the whole server stand still.
    pub(crate) async fn thawed(&self) {
        let Some(hooks) = &self.hooks else { return };
        loop {
            let changed = hooks.changed().notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !hooks.is_server_frozen() {
                return;
            }
            changed.await;
        }
    }

    /// Whether a hook refuses the connection that has just come.
    pub(crate) fn refuses_connection(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.refuses_connection())
    }

    /// Removes the watches of a closing connection in slices, and yields to other tasks in between.
    pub(crate) async fn remove_watches(&self, peer: &Peer) {
        peer.outbox.cut();
        while self.remove_some_watches(peer) {
            tokio::task::yield_now().await;
        }
    }

    /// Removes some watches of a connection, and returns whether it may have more.
    fn remove_some_watches(&self, peer: &Peer) -> bool {
        self.state.write().core.remove_watches_of(peer.id, FORGET_WATCHES_PER_TURN)
    }

    /// Removes a closed connection and its watches. Its session lives on.
    pub(super) fn close_connection(&self, peer: &Peer) {
        peer.outbox.cut();
        self.registry.remove_peer(peer);
        // In slices, so that other requests get the lock in between.
        while self.remove_some_watches(peer) {}
        if let Some(liveness) = self.registry.session(peer.stats.session()) {
            liveness.detach_if(peer.id);
        }
        if let Some(hooks) = &self.hooks {
            hooks.closed(peer.id);
        }
    }
}

/// The number of worker threads of this runtime.
fn workers() -> usize {
    Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers())
}

pub(super) fn check_session(core: &Core, requester: &Requester) -> Result<(), SessionEnded> {
    if core.has_session(requester.session) { Ok(()) } else { Err(SessionEnded) }
}

/// Pushes an event that a client missed while it was disconnected. It has no zxid of its own.
fn push_event(held: LockHeld<'_>, peer: &Peer, after: Zxid, event: &WatchedEvent) -> Option<Waker> {
    peer.push(held, Outgoing { after, message: Message::Event(encode_event(Zxid::NONE, event)) })
}
