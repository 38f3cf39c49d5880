//! A client that hides nothing: it sends any bytes, and returns every message in the order in which
//! it arrived.

use std::fmt;
use std::io;

use bytes::{Bytes, BytesMut};
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, DecodeError, Encode, ErrorCode, FrameCodec, Incoming, OpCode,
    Password, ReplyHeader, Request, Response, SessionId, WatchedEvent, Xid, Zxid, decode_all,
    decode_incoming, encode_request,
};

use crate::target::{Link, Received, Target};

/// One connection to a server, and the requests on it that have no reply yet.
pub struct Client {
    link: Option<Box<dyn Link>>,
    pending: Vec<(Xid, OpCode)>,
    next_xid: i32,
    /// The session of the last handshake, and its password.
    pub session: Option<(SessionId, Password)>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("pending", &self.pending)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// A message from the server, or its absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// An event.
    Event {
        /// The zxid of its header.
        zxid: Zxid,
        /// The event.
        event: WatchedEvent,
    },
    /// A reply.
    Reply {
        /// The xid of the request that it answers, if there is such a request.
        asked: Option<Xid>,
        /// Its header.
        header: ReplyHeader,
        /// Its body.
        body: Body,
    },
    /// A frame that is no message.
    Garbage(Bytes),
    /// The server closed the connection.
    Closed,
    /// The server sent nothing within the time limit.
    Silence,
}

impl Message {
    /// Whether the server closes the connection after this message.
    fn ends_connection(&self) -> bool {
        let Self::Reply { header, .. } = self else { return false };
        match header.err {
            ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => true,
            // The reply to a known operation that is disabled has another zxid.
            ErrorCode::UNIMPLEMENTED => header.zxid == Zxid::NONE,
            _ => false,
        }
    }
}

/// The body of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The body that belongs to the operation, or an empty one.
    Known(Response),
    /// Any other bytes.
    Odd(Bytes),
}

/// The result of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handshake {
    /// The server answered.
    Answered(ConnectResponse),
    /// The server sent a frame that is no answer.
    Garbage(Bytes),
    /// The server closed the connection without an answer.
    Closed,
    /// The server sent nothing within the time limit.
    Silence,
}

/// The length prefix and payload of a frame.
#[must_use]
pub fn framed(payload: &Bytes) -> Bytes {
    let mut stream = BytesMut::new();
    FrameCodec::put(payload, &mut stream);
    stream.freeze()
}

impl Client {
    /// Connects without a handshake.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub fn dial(target: &dyn Target) -> io::Result<Self> {
        Ok(Self::of_link(target.dial()?))
    }

    /// A client with this connection.
    #[must_use]
    pub fn of_link(link: Box<dyn Link>) -> Self {
        Self { link: Some(link), pending: Vec::new(), next_xid: 1, session: None }
    }

    /// Gives the next request this xid. The xids of a session's connections must differ: a follower
    /// takes a commit for the answer to a waiting request with the same session and xid.
    pub fn begin_xids_at(&mut self, xid: i32) {
        self.next_xid = xid;
    }

    /// Its connection, unless that is closed.
    #[must_use]
    pub fn into_link(self) -> Option<Box<dyn Link>> {
        self.link
    }

    /// Connects and creates a session.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or refuses.
    pub fn open(target: &dyn Target, timeout_ms: i32) -> io::Result<Self> {
        let mut client = Self::dial(target)?;
        match client.shake_hands(&ConnectRequest::new(timeout_ms)) {
            Handshake::Answered(response) if !response.is_refused() => Ok(client),
            other => Err(io::Error::other(format!("the server gave no session: {other:?}"))),
        }
    }

    /// Sends the first frame and receives the server's.
    pub fn shake_hands(&mut self, request: &ConnectRequest) -> Handshake {
        self.send_handshake(request);
        self.finish_handshake()
    }

    /// Sends the first frame.
    pub fn send_handshake(&mut self, request: &ConnectRequest) {
        let mut payload = BytesMut::new();
        request.encode(&mut payload);
        self.send_bytes(&framed(&payload.freeze()));
    }

    /// Receives the server's first frame.
    pub fn finish_handshake(&mut self) -> Handshake {
        match self.receive_frame() {
            Received::Frame(frame) => match decode_all::<ConnectResponse>(&frame) {
                Ok(response) => {
                    self.session = Some((response.session, response.password.clone()));
                    Handshake::Answered(response)
                }
                Err(_) => Handshake::Garbage(frame),
            },
            Received::Closed => Handshake::Closed,
            Received::Silence => Handshake::Silence,
        }
    }

    /// Whether the connection is open, as far as the client knows.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Closes the connection without closing the session.
    pub fn cut(&mut self) {
        self.link = None;
        self.pending.clear();
    }

    /// Sends bytes unchanged.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        // If the connection is closed, the next receive tells it.
        if let Some(link) = &mut self.link {
            let _ = link.send(bytes);
        }
    }

    /// Sends a request with the xid that clients give it, and returns that xid.
    pub fn send(&mut self, request: &Request) -> Xid {
        let (xid, frame) = self.encode(request, None);
        self.send_bytes(&frame);
        xid
    }

    /// Encodes a request as a frame, and notes that a reply is expected.
    pub fn encode(&mut self, request: &Request, xid: Option<Xid>) -> (Xid, Bytes) {
        let xid = xid.unwrap_or_else(|| self.usual_xid(request.op_code()));
        self.pending.push((xid, request.op_code()));
        (xid, framed(&encode_request(xid, request)))
    }

    fn usual_xid(&mut self, op: OpCode) -> Xid {
        match op {
            OpCode::PING => Xid::PING,
            OpCode::AUTH => Xid::AUTH,
            OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => Xid::SET_WATCHES,
            _ => {
                self.next_xid += 1;
                Xid(self.next_xid - 1)
            }
        }
    }

    /// Whether a request has no reply yet.
    #[must_use]
    pub fn awaits(&self, xid: Xid) -> bool {
        self.pending.iter().any(|(pending, _)| *pending == xid)
    }

    /// Whether any request has no reply yet.
    #[must_use]
    pub fn awaits_any(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Receives messages until every request has its reply, or the connection ends.
    pub fn receive_replies(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some((xid, _)) = self.pending.first().filter(|_| self.is_open()) {
            messages.extend(self.receive_until(*xid));
            if messages.last() == Some(&Message::Silence) {
                break;
            }
        }
        messages
    }

    /// Sends a request and receives messages up to its reply or to the end of the connection.
    pub fn ask(&mut self, request: &Request) -> Vec<Message> {
        let xid = self.send(request);
        self.receive_until(xid)
    }

    /// Receives messages up to the reply to a request or to the end of the connection. If the
    /// server closes the connection after the reply, this waits for that too.
    pub fn receive_until(&mut self, xid: Xid) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut is_closing = false;
        loop {
            let is_close = self.pending.contains(&(xid, OpCode::CLOSE_SESSION));
            let message = self.receive();
            let is_over = matches!(message, Message::Closed | Message::Silence);
            is_closing |= message.ends_connection() || (is_close && !self.awaits(xid));
            messages.push(message);
            if is_over || !(is_closing || self.awaits(xid)) {
                return messages;
            }
        }
    }

    /// Receives the next message.
    pub fn receive(&mut self) -> Message {
        let frame = match self.receive_frame() {
            Received::Frame(frame) => frame,
            Received::Closed => return Message::Closed,
            Received::Silence => return Message::Silence,
        };
        match decode_incoming(&frame) {
            Ok(Incoming::Event { zxid, event }) => Message::Event { zxid, event },
            Ok(Incoming::Reply { header, body }) => {
                let (asked, op) = self.answered_by(header.xid).unzip();
                Message::Reply { asked, header, body: read_body(op, header.err, &body) }
            }
            Err(_) => Message::Garbage(frame),
        }
    }

    fn receive_frame(&mut self) -> Received {
        let Some(link) = &mut self.link else { return Received::Closed };
        let received = link.receive();
        if received == Received::Closed {
            self.cut();
        }
        received
    }

    /// The request that a reply answers: the first with the same xid. If there is none and the
    /// reply has the xid of pings, it is the first ping.
    fn answered_by(&mut self, xid: Xid) -> Option<(Xid, OpCode)> {
        let index = self.pending.iter().position(|(pending, _)| *pending == xid).or_else(|| {
            let is_ping = |(_, op): &(Xid, OpCode)| *op == OpCode::PING;
            self.pending.iter().position(is_ping).filter(|_| xid == Xid::PING)
        })?;
        Some(self.pending.remove(index))
    }
}

/// Decodes a body. It is known only if encoding it again gives the same bytes.
fn read_body(op: Option<OpCode>, err: ErrorCode, body: &Bytes) -> Body {
    let decoded = |op| -> Result<Response, DecodeError> {
        if err.is_ok() { Response::decode(op, body) } else { Response::decode_error(op, body) }
    };
    match op.map(decoded) {
        Some(Ok(response)) if response.to_bytes() == *body => Body::Known(response),
        None if body.is_empty() => Body::Known(Response::Empty),
        _ => Body::Odd(body.clone()),
    }
}
