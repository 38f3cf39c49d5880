//! A client in process that knows nothing but frames.

use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use tokio::runtime::Runtime;
use zoolet::Server;
use zoolet::protocol::{ConnectRequest, Dial, Encode, Request, Transport, Xid, encode_request};

/// Frames in, frames out, on the thread that asks.
pub struct Frames(Box<dyn Transport>);

impl Frames {
    /// Connects and opens a session.
    ///
    /// # Panics
    ///
    /// When the server is gone.
    #[must_use]
    pub fn connect(runtime: &Runtime, server: &Server) -> Self {
        let transport = runtime.block_on(server.dialer().dial()).expect("the server is there");
        let mut handshake = BytesMut::new();
        ConnectRequest::new(30_000).encode(&mut handshake);
        transport.send(handshake.freeze()).expect("the connection is new");
        let client = Self(transport);
        client.receive();
        client
    }

    /// The next frame.
    ///
    /// # Panics
    ///
    /// When no frame is there.
    pub fn receive(&self) -> Bytes {
        let mut context = Context::from_waker(Waker::noop());
        match self.0.poll_receive(&mut context) {
            Poll::Ready(Some(frame)) => frame,
            other => panic!("a frame should be there: {other:?}"),
        }
    }

    /// Sends a request and returns the frame of its reply.
    ///
    /// # Panics
    ///
    /// When the connection is closed.
    #[must_use]
    pub fn call(&self, request: &Request) -> Bytes {
        self.0.send(encode_request(Xid(1), request)).expect("the connection is open");
        self.receive()
    }
}
