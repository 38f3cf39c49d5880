//! The seam between a client and what carries its frames: a socket, or a server in the same
//! process.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

/// A connection as both sides see it: whole frames, in order, until it is gone.
///
/// Over TCP frames pass through a socket. In process [`Transport::send`] lets the server handle
/// the frame on the caller's own thread, and the reply can be received when it returns.
pub trait Transport: Send + Sync {
    /// Whether a reply may be there as soon as [`Transport::send`] returns, and a wake-up may be
    /// answered on the thread that wakes.
    fn is_local(&self) -> bool;

    /// Whether the server is certainly the only one of its ensemble: what it answers needs nobody's
    /// consent, and so proves that it has not ended the session. A server of several may be cut off
    /// from the others and answer all the same.
    fn is_single_node(&self) -> bool {
        false
    }

    /// Sends the payload of one frame. It has its place in line when this returns, and leaves with
    /// the next [`Transport::flush`] at the latest, so that many frames may cost one system call.
    ///
    /// Who sends over a local transport receives until there is nothing more: what its own frame
    /// brings about wakes nobody.
    ///
    /// # Errors
    ///
    /// [`Disconnected`] if the connection is gone. What was sent before may have arrived.
    fn send(&self, frame: Bytes) -> Result<(), Disconnected>;

    /// Lets what was sent leave, as soon as whoever carries it takes it. Waits for nothing.
    ///
    /// # Errors
    ///
    /// As [`Transport::send`].
    fn flush(&self) -> Result<(), Disconnected>;

    /// Receives the payload of the next frame; `None` once the connection is gone and everything
    /// that came before was received. Only the last caller is woken.
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// The connection is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is gone")]
pub struct Disconnected;

/// The future of a connection; dropping it gives the attempt up.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// The future of a search; dropping it gives the search up.
pub type Searching = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Something that connections can be made to.
pub trait Dial: Send + Sync {
    /// Begins to connect, to the next of several servers in turn.
    fn dial(&self) -> Dialing;

    /// How many servers there are to try.
    fn servers(&self) -> usize {
        1
    }

    /// The znode below which all paths of a client are that connects with this; empty for the root.
    fn chroot(&self) -> &str {
        ""
    }

    /// Asks the next server in turn whether it serves writes, for a client that is connected to one
    /// that has lost its ensemble and serves reads only. If it does, the next [`Dial::dial`]
    /// connects to it.
    fn find_read_write(&self) -> Searching {
        Box::pin(std::future::ready(false))
    }

    /// Whether no connection can be made any more, whatever happens: a server in this process has
    /// ended. A client stops trying then, and closes.
    fn is_gone(&self) -> bool {
        false
    }
}

/// What a client connects to: everything that its `connect` takes converts into it.
///
/// ```
/// use zoolet_protocol::ConnectTarget;
///
/// let target = ConnectTarget::from("one:2181,two:2181/app");
/// assert!(matches!(target, ConnectTarget::Servers(text) if text.ends_with("/app")));
/// ```
pub enum ConnectTarget {
    /// A connection string: `host[:port],..[/chroot]`.
    Servers(String),
    /// Whatever can be dialled, as the dialer of a server in this process.
    Dialer(Arc<dyn Dial>),
}

impl From<&str> for ConnectTarget {
    fn from(servers: &str) -> Self {
        Self::Servers(servers.to_owned())
    }
}

impl From<String> for ConnectTarget {
    fn from(servers: String) -> Self {
        Self::Servers(servers)
    }
}

impl From<&String> for ConnectTarget {
    fn from(servers: &String) -> Self {
        Self::Servers(servers.clone())
    }
}

impl<D: Dial + 'static> From<D> for ConnectTarget {
    fn from(dialer: D) -> Self {
        Self::Dialer(Arc::new(dialer))
    }
}

impl fmt::Debug for ConnectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Servers(servers) => f.debug_tuple("Servers").field(servers).finish(),
            Self::Dialer(_) => f.write_str("Dialer"),
        }
    }
}
