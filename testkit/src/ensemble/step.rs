//! What a connection waits for. A member handles the requests of a connection in order: a request
//! behind a write waits until the member has applied the write.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use zoolet_core::{ConnectionId, Requester};
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, Encode, ErrorCode, MultiOp, Password, Read, ReplyHeader,
    Request, RequestHeader, Response, SessionId, SessionRequest, Write, Xid, Zxid, decode_all,
    decode_request, encode_event, encode_reply,
};

use super::state::State;

/// The next step of a request.
#[derive(Debug)]
pub(super) enum Step {
    /// The member answers it from its own state.
    Local(RequestHeader, Request),
    /// The leader commits it.
    Write(RequestHeader, Write),
    /// The leader tells the last committed zxid.
    Sync(RequestHeader, Read),
    /// The leader creates a session.
    Begin(ConnectRequest),
    /// The leader tells whether the session is alive.
    Resume(ConnectRequest),
    /// The member answers when it has applied the transaction at this index.
    Committed(usize, Answer),
    /// The member answers when it has applied this many transactions.
    Reached(usize, RequestHeader, Read),
}

/// The reply to a committed request.
#[derive(Debug)]
pub(super) enum Answer {
    Reply(Xid),
    Handshake(ConnectResponse),
}

/// One connection of a client to a member.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) member: usize,
    pub(super) session: Option<SessionId>,
    pub(super) steps: VecDeque<Step>,
    pub(super) outgoing: VecDeque<Bytes>,
    pub(super) is_closed: bool,
    pub(super) waker: Option<Waker>,
}

impl Connection {
    pub(super) fn new(member: usize) -> Self {
        Self {
            member,
            session: None,
            steps: VecDeque::new(),
            outgoing: VecDeque::new(),
            is_closed: false,
            waker: None,
        }
    }
}

impl Step {
    /// What the leader decides with.
    pub(super) fn is_for_leader(&self) -> bool {
        matches!(self, Self::Write(..) | Self::Sync(..) | Self::Begin(_) | Self::Resume(_))
    }
}

/// The step of a request; none if it cannot be decoded.
pub(super) fn step(frame: &Bytes, is_first: bool) -> Option<Step> {
    if is_first {
        let request: ConnectRequest = decode_all(frame).ok()?;
        let is_new = request.session.is_none();
        return Some(if is_new { Step::Begin(request) } else { Step::Resume(request) });
    }
    let (header, request) = decode_request(frame).ok()?;
    Some(match request.ok()? {
        Request::Write(Write::Op(MultiOp::Check(_))) => return None,
        Request::Write(write) => Step::Write(header, write),
        Request::Read(sync @ Read::Sync(_)) => Step::Sync(header, sync),
        request => Step::Local(header, request),
    })
}

pub(super) fn accepted(
    session: SessionId,
    request: &ConnectRequest,
    timeout_ms: i32,
) -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout_ms,
        session,
        password: Password::of(session),
        read_only: request.read_only.map(|_| false),
    }
}

pub(super) fn handshake(response: &ConnectResponse) -> Bytes {
    let mut frame = BytesMut::new();
    response.encode(&mut frame);
    frame.freeze()
}

impl State {
    /// Answers every request that waits for nothing more.
    pub(super) fn answer_all(&mut self, id: ConnectionId) {
        while let Some((header, request)) = self.next_due(id) {
            self.answer(id, &header, request);
        }
    }

    /// The first request, if the member can answer it now.
    fn next_due(&mut self, id: ConnectionId) -> Option<(RequestHeader, Request)> {
        let connection = self.connections.get(&id)?;
        let member = connection.member;
        let is_due = match connection.steps.front()? {
            Step::Local(..) => connection.session.is_some(),
            Step::Reached(place, ..) => {
                let hears = self.believes_to_lead(member) || self.hears_leader(member);
                hears && *place <= self.members[member].applied
            }
            _ => false,
        };
        if !is_due {
            return None;
        }
        match self.connections.get_mut(&id)?.steps.pop_front()? {
            Step::Local(header, request) => Some((header, request)),
            Step::Reached(_, header, read) => Some((header, Request::Read(read))),
            _ => None,
        }
    }

    /// Answers from the state of the member.
    fn answer(&mut self, id: ConnectionId, header: &RequestHeader, request: Request) {
        let xid = header.xid;
        let Some(requester) = self.requester(id, xid) else { return };
        let Some(connection) = self.connections.get(&id) else { return };
        let core = &mut self.members[connection.member].core;
        match request {
            Request::Read(read) => {
                let answer = core.read(&read, &requester);
                self.reply(id, xid, answer);
            }
            Request::Watch(watch) => {
                let watched = core.watch(&watch, &requester);
                for event in &watched.events {
                    self.give(id, encode_event(Zxid::NONE, event));
                }
                self.reply(id, xid, watched.reply);
            }
            Request::Session(SessionRequest::Ping) => {
                self.reply(id, Xid::PING, Ok(Response::Empty))
            }
            _ => {
                self.reply(id, xid, Err(ErrorCode::UNIMPLEMENTED));
                self.close(id);
            }
        }
    }

    pub(super) fn requester(&self, id: ConnectionId, xid: Xid) -> Option<Requester> {
        let session = self.connections.get(&id)?.session?;
        Some(Requester::new(session, id, xid))
    }

    pub(super) fn reply(
        &mut self,
        id: ConnectionId,
        xid: Xid,
        answer: Result<Response, ErrorCode>,
    ) {
        let Some(connection) = self.connections.get(&id) else { return };
        let zxid = self.members[connection.member].core.last_zxid();
        let (err, response) = match answer {
            Ok(response) => (ErrorCode::OK, response),
            Err(err) => (err, Response::Empty),
        };
        let mut frame = BytesMut::new();
        encode_reply(&ReplyHeader { xid, zxid, err }, &response, &mut frame);
        self.give(id, frame.freeze());
    }

    pub(super) fn give(&mut self, id: ConnectionId, frame: Bytes) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.is_closed
        {
            connection.outgoing.push_back(frame);
            self.wakers.extend(connection.waker.take());
        }
    }

    /// The member closes a connection, and drops its waiting requests.
    pub(super) fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.is_closed = true;
        connection.steps.clear();
        self.wakers.extend(connection.waker.take());
        self.members[connection.member].core.remove_watches_of(id, usize::MAX);
    }
}
