//! What scripts and random operations run against: something that can be connected to.
//!
//! A target is bytes in and frames out, so that what is malformed can be sent, and so that the
//! core in process, our server and a foreign one look the same.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zoolet_protocol::{FrameCodec, SessionId};

/// A server.
pub trait Target {
    /// Connects, without a handshake.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached.
    fn dial(&self) -> io::Result<Box<dyn Link>>;

    /// Lets a session expire. Servers with a clock of their own do it by themselves, and this does
    /// nothing there.
    fn expire(&self, _session: SessionId) {}

    /// Lets the containers and TTL znodes go that may, likewise.
    fn sweep(&self) {}
}

/// One connection. Dropping it cuts it.
pub trait Link {
    /// Sends bytes, which may be less or more than one frame.
    ///
    /// # Errors
    ///
    /// When the connection is known to be gone.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Receives the payload of the next frame.
    fn receive(&mut self) -> Received;
}

/// What came over a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The payload of a frame.
    Frame(Bytes),
    /// The connection was closed by the server.
    Closed,
    /// Nothing came for so long that nothing will.
    Silence,
}

/// How long a server may take for anything that it does. No test waits this long unless it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes that are read from a socket at once.
const READ_BYTES: usize = 64 * 1024;

/// A server behind an address.
#[derive(Debug, Clone, Copy)]
pub struct TcpTarget {
    address: SocketAddr,
    patience: Duration,
}

impl TcpTarget {
    /// The server that listens there.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, patience: PATIENCE }
    }

    /// The same server, from which nothing is awaited for longer than `patience`.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

impl Target for TcpTarget {
    fn dial(&self) -> io::Result<Box<dyn Link>> {
        let socket = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(self.patience))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Box::new(TcpLink { socket, stream: BytesMut::new(), buffer: vec![0; READ_BYTES] }))
    }
}

struct TcpLink {
    socket: TcpStream,
    stream: BytesMut,
    buffer: Vec<u8>,
}

impl fmt::Debug for TcpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpLink").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Link for TcpLink {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    fn receive(&mut self) -> Received {
        // What a server sends has no limit but the length that it can write.
        let codec = FrameCodec::new(i32::MAX as usize);
        loop {
            match codec.next_frame(&mut self.stream) {
                Ok(Some(frame)) => return Received::Frame(frame),
                Ok(None) => {}
                Err(_) => return Received::Closed,
            }
            match self.socket.read(&mut self.buffer) {
                Ok(0) => return Received::Closed,
                Ok(count) => self.stream.extend_from_slice(&self.buffer[..count]),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        return Received::Silence;
                    }
                    // A reset is how some servers close when input is left unread.
                    _ => return Received::Closed,
                },
            }
        }
    }
}
