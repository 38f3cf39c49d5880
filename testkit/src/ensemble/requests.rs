//! The requests of clients: what comes in, and what a member answers from its own state.

use bytes::Bytes;
use zoolet_core::{ConnectionId, EnsembleName, Requester, authenticate, check_ensemble_name};
use zoolet_protocol::{
    Auth, ConnectRequest, DecodeFault, ErrorCode, MultiOp, OpCode, Read, ReplyHeader, Request,
    Response, SessionId, SessionRequest, Write, Xid, Zxid, decode_all, decode_request,
    encode_event,
};
use zoolet_server::hooks::{Closed, Message};

use super::observer::EnsembleEvent;
use super::state::{Role, State};
use super::step::{Asked, Change, Step, Treatment};
use crate::limits::ENSEMBLE_REQUESTS_MAX;

/// What comes in.
impl State {
    /// A frame of a client arrives at its member.
    pub(super) fn take_in(
        &mut self,
        id: ConnectionId,
        frame: &Bytes,
        treatment: Treatment,
    ) -> Result<(), Closed> {
        let open = self.connections.get_mut(&id).filter(|connection| connection.is_open());
        let connection = open.ok_or(Closed)?;
        connection.received += 1;
        if std::mem::replace(&mut connection.has_begun, true) {
            self.take_request(id, frame, treatment);
        } else {
            self.take_handshake(id, frame);
        }
        self.answer_all(id);
        match self.connections.get(&id).is_some_and(|connection| connection.is_open()) {
            true => Ok(()),
            false => Err(Closed),
        }
    }

    fn take_handshake(&mut self, id: ConnectionId, frame: &Bytes) {
        let Some(member) = self.connections.get(&id).map(|connection| connection.member) else {
            return;
        };
        let Ok(request) = decode_all::<ConnectRequest>(frame) else { return self.close(id) };
        let is_read_only = self.members[member].role == Role::Looking;
        if is_read_only && request.read_only != Some(true) {
            return self.close(id);
        }
        if request.last_zxid_seen > self.members[member].core.last_zxid() {
            self.observer.happened(EnsembleEvent::ClientAhead(member));
            return self.close(id);
        }
        if is_read_only {
            return self.begin_read_only(id, &request);
        }
        let is_new = request.session.is_none();
        self.push(id, if is_new { Step::Begin(request) } else { Step::Resume(request) });
    }

    fn push(&mut self, id: ConnectionId, step: Step) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.steps.len() >= ENSEMBLE_REQUESTS_MAX {
            tracing::warn!(connection = id.0, "connection closed: too many requests wait");
            return self.cut(id);
        }
        connection.steps.push_back(step);
    }

    fn take_request(&mut self, id: ConnectionId, frame: &Bytes, treatment: Treatment) {
        let Ok((header, request)) = decode_request(frame) else { return self.close(id) };
        let Some(connection) = self.connections.get(&id) else { return };
        let (member, timeout_ms) = (connection.member, connection.timeout_ms);
        let asked = Asked { header, identities: connection.identities.clone() };
        if let (OpCode::AUTH | OpCode::SASL, _)
        | (_, Ok(Request::Session(SessionRequest::Auth(_)))) = (header.op, &request)
        {
            return match (treatment, request) {
                (Treatment::Refuse(code), _) => self.push(id, refused(header.xid, code)),
                (_, Ok(Request::Session(SessionRequest::Auth(auth)))) => {
                    self.authenticate(id, &asked, &auth);
                }
                // Without SASL ZooKeeper replies with a null token.
                (_, Ok(_)) => self.reply_at(id, asked.header.xid, Ok(Response::Token(None))),
                (_, Err(_)) => self.close(id),
            };
        }
        if let (Some(session), false) = (connection.session, connection.is_read_only) {
            self.touch(member, session, timeout_ms);
        }
        let step = match (treatment, request) {
            (Treatment::Refuse(code), Ok(Request::Write(_))) => {
                Step::Write(asked, Change::Refused(code))
            }
            (Treatment::Refuse(code), Ok(_)) => refused(header.xid, code),
            (_, Ok(request)) => step(asked, request),
            // A multi takes a zxid. A multiRead of writes has an empty list beside its error.
            (_, Err(_)) if header.op == OpCode::MULTI => {
                Step::Write(asked, Change::Refused(ErrorCode::MARSHALLING_ERROR))
            }
            (_, Err(error)) => {
                let response = match error.fault {
                    DecodeFault::WriteInMultiRead => Response::Multi(Vec::new()),
                    _ => Response::Empty,
                };
                Step::Refused(header.xid, ErrorCode::MARSHALLING_ERROR, response)
            }
        };
        self.push(id, step);
    }

    /// Adds an identity at once, whatever the connection waits for.
    fn authenticate(&mut self, id: ConnectionId, asked: &Asked, auth: &Auth) {
        let scheme = auth.scheme.as_deref().unwrap_or_default();
        let credentials = auth.auth.as_deref().unwrap_or_default();
        let xid = asked.header.xid;
        if scheme == "ensemble" && self.law.settings.ensemble_scheme {
            return match check_ensemble_name(credentials, &self.law.settings) {
                EnsembleName::Own | EnsembleName::Unchecked => {
                    self.reply_at(id, xid, Ok(Response::Empty));
                }
                EnsembleName::Other => self.close(id),
            };
        }
        match authenticate(scheme, credentials, &asked.identities, &self.law.settings) {
            Ok(identities) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.identities = identities;
                }
                self.reply_at(id, xid, Ok(Response::Empty));
            }
            Err(_) => {
                self.reply_at(id, xid, Err(ErrorCode::AUTH_FAILED));
                self.close(id);
            }
        }
    }

    /// Replies with zxid 0, as ZooKeeper does to what does not reach the state.
    fn reply_at(&mut self, id: ConnectionId, xid: Xid, answer: Result<Response, ErrorCode>) {
        self.reply_with(id, Zxid::ZERO, xid, answer);
    }
}

fn refused(xid: Xid, code: ErrorCode) -> Step {
    Step::Refused(xid, code, Response::Empty)
}

fn step(asked: Asked, request: Request) -> Step {
    match request {
        // Since 3.9.3 a check is valid in a multi only.
        Request::Write(Write::Op(MultiOp::Check(_))) => Step::Local(asked, request),
        Request::Write(write) => Step::Write(asked, Change::Write(write)),
        Request::Read(sync @ Read::Sync(_)) => Step::Sync(asked, sync),
        request => Step::Local(asked, request),
    }
}

/// What a member answers.
impl State {
    /// Answers every request that waits for nothing more.
    pub(super) fn answer_all(&mut self, id: ConnectionId) {
        while let Some(step) = self.next_due(id) {
            match step {
                Step::Local(asked, request) => self.answer(id, &asked, request),
                Step::Reached(_, asked, read) => self.answer(id, &asked, Request::Read(read)),
                Step::Refused(xid, code, response) => self.reply_both(id, xid, code, response),
                step => unreachable!("{step:?} waits for the leader"),
            }
        }
    }

    /// The first request, if the member can answer it now.
    fn next_due(&mut self, id: ConnectionId) -> Option<Step> {
        let connection = self.connections.get_mut(&id)?;
        let (member, is_read_only) = (connection.member, connection.is_read_only);
        if is_read_only {
            return connection.steps.pop_front().map(without_leader);
        }
        let is_due = match connection.steps.front()? {
            Step::Local(..) | Step::Refused(..) => {
                let waits = |(session, place): &(_, _)| {
                    Some(*session) == connection.session && *place > self.members[member].applied
                };
                let mut left_behind = self.members[member].left_behind.iter();
                connection.session.is_some() && !left_behind.any(waits)
            }
            Step::Reached(place, ..) => {
                let place = *place;
                let hears = self.believes_to_lead(member) || self.hears_leader(member);
                hears && place <= self.members[member].applied
            }
            _ => false,
        };
        is_due.then(|| self.connections.get_mut(&id)?.steps.pop_front())?
    }

    /// Answers from the state of the member.
    fn answer(&mut self, id: ConnectionId, asked: &Asked, request: Request) {
        let xid = asked.header.xid;
        let Some(requester) = self.requester(id, asked) else { return };
        let Some(connection) = self.connections.get(&id) else { return };
        let member = connection.member;
        // A leader checks the session before each request of its own clients, a follower does not
        // (`PrepRequestProcessor`).
        if self.leader == Some(member) && !matches!(request, Request::Unknown { .. }) {
            let session = requester.session;
            if !self.tracker.is_alive(session) {
                return self.reply(id, xid, Err(ErrorCode::SESSION_EXPIRED));
            }
            if !self.tracker.is_owner(session, id) {
                return self.close(id);
            }
        }
        let core = &mut self.members[member].core;
        if let Some(body) = core.reply_before_null_path(&request, &requester) {
            return self.reply_both(id, xid, ErrorCode::MARSHALLING_ERROR, body);
        }
        match request {
            Request::Read(read) => {
                let answer = core.read(&read, &requester);
                self.reply(id, xid, answer);
            }
            Request::Watch(watch) => {
                let watched = core.watch(&watch, &requester);
                for event in &watched.events {
                    let frame = encode_event(Zxid::NONE, event);
                    self.give(id, Message::Event(frame));
                }
                self.reply(id, xid, watched.reply);
            }
            Request::Session(SessionRequest::Ping) => {
                self.reply(id, Xid::PING, Ok(Response::Empty));
            }
            Request::Session(SessionRequest::WhoAmI) => {
                let infos = requester.identities.client_infos();
                self.reply(id, xid, Ok(Response::WhoAmI(infos)));
            }
            Request::Write(Write::CloseSession) => {
                self.reply(id, xid, Ok(Response::Empty));
                self.members_forget(id, requester.session);
                self.close(id);
            }
            // ZooKeeper ends the connection with an unknown operation.
            Request::Write(_) | Request::Session(_) | Request::Unknown { .. } => {
                self.reply_with(id, Zxid::NONE, xid, Err(ErrorCode::UNIMPLEMENTED));
                self.close(id);
            }
        }
    }

    fn members_forget(&mut self, id: ConnectionId, session: SessionId) {
        if let Some(connection) = self.connections.get(&id) {
            self.members[connection.member].local_sessions.remove(&session);
        }
    }

    pub(super) fn requester(&self, id: ConnectionId, asked: &Asked) -> Option<Requester> {
        let session = self.connections.get(&id)?.session?;
        let (xid, identities) = (asked.header.xid, asked.identities.clone());
        Some(Requester { session, connection: id, xid, identities })
    }

    pub(super) fn reply(
        &mut self,
        id: ConnectionId,
        xid: Xid,
        answer: Result<Response, ErrorCode>,
    ) {
        let Some(connection) = self.connections.get(&id) else { return };
        let zxid = self.members[connection.member].core.last_zxid();
        self.reply_with(id, zxid, xid, answer);
    }

    fn reply_with(
        &mut self,
        id: ConnectionId,
        zxid: Zxid,
        xid: Xid,
        answer: Result<Response, ErrorCode>,
    ) {
        let (err, response) = match answer {
            Ok(response) => (ErrorCode::OK, response),
            Err(err) => (err, Response::Empty),
        };
        self.give(id, Message::Reply(ReplyHeader { xid, zxid, err }, Box::new(response)));
    }

    /// Replies with an error and a body.
    fn reply_both(&mut self, id: ConnectionId, xid: Xid, err: ErrorCode, response: Response) {
        let Some(connection) = self.connections.get(&id) else { return };
        let zxid = self.members[connection.member].core.last_zxid();
        self.give(id, Message::Reply(ReplyHeader { xid, zxid, err }, Box::new(response)));
    }
}

/// What a member without a leader does with a request: it changes nothing
/// (`ReadOnlyRequestProcessor`).
fn without_leader(step: Step) -> Step {
    match step {
        Step::Write(asked, Change::Write(Write::CloseSession)) => {
            Step::Local(asked, Request::Write(Write::CloseSession))
        }
        Step::Write(asked, _) | Step::Sync(asked, _) => {
            refused(asked.header.xid, ErrorCode::NOT_READ_ONLY)
        }
        step => step,
    }
}
