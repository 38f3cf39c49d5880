//! The leader: it commits writes, informs the followers, and ends sessions.

use std::time::Duration;

use zoolet_core::{ConnectionId, Txn, TxnOp};
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, ErrorCode, RequestHeader, SessionId, Write,
};

use super::observer::EnsembleEvent;
use super::state::{MEMBERS, State};
use super::step::{Answer, Step, accepted, handshake};

impl State {
    /// The followers that the leader can reach report the sessions that they have heard from.
    pub(super) fn answer_pings(&mut self) {
        for member in 0..MEMBERS {
            if self.members[member].is_asked && self.hears_leader(member) {
                self.members[member].is_asked = false;
                for session in std::mem::take(&mut self.members[member].touched) {
                    self.tracker.touch(session, self.now);
                }
            }
        }
    }

    pub(super) fn close_expired(&mut self) {
        let expired = self.tracker.expired(self.now);
        if !self.has_quorum() {
            return;
        }
        for session in expired {
            self.observer.happened(EnsembleEvent::SessionExpired(session));
            let txn = self.head().prepare_expiry(session, self.wall_ms());
            self.commit(txn, None);
        }
    }

    /// Deletes empty containers at intervals.
    pub(super) fn sweep(&mut self) {
        if self.now < self.next_sweep || !self.has_quorum() {
            return;
        }
        self.next_sweep = self.now + Duration::from_millis(self.rng.u64(500..5_000));
        let wall_ms = self.wall_ms();
        for path in self.head().sweepable(wall_ms, 0) {
            let txn = self.head().prepare_sweep(&path, wall_ms);
            self.commit(txn, None);
        }
    }

    /// Commits a transaction. The leader applies it at once.
    fn commit(&mut self, txn: Txn, origin: Option<ConnectionId>) {
        self.observer.committing(&txn, self.head());
        if let TxnOp::CloseSession { .. } = txn.op {
            self.tracker.end(txn.session);
        }
        self.append(txn, origin);
        if let Some(leader) = self.leader {
            self.apply_next(leader);
        }
    }

    /// Passes the requests for the leader to it, from all members that reach it.
    pub(super) fn forward_all(&mut self) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
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
            Step::Write(header, write) => {
                let answer = Answer::Reply(header.xid);
                self.put(id, place, Step::Committed(self.log.len(), answer))?;
                self.commit_write(id, &header, &write)
            }
            Step::Begin(request) => self.begin(id, &request),
            Step::Sync(header, read) => {
                let index = if leads { self.members[member].applied } else { self.log.len() };
                self.put(id, place, Step::Reached(index, header, read))?;
                self.answer_all(id);
                Some(())
            }
            Step::Resume(request) => self.resume(id, &request),
            Step::Local(..) | Step::Committed(..) | Step::Reached(..) => None,
        }
    }

    fn put(&mut self, id: ConnectionId, place: usize, step: Step) -> Option<()> {
        self.connections.get_mut(&id)?.steps.insert(place, step);
        Some(())
    }

    fn has_waiting_write(&self, member: usize) -> bool {
        let mut its = self.connections.values().filter(|connection| connection.member == member);
        its.any(|connection| connection.steps.iter().any(|step| matches!(step, Step::Write(..))))
    }

    fn commit_write(
        &mut self,
        id: ConnectionId,
        header: &RequestHeader,
        write: &Write,
    ) -> Option<()> {
        let requester = self.requester(id, header.xid)?;
        let session = requester.session;
        if !self.tracker.is_owner(session, id) {
            // The client has moved to another connection: this one is closed without a reply.
            self.close(id);
            return None;
        }
        let is_alive = self.tracker.is_alive(session);
        let mut txn = match is_alive {
            true => self.head().prepare(write, &requester, self.wall_ms()),
            false => self.head().refuse(&requester, ErrorCode::SESSION_EXPIRED, self.wall_ms()),
        };
        if let (false, Write::Multi(ops)) = (is_alive, write) {
            let rest = ops.iter().skip(1).map(|_| ErrorCode::RUNTIME_INCONSISTENCY);
            let errors = ops.first().map(|_| ErrorCode::SESSION_EXPIRED).into_iter().chain(rest);
            txn.op = TxnOp::Multi(errors.map(TxnOp::Error).collect());
        }
        self.commit(txn, Some(id));
        Some(())
    }

    fn clamped(&self, timeout_ms: i32) -> i32 {
        let tick_ms = i32::try_from(self.terms.tick.as_millis()).unwrap_or(i32::MAX);
        timeout_ms.clamp(2 * tick_ms, 20 * tick_ms)
    }

    /// Creates a session.
    fn begin(&mut self, id: ConnectionId, request: &ConnectRequest) -> Option<()> {
        let session = self.new_session();
        let timeout_ms = self.clamped(request.timeout_ms);
        let answer = Answer::Handshake(accepted(session, request, timeout_ms));
        self.put(id, 0, Step::Committed(self.log.len(), answer))?;
        self.tracker.begin(session, timeout_ms, Some(id), self.now);
        let txn = self.head().prepare_create_session(session, timeout_ms, self.wall_ms());
        self.commit(txn, Some(id));
        Some(())
    }

    /// Answers the handshake of an existing session as the leader knows it. A leader that is cut
    /// off and replaced uses its own old state.
    fn resume(&mut self, id: ConnectionId, request: &ConnectRequest) -> Option<()> {
        let (session, member) = (request.session, self.connections.get(&id)?.member);
        let knows_leader = self.reaches_leader(member);
        let is_alive = match knows_leader {
            true => self.tracker.is_alive(session),
            false => self.members[member].core.has_session(session),
        };
        self.displace(member, session);
        if !is_alive {
            self.give(id, handshake(&ConnectResponse::refused(request.read_only.map(|_| false))));
            self.close(id);
            return None;
        }
        let response = accepted(session, request, self.clamped(request.timeout_ms));
        self.give(id, handshake(&response));
        self.connections.get_mut(&id)?.session = Some(session);
        if knows_leader {
            self.tracker.own(session, id);
            self.tracker.touch(session, self.now);
        }
        self.answer_all(id);
        Some(())
    }

    /// A member closes its connection of a session.
    pub(super) fn displace(&mut self, member: usize, session: SessionId) {
        let is_its = |id: &_| {
            let connection = &self.connections[id];
            connection.member == member && connection.session == Some(session)
        };
        let ids: Vec<_> = self.connections.keys().copied().filter(is_its).collect();
        ids.into_iter().for_each(|id| self.close(id));
    }
}
