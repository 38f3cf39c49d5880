//! One client's conversation: a machine that is given frames and fills an outbox.
//!
//! Whatever carries the frames, a socket or a call in the same process, uses the same lines.
//! Requests are handled one after the other, in the order of [`Connection::handle_frame`], and
//! answered when it returns, as far as they are durable.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_core::{Identities, Requester, authenticate};
use zoolet_protocol::{
    Auth, ConnectRequest, ConnectResponse, DecodeError, DecodeFault, ErrorCode, MultiOp, OpCode,
    Password, Read, ReplyHeader, Request, RequestHeader, Response, Session, Write, Xid, Zxid,
    decode_all, decode_request,
};

use super::hooks::Closed;
use super::lock::{Engine, SessionOver};
use super::message::Message;
use super::outbox::{Outbox, Outgoing};
use super::registry::{Full, Liveness, Peer};
use super::stats::{ConnectionStats, LastRequest};
use crate::config::EnforceAuth;

/// One client's conversation.
#[derive(Debug)]
pub(crate) struct Connection {
    engine: Arc<Engine>,
    pub(crate) peer: Arc<Peer>,
    /// The session, once there is one. Held while a frame is handled, so that frames which
    /// come from several threads are handled in some order, one by one.
    session: Mutex<Option<Arc<Liveness>>>,
}

/// Why a conversation cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Hangup {
    #[error("the first frame is no handshake: {0}")]
    Handshake(DecodeError),
    #[error("a frame is too short for a request: {0}")]
    Header(DecodeError),
    #[error("an auth or sasl request cannot be read: {0}")]
    Unreadable(DecodeError),
    #[error(
        "the client has seen zxid {seen}, the server has only reached {reached}; \
         the client must try another server"
    )]
    Ahead { seen: Zxid, reached: Zxid },
    #[error("unknown operation {0:?}")]
    UnknownOperation(OpCode),
    #[error("authentication failed: {0}")]
    AuthFailed(String),
    #[error("the client must authenticate first; enforce.auth.schemes says how")]
    AuthRequired,
    #[error("the session is over")]
    SessionOver,
}

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// It carries the request out.
    CarryOut,
    /// It answers with this error code, and does nothing of what the request asks.
    Refuse(ErrorCode),
}

impl Connection {
    /// A connection that was just made, if the limits allow it.
    pub(crate) fn open(engine: Arc<Engine>, address: Option<SocketAddr>) -> Result<Self, Full> {
        let stats = ConnectionStats::new(Arc::clone(&engine.stats), engine.clock.wall_ms());
        let id = engine.registry.next_connection();
        let outbox = Outbox::new(id, engine.durable(), engine.hooks.clone());
        let peer = Arc::new(Peer::new(id, address, outbox, stats));
        let config = &engine.config;
        engine
            .registry
            .admit(&peer, config.max_client_connections, config.max_connections)
            .inspect_err(|_| engine.stats.connections_rejected.add(1))?;
        engine.stats.connections_accepted.add(1);
        let connection = Self { engine, peer, session: Mutex::new(None) };
        // A shutdown that began before the connection was listed did not see it.
        if connection.engine.is_shut_down() {
            connection.peer.outbox.finish();
        }
        Ok(connection)
    }

    /// Whether the handshake is done.
    pub(crate) fn is_established(&self) -> bool {
        self.session.lock().is_some()
    }

    /// The client takes what was sent to it, and is not read from until it has taken more: that is
    /// how it is heard of.
    pub(crate) fn hear(&self) {
        if let Some(liveness) = &*self.session.lock() {
            liveness.touch(self.engine.clock.now_ms());
        }
    }

    /// Whether the session was not heard of in time.
    pub(crate) fn is_due(&self) -> bool {
        let tick_ms = u64::from(self.engine.config.tick_time_ms);
        let now_ms = self.engine.clock.now_ms();
        self.session.lock().as_ref().is_some_and(|live| live.expires_ms(tick_ms) <= now_ms)
    }

    /// All that the client has sent was read: its session ends if that was not in time.
    pub(crate) fn expire_if_due(&self) {
        let liveness = self.session.lock().clone();
        if let Some(liveness) = liveness
            && !self.engine.is_frozen()
        {
            self.engine.expire_if_due(&liveness, self.engine.clock.now_ms());
        }
    }

    /// Takes the payload of a frame that has come in: the server handles it, or hands it to its hooks.
    ///
    /// After [`Closed`] the conversation is over: what waits in the outbox still leaves where ZooKeeper
    /// sends it.
    #[inline]
    pub(crate) fn receive(self: &Arc<Self>, frame: Bytes) -> Result<(), Closed> {
        match &self.engine.hooks {
            None => self.handle(frame, Treatment::CarryOut),
            Some(hooks) => hooks.receive(Arc::<Self>::clone(self), frame),
        }
    }

    /// Handles the payload of one frame.
    pub(crate) fn handle(&self, frame: Bytes, treatment: Treatment) -> Result<(), Closed> {
        if !self.peer.outbox.is_open() {
            return Err(Closed);
        }
        self.peer.stats.frame_received(frame.len());
        let mut session = self.session.lock();
        let handled = match &*session {
            Some(liveness) => self.handle_request(liveness, &frame, treatment),
            None => self.shake_hands(&frame).map(|liveness| *session = liveness),
        };
        handled.map_err(|hangup| {
            tracing::debug!(peer = self.peer.address_text(), "connection closed: {hangup}");
            match hangup {
                Hangup::Handshake(_) | Hangup::Header(_) | Hangup::Ahead { .. } => {
                    self.peer.outbox.cut();
                }
                _ => self.peer.outbox.finish(),
            }
            Closed
        })
    }

    /// The handshake: a new session, or one that lives. Returns nothing if it is refused.
    fn shake_hands(&self, frame: &Bytes) -> Result<Option<Arc<Liveness>>, Hangup> {
        let request: ConnectRequest = decode_all(frame).map_err(Hangup::Handshake)?;
        let reached = self.engine.last_zxid();
        if request.last_zxid_seen > reached {
            let seen = request.last_zxid_seen;
            tracing::info!(peer = self.peer.address_text(), %seen, %reached, "client is ahead");
            return Err(Hangup::Ahead { seen, reached });
        }
        let timeout_ms = self.engine.negotiate_ms(request.timeout_ms);
        let read_only = request.read_only.map(|_| false);
        let welcome = |session| {
            self.peer.stats.established(session, timeout_ms);
            Message::Connected(ConnectResponse {
                protocol_version: 0,
                timeout_ms,
                session,
                password: Password::of(session),
                read_only,
            })
        };
        if request.session.is_none() {
            let header = RequestHeader { xid: Xid(0), op: OpCode::CREATE_SESSION };
            let received_ms = self.engine.clock.now_ms();
            self.engine.stats.count(header.op);
            let liveness = self.engine.begin_session(&self.peer, timeout_ms, welcome);
            self.count_answer(header, self.engine.last_zxid(), received_ms);
            return Ok(Some(liveness));
        }
        let is_proven = request.password == Password::of(request.session);
        let liveness =
            self.engine.take_up_session(request.session, &self.peer, is_proven, timeout_ms);
        let message = match &liveness {
            Some(liveness) => welcome(liveness.session),
            None => Message::Connected(ConnectResponse::refused(read_only)),
        };
        // That a session has ended may not be durable yet.
        self.send(self.engine.last_zxid(), message);
        if liveness.is_none() {
            self.peer.outbox.finish();
        }
        Ok(liveness)
    }

    fn handle_request(
        &self,
        liveness: &Arc<Liveness>,
        frame: &Bytes,
        treatment: Treatment,
    ) -> Result<(), Hangup> {
        let (header, request) = decode_request(frame).map_err(Hangup::Header)?;
        let received_ms = self.engine.clock.now_ms();
        self.engine.stats.count(header.op);
        let is_auth = matches!(header.op, OpCode::AUTH | OpCode::SASL);
        let identities = self.peer.identities();
        if !is_auth {
            self.check_enforced_auth(header, &identities)?;
            liveness.touch(received_ms);
        }
        let requester = Requester {
            session: liveness.session,
            connection: self.peer.id,
            xid: header.xid,
            identities,
        };
        let outcome = match (treatment, request) {
            (Treatment::Refuse(code), Ok(request)) => self.refuse(&requester, &request, code),
            (Treatment::CarryOut, Ok(request)) => self.carry_out(&requester, request)?,
            // ZooKeeper reads these before its queue of requests, and closes the connection.
            (_, Err(error)) if is_auth => return Err(Hangup::Unreadable(error)),
            (_, Err(error)) => self.refuse_unreadable(&requester, header, error),
        };
        let Ok(zxid) = outcome else {
            self.engine.stats.stale_requests_dropped.add(1);
            return Err(Hangup::SessionOver);
        };
        if !is_auth {
            self.count_answer(header, zxid, received_ms);
        }
        Ok(())
    }

    /// Answers a request and returns the zxid of the answer.
    fn carry_out(
        &self,
        requester: &Requester,
        request: Request,
    ) -> Result<Result<Zxid, SessionOver>, Hangup> {
        let engine = &self.engine;
        if let Request::Write(Write::Multi(_)) | Request::Read(Read::MultiRead(_)) = &request
            && let Some(body) = engine.look(|core| core.stumble(&request, requester))
        {
            let zxid = engine.last_zxid();
            self.reply(requester.xid, zxid, ErrorCode::MARSHALLING_ERROR, body);
            return Ok(Ok(zxid));
        }
        Ok(match request {
            Request::Read(read) => engine.read(&self.peer, requester, &read),
            Request::Watch(watch) => engine.watch(&self.peer, requester, &watch),
            // Since 3.9.3 a check stands in a multi only.
            Request::Write(Write::Op(MultiOp::Check(_))) => {
                return Err(self.unknown(requester.xid, OpCode::CHECK));
            }
            Request::Write(write) => engine.write(&self.peer, requester, &write),
            Request::Session(session) => self.about_connection(requester, session)?,
            Request::Unknown { op, .. } => return Err(self.unknown(requester.xid, op)),
        })
    }

    fn about_connection(
        &self,
        requester: &Requester,
        request: Session,
    ) -> Result<Result<Zxid, SessionOver>, Hangup> {
        match request {
            Session::Ping => {
                let zxid = self.engine.last_zxid();
                // The xid of a ping is what it is, whatever the client sent.
                self.reply(Xid::PING, zxid, ErrorCode::OK, Response::Empty);
                Ok(Ok(zxid))
            }
            Session::WhoAmI => {
                let zxid = self.engine.last_zxid();
                let infos = Response::WhoAmI(requester.identities.client_infos());
                self.reply(requester.xid, zxid, ErrorCode::OK, infos);
                Ok(Ok(zxid))
            }
            Session::Auth(auth) => {
                self.authenticate(requester, &auth)?;
                Ok(Ok(Zxid::ZERO))
            }
            // The original looks at the length of the token before anything else.
            Session::Sasl(None) => Err(Hangup::AuthFailed("a null token".to_owned())),
            Session::Sasl(Some(_)) => {
                // Without a SASL configuration a null token ends the exchange well.
                self.reply(requester.xid, Zxid::ZERO, ErrorCode::OK, Response::Token(None));
                Ok(Ok(Zxid::ZERO))
            }
        }
    }

    fn authenticate(&self, requester: &Requester, auth: &Auth) -> Result<(), Hangup> {
        let scheme = auth.scheme.as_deref().unwrap_or_default();
        let credentials = auth.auth.as_deref().unwrap_or_default();
        let settings = &self.engine.config.settings;
        match authenticate(scheme, credentials, &requester.identities, settings) {
            Ok(identities) => {
                self.peer.identify(identities);
                self.reply(requester.xid, Zxid::ZERO, ErrorCode::OK, Response::Empty);
                Ok(())
            }
            Err(refused) => {
                self.engine.stats.auth_failed.add(1);
                tracing::warn!(peer = self.peer.address_text(), "authentication failed: {refused}");
                self.reply(requester.xid, Zxid::ZERO, ErrorCode::AUTH_FAILED, Response::Empty);
                Err(Hangup::AuthFailed(refused.to_string()))
            }
        }
    }

    /// With enforced authentication nothing is answered before it, pings included.
    fn check_enforced_auth(
        &self,
        header: RequestHeader,
        identities: &Identities,
    ) -> Result<(), Hangup> {
        let EnforceAuth::Schemes(schemes) = &self.engine.config.enforce_auth else {
            return Ok(());
        };
        if schemes.iter().any(|scheme| identities.have_scheme(scheme)) {
            return Ok(());
        }
        let code = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
        self.reply(header.xid, Zxid::ZERO, code, Response::Empty);
        Err(Hangup::AuthRequired)
    }

    /// Answers an operation that is not known; the connection ends with it.
    fn unknown(&self, xid: Xid, op: OpCode) -> Hangup {
        self.reply(xid, Zxid::NONE, ErrorCode::UNIMPLEMENTED, Response::Empty);
        Hangup::UnknownOperation(op)
    }

    /// Answers a request with an error code; a write takes a zxid.
    fn refuse(
        &self,
        requester: &Requester,
        request: &Request,
        code: ErrorCode,
    ) -> Result<Zxid, SessionOver> {
        if matches!(request, Request::Write(_)) {
            return self.engine.refuse(&self.peer, requester, code);
        }
        let zxid = self.engine.last_zxid();
        self.reply(requester.xid, zxid, code, Response::Empty);
        Ok(zxid)
    }

    /// Answers a body that cannot be decoded. That of a multi takes a zxid; that of a multiRead
    /// of writes has an empty list of results beside the error.
    fn refuse_unreadable(
        &self,
        requester: &Requester,
        header: RequestHeader,
        error: DecodeError,
    ) -> Result<Zxid, SessionOver> {
        tracing::debug!(
            peer = self.peer.address_text(),
            operation = %header.op,
            "request cannot be read: {error}"
        );
        let code = ErrorCode::MARSHALLING_ERROR;
        if header.op == OpCode::MULTI {
            return self.engine.refuse(&self.peer, requester, code);
        }
        let zxid = self.engine.last_zxid();
        let response = match error.fault {
            DecodeFault::WriteInMultiRead => Response::Multi(Vec::new()),
            _ => Response::Empty,
        };
        self.reply(header.xid, zxid, code, response);
        Ok(zxid)
    }

    fn reply(&self, xid: Xid, zxid: Zxid, err: ErrorCode, response: Response) {
        self.send(zxid, Message::Reply(ReplyHeader { xid, zxid, err }, response));
    }

    /// Sends what no change depends on, outside the lock.
    fn send(&self, after: Zxid, message: Message) {
        self.peer.stats.message_sent();
        if let Some(waker) = self.peer.push(Outgoing { after, message }) {
            waker.wake();
        }
    }

    fn count_answer(&self, header: RequestHeader, zxid: Zxid, received_ms: u64) {
        let answered_ms = self.engine.clock.now_ms();
        let last = LastRequest {
            op: header.op,
            xid: header.xid,
            zxid,
            answered_ms,
            latency_ms: answered_ms.saturating_sub(received_ms),
        };
        self.peer.stats.answered(&last);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.engine.stats.connections_dropped.add(1);
        self.engine.forget(&self.peer);
    }
}
