//! The servers against which scripts and random operations run.
//!
//! A target accepts bytes and returns frames, so that malformed bytes can be sent, and so that the
//! state machine in this process, our server and a foreign one look the same.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::SessionId;
use zoolet_test_support::blocking::FrameStream;

/// A server to which clients can connect.
pub trait Target {
    /// Connects without a handshake.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    fn dial(&self) -> io::Result<Box<dyn Link>>;

    /// Expires a session. A server with a clock does so by itself; there this does nothing.
    fn expire(&self, _session: SessionId) {}

    /// Deletes the due containers and TTL znodes. A server with a clock does so by itself; there
    /// this does nothing.
    fn sweep(&self) {}
}

/// One connection. Dropping it closes it.
pub trait Link {
    /// Sends bytes, which may be less or more than one frame.
    ///
    /// # Errors
    ///
    /// If the connection is known to be closed.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Receives the payload of the next frame.
    fn receive(&mut self) -> Received;
}

/// The result of receiving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The payload of a frame.
    Frame(Bytes),
    /// The server closed the connection.
    Closed,
    /// Nothing arrived within the time limit.
    Silence,
}

/// The time limit for everything that a server does. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server behind an address.
#[derive(Debug, Clone, Copy)]
pub struct TcpTarget {
    address: SocketAddr,
    patience: Duration,
}

impl TcpTarget {
    /// The server at this address.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, patience: PATIENCE }
    }

    /// The same server with another time limit for receiving.
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
                // Some servers close a connection with a reset if they have not read all input.
                _ => Received::Closed,
            },
        }
    }
}
