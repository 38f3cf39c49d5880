//! The committed transactions, and the members that apply them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tokio::time::Instant;
use zoolet_core::{ConnectionId, Core, Requester, Settings, Txn};
use zoolet_protocol::{
    Disconnected, ErrorCode, Lookup, Read, Response, SessionId, Xid, Zxid, encode_event,
};

use super::faults::{Cut, Lag};
use super::observer::{EnsembleEvent, EnsembleObserver};
use super::step::{Answer, Connection, Step, handshake, step};
use super::tracker::Tracker;

/// The number of servers.
pub const MEMBERS: usize = 3;

/// Any time other than that of the built-in znodes.
const WALL_START_MS: i64 = 1_700_000_000_000;

/// The settings of an ensemble.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The length of a tick.
    pub tick: Duration,
    /// After how many ticks without a message a member gives its leader up.
    pub sync_limit: u32,
    /// Which members send the zxid with an event, as ZooKeeper does since 3.9.
    pub tell_zxids: [bool; MEMBERS],
}

/// The role of a member, as it believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Leading,
    Following,
    /// It has no leader, and serves no client.
    Looking,
}

/// One server.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) core: Core,
    pub(super) role: Role,
    /// The number of committed transactions that it has applied.
    pub(super) applied: usize,
    pub(super) lag: Lag,
    /// The sessions that it has heard from since its last report to the leader.
    pub(super) touched: Vec<SessionId>,
    /// The leader has asked for a report of the sessions.
    pub(super) is_asked: bool,
}

/// A committed transaction.
#[derive(Debug)]
pub(super) struct Committed {
    txn: Txn,
    pub(super) at: Instant,
    origin: Option<ConnectionId>,
}

/// The whole ensemble.
#[derive(Debug)]
pub struct State {
    pub(super) rng: Rng,
    pub(super) terms: Terms,
    pub(super) observer: Arc<dyn EnsembleObserver>,
    pub(super) start: Instant,
    pub(super) now: Instant,
    pub(super) log: Vec<Committed>,
    /// The state after all committed transactions, for the leader's decisions and for the checks.
    head: Core,
    pub(super) members: [Member; MEMBERS],
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    last_connection: u64,
    last_session: i64,
    /// The leader that a majority follows.
    pub(super) leader: Option<usize>,
    pub(super) tracker: Tracker,
    pub(super) cut: Option<Cut>,
    pub(super) election: Option<Instant>,
    pub(super) next_half_tick: Instant,
    /// When the leader next looks for empty containers.
    pub(super) next_sweep: Instant,
    pub(super) wakers: Vec<Waker>,
}

impl State {
    pub(super) fn new(
        mut rng: Rng,
        terms: Terms,
        observer: Arc<dyn EnsembleObserver>,
        now: Instant,
    ) -> Self {
        let leader = rng.usize(..MEMBERS);
        let members = std::array::from_fn(|place| Member {
            core: Core::new(Settings::default()),
            role: if place == leader { Role::Leading } else { Role::Following },
            applied: 0,
            lag: Lag::default(),
            touched: Vec::new(),
            is_asked: false,
        });
        Self {
            rng,
            observer,
            start: now,
            now,
            log: Vec::new(),
            head: Core::new(Settings::default()),
            members,
            connections: BTreeMap::new(),
            last_connection: 0,
            last_session: 0,
            leader: Some(leader),
            tracker: Tracker::new(now, terms.tick),
            cut: None,
            election: None,
            next_half_tick: now + terms.tick / 2,
            next_sweep: now,
            wakers: Vec::new(),
            terms,
        }
    }

    pub(super) fn wall_ms(&self) -> i64 {
        let passed = (self.now - self.start).as_millis();
        WALL_START_MS + i64::try_from(passed).unwrap_or(i64::MAX)
    }

    /// The state after all committed transactions.
    pub(super) fn head(&self) -> &Core {
        &self.head
    }

    pub(super) fn new_session(&mut self) -> SessionId {
        self.last_session += 1;
        SessionId(self.last_session)
    }

    pub(super) fn append(&mut self, txn: Txn, origin: Option<ConnectionId>) {
        self.head.apply(&txn);
        self.log.push(Committed { txn, at: self.now, origin });
    }

    /// Connects a client to a member that serves clients.
    pub(super) fn open(&mut self) -> Option<ConnectionId> {
        let member = self.rng.usize(..MEMBERS);
        if self.members[member].role == Role::Looking {
            return None;
        }
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        self.connections.insert(id, Connection::new(member));
        Some(id)
    }

    /// A connection is closed.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.close(id);
        self.connections.remove(&id);
    }

    pub(super) fn poll_receive(
        &mut self,
        id: ConnectionId,
        context: &Context<'_>,
    ) -> Poll<Option<Bytes>> {
        let Some(connection) = self.connections.get_mut(&id) else { return Poll::Ready(None) };
        match connection.outgoing.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None if connection.is_closed => Poll::Ready(None),
            None => {
                connection.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// A frame of a client arrives at its member.
    pub(super) fn take_in(&mut self, id: ConnectionId, frame: &Bytes) -> Result<(), Disconnected> {
        let open = self.connections.get(&id).filter(|connection| !connection.is_closed);
        let connection = open.ok_or(Disconnected)?;
        let (member, session) = (connection.member, connection.session);
        let is_first = session.is_none() && connection.steps.is_empty();
        let step = step(frame, is_first).filter(|step| self.is_welcome(member, step));
        let Some(step) = step else {
            self.close(id);
            return Ok(());
        };
        if let Some(session) = session {
            self.touch(member, session);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.steps.push_back(step);
        }
        self.answer_all(id);
        Ok(())
    }

    /// Whether a member accepts a request: the client must not have seen more than the member.
    fn is_welcome(&self, member: usize, step: &Step) -> bool {
        let (Step::Begin(request) | Step::Resume(request)) = step else { return true };
        let is_behind = request.last_zxid_seen > self.members[member].core.last_zxid();
        if is_behind {
            self.observer.happened(EnsembleEvent::ClientAhead(member));
        }
        !is_behind
    }

    /// A member has heard from a session. The leader learns it with the member's next reply to a
    /// ping.
    fn touch(&mut self, member: usize, session: SessionId) {
        if self.leader == Some(member) {
            self.tracker.touch(session, self.now);
        } else if !self.members[member].touched.contains(&session) {
            self.members[member].touched.push(session);
        }
    }

    /// Runs every step that is due.
    pub(super) fn advance(&mut self) {
        self.advance_faults();
        while self.next_half_tick <= self.now {
            self.next_half_tick += self.terms.tick / 2;
            self.members.iter_mut().for_each(|member| member.is_asked = true);
        }
        self.answer_pings();
        self.close_expired();
        self.sweep();
        self.forward_all();
        for member in 0..MEMBERS {
            while self.due(member).is_some_and(|due| due <= self.now) {
                self.apply_next(member);
            }
        }
        self.answer_everyone();
    }

    /// The time of the next step.
    pub(super) fn next_deadline(&self) -> Instant {
        let due = (0..MEMBERS).filter_map(|member| self.due(member));
        let next = due.chain(self.fault_deadlines()).min();
        next.map_or(self.next_half_tick, |next| next.min(self.next_half_tick))
    }

    /// A member applies the next transaction, and sends its events before any reply.
    pub(super) fn apply_next(&mut self, member: usize) {
        let index = self.members[member].applied;
        let Some(Committed { txn, origin, .. }) = self.log.get(index) else { return };
        let origin = *origin;
        self.members[member].applied += 1;
        let effects = self.members[member].core.apply(txn);
        let zxid = if self.terms.tell_zxids[member] { effects.zxid } else { Zxid::NONE };
        for fired in &effects.events {
            let frame = encode_event(zxid, &fired.event);
            fired.receivers.iter().for_each(|receiver| self.give(*receiver, frame.clone()));
        }
        if let Some(id) = origin {
            self.answer_committed(id, member, index, effects.reply);
        }
        if let Some(session) = effects.ended {
            self.displace(member, session);
        }
        self.answer_everyone();
    }

    fn answer_everyone(&mut self) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        ids.into_iter().for_each(|id| self.answer_all(id));
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
                self.give(id, handshake(&response));
            }
            Some(Step::Committed(_, Answer::Reply(xid))) => self.reply(id, xid, reply),
            _ => {}
        }
    }

    /// The data and version of a znode after all committed transactions.
    pub fn committed(&self, path: &str) -> Option<(Option<Bytes>, i32)> {
        let nobody = Requester::new(SessionId::NONE, ConnectionId(0), Xid(0));
        match self.head.read(&Read::Lookup(Lookup::GetData(path.into())), &nobody) {
            Ok(Response::Data(data, stat)) => Some((data, stat.version)),
            _ => None,
        }
    }

    /// The states of all members.
    pub fn cores(&self) -> impl Iterator<Item = &Core> {
        self.members.iter().map(|member| &member.core)
    }
}
