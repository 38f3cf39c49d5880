//! A client that hides nothing: it sends any bytes, and gives back whatever arrives in the order
//! in which it arrives.

use std::fmt;
use std::io;

use bytes::{Bytes, BytesMut};
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, DecodeError, Encode, ErrorCode, FrameCodec, Incoming, OpCode,
    Password, ReplyHeader, Request, Response, SessionId, WatchedEvent, Xid, Zxid, decode_all,
    decode_incoming, encode_request,
};

use crate::target::{Link, Received, Target};

/// One connection to a server, and what is asked over it and not answered yet.
pub struct Client {
    link: Option<Box<dyn Link>>,
    pending: Vec<(Xid, OpCode)>,
    next_xid: i32,
    /// The session that the last handshake gave, and its password.
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

/// What arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A watch fired.
    Event {
        /// The header's zxid.
        zxid: Zxid,
        /// The event.
        event: WatchedEvent,
    },
    /// An answer.
    Reply {
        /// The xid of the request that it answers, if there is one.
        asked: Option<Xid>,
        /// Its header.
        header: ReplyHeader,
        /// Its body.
        body: Body,
    },
    /// Bytes that are no message.
    Garbage(Bytes),
    /// The server closed the connection.
    Closed,
    /// The server should have sent something and did not.
    Silence,
}

impl Message {
    /// Whether a server that says this closes the connection after it.
    fn ends_connection(&self) -> bool {
        let Self::Reply { header, .. } = self else { return false };
        match header.err {
            ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => true,
            // That of an operation which is known and switched off has a zxid.
            ErrorCode::UNIMPLEMENTED => header.zxid == Zxid::NONE,
            _ => false,
        }
    }
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// What the operation answers with, or nothing.
    Known(Response),
    /// Bytes that are not that, or not exactly.
    Odd(Bytes),
}

/// How a handshake ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handshake {
    /// With an answer.
    Answered(ConnectResponse),
    /// With bytes that are no answer.
    Garbage(Bytes),
    /// Closed without an answer.
    Closed,
    /// Nothing came.
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
    /// Connects, without a handshake.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached.
    pub fn dial(target: &dyn Target) -> io::Result<Self> {
        Ok(Self { link: Some(target.dial()?), pending: Vec::new(), next_xid: 1, session: None })
    }

    /// Connects and opens a session.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or refuses.
    pub fn open(target: &dyn Target, timeout_ms: i32) -> io::Result<Self> {
        let mut client = Self::dial(target)?;
        match client.shake_hands(&ConnectRequest::new(timeout_ms)) {
            Handshake::Answered(response) if !response.is_refused() => Ok(client),
            other => Err(io::Error::other(format!("no session: {other:?}"))),
        }
    }

    /// Sends the first frame and takes the server's.
    pub fn shake_hands(&mut self, request: &ConnectRequest) -> Handshake {
        let mut payload = BytesMut::new();
        request.encode(&mut payload);
        self.send_bytes(&framed(&payload.freeze()));
        self.finish_handshake()
    }

    /// Takes the server's first frame.
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

    /// Whether the connection is there, as far as is known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Cuts the connection; the session lives on.
    pub fn cut(&mut self) {
        self.link = None;
        self.pending.clear();
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        // A connection that is gone shows when something is received from it.
        if let Some(link) = &mut self.link {
            let _ = link.send(bytes);
        }
    }

    /// Sends a request under the xid that it ordinarily has, and gives that back.
    pub fn send(&mut self, request: &Request) -> Xid {
        let (xid, frame) = self.encode(request, None);
        self.send_bytes(&frame);
        xid
    }

    /// The frame of a request, which is noted as one that waits for its answer.
    pub fn encode(&mut self, request: &Request, xid: Option<Xid>) -> (Xid, Bytes) {
        let xid = xid.unwrap_or_else(|| self.ordinary_xid(request.op_code()));
        self.pending.push((xid, request.op_code()));
        (xid, framed(&encode_request(xid, request)))
    }

    fn ordinary_xid(&mut self, op: OpCode) -> Xid {
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

    /// Whether a request waits for its answer.
    #[must_use]
    pub fn awaits(&self, xid: Xid) -> bool {
        self.pending.iter().any(|(pending, _)| *pending == xid)
    }

    /// Sends a request and receives up to its answer, or the end of the connection.
    pub fn ask(&mut self, request: &Request) -> Vec<Message> {
        let xid = self.send(request);
        self.receive_until(xid)
    }

    /// Receives up to the answer to a request, or the end of the connection. Where the answer says
    /// that the server closes the connection now, that is awaited too: it may take a moment.
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

    /// The request that a reply answers: the first under its xid, or the first ping, since every
    /// ping is answered under the same xid.
    fn answered_by(&mut self, xid: Xid) -> Option<(Xid, OpCode)> {
        let index = self.pending.iter().position(|(pending, _)| *pending == xid).or_else(|| {
            let is_ping = |(_, op): &(Xid, OpCode)| *op == OpCode::PING;
            self.pending.iter().position(is_ping).filter(|_| xid == Xid::PING)
        })?;
        Some(self.pending.remove(index))
    }
}

/// Reads a body, and only calls it known if writing it again gives the same bytes.
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
