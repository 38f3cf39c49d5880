//! The leader: it commits writes, informs the followers, and ends sessions.

use std::time::Duration;

use zoolet_core::{ConnectionId, Txn, TxnOp};
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, ErrorCode, Password, Request, SessionId, Write,
};
use zoolet_server::hooks::{Message, ServerTxn};

use super::observer::EnsembleEvent;
use super::settings::Sweeps;
use super::state::{LatePing, State};
use super::step::{Answer, Asked, Change, Step, accepted};

/// How long a leader that goes on after it stood still handles requests before it pings: its threads
/// take their turns.
const LATE_PING_DELAY: Duration = Duration::from_millis(20);

impl State {
    /// The leader asks its followers which sessions they have heard from.
    pub(super) fn ping(&mut self) {
        self.late_ping = LatePing::No;
        self.members.iter_mut().for_each(|member| member.is_asked = true);
    }

    /// A leader that goes on after it stood still handles what has arrived, and pings a moment later.
    pub(super) fn ping_if_late(&mut self) {
        let is_frozen = self.leader.is_some_and(|leader| self.is_frozen(leader));
        match self.late_ping {
            LatePing::Missed if !is_frozen => {
                self.late_ping = LatePing::DueAt(self.now + LATE_PING_DELAY);
            }
            LatePing::DueAt(_) if is_frozen => self.late_ping = LatePing::Missed,
            LatePing::DueAt(at) if at <= self.now => self.ping(),
            _ => {}
        }
    }

    /// The followers that the leader can reach report the sessions that they have heard from.
    pub(super) fn answer_pings(&mut self) {
        let now = self.session_time();
        for member in 0..self.members.len() {
            if self.members[member].is_asked && self.hears_leader(member) {
                self.members[member].is_asked = false;
                for (session, timeout_ms) in std::mem::take(&mut self.members[member].touched) {
                    self.tracker.touch(session, timeout_ms, now);
                }
            }
        }
    }

    pub(super) fn close_expired(&mut self) {
        let expired = self.tracker.expired(self.session_time());
        if !self.has_quorum() {
            return;
        }
        for session in expired {
            self.observer.happened(EnsembleEvent::SessionExpired(session));
            let txn = self.head().prepare_expiry(session, self.wall_ms());
            self.tell_leader_hooks(ServerTxn::Expiry(session), &txn);
            self.commit(txn, None);
        }
    }

    /// Deletes empty containers at intervals.
    pub(super) fn sweep_if_due(&mut self) {
        if self.now < self.next_sweep || !self.has_quorum() {
            return;
        }
        let interval = match self.law.sweeps {
            Sweeps::Drawn => Duration::from_millis(self.rng.u64(500..5_000)),
            Sweeps::Every(interval, _) => interval,
        };
        self.next_sweep = self.now + interval;
        self.sweep();
    }

    /// Deletes the containers and TTL znodes that are due, if the leader can.
    pub(super) fn sweep(&mut self) {
        if !self.has_quorum() {
            return;
        }
        let wall_ms = self.wall_ms();
        let never_used_ms = match self.law.sweeps {
            Sweeps::Drawn => 0,
            Sweeps::Every(_, never_used_ms) => never_used_ms,
        };
        for path in self.head().sweepable(wall_ms, never_used_ms) {
            let txn = self.head().prepare_sweep(&path, wall_ms);
            self.tell_leader_hooks(ServerTxn::Sweep, &txn);
            self.commit(txn, None);
        }
    }

    fn tell_leader_hooks(&self, what: ServerTxn, txn: &Txn) {
        if let Some(hooks) = self.leader.and_then(|leader| self.members[leader].hooks.as_ref()) {
            hooks.server_txn(what, txn.zxid);
        }
    }

    /// Commits a transaction. The leader applies it at once.
    fn commit(&mut self, txn: Txn, origin: Option<ConnectionId>) {
        self.observer.committing(&txn, self.head());
        if let TxnOp::CloseSession { .. } = txn.op {
            self.tracker.end(txn.session);
            self.condemned.remove(&txn.session);
        }
        self.append(txn, origin);
        if let Some(leader) = self.leader {
            self.apply_next(leader);
        }
    }

    /// Passes the requests for the leader to it, from all members that reach it.
    pub(super) fn forward_all(&mut self) {
        for id in self.ids() {
            while self.forward_next(id).is_some() {}
        }
    }

    /// Passes the first request for the leader to it, if the leader can take one.
    fn forward_next(&mut self, id: ConnectionId) -> Option<()> {
        let connection = self.connections.get(&id)?;
        let member = connection.member;
        let leads = self.believes_to_lead(member);
        let place = connection.steps.iter().position(Step::is_for_leader)?;
        let can_go = match &connection.steps[place] {
            Step::Write(..) | Step::Begin(_) => self.reaches_leader(member) && self.has_quorum(),
            // A leader that is cut off answers this until it notices, if no write waits.
            Step::Sync(..) if leads => self.has_quorum() || !self.has_waiting_write(member),
            Step::Sync(..) => self.reaches_leader(member),
            _ => leads || self.hears_leader(member),
        };
        if !can_go || (leads && place > 0) {
            return None;
        }
        match self.connections.get_mut(&id)?.steps.remove(place)? {
            Step::Write(asked, change) => {
                if let Some(refused) = self.before_null_path(id, &asked, &change) {
                    return self.put(id, place, refused);
                }
                let answer = Answer::Reply(asked.header.xid);
                self.put(id, place, Step::Committed(self.log.len(), answer))?;
                self.commit_change(id, &asked, &change)
            }
            Step::Begin(request) => self.begin(id, &request),
            Step::Sync(asked, read) => {
                let index = if leads { self.members[member].applied } else { self.log.len() };
                self.put(id, place, Step::Reached(index, asked, read))?;
                self.answer_all(id);
                Some(())
            }
            Step::Resume(request) => self.resume(id, &request),
            Step::Local(..) | Step::Refused(..) | Step::Committed(..) | Step::Reached(..) => None,
        }
    }

    /// The reply to a multi with a null path, which takes no zxid.
    fn before_null_path(&self, id: ConnectionId, asked: &Asked, change: &Change) -> Option<Step> {
        let Change::Write(write @ Write::Multi(ops)) = change else { return None };
        ops.iter().find(|op| op.path().text().is_none())?;
        let request = Request::Write(write.clone());
        let body = self.head().reply_before_null_path(&request, &self.requester(id, asked)?)?;
        Some(Step::Refused(asked.header.xid, ErrorCode::MARSHALLING_ERROR, body))
    }

    fn put(&mut self, id: ConnectionId, place: usize, step: Step) -> Option<()> {
        self.connections.get_mut(&id)?.steps.insert(place, step);
        Some(())
    }

    fn has_waiting_write(&self, member: usize) -> bool {
        let mut its = self.connections.values().filter(|connection| connection.member == member);
        its.any(|connection| connection.steps.iter().any(|step| matches!(step, Step::Write(..))))
    }

    fn commit_change(&mut self, id: ConnectionId, asked: &Asked, change: &Change) -> Option<()> {
        let requester = self.requester(id, asked)?;
        let session = requester.session;
        let is_alive = self.tracker.is_alive(session);
        // A session may be closed over any of its connections.
        let is_owner = matches!(change, Change::Write(Write::CloseSession))
            || self.tracker.is_owner(session, id);
        let wall_ms = self.wall_ms();
        let mut txn = match change {
            _ if !is_alive => self.head().refuse(&requester, ErrorCode::SESSION_EXPIRED, wall_ms),
            _ if !is_owner => self.head().refuse(&requester, ErrorCode::SESSION_MOVED, wall_ms),
            Change::Write(write) => self.head().prepare(write, &requester, wall_ms),
            Change::Refused(code) => self.head().refuse(&requester, *code, wall_ms),
        };
        if let (false, Change::Write(Write::Multi(ops))) = (is_alive, change) {
            let rest = ops.iter().skip(1).map(|_| ErrorCode::RUNTIME_INCONSISTENCY);
            let errors = ops.first().map(|_| ErrorCode::SESSION_EXPIRED).into_iter().chain(rest);
            txn.op = TxnOp::Multi(errors.map(TxnOp::Error).collect());
        }
        self.commit(txn, Some(id));
        Some(())
    }

    fn clamped(&self, timeout_ms: i32) -> i32 {
        timeout_ms.clamp(*self.law.timeouts_ms.start(), *self.law.timeouts_ms.end())
    }

    /// Creates a session.
    fn begin(&mut self, id: ConnectionId, request: &ConnectRequest) -> Option<()> {
        let member = self.connections.get(&id)?.member;
        let session = self.new_session(member);
        let timeout_ms = self.clamped(request.timeout_ms);
        self.connections.get_mut(&id)?.timeout_ms = timeout_ms;
        let answer = Answer::Handshake(accepted(session, request, timeout_ms));
        self.put(id, 0, Step::Committed(self.log.len(), answer))?;
        self.tracker.begin(session, timeout_ms, Some(id), self.session_time());
        let txn = self.head().prepare_create_session(session, timeout_ms, self.wall_ms());
        self.commit(txn, Some(id));
        Some(())
    }

    /// Answers the handshake of an existing session as the leader knows it. A leader that is cut
    /// off and replaced uses its own old state.
    fn resume(&mut self, id: ConnectionId, request: &ConnectRequest) -> Option<()> {
        let (session, member) = (request.session, self.connections.get(&id)?.member);
        let knows_leader = self.reaches_leader(member);
        let is_alive = request.password == Password::of(session)
            && match knows_leader {
                true => self.tracker.is_alive(session),
                false => self.members[member].core.has_session(session),
            };
        self.displace(member, session);
        if !is_alive {
            self.refuse_session(id, request, false);
            return None;
        }
        let timeout_ms = self.clamped(request.timeout_ms);
        self.give(id, Message::Connected(Box::new(accepted(session, request, timeout_ms))));
        let connection = self.connections.get_mut(&id)?;
        (connection.session, connection.timeout_ms) = (Some(session), timeout_ms);
        if knows_leader {
            self.tracker.own(session, id);
            self.tracker.touch(session, timeout_ms, self.session_time());
        }
        self.answer_all(id);
        Some(())
    }

    /// Tells a client that its session has ended, and whether the server only reads.
    fn refuse_session(&mut self, id: ConnectionId, request: &ConnectRequest, is_read_only: bool) {
        let refused = ConnectResponse::refused(request.read_only.map(|_| is_read_only));
        self.give(id, Message::Connected(Box::new(refused)));
        self.close(id);
    }

    /// A member without a leader answers a handshake. It serves only sessions of its own, which it
    /// forgets when it has a leader again (`ReadOnlyZooKeeperServer`).
    pub(super) fn begin_read_only(&mut self, id: ConnectionId, request: &ConnectRequest) {
        let Some(member) = self.connections.get(&id).map(|connection| connection.member) else {
            return;
        };
        let mut session = request.session;
        if session.is_none() {
            session = self.new_session(member);
            self.members[member].local_sessions.insert(session);
        } else if self.members[member].core.has_session(session) {
            return self.close(id);
        } else {
            self.displace(member, session);
            let is_own = self.members[member].local_sessions.contains(&session);
            if !is_own || request.password != Password::of(session) {
                return self.refuse_session(id, request, true);
            }
        }
        let timeout_ms = self.clamped(request.timeout_ms);
        let mut response = accepted(session, request, timeout_ms);
        response.read_only = request.read_only.map(|_| true);
        if let Some(connection) = self.connections.get_mut(&id) {
            (connection.session, connection.timeout_ms) = (Some(session), timeout_ms);
            connection.is_read_only = true;
        }
        self.give(id, Message::Connected(Box::new(response)));
    }

    /// A member closes its connection of a session.
    pub(super) fn displace(&mut self, member: usize, session: SessionId) {
        let is_its = |id: &ConnectionId| self.connections[id].session == Some(session);
        let ids: Vec<_> = self.ids_of(member).into_iter().filter(is_its).collect();
        ids.into_iter().for_each(|id| self.close(id));
    }
}
