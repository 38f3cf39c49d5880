//! A client of bare frames, in process or over TCP.

use std::future::poll_fn;

use bytes::Bytes;
use zoolet::protocol::{
    ConnectRequest, ConnectResponse, Dial, Incoming, Password, ReplyHeader, Request, Response,
    SessionId, Transport, WatchedEvent, Xid, Zxid, decode_all, decode_incoming, encode_request,
};
use zoolet::testing::TestEnsemble;
use zoolet_test_support::{Tcp, encoded};

use super::TransportKind;

pub(crate) struct Raw {
    connection: Connection,
    xid: i32,
    pub(crate) events: Vec<(Zxid, WatchedEvent)>,
}

enum Connection {
    Local(Box<dyn Transport>),
    Tcp(Box<Tcp>),
}

/// A handshake that takes a session over.
pub(crate) fn resume(session: SessionId, seen: Zxid) -> ConnectRequest {
    let password = Password::of(session);
    ConnectRequest { session, password, last_zxid_seen: seen, ..ConnectRequest::new(10_000) }
}

impl Raw {
    /// Connects to a server, without a handshake.
    pub(crate) async fn open(kind: TransportKind, ensemble: &TestEnsemble, server: usize) -> Self {
        let server = ensemble.server(server);
        let connection = match kind {
            TransportKind::InProcess => {
                Connection::Local(server.dialer().dial().await.expect("it accepts connections"))
            }
            TransportKind::Tcp => {
                Connection::Tcp(Box::new(Tcp::open(server.address().expect("it listens")).await))
            }
        };
        Self { connection, xid: 0, events: Vec::new() }
    }

    /// Connects to a server, and returns its answer to the handshake; none if it closes the
    /// connection.
    pub(crate) async fn connect(
        kind: TransportKind,
        ensemble: &TestEnsemble,
        server: usize,
        request: ConnectRequest,
    ) -> (Self, Option<ConnectResponse>) {
        let mut raw = Self::open(kind, ensemble, server).await;
        raw.send(encoded(&request)).await;
        let response = raw.receive().await;
        (raw, response.map(|frame| decode_all(&frame).expect("it is a ConnectResponse")))
    }

    /// Opens a session on a server.
    pub(crate) async fn begin(
        kind: TransportKind,
        ensemble: &TestEnsemble,
        server: usize,
    ) -> (Self, SessionId) {
        let request = ConnectRequest::new(10_000);
        let (raw, response) = Self::connect(kind, ensemble, server, request).await;
        (raw, response.expect("the handshake is answered").session)
    }

    pub(crate) async fn send(&mut self, frame: Bytes) {
        match &mut self.connection {
            Connection::Local(transport) => {
                let _ = transport.send(frame);
            }
            Connection::Tcp(tcp) => tcp.send(&frame).await,
        }
    }

    pub(crate) async fn receive(&mut self) -> Option<Bytes> {
        match &mut self.connection {
            Connection::Local(transport) => {
                poll_fn(|context| transport.poll_receive(context)).await
            }
            Connection::Tcp(tcp) => tcp.receive().await,
        }
    }

    /// Sends a request, without waiting for its reply.
    pub(crate) async fn request(&mut self, request: &Request) {
        self.xid += 1;
        self.send(encode_request(Xid(self.xid), request)).await;
    }

    /// The next reply; none if the connection ends before. Events are kept.
    pub(crate) async fn reply(&mut self, request: &Request) -> Option<(ReplyHeader, Response)> {
        loop {
            match decode_incoming(&self.receive().await?).expect("a frame from the server") {
                Incoming::Event { zxid, event } => self.events.push((zxid, event)),
                Incoming::Reply { header, body } => {
                    let response = Response::decode_error(request.op_code(), &body);
                    return Some((header, response.expect("the answer of the operation")));
                }
            }
        }
    }

    /// Sends a request and waits for its reply; none if the connection ends before.
    pub(crate) async fn call(&mut self, request: &Request) -> Option<(ReplyHeader, Response)> {
        self.request(request).await;
        self.reply(request).await
    }
}
