//! Clients for tests that say exactly what goes over the wire: one over TCP, which can also send
//! nonsense, and one in process.

#![allow(dead_code, reason = "each test uses the part that it needs")]
#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

pub(crate) mod counting;
pub(crate) mod follower;
pub(crate) mod stage;
pub(crate) mod writes;

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet::protocol::{
    Acl, ConnectRequest, ConnectResponse, Create, CreateFlags, CreateKind, Dial, Encode, ErrorCode,
    Expect, FrameCodec, Incoming, Lookup, MultiOp, Read, ReplyHeader, Request, Response, Session,
    SetData, Transport, Watch, WatchedEvent, Write, Xid, decode_all, decode_incoming,
    encode_request,
};
use zoolet::{Config, Server};

/// A server that listens on a free port of this machine.
pub(crate) async fn listening_server(config: Config) -> (Server, SocketAddr) {
    let server = Server::builder().config(config).listen(([127, 0, 0, 1], 0).into());
    let server = server.start().await.expect("a free port can be had");
    let address = server.local_addr().expect("it listens");
    (server, address)
}

/// A connection that speaks bytes.
pub(crate) struct Tcp {
    stream: TcpStream,
    input: BytesMut,
    xid: i32,
}

impl Tcp {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        Self { stream, input: BytesMut::new(), xid: 0 }
    }

    /// A connection with a session.
    pub(crate) async fn connect(
        address: SocketAddr,
        request: ConnectRequest,
    ) -> (Self, ConnectResponse) {
        let mut connection = Self::open(address).await;
        connection.send(&encoded(&request)).await;
        let response = connection.receive().await.expect("a handshake is answered");
        (connection, decode_all(&response).expect("the answer is a ConnectResponse"))
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the connection takes bytes");
    }

    /// Sends a frame.
    pub(crate) async fn send(&mut self, payload: &Bytes) {
        let mut out = BytesMut::new();
        FrameCodec::put(payload, &mut out);
        self.send_bytes(&out).await;
    }

    /// The next frame, or `None` if the server closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Bytes> {
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

    /// Sends a request and returns its answer; events that come before it are dropped.
    pub(crate) async fn call(&mut self, request: &Request) -> (ReplyHeader, Response) {
        self.xid += 1;
        self.send(&encode_request(Xid(self.xid), request)).await;
        self.reply(request).await.expect("the request is answered")
    }

    pub(crate) async fn reply(&mut self, request: &Request) -> Option<(ReplyHeader, Response)> {
        loop {
            match decode_incoming(&self.receive().await?).expect("a frame from the server") {
                Incoming::Event { .. } => {}
                Incoming::Reply { header, body } => return Some((header, read(request, &body))),
            }
        }
    }
}

/// A client in the same process.
pub(crate) struct Local {
    transport: Box<dyn Transport>,
    xid: i32,
    pub(crate) events: VecDeque<WatchedEvent>,
}

impl Local {
    /// A client with a new session.
    pub(crate) async fn connect(server: &Server, timeout_ms: i32) -> (Self, ConnectResponse) {
        Self::connect_with(server, ConnectRequest::new(timeout_ms)).await
    }

    pub(crate) async fn connect_with(
        server: &Server,
        request: ConnectRequest,
    ) -> (Self, ConnectResponse) {
        let transport = server.dialer().dial().await.expect("the server is there");
        let client = Self { transport, xid: 0, events: VecDeque::new() };
        client.transport.send(encoded(&request)).expect("the connection is new");
        let response = client.receive().await.expect("a handshake is answered");
        (client, decode_all(&response).expect("the answer is a ConnectResponse"))
    }

    pub(crate) async fn receive(&self) -> Option<Bytes> {
        std::future::poll_fn(|context| self.transport.poll_receive(context)).await
    }

    /// Sends a request without looking at what comes.
    pub(crate) fn send(&mut self, request: &Request) -> bool {
        self.xid += 1;
        self.transport.send(encode_request(Xid(self.xid), request)).is_ok()
    }

    /// Sends a request and returns its answer; events that come before it are kept.
    pub(crate) async fn call(&mut self, request: &Request) -> (ReplyHeader, Response) {
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
    pub(crate) async fn event(&mut self) -> Option<WatchedEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        match decode_incoming(&self.receive().await?).expect("a frame from the server") {
            Incoming::Event { event, .. } => Some(event),
            Incoming::Reply { header, .. } => panic!("a reply that nobody waits for: {header:?}"),
        }
    }
}

fn read(request: &Request, body: &Bytes) -> Response {
    Response::decode_error(request.op_code(), body).expect("the answer of the operation")
}

pub(crate) fn encoded(value: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    value.encode(&mut out);
    out.freeze()
}

pub(crate) fn create(path: &str, flags: CreateFlags) -> Request {
    create_as(CreateKind::Create, path, flags)
}

pub(crate) fn create_as(kind: CreateKind, path: &str, flags: CreateFlags) -> Request {
    let acl = Some(vec![Acl::open()]);
    let create = Create { kind, path: path.into(), data: Some(Bytes::new()), acl, flags };
    Request::Write(Write::Op(MultiOp::Create(create)))
}

pub(crate) fn set_data(path: &str, data: &'static [u8]) -> MultiOp {
    let data = Some(Bytes::from_static(data));
    MultiOp::SetData(SetData { path: path.into(), data, version: Expect::Any })
}

pub(crate) fn exists(path: &str) -> Request {
    Request::Read(Read::Lookup(Lookup::Exists(path.into())))
}

pub(crate) fn exists_and_watch(path: &str) -> Request {
    Request::Watch(Watch::Lookup(Lookup::Exists(path.into())))
}

pub(crate) fn ping() -> Request {
    Request::Session(Session::Ping)
}

/// Whether a znode is there.
pub(crate) async fn is_there(client: &mut Local, path: &str) -> bool {
    client.call(&exists(path)).await.0.err == ErrorCode::OK
}
