//! The server's end of one client's connection: it handles frames, and pushes messages to an
//! outbox.
//!
//! Each transport, TCP or in process, uses this code. Requests are handled one at a time, in the
//! order of the calls of [`Connection::receive`]. The reply is in the outbox when that returns,
//! unless hooks hold the frame back. It leaves as soon as the zxid that it depends on is durable.

mod authentication;
mod turn;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_core::Requester;
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, DecodeError, DecodeFault, ErrorCode, FrameError, MultiOp,
    OpCode, Password, Read, ReplyHeader, Request, RequestHeader, Response, SessionId,
    SessionRequest, Write, Xid, Zxid, decode_all, decode_request,
};

pub(crate) use self::turn::Turn;
use super::audit::Asked;
use super::hooks::Closed;
use super::lock::{Engine, SessionEnded};
use super::message::Message;
use super::outbox::{Outbox, Outgoing};
use super::registry::{Entrance, Full, Liveness, Peer};
use super::stats::{ConnectionStats, LastRequest, TurnCounts};
use super::throttle::token_bucket::{Refused, SessionKind};
use super::turn::SoFar;
use crate::sasl::Exchange;
use crate::session_key;

/// The server's end of one client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) engine: Arc<Engine>,
    pub(crate) peer: Arc<Peer>,
    /// Locked while a frame is handled, so that frames from several threads are handled one at a
    /// time.
    attached: Mutex<Option<Attached>>,
    /// The exchange of SASL tokens, if the client has begun one.
    sasl: Mutex<Option<Box<dyn Exchange>>>,
}

/// What a connection is attached to, after the handshake.
#[derive(Debug)]
struct Attached {
    liveness: Arc<Liveness>,
    /// Who asks: kept from request to request.
    requester: Requester,
    so_far: SoFar,
}

/// Why the server ends a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Hangup {
    #[error("the first frame is not a handshake: {0}")]
    Handshake(DecodeError),
    #[error("a frame is too short for a request: {0}")]
    Header(DecodeError),
    #[error("an auth or sasl request cannot be decoded: {0}")]
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
    #[error("the client means another ensemble; ensembleAuthName has the names of this one")]
    OtherEnsemble,
    #[error("the client must authenticate first; enforce.auth.schemes says how")]
    AuthRequired,
    #[error("the session has ended")]
    SessionEnded,
    #[error(transparent)]
    Refused(Refused),
}

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// It carries the request out.
    CarryOut,
    /// It answers with this error code, and does nothing of what the request asks.
    Refuse(ErrorCode),
    /// It answers with `THROTTLEDOP`, for it has no time for the request. Pings, authentication and
    /// the end of the session are carried out.
    Throttle,
}

impl Connection {
    /// Opens a connection, if the limits allow it.
    pub(crate) fn open(engine: Arc<Engine>, entrance: Entrance) -> Result<Self, Full> {
        let stats = ConnectionStats::new(Arc::clone(&engine.stats), engine.clock.wall_ms());
        let id = engine.registry.next_connection();
        let outbox = Outbox::new(id, engine.durable(), engine.hooks.clone());
        let peer = Arc::new(Peer::new(id, entrance, outbox, stats));
        let config = &engine.config;
        engine
            .registry
            .admit(&peer, config.max_client_connections, config.max_connections)
            .inspect_err(|_| engine.stats.connections_rejected.add(1))?;
        let (attached, sasl) = (Mutex::new(None), Mutex::new(None));
        let connection = Self { engine, peer, attached, sasl };
        // A shutdown that began before the connection was listed did not see it.
        if connection.engine.is_shut_down() {
            connection.peer.outbox.finish();
        }
        Ok(connection)
    }

    /// Whether the handshake is done.
    pub(crate) fn is_established(&self) -> bool {
        self.attached.lock().is_some()
    }

    /// Extends the session as a request does. The server reads no requests of a client for which
    /// too much waits, so the client extends its session by reading.
    pub(crate) fn extend_session(&self) {
        if let Some(attached) = &*self.attached.lock() {
            attached.liveness.touch(self.engine.clock.now_ms());
        }
    }

    /// Whether the session's timeout has passed.
    pub(crate) fn is_due(&self) -> bool {
        let tick_ms = u64::from(self.engine.config.tick_time_ms);
        let now_ms = self.engine.clock.now_ms();
        let attached = self.attached.lock();
        attached.as_ref().is_some_and(|attached| attached.liveness.expires_ms(tick_ms) <= now_ms)
    }

    /// Expires the session if its timeout has passed. The caller has read all that the client has
    /// sent.
    pub(crate) fn expire_if_due(&self) {
        let liveness = self.attached.lock().as_ref().map(|attached| Arc::clone(&attached.liveness));
        if let Some(liveness) = liveness
            && !self.engine.is_frozen()
        {
            self.engine.expire_if_due(&liveness, self.engine.clock.now_ms());
        }
    }

    /// Handles the payload of a frame that has come in, or gives it to the hooks.
    ///
    /// After [`Closed`] the connection ends; messages in the outbox still leave where ZooKeeper
    /// sends them.
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
        self.engine.stats.frame_received(frame.len());
        let mut attached = self.attached.lock();
        self.peer.stats.received.add(1);
        let received_ms = self.engine.clock.now_ms();
        let handled = self.handle_locked(&mut attached, &frame, treatment, received_ms);
        if let Some(attached) = &mut *attached {
            attached.so_far.counts.tell(&self.peer.stats);
        }
        handled.map(drop)
    }

    /// Handles the payload of a frame that has come in at this time, in milliseconds of the server's
    /// clock. Returns when it was handled.
    fn handle_locked(
        &self,
        attached: &mut Option<Attached>,
        frame: &Bytes,
        treatment: Treatment,
        received_ms: u64,
    ) -> Result<u64, Closed> {
        let handled = match attached {
            Some(attached) => self.handle_request(attached, frame, treatment, received_ms),
            None => self.handle_handshake(frame).map(|liveness| {
                *attached = liveness.map(|liveness| self.attach(liveness));
                self.engine.clock.now_ms()
            }),
        };
        handled.map_err(|hangup| {
            tracing::debug!(
                address = self.peer.address_text(),
                session = %self.peer.stats.session(),
                cause = %hangup,
                "connection closed"
            );
            match hangup {
                Hangup::Handshake(_)
                | Hangup::Ahead { .. }
                | Hangup::Refused(_)
                | Hangup::OtherEnsemble => {
                    self.peer.outbox.cut();
                }
                _ => self.peer.outbox.finish(),
            }
            Closed
        })
    }

    /// Ends the connection because of a frame that is none. Replies to earlier frames still leave.
    pub(crate) fn refuse_frame(&self, error: &FrameError) {
        self.engine.warnings.frame_refused(&self.peer, self.engine.clock.now_ms(), error);
        self.peer.outbox.finish();
    }

    /// Creates a session or re-attaches the client to a live one. Returns `None` if it refuses the
    /// handshake.
    fn handle_handshake(&self, frame: &Bytes) -> Result<Option<Arc<Liveness>>, Hangup> {
        let request: ConnectRequest = decode_all(frame).map_err(Hangup::Handshake)?;
        self.admit(request.session)?;
        self.engine.stats.connection_requests.add(1);
        let reached = self.engine.last_zxid();
        if request.last_zxid_seen > reached {
            let seen = request.last_zxid_seen;
            tracing::info!(
                address = self.peer.address_text(),
                session = %request.session,
                %seen,
                %reached,
                "client is ahead"
            );
            return Err(Hangup::Ahead { seen, reached });
        }
        let timeout_ms = self.engine.negotiate_ms(request.timeout_ms);
        let read_only = request.read_only.map(|_| false);
        let welcome = |session| {
            self.peer.stats.established(session, timeout_ms);
            Message::Connected(Box::new(ConnectResponse {
                protocol_version: 0,
                timeout_ms,
                session,
                password: self.password_of(session),
                read_only,
            }))
        };
        if request.session.is_none() {
            let header = RequestHeader { xid: Xid(0), op: OpCode::CREATE_SESSION };
            let received_ms = self.engine.clock.now_ms();
            self.peer.stats.request_began(received_ms);
            self.engine.stats.operations.count(header.op, 1);
            let liveness = self.engine.create_session(&self.peer, timeout_ms, welcome);
            let mut counts = TurnCounts::default();
            let last = (header, self.engine.last_zxid());
            self.count_replies(&mut counts, last, received_ms, 1);
            counts.tell(&self.peer.stats);
            return Ok(Some(liveness));
        }
        let has_password =
            session_key::is_equal(&request.password, &self.password_of(request.session));
        let (session, timeout) = (request.session, timeout_ms);
        let liveness =
            self.engine.reattach_session(session, &self.peer, has_password, timeout, welcome);
        if liveness.is_none() {
            let message = Message::Connected(Box::new(ConnectResponse::refused(read_only)));
            // The end of a session may not be durable yet, so its refusal waits for the last
            // transaction.
            self.engine.send(&self.peer, |zxid| Outgoing { after: zxid, message });
            self.peer.outbox.finish();
        }
        Ok(liveness)
    }

    fn attach(&self, liveness: Arc<Liveness>) -> Attached {
        let requester = Requester {
            session: liveness.session,
            connection: self.peer.id,
            xid: Xid(0),
            identities: self.peer.identities(),
        };
        Attached { liveness, requester, so_far: SoFar::default() }
    }

    /// Turns the client away if too many begin or resume sessions.
    fn admit(&self, session: SessionId) -> Result<(), Hangup> {
        let engine = &self.engine;
        let kind = if session.is_none() { SessionKind::New } else { SessionKind::Renewed };
        let (now_ms, random) = (engine.clock.now_ms(), &engine.random);
        let admitted = engine.throttle.admit_session(kind, now_ms, random, &engine.stats);
        admitted.map_err(|refused| {
            engine.stats.connections_rejected.add(1);
            Hangup::Refused(refused)
        })
    }

    fn password_of(&self, session: SessionId) -> Password {
        match &self.engine.config.session_key {
            Some(key) => key.password(session),
            None => Password::of(session),
        }
    }

    fn handle_request(
        &self,
        attached: &mut Attached,
        frame: &Bytes,
        treatment: Treatment,
        received_ms: u64,
    ) -> Result<u64, Hangup> {
        // Large values are borrowed here: to move one takes as long as to decode it.
        let (header, request) = &match decode_request(frame) {
            Ok(decoded) => decoded,
            Err(error) => return Err(Hangup::Header(error)),
        };
        let header = *header;
        self.peer.stats.request_began(received_ms);
        let is_auth = matches!(header.op, OpCode::AUTH | OpCode::SASL);
        let Attached { liveness, requester, so_far } = attached;
        so_far.counts.request_began(&self.peer.stats, header.op);
        if so_far.buffer.is_none() {
            // Another thread may take the reply as soon as it is in the outbox.
            so_far.counts.tell(&self.peer.stats);
        }
        requester.xid = header.xid;
        if !is_auth {
            self.check_enforced_auth(header, &requester.identities)?;
            liveness.touch(received_ms);
        }
        let outcome = match (treatment, request) {
            (Treatment::Refuse(code), Ok(request)) => self.refuse(requester, request, code, so_far),
            (Treatment::Throttle, Ok(_)) if is_throttlable(header.op) => {
                self.engine.stats.throttled_operations.add(1);
                self.reply(requester, requester.xid, ErrorCode::THROTTLED_OP, Response::Empty)
            }
            (_, Ok(request)) => self.carry_out(requester, request, so_far)?,
            // ZooKeeper reads these before its queue of requests, and closes the connection.
            (_, Err(error)) if is_auth => return Err(Hangup::Unreadable(*error)),
            (_, Err(error)) => self.refuse_unreadable(requester, header, *error, so_far),
        };
        let Ok(zxid) = outcome else {
            self.engine.stats.stale_requests_dropped.add(1);
            return Err(Hangup::SessionEnded);
        };
        if is_auth {
            requester.identities = self.peer.identities();
            return Ok(self.engine.clock.now_ms());
        }
        Ok(self.count_replies(&mut so_far.counts, (header, zxid), received_ms, 1))
    }

    /// Carries out a request and replies. Returns the zxid of the reply.
    fn carry_out(
        &self,
        requester: &Requester,
        request: &Request,
        so_far: &mut SoFar,
    ) -> Result<Result<Zxid, SessionEnded>, Hangup> {
        let engine = &self.engine;
        if has_null_path_in_list(request)
            && let Some(body) =
                engine.inspect(|core| core.reply_before_null_path(request, requester))
        {
            return Ok(self.reply(requester, requester.xid, ErrorCode::MARSHALLING_ERROR, body));
        }
        Ok(match request {
            Request::Read(read) => engine.read(&self.peer, requester, read, so_far),
            Request::Watch(watch) => engine.watch(&self.peer, requester, watch, so_far),
            // Since 3.9.3 a check is valid in a multi only.
            Request::Write(Write::Op(MultiOp::Check(_))) => {
                return Err(self.unknown(requester.xid, OpCode::CHECK));
            }
            Request::Write(write) => engine.write(&self.peer, requester, write, so_far),
            Request::Session(session) => self.carry_out_session(requester, session)?,
            Request::Unknown { op, .. } => return Err(self.unknown(requester.xid, *op)),
        })
    }

    /// Carries out a request that concerns the connection rather than the tree.
    fn carry_out_session(
        &self,
        requester: &Requester,
        request: &SessionRequest,
    ) -> Result<Result<Zxid, SessionEnded>, Hangup> {
        match request {
            SessionRequest::Ping => {
                // The reply has the xid of a ping, whatever xid the client sent.
                Ok(self.reply(requester, Xid::PING, ErrorCode::OK, Response::Empty))
            }
            SessionRequest::WhoAmI => {
                let infos = Response::WhoAmI(requester.identities.client_infos());
                Ok(self.reply(requester, requester.xid, ErrorCode::OK, infos))
            }
            SessionRequest::Auth(auth) => {
                self.authenticate(requester, auth)?;
                Ok(Ok(Zxid::ZERO))
            }
            SessionRequest::Sasl(token) => {
                self.authenticate_by_sasl(requester, token.as_deref())?;
                Ok(Ok(Zxid::ZERO))
            }
        }
    }

    /// Replies to an unknown operation, with which ZooKeeper ends the connection.
    fn unknown(&self, xid: Xid, op: OpCode) -> Hangup {
        self.reply_at(Zxid::NONE, xid, ErrorCode::UNIMPLEMENTED, Response::Empty);
        Hangup::UnknownOperation(op)
    }

    /// Refuses a request with an error code; a write takes a zxid.
    fn refuse(
        &self,
        requester: &Requester,
        request: &Request,
        code: ErrorCode,
        so_far: &mut SoFar,
    ) -> Result<Zxid, SessionEnded> {
        if let Request::Write(write) = request {
            return self.engine.refuse(&self.peer, requester, Asked::Write(write), code, so_far);
        }
        self.reply(requester, requester.xid, code, Response::Empty)
    }

    /// Refuses a request whose body cannot be decoded. A multi takes a zxid. A multiRead that
    /// contains writes gets an empty list of results beside the error.
    fn refuse_unreadable(
        &self,
        requester: &Requester,
        header: RequestHeader,
        error: DecodeError,
        so_far: &mut SoFar,
    ) -> Result<Zxid, SessionEnded> {
        tracing::debug!(
            address = self.peer.address_text(),
            session = %requester.session,
            operation = %header.op,
            cause = %error,
            "request cannot be decoded"
        );
        let code = ErrorCode::MARSHALLING_ERROR;
        if header.op == OpCode::MULTI {
            let asked = Asked::Refused(header.op);
            return self.engine.refuse(&self.peer, requester, asked, code, so_far);
        }
        let response = match error.fault {
            DecodeFault::WriteInMultiRead => Response::Multi(Vec::new()),
            _ => Response::Empty,
        };
        self.reply(requester, header.xid, code, response)
    }

    /// Replies with the last zxid, which it returns, if the session lives: a reply proves to the
    /// client that it does.
    fn reply(
        &self,
        requester: &Requester,
        xid: Xid,
        err: ErrorCode,
        response: Response,
    ) -> Result<Zxid, SessionEnded> {
        self.engine.send_in_session(&self.peer, requester, |zxid| {
            let message = Message::Reply(ReplyHeader { xid, zxid, err }, Box::new(response));
            Outgoing { after: zxid, message }
        })
    }

    /// Replies with a zxid that is no transaction's, as ZooKeeper does where it does not reach the
    /// state. Such a reply shows no change, so it waits for nothing but the messages before it.
    fn reply_at(&self, zxid: Zxid, xid: Xid, err: ErrorCode, response: Response) {
        let message = Message::Reply(ReplyHeader { xid, zxid, err }, Box::new(response));
        self.engine.send(&self.peer, |_| Outgoing { after: zxid, message });
    }

    /// Counts requests that were carried out, of which the last has this header and the zxid of its reply.
    /// Returns when that was.
    fn count_replies(
        &self,
        counts: &mut TurnCounts,
        (header, zxid): (RequestHeader, Zxid),
        received_ms: u64,
        requests: usize,
    ) -> u64 {
        let replied_ms = self.engine.clock.now_ms();
        let last = LastRequest {
            op: header.op,
            xid: header.xid,
            zxid,
            replied_ms,
            latency_ms: replied_ms.saturating_sub(received_ms),
        };
        counts.replied(&self.peer.stats, last, requests as u64);
        replied_ms
    }
}

/// Whether an operation of a multi or multiRead has a null path. Mostly none has, and the state need not
/// be asked.
fn has_null_path_in_list(request: &Request) -> bool {
    match request {
        Request::Write(Write::Multi(ops)) => ops.iter().any(|op| op.path().text().is_none()),
        Request::Read(Read::MultiRead(ops)) => ops.iter().any(|op| op.path().text().is_none()),
        _ => false,
    }
}

/// Whether an operation may be answered with `THROTTLEDOP` (`Request.isThrottlable`).
fn is_throttlable(op: OpCode) -> bool {
    !matches!(op, OpCode::PING | OpCode::CLOSE_SESSION | OpCode::AUTH | OpCode::SASL)
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.engine.stats.connections_dropped.add(1);
        self.engine.close_connection(&self.peer);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use bytes::BytesMut;
    use zoolet_core::Core;
    use zoolet_protocol::{Acl, Create, CreateFlags, CreateKind, Encode, encode_request};

    use super::*;
    use crate::config::Config;
    use crate::engine::journal::Journal;

    fn handshake(session: SessionId) -> Bytes {
        let password = Password::of(session);
        let request = ConnectRequest { session, password, ..ConnectRequest::new(30_000) };
        let mut frame = BytesMut::new();
        request.encode(&mut frame);
        frame.freeze()
    }

    fn create(path: &str) -> Bytes {
        let create = Create {
            kind: CreateKind::Create,
            path: path.into(),
            data: None,
            acl: Some(vec![Acl::open()]),
            flags: CreateFlags::EPHEMERAL,
        };
        encode_request(Xid(1), &Request::Write(Write::Op(MultiOp::Create(create))))
    }

    #[test]
    fn a_write_is_dropped_when_another_connection_has_resumed_the_session() {
        let config = Config::default();
        let core = Core::new(config.settings.clone());
        let engine = Engine::new(config, None, Journal::in_memory(), core);
        let engine = Arc::new(engine);
        let connect =
            || Connection::open(Arc::clone(&engine), Entrance::IN_PROCESS).expect("it may");
        let (first, second) = (connect(), connect());
        first
            .handle(handshake(SessionId::NONE), Treatment::CarryOut)
            .expect("a session is to be had");
        let held_up = first.attached.lock();
        let session = held_up.as_ref().expect("there is one").liveness.session;
        let (znodes, frames) =
            (engine.inspect(|core| core.totals().znodes), engine.stats.received.value());
        let created = thread::scope(|scope| {
            let creating = scope.spawn(|| first.handle(create("/orphan"), Treatment::CarryOut));
            // This thread has read the request and found its connection open. It continues when the
            // client has seen over the other connection that the znode does not exist.
            while engine.stats.received.value() == frames {
                thread::yield_now();
            }
            second.handle(handshake(session), Treatment::CarryOut).expect("the session lives");
            assert_eq!(engine.inspect(|core| core.totals().znodes), znodes);
            drop(held_up);
            creating.join().expect("it does not panic")
        });
        assert!(created.is_err(), "the create is carried out");
        assert_eq!(engine.inspect(|core| core.totals().znodes), znodes, "no client knows of it");
    }
}
