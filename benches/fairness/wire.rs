//! A client that knows nothing but frames, on a thread that waits for its socket.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use zoolet::protocol::{
    Auth, ConnectRequest, ConnectResponse, Request, SessionRequest, Xid, Zxid, encode_request,
};
use zoolet_test_support::blocking::FrameStream;

/// The session timeout that every client asks for, as in the Java client's examples.
pub(crate) const SESSION_TIMEOUT_MS: i32 = 6_000;

/// How long a server may take to answer a handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Wire {
    stream: FrameStream,
    /// The server's answer to the handshake.
    pub(crate) welcome: ConnectResponse,
}

impl Wire {
    /// Opens a session.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::shake_hands(address, &ConnectRequest::new(SESSION_TIMEOUT_MS))
    }

    /// Resumes a session; if it has expired, the answer says so.
    pub(crate) fn resume(address: SocketAddr, welcome: &ConnectResponse) -> io::Result<Self> {
        let request = ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            session: welcome.session,
            password: welcome.password.clone(),
            ..ConnectRequest::new(SESSION_TIMEOUT_MS)
        };
        Self::shake_hands(address, &request)
    }

    fn shake_hands(address: SocketAddr, request: &ConnectRequest) -> io::Result<Self> {
        let mut stream = FrameStream::connect(address)?;
        stream.socket().set_read_timeout(Some(HANDSHAKE_PATIENCE))?;
        let welcome = stream.shake_hands(request)?;
        stream.socket().set_read_timeout(None)?;
        Ok(Self { stream, welcome })
    }

    /// Adds the identities of this many users.
    pub(crate) fn identify(&mut self, users: usize) -> io::Result<()> {
        for user in 0..users {
            let credentials = Bytes::from(format!("user-{user}:password"));
            let auth =
                Auth { auth_type: 0, scheme: Some("digest".into()), auth: Some(credentials) };
            self.send(&encode_request(Xid::AUTH, &Request::Session(SessionRequest::Auth(auth))))?;
            self.receive()?;
        }
        Ok(())
    }

    /// The socket, to end the connection from another thread.
    pub(crate) fn handle(&self) -> io::Result<TcpStream> {
        self.stream.socket().try_clone()
    }

    /// How long to wait for an answer.
    pub(crate) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.socket().set_read_timeout(Some(patience))
    }

    pub(crate) fn send(&mut self, payload: &Bytes) -> io::Result<()> {
        self.stream.send([payload])
    }

    pub(crate) fn send_all<'a>(
        &mut self,
        payloads: impl IntoIterator<Item = &'a Bytes>,
    ) -> io::Result<()> {
        self.stream.send(payloads)
    }

    pub(crate) fn receive(&mut self) -> io::Result<Bytes> {
        self.stream.receive()
    }

    /// Receives a frame without keeping it, and returns its length.
    pub(crate) fn skip(&mut self) -> io::Result<u64> {
        self.stream.skip()
    }

    /// Receives frames without keeping them, up to the answer to a request.
    pub(crate) fn skip_until(&mut self, xid: Xid) -> io::Result<()> {
        while !self.receive()?.starts_with(&xid.0.to_be_bytes()) {}
        Ok(())
    }

    /// Sends requests, `depth` at a time, and waits for all answers.
    pub(crate) fn call_all(&mut self, requests: &[Request], depth: usize) -> io::Result<()> {
        for some in requests.chunks(depth) {
            let frames: Vec<_> =
                some.iter().map(|request| encode_request(Xid(1), request)).collect();
            self.send_all(&frames)?;
            for _ in some {
                self.receive()?;
            }
        }
        Ok(())
    }
}
