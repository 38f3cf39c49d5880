//! Clients for zoolet's own tests. [`Tcp`] sends frames or arbitrary bytes over a socket, [`Local`]
//! sends frames in process, and [`blocking`] has both for threads. [`counting`], [`follower`] and
//! [`writes`] are dialers for the ordinary client that count the messages of their connections, and
//! disturb them. [`log_files`] reads the files of a server.

pub mod blocking;
pub mod counting;
pub mod follower;
pub mod log_files;
pub mod stage;
mod tap;
pub mod writes;

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_protocol::{
    Acl, ConnectRequest, ConnectResponse, Create, CreateFlags, CreateKind, Dial, Encode, ErrorCode,
    Expect, FrameCodec, Incoming, Lookup, MultiOp, Read, ReplyHeader, Request, Response,
    SessionRequest, SetData, Transport, Watch, WatchedEvent, Write, Xid, decode_all,
    decode_incoming, encode_request,
};
use zoolet_server::{Config, Server};

/// Starts a server that listens on a free port of this machine.
pub async fn listening_server(config: Config) -> (Server, SocketAddr) {
    let server = Server::builder().config(config).listen(([127, 0, 0, 1], 0).into());
    let server = server.start().await.expect("a port is free");
    let address = server.local_addr().expect("it listens");
    (server, address)
}

/// A TCP connection to a server, by the byte and by the frame.
pub struct Tcp<S = TcpStream> {
    stream: S,
    input: BytesMut,
    xid: i32,
}

impl Tcp {
    /// Connects, without a handshake.
    pub async fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.expect("the server listens"))
    }

    /// Connects and opens a session.
    pub async fn connect(address: SocketAddr, request: ConnectRequest) -> (Self, ConnectResponse) {
        let mut connection = Self::open(address).await;
        let response = connection.open_session(&request).await;
        (connection, response)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Tcp<S> {
    /// A connection over this stream, without a handshake.
    pub fn over(stream: S) -> Self {
        Self { stream, input: BytesMut::new(), xid: 0 }
    }

    /// The stream.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// Opens a session, or takes one over.
    pub async fn open_session(&mut self, request: &ConnectRequest) -> ConnectResponse {
        self.send(&encoded(request)).await;
        let response = self.receive().await.expect("a handshake is answered");
        decode_all(&response).expect("the answer is a ConnectResponse")
    }

    /// Sends bytes as they are.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the connection takes bytes");
        self.stream.flush().await.expect("the connection takes bytes");
    }

    /// Sends a frame.
    pub async fn send(&mut self, payload: &Bytes) {
        let mut out = BytesMut::new();
        FrameCodec::put(payload, &mut out);
        self.send_bytes(&out).await;
    }

    /// The next frame, or `None` if the server closed the connection.
    pub async fn receive(&mut self) -> Option<Bytes> {
        let codec = FrameCodec::new(usize::MAX);
        loop {
            if let Some(frame) = codec.next_frame(&mut self.input).expect("a length is legal") {
                return Some(frame);
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// All bytes up to the end of the connection, as text: the answer to a four-letter word.
    pub async fn text(&mut self) -> String {
        while self.stream.read_buf(&mut self.input).await.is_ok_and(|bytes| bytes > 0) {}
        String::from_utf8_lossy(&self.input).into_owned()
    }

    /// Sends a request and returns its answer; events that come before it are dropped.
    pub async fn call(&mut self, request: &Request) -> (ReplyHeader, Response) {
        self.xid += 1;
        self.send(&encode_request(Xid(self.xid), request)).await;
        self.reply(request).await.expect("the request is answered")
    }

    /// Receives the next reply, or `None` if the server closed the connection; events before it are
    /// dropped.
    pub async fn reply(&mut self, request: &Request) -> Option<(ReplyHeader, Response)> {
        loop {
            match decode_incoming(&self.receive().await?).expect("a frame from the server") {
                Incoming::Event { .. } => {}
                Incoming::Reply { header, body } => return Some((header, read(request, &body))),
            }
        }
    }
}

/// A client in the same process.
pub struct Local {
    transport: Box<dyn Transport>,
    xid: i32,
    /// The events that came before replies.
    pub events: VecDeque<WatchedEvent>,
}

impl Local {
    /// Connects and opens a session.
    pub async fn connect(server: &Server, timeout_ms: i32) -> (Self, ConnectResponse) {
        Self::connect_with(server, ConnectRequest::new(timeout_ms)).await
    }

    /// Connects with a handshake of one's own.
    pub async fn connect_with(server: &Server, request: ConnectRequest) -> (Self, ConnectResponse) {
        let transport = server.dialer().dial().await.expect("the server is there");
        let client = Self { transport, xid: 0, events: VecDeque::new() };
        client.transport.send(encoded(&request)).expect("the connection is new");
        let response = client.receive().await.expect("a handshake is answered");
        (client, decode_all(&response).expect("the answer is a ConnectResponse"))
    }

    /// The next frame, or `None` if the server closed the connection.
    pub async fn receive(&self) -> Option<Bytes> {
        std::future::poll_fn(|context| self.transport.poll_receive(context)).await
    }

    /// Sends a request, and returns whether the connection was open.
    pub fn send(&mut self, request: &Request) -> bool {
        self.xid += 1;
        self.transport.send(encode_request(Xid(self.xid), request)).is_ok()
    }

    /// Sends a request and returns its answer; events that come before it are kept.
    pub async fn call(&mut self, request: &Request) -> (ReplyHeader, Response) {
        assert!(self.send(request), "the connection is open");
        loop {
            let frame = self.receive().await.expect("the request is answered");
            match decode_incoming(&frame).expect("a frame from the server") {
                Incoming::Event { event, .. } => self.events.push_back(event),
                Incoming::Reply { header, body } => return (header, read(request, &body)),
            }
        }
    }

    /// The next event, waiting for it; `None` if the connection is closed.
    pub async fn event(&mut self) -> Option<WatchedEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        match decode_incoming(&self.receive().await?).expect("a frame from the server") {
            Incoming::Event { event, .. } => Some(event),
            Incoming::Reply { header, .. } => panic!("an unexpected reply: {header:?}"),
        }
    }
}

fn read(request: &Request, body: &Bytes) -> Response {
    Response::decode_error(request.op_code(), body).expect("the answer of the operation")
}

/// The bytes of a record.
pub fn encoded(value: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    value.encode(&mut out);
    out.freeze()
}

/// A create without data and with the open access control list.
pub fn create(path: &str, flags: CreateFlags) -> Request {
    create_as(CreateKind::Create, path, flags)
}

/// As [`create`], with one of the create operations.
pub fn create_as(kind: CreateKind, path: &str, flags: CreateFlags) -> Request {
    let acl = Some(vec![Acl::open()]);
    let create = Create { kind, path: path.into(), data: Some(Bytes::new()), acl, flags };
    Request::Write(Write::Op(MultiOp::Create(create)))
}

/// A `setData`, whatever the version.
pub fn set_data(path: &str, data: &'static [u8]) -> MultiOp {
    let data = Some(Bytes::from_static(data));
    MultiOp::SetData(SetData { path: path.into(), data, version: Expect::Any })
}

/// An `exists` that leaves no watch.
pub fn exists(path: &str) -> Request {
    Request::Read(Read::Lookup(Lookup::Exists(path.into())))
}

/// An `exists` that leaves a watch.
pub fn exists_and_watch(path: &str) -> Request {
    Request::Watch(Watch::Lookup(Lookup::Exists(path.into())))
}

/// A ping.
pub fn ping() -> Request {
    Request::Session(SessionRequest::Ping)
}

/// Whether a znode exists.
pub async fn is_there(client: &mut Local, path: &str) -> bool {
    client.call(&exists(path)).await.0.err == ErrorCode::OK
}
