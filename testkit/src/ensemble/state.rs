//! The committed transactions, and the members that apply them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use fastrand::Rng;
use tokio::time::Instant;
use zoolet_core::{Audience, ConnectionId, Core, Effects, Identities, Requester, Txn, TxnOp};
use zoolet_protocol::{ErrorCode, Id, Lookup, Read, Response, SessionId, Xid, Zxid, encode_event};
use zoolet_server::hooks::{ClockOffset, Hooks, Message};

use super::connection::Connection;
use super::lag::{Lag, TimedCut};
use super::log::Log;
use super::observer::EnsembleObserver;
use super::settings::Law;
use super::step::{Answer, Step};
use super::tracker::Tracker;

/// The bits of a zxid that count within an epoch, and those of a session id below the server's.
const EPOCH_BITS: u32 = 32;
const SESSION_BITS: u32 = 56;

/// The role of a member, as it believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Leading,
    Following,
    /// It has no leader, and serves no client, but for those that only read.
    Looking,
    /// Its process has ended.
    Stopped,
}

/// One server.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) core: Core,
    pub(super) role: Role,
    /// The leader that it follows, or that it is, belongs to this epoch.
    pub(super) epoch: i64,
    /// The number of committed transactions that it has applied.
    pub(super) applied: usize,
    pub(super) lag: Lag,
    /// Those with the same number reach each other.
    pub(super) side: usize,
    /// When a follower heard from its leader, or a leader from a majority.
    pub(super) heard: Instant,
    /// Since when it looks for a leader.
    pub(super) looks_since: Instant,
    /// The sessions that it has heard from since its last report to the leader, with the timeouts
    /// of their connections.
    pub(super) touched: Vec<(SessionId, i32)>,
    /// What sessions asked for over connections that have ended: the session, and how many
    /// transactions the member must have applied. Their next requests wait for that.
    pub(super) left_behind: Vec<(SessionId, usize)>,
    /// The leader has asked for a report of the sessions.
    pub(super) is_asked: bool,
    /// The sessions that it has begun without a leader.
    pub(super) local_sessions: BTreeSet<SessionId>,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    last_session: i64,
}

/// What is committed, in its order.
#[derive(Debug)]
pub(super) struct Committed {
    entry: Entry,
    pub(super) at: Instant,
    origin: Option<ConnectionId>,
}

#[derive(Debug)]
enum Entry {
    Txn(Txn),
    /// An epoch begins. Only its leader takes the zxid of it.
    Epoch(Txn, usize),
}

/// Whether a ping of the leader is overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LatePing {
    No,
    /// The leader stands still.
    Missed,
    /// It goes on, and pings at this time.
    DueAt(Instant),
}

/// The whole ensemble.
#[derive(Debug)]
pub struct State {
    pub(super) rng: Rng,
    pub(super) law: Law,
    pub(super) observer: Arc<dyn EnsembleObserver>,
    pub(super) start: Instant,
    pub(super) now: Instant,
    /// What not all members have applied. A stopped member applies it when it is started again.
    pub(super) log: Log<Committed>,
    /// The state after all committed transactions, for the leader's decisions and for the checks.
    head: Core,
    pub(super) members: Vec<Member>,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) last_connection: u64,
    /// The leader that a majority follows.
    pub(super) leader: Option<usize>,
    pub(super) epoch: i64,
    pub(super) tracker: Tracker,
    /// The sessions that a test ends. Without a leader they end later.
    pub(super) condemned: BTreeSet<SessionId>,
    pub(super) timed_cut: Option<TimedCut>,
    pub(super) election: Option<Instant>,
    pub(super) next_half_tick: Instant,
    /// The leader stood still when it was to ping its followers. It does that shortly after it goes on.
    pub(super) late_ping: LatePing,
    /// When the leader next looks for empty containers.
    pub(super) next_sweep: Instant,
    pub(super) is_over: bool,
    /// A message was sent since the hooks were last told.
    pub(super) has_sent: bool,
    pub(super) wakers: Vec<Waker>,
    /// The connections that are gone, and the hooks to tell.
    pub(super) closed: Vec<(Arc<dyn Hooks>, ConnectionId)>,
}

impl State {
    pub(super) fn new(
        mut rng: Rng,
        law: Law,
        observer: Arc<dyn EnsembleObserver>,
        now: Instant,
    ) -> Self {
        let leader = law.first_leader.unwrap_or_else(|| rng.usize(..law.servers()));
        let first_session =
            if law.has_epochs { rng.i64(0..1 << (SESSION_BITS - 16)) << 8 } else { 0 };
        let member = |place: usize| Member {
            core: Core::new(law.settings.clone()),
            role: if place == leader { Role::Leading } else { Role::Following },
            epoch: 1,
            applied: 0,
            lag: Lag::default(),
            side: 0,
            heard: now,
            looks_since: now,
            touched: Vec::new(),
            left_behind: Vec::new(),
            is_asked: false,
            local_sessions: BTreeSet::new(),
            hooks: None,
            last_session: first_session,
        };
        let mut state = Self {
            rng,
            observer,
            start: now,
            now,
            log: Log::new(),
            head: Core::new(law.settings.clone()),
            members: (0..law.servers()).map(member).collect(),
            connections: BTreeMap::new(),
            last_connection: 0,
            leader: Some(leader),
            epoch: 1,
            tracker: Tracker::new(now, law.tick),
            condemned: BTreeSet::new(),
            timed_cut: None,
            election: None,
            next_half_tick: now + law.tick / 2,
            late_ping: LatePing::No,
            next_sweep: now,
            is_over: false,
            has_sent: false,
            wakers: Vec::new(),
            closed: Vec::new(),
            law,
        };
        state.begin_epoch(leader);
        state
    }

    /// Nothing is committed but what led to this state.
    pub(super) fn begin_history(&mut self, head: Core) {
        self.log.clear();
        self.head = head;
    }

    /// The zxids of a leader begin with its epoch.
    pub(super) fn begin_epoch(&mut self, leader: usize) {
        if !self.law.has_epochs {
            return;
        }
        let txn = Txn {
            session: SessionId::NONE,
            cxid: Xid(0),
            zxid: Zxid(self.epoch << EPOCH_BITS),
            time_ms: self.wall_ms(),
            op: TxnOp::Error(ErrorCode::OK),
        };
        self.head.apply(&txn);
        self.log.push(Committed { entry: Entry::Epoch(txn, leader), at: self.now, origin: None });
        self.apply_next(leader);
    }

    /// By how much a test moves the clock of the leader.
    pub(super) fn clock_offset(&self) -> ClockOffset {
        let leader = self.leader.and_then(|leader| self.members[leader].hooks.as_ref());
        leader.map_or_else(ClockOffset::default, |hooks| hooks.clock_offset())
    }

    /// The time by which sessions expire.
    pub(super) fn session_time(&self) -> Instant {
        self.now + self.clock_offset().monotonic
    }

    pub(super) fn wall_ms(&self) -> i64 {
        let passed = (self.now - self.start).as_millis();
        let unmoved = self.law.wall_start_ms + i64::try_from(passed).unwrap_or(i64::MAX);
        unmoved.saturating_add(self.clock_offset().wall_ms)
    }

    /// The state after all committed transactions.
    pub fn head(&self) -> &Core {
        &self.head
    }

    /// The id of a new session. Its highest byte is the number of its server.
    pub(super) fn new_session(&mut self, member: usize) -> SessionId {
        if !self.law.has_epochs {
            // One count for all.
            self.members[0].last_session += 1;
            return SessionId(self.members[0].last_session);
        }
        self.members[member].last_session += 1;
        let server = i64::try_from(member + 1).unwrap_or(i64::MAX);
        SessionId((server << SESSION_BITS) | self.members[member].last_session)
    }

    pub(super) fn append(&mut self, txn: Txn, origin: Option<ConnectionId>) {
        self.head.apply(&txn);
        self.log.push(Committed { entry: Entry::Txn(txn), at: self.now, origin });
    }

    /// A member has heard from a session. The leader learns it with the member's next reply to a
    /// ping.
    pub(super) fn touch(&mut self, member: usize, session: SessionId, timeout_ms: i32) {
        if self.leader == Some(member) {
            self.tracker.touch(session, timeout_ms, self.session_time());
            return;
        }
        let touched = &mut self.members[member].touched;
        match touched.iter_mut().find(|(known, _)| *known == session) {
            Some(known) => known.1 = timeout_ms,
            None => touched.push((session, timeout_ms)),
        }
    }

    /// Runs every step that is due.
    pub(super) fn advance(&mut self) {
        if self.is_over {
            return;
        }
        while self.next_half_tick <= self.now {
            self.hear(self.next_half_tick);
            self.next_half_tick += self.law.tick / 2;
            match self.leader.is_some_and(|leader| self.is_frozen(leader)) {
                true => self.late_ping = LatePing::Missed,
                false => self.ping(),
            }
        }
        self.ping_if_late();
        self.advance_links();
        self.answer_pings();
        self.close_expired();
        self.sweep_if_due();
        self.forward_all();
        for member in 0..self.members.len() {
            while self.due(member).is_some_and(|due| due <= self.now) {
                self.apply_next(member);
            }
        }
        let applied = self.members.iter().map(|member| member.applied).min();
        self.log.forget_before(applied.unwrap_or(0));
        self.answer_everyone();
    }

    /// The time of the next step.
    pub(super) fn next_deadline(&self) -> Instant {
        let due = (0..self.members.len()).filter_map(|member| self.due(member));
        let next = due.chain(self.link_deadlines()).min();
        let late_ping = match self.late_ping {
            LatePing::DueAt(at) => at,
            LatePing::No | LatePing::Missed => self.next_half_tick,
        };
        next.map_or(late_ping, |next| next.min(late_ping)).min(self.next_half_tick)
    }

    /// A member applies the next transaction, and sends its events before any reply.
    pub(super) fn apply_next(&mut self, member: usize) {
        let index = self.members[member].applied;
        let Some(Committed { entry, origin, .. }) = self.log.get(index) else { return };
        let origin = *origin;
        let applying = &mut self.members[member];
        applying.applied += 1;
        applying.left_behind.retain(|(_, place)| *place > index + 1);
        let txn = match entry {
            Entry::Txn(txn) => txn,
            Entry::Epoch(_, leader) if *leader != member => return,
            Entry::Epoch(txn, _) => txn,
        };
        let effects = self.members[member].core.apply(txn);
        self.send_events(member, &effects);
        if let Some(id) = origin {
            self.answer_committed(id, member, index, effects.reply);
        }
        if let Some(session) = effects.ended {
            self.displace(member, session);
        }
        self.answer_everyone();
    }

    fn send_events(&mut self, member: usize, effects: &Effects) {
        let zxid = if self.law.tell_zxids[member] { effects.zxid } else { Zxid::NONE };
        let mut audience = Audience::default();
        for fired in &effects.events {
            let frame = encode_event(zxid, &fired.event);
            let is_public = audience.is_everyone(fired);
            for receiver in &fired.receivers {
                let Some(connection) = self.connections.get(receiver) else { continue };
                let identities = || connection.identities.clone();
                if is_public || audience.includes(fired, *receiver, identities) {
                    self.give(*receiver, Message::Event(frame.clone()));
                }
            }
        }
    }

    fn answer_everyone(&mut self) {
        self.ids().into_iter().for_each(|id| self.answer_all(id));
    }

    fn answer_committed(
        &mut self,
        id: ConnectionId,
        member: usize,
        index: usize,
        reply: Result<Response, ErrorCode>,
    ) {
        let at_member = self.connections.get_mut(&id).filter(|other| other.member == member);
        let Some(connection) = at_member else { return };
        let is_it = |step: &Step| matches!(step, Step::Committed(place, _) if *place == index);
        if !connection.steps.front().is_some_and(is_it) {
            return;
        }
        match connection.steps.pop_front() {
            Some(Step::Committed(_, Answer::Handshake(response))) => {
                connection.session = Some(response.session);
                self.give(id, Message::Connected(Box::new(response)));
            }
            // The client has moved to another server (`FinalRequestProcessor`).
            Some(Step::Committed(_, Answer::Reply(_)))
                if reply == Err(ErrorCode::SESSION_MOVED) =>
            {
                self.close(id);
            }
            Some(Step::Committed(_, Answer::Reply(xid))) => self.reply(id, xid, reply),
            _ => {}
        }
    }

    /// Nobody is served any more.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.members.iter_mut().for_each(|member| member.role = Role::Stopped);
        self.ids().into_iter().for_each(|id| self.cut(id));
    }

    /// The data and version of a znode after all committed transactions.
    pub fn committed(&self, path: &str) -> Option<(Option<Bytes>, i32)> {
        data(&self.head, path)
    }

    /// The states of all members.
    pub fn cores(&self) -> impl Iterator<Item = &Core> {
        self.members.iter().map(|member| &member.core)
    }
}

/// The data and version of a znode.
pub(super) fn data(core: &Core, path: &str) -> Option<(Option<Bytes>, i32)> {
    let identities = Identities::default().and(Id::new("super", ""));
    let (session, connection, xid) = (SessionId::NONE, ConnectionId(0), Xid(0));
    let nobody = Requester { session, connection, xid, identities };
    match core.read(&Read::Lookup(Lookup::GetData(path.into())), &nobody) {
        Ok(Response::Data(data, stat)) => Some((data, stat.version)),
        _ => None,
    }
}
