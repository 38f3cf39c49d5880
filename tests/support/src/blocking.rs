//! Clients for threads without a runtime: frames over a socket, and frames in process.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, Dial, FrameCodec, Request, Transport, Xid, decode_all,
    encode_request,
};

use crate::encoded;

/// The most bytes that are read from a socket at once.
const READ_BYTES: usize = 64 * 1024;

/// The bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// A TCP connection to a server, by the byte and by the frame.
#[derive(Debug)]
pub struct FrameStream {
    socket: TcpStream,
    input: BytesMut,
    buffer: Vec<u8>,
}

impl FrameStream {
    /// Connects, without a handshake. Nothing limits how long the connection waits for bytes.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::new(TcpStream::connect(address)?)
    }

    /// As [`FrameStream::connect`], but connecting, each write and each read end with an error after
    /// `patience`. A frame of which a part has arrived can be received later.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached.
    pub fn connect_within(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, patience)?;
        socket.set_write_timeout(Some(patience))?;
        socket.set_read_timeout(Some(patience))?;
        Self::new(socket)
    }

    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self { socket, input: BytesMut::new(), buffer: vec![0; READ_BYTES] })
    }

    /// Sends the handshake and receives its answer.
    ///
    /// # Errors
    ///
    /// When the connection ends, or the answer cannot be read.
    pub fn shake_hands(&mut self, request: &ConnectRequest) -> io::Result<ConnectResponse> {
        self.send([&encoded(request)])?;
        decode_all(&self.receive()?).map_err(io::Error::other)
    }

    /// The socket, to set its timeouts, or to shut it down from another thread.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Sends frames with one write.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub fn send<'a>(&mut self, payloads: impl IntoIterator<Item = &'a Bytes>) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        for payload in payloads {
            FrameCodec::put(payload, &mut bytes);
        }
        self.send_bytes(&bytes)
    }

    /// Receives the payload of the next frame.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` when the server closed the connection, `InvalidData` when a length is negative, and
    /// what the socket reports, a timeout too.
    pub fn receive(&mut self) -> io::Result<Bytes> {
        // A reply of a server has no other limit than the greatest length that a frame can express.
        let codec = FrameCodec::new(i32::MAX as usize);
        loop {
            let frame = codec.next_frame(&mut self.input);
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            if let Some(frame) = frame.map_err(invalid)? {
                return Ok(frame);
            }
            self.fill()?;
        }
    }

    /// Receives a frame without keeping it, and returns the length of its payload.
    ///
    /// # Errors
    ///
    /// As [`FrameStream::receive`].
    pub fn skip(&mut self) -> io::Result<u64> {
        while self.input.len() < LENGTH_BYTES {
            self.fill()?;
        }
        let length = u64::try_from(self.input.get_i32()).map_err(io::Error::other)?;
        let mut left = length;
        loop {
            let here = self.input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.input.advance(here);
            left -= here as u64;
            if left == 0 {
                return Ok(length);
            }
            self.fill()?;
        }
    }

    /// Reads what the socket has, and waits for it where there is nothing.
    fn fill(&mut self) -> io::Result<()> {
        loop {
            match self.socket.read(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.input.extend_from_slice(&self.buffer[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A client in the same process as the server. Its calls return on the thread that makes them.
pub struct Frames(Box<dyn Transport>);

impl Frames {
    /// Connects and opens a session.
    ///
    /// # Panics
    ///
    /// When the server is gone.
    pub async fn connect(dialer: impl Dial) -> Self {
        let transport = dialer.dial().await.expect("the server is there");
        transport.send(encoded(&ConnectRequest::new(30_000))).expect("the connection is new");
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
    /// When the connection has ended.
    pub fn call(&self, request: &Request) -> Bytes {
        self.0.send(encode_request(Xid(1), request)).expect("the connection is open");
        self.receive()
    }
}
