//! What scripts and random operations run against: something that can be connected to.
//!
//! A target is bytes in and frames out, so that what is malformed can be sent, and so that the
//! core in process, our server and a foreign one look the same.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::SessionId;
use zoolet_test_support::blocking::FrameStream;

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
        Ok(Box::new(TcpLink(FrameStream::connect_within(self.address, self.patience)?)))
    }
}

struct TcpLink(FrameStream);

impl Link for TcpLink {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.send_bytes(bytes)
    }

    fn receive(&mut self) -> Received {
        match self.0.receive() {
            Ok(frame) => Received::Frame(frame),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Received::Silence,
                // A reset is how some servers close when input is left unread.
                _ => Received::Closed,
            },
        }
    }
}
