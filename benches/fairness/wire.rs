//! A client that knows nothing but frames, on a thread that waits for its socket.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zoolet::protocol::{
    Auth, ConnectRequest, ConnectResponse, Encode, FrameCodec, Request, Session, Xid, Zxid,
    decode_front, encode_request,
};

/// The session timeout that every client asks for, as in the Java client's examples.
pub(crate) const SESSION_TIMEOUT_MS: i32 = 6_000;

/// How long a server may take to answer a handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Wire {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    /// What the server said to the handshake.
    pub(crate) welcome: ConnectResponse,
}

impl Wire {
    /// Begins a session.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::shake_hands(address, &ConnectRequest::new(SESSION_TIMEOUT_MS))
    }

    /// Takes up a session; if it is over, the answer says so.
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
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HANDSHAKE_PATIENCE))?;
        let mut frame = BytesMut::new();
        request.encode(&mut frame);
        stream.write_all(&framed([&frame.freeze()]))?;
        let mut reader = BufReader::with_capacity(64 << 10, stream.try_clone()?);
        let mut answer = read_frame(&mut reader)?;
        let welcome = decode_front(&mut answer).map_err(io::Error::other)?;
        stream.set_read_timeout(None)?;
        Ok(Self { stream, reader, welcome })
    }

    /// Proves to be so many users.
    pub(crate) fn identify(&mut self, users: usize) -> io::Result<()> {
        for user in 0..users {
            let credentials = Bytes::from(format!("user-{user}:password"));
            let auth =
                Auth { auth_type: 0, scheme: Some("digest".into()), auth: Some(credentials) };
            self.send(&encode_request(Xid::AUTH, &Request::Session(Session::Auth(auth))))?;
            self.receive()?;
        }
        Ok(())
    }

    /// What ends the connection from another thread.
    pub(crate) fn handle(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// How long to wait for an answer.
    pub(crate) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }

    pub(crate) fn send(&mut self, payload: &Bytes) -> io::Result<()> {
        self.stream.write_all(&framed([payload]))
    }

    pub(crate) fn send_all<'a>(
        &mut self,
        payloads: impl IntoIterator<Item = &'a Bytes>,
    ) -> io::Result<()> {
        self.stream.write_all(&framed(payloads))
    }

    pub(crate) fn receive(&mut self) -> io::Result<Bytes> {
        read_frame(&mut self.reader)
    }

    /// Takes a frame without keeping it, and returns its length.
    pub(crate) fn skip(&mut self) -> io::Result<u64> {
        let length = read_length(&mut self.reader)?;
        let skipped = io::copy(&mut (&mut self.reader).take(length), &mut io::sink())?;
        if skipped == length { Ok(length) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Takes frames without keeping them, to the answer to a request.
    pub(crate) fn skip_until(&mut self, xid: Xid) -> io::Result<()> {
        while !self.receive()?.starts_with(&xid.0.to_be_bytes()) {}
        Ok(())
    }

    /// Sends requests, so many at a time, and waits for all answers.
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

/// Payloads with their lengths.
fn framed<'a>(payloads: impl IntoIterator<Item = &'a Bytes>) -> BytesMut {
    let mut framed = BytesMut::new();
    for payload in payloads {
        FrameCodec::put(payload, &mut framed);
    }
    framed
}

fn read_length(reader: &mut impl io::Read) -> io::Result<u64> {
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    u64::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)
}

fn read_frame(reader: &mut impl io::Read) -> io::Result<Bytes> {
    let length = read_length(reader)?;
    let mut frame = Vec::new();
    reader.take(length).read_to_end(&mut frame)?;
    if frame.len() as u64 == length {
        Ok(frame.into())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
