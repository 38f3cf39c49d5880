//! One connection to the state machine: from bytes to replies.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use bytes::{Bytes, BytesMut};
use zoolet_core::{
    ConnectionId, EnsembleName, Identities, Requester, authenticate, check_ensemble_name,
};
use zoolet_protocol::{
    Auth, ConnectRequest, ConnectResponse, DecodeFault, Encode, ErrorCode, FrameCodec, MultiOp,
    OpCode, Password, ReplyHeader, Request, RequestHeader, Response, SessionId, SessionRequest,
    Write, Xid, Zxid, decode_all, decode_request, encode_event, encode_reply,
};

use super::{CoreServer, SESSION_TIMEOUTS_MS};

/// The state of a connection.
pub(super) struct Connection {
    stream: BytesMut,
    pub(super) session: Option<SessionId>,
    pub(super) identities: Identities,
    pub(super) outgoing: VecDeque<Bytes>,
    pub(super) is_closed: bool,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            stream: BytesMut::new(),
            session: None,
            identities: Identities::of_address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            outgoing: VecDeque::new(),
            is_closed: false,
        }
    }

    pub(super) fn give(&mut self, frame: Bytes) {
        if !self.is_closed {
            self.outgoing.push_back(frame);
        }
    }
}

impl CoreServer {
    /// Receives bytes from a client, and handles the complete frames.
    pub(super) fn receive(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.stream.extend_from_slice(bytes);
        loop {
            let Some(connection) = self.connections.get_mut(&id).filter(|c| !c.is_closed) else {
                return;
            };
            match FrameCodec::default().next_frame(&mut connection.stream) {
                Ok(Some(frame)) if connection.session.is_none() => self.shake_hands(id, &frame),
                Ok(Some(frame)) => self.handle(id, &frame),
                Ok(None) => return,
                Err(_) => self.close(id),
            }
        }
    }

    fn shake_hands(&mut self, id: ConnectionId, frame: &Bytes) {
        let Ok(request) = decode_all::<ConnectRequest>(frame) else { return self.close(id) };
        if request.last_zxid_seen > self.core.last_zxid() {
            return self.close(id);
        }
        let (least, most) = SESSION_TIMEOUTS_MS;
        let timeout_ms = request.timeout_ms.clamp(least, most);
        let session = if request.session.is_none() {
            self.new_session(timeout_ms)
        } else {
            // As in ZooKeeper, the session's other connection is closed before the password is
            // checked.
            self.close_connection_of(request.session);
            request.session
        };
        let password = Password::of(session);
        let is_own = request.session.is_none() || request.password == password;
        let is_alive = is_own && self.core.has_session(session);
        let response = if is_alive {
            let read_only = request.read_only.map(|_| false);
            ConnectResponse { protocol_version: 0, timeout_ms, session, password, read_only }
        } else {
            ConnectResponse::refused(request.read_only.map(|_| false))
        };
        let mut frame = BytesMut::new();
        response.encode(&mut frame);
        self.give(id, frame.freeze());
        match self.connections.get_mut(&id) {
            Some(connection) if is_alive => connection.session = Some(session),
            _ => self.close(id),
        }
    }

    fn handle(&mut self, id: ConnectionId, frame: &Bytes) {
        let Ok((header, request)) = decode_request(frame) else { return self.close(id) };
        let Some(connection) = self.connections.get(&id) else { return };
        let session = connection.session.unwrap_or_default();
        if !self.core.has_session(session) {
            return;
        }
        let requester = Requester {
            session,
            connection: id,
            xid: header.xid,
            identities: connection.identities.clone(),
        };
        let is_known = |scheme: &&str| requester.identities.have_scheme(scheme);
        if !matches!(header.op, OpCode::AUTH | OpCode::SASL)
            && !self.enforced_scheme.as_ref().is_none_or(is_known)
        {
            let code = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
            self.send(id, header.xid, Zxid::ZERO, code, &Response::Empty);
            return self.close(id);
        }
        match request {
            Ok(request) => self.answer(id, header, request, &requester),
            // ZooKeeper decodes these two before it queues requests, and closes the connection on
            // an error.
            Err(_) if matches!(header.op, OpCode::AUTH | OpCode::SASL) => self.close(id),
            Err(error) => {
                if header.op == OpCode::MULTI {
                    let txn =
                        self.core.refuse(&requester, ErrorCode::MARSHALLING_ERROR, self.now_ms);
                    self.apply(&txn);
                }
                let body = match error.fault {
                    DecodeFault::WriteInMultiRead => Response::Multi(Vec::new()),
                    _ => Response::Empty,
                };
                self.reply(id, header.xid, Err((ErrorCode::MARSHALLING_ERROR, body)));
            }
        }
    }

    fn answer(
        &mut self,
        id: ConnectionId,
        header: RequestHeader,
        request: Request,
        requester: &Requester,
    ) {
        let xid = header.xid;
        let bare = |err| (err, Response::Empty);
        if let Some(body) = self.core.reply_before_null_path(&request, requester) {
            return self.reply(id, xid, Err((ErrorCode::MARSHALLING_ERROR, body)));
        }
        match request {
            Request::Read(read) => {
                let answer = self.core.read(&read, requester).map_err(bare);
                self.reply(id, xid, answer);
            }
            Request::Watch(watch) => {
                let watched = self.core.watch(&watch, requester);
                for event in &watched.events {
                    self.give(id, encode_event(Zxid::NONE, event));
                }
                self.reply(id, xid, watched.reply.map_err(bare));
            }
            // `check` is known only in a multi, `createSession` only in logs.
            Request::Write(Write::Op(MultiOp::Check(_))) | Request::Unknown { .. } => {
                self.refuse_unknown(id, xid);
            }
            Request::Write(write) => {
                let txn = self.core.prepare(&write, requester, self.now_ms);
                let effects = self.apply(&txn);
                self.reply(id, xid, effects.reply.map_err(bare));
                if effects.ended.is_some() {
                    self.close(id);
                }
            }
            Request::Session(SessionRequest::Ping) => {
                self.reply(id, Xid::PING, Ok(Response::Empty))
            }
            Request::Session(SessionRequest::WhoAmI) => {
                self.reply(id, xid, Ok(Response::WhoAmI(requester.identities.client_infos())));
            }
            // ZooKeeper's `processSasl` throws on a null token.
            Request::Session(SessionRequest::Sasl(None)) => self.close(id),
            Request::Session(SessionRequest::Sasl(Some(_))) => {
                self.send(id, xid, Zxid::ZERO, ErrorCode::OK, &Response::Token(None));
            }
            Request::Session(SessionRequest::Auth(auth)) => self.authenticate(id, xid, &auth),
        }
    }

    fn refuse_unknown(&mut self, id: ConnectionId, xid: Xid) {
        self.send(id, xid, Zxid::NONE, ErrorCode::UNIMPLEMENTED, &Response::Empty);
        self.close(id);
    }

    fn authenticate(&mut self, id: ConnectionId, xid: Xid, auth: &Auth) {
        let scheme = auth.scheme.as_deref().unwrap_or_default();
        let credentials = auth.auth.as_deref().unwrap_or_default();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let settings = self.core.settings();
        if scheme == "ensemble" && settings.ensemble_scheme {
            return match check_ensemble_name(credentials, settings) {
                EnsembleName::Other => self.close(id),
                EnsembleName::Own | EnsembleName::Unchecked => {
                    self.send(id, xid, Zxid::ZERO, ErrorCode::OK, &Response::Empty);
                }
            };
        }
        match authenticate(scheme, credentials, &connection.identities, settings) {
            Ok(identities) => {
                connection.identities = identities;
                self.send(id, xid, Zxid::ZERO, ErrorCode::OK, &Response::Empty);
            }
            Err(_) => {
                self.send(id, xid, Zxid::ZERO, ErrorCode::AUTH_FAILED, &Response::Empty);
                self.close(id);
            }
        }
    }

    fn reply(
        &mut self,
        id: ConnectionId,
        xid: Xid,
        answer: Result<Response, (ErrorCode, Response)>,
    ) {
        let (err, response) = match answer {
            Ok(response) => (ErrorCode::OK, response),
            Err(refused) => refused,
        };
        self.send(id, xid, self.core.last_zxid(), err, &response);
    }

    fn send(&mut self, id: ConnectionId, xid: Xid, zxid: Zxid, err: ErrorCode, body: &Response) {
        let mut frame = BytesMut::new();
        encode_reply(&ReplyHeader { xid, zxid, err }, body, &mut frame);
        self.give(id, frame.freeze());
    }
}
