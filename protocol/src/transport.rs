//! What a client needs of a connection: [`Transport`] carries frames, [`Dial`] connects. A
//! connection leads through a socket or to a server in the same process.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

/// A connection that carries whole frames in order.
///
/// Over TCP, frames pass through a socket. In process, [`Transport::send`] lets the server handle
/// the frame on the caller's thread; the reply can be received as soon as it returns.
pub trait Transport: Send + Sync {
    /// Whether the server is in this process. Then a reply can be received as soon as
    /// [`Transport::send`] returns, and a woken receiver may run on the thread that wakes it.
    fn is_local(&self) -> bool;

    /// Whether the server is known to be standalone. Then any reply proves that the session has not
    /// expired. A member of an ensemble may be cut off from the others and still answer reads.
    fn is_single_node(&self) -> bool {
        false
    }

    /// Sends the payload of one frame. Its position in the order is fixed when this returns. It
    /// leaves with the next [`Transport::flush`] at the latest, so that one system call may carry
    /// many frames.
    ///
    /// After sending over a local transport, the caller receives until nothing is left: the replies
    /// and events that its own frame caused do not wake it.
    ///
    /// # Errors
    ///
    /// [`Disconnected`] if the connection is closed. Earlier frames may have arrived.
    fn send(&self, frame: Bytes) -> Result<(), Disconnected>;

    /// Starts writing all sent frames to the connection. It does not wait until they are written.
    ///
    /// # Errors
    ///
    /// As [`Transport::send`].
    fn flush(&self) -> Result<(), Disconnected>;

    /// Receives the payload of the next frame. `None` if the connection is closed and all frames
    /// before that were received. Only the last caller is woken.
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// As [`Transport::poll_receive`], of as many frames as are at hand: adds them to `frames` in order.
    fn poll_receive_some(
        &self,
        context: &mut Context<'_>,
        frames: &mut VecDeque<Bytes>,
    ) -> Poll<Received> {
        self.poll_receive(context).map(|frame| match frame {
            Some(frame) => {
                frames.push_back(frame);
                Received::Some
            }
            None => Received::Closed,
        })
    }

    /// The caller has all that it has asked for, and waits for what the server sends by itself. A
    /// transport that acknowledges what it reads does so now, so that the next read need not.
    fn acknowledge(&self) {}

    /// Why [`Transport::poll_receive`] has returned `None`, if there is more to say than that the
    /// connection ended. [`io::ErrorKind::InvalidData`] if another connection would end in the same
    /// way.
    fn take_fault(&self) -> Option<io::Error> {
        None
    }
}

/// What [`Transport::poll_receive_some`] has received.
///
/// ```
/// use zoolet_protocol::Received;
///
/// assert_ne!(Received::Some, Received::All);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// At least one frame. There may be more.
    Some,
    /// At least one frame, and no more were there: the caller is woken for the next, as after
    /// [`Poll::Pending`].
    All,
    /// None, and there will be none: the connection is closed.
    Closed,
}

/// The connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Disconnected;

/// The future of a connection attempt. Dropping it ends the attempt.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// The future of a search for a server. Dropping it ends the search.
pub type Searching = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Connects to one server or to several in turn.
pub trait Dial: Send + Sync {
    /// Starts to connect to the next server in turn.
    fn dial(&self) -> Dialing;

    /// The number of servers.
    fn servers(&self) -> usize {
        1
    }

    /// The znode below which all paths of a client are that connects with this; empty for the root.
    fn chroot(&self) -> &str {
        ""
    }

    /// Finds out whether the next server in turn serves writes. If it does, the next [`Dial::dial`]
    /// connects to it. A client that is connected to a read-only server uses this.
    fn find_read_write(&self) -> Searching {
        Box::pin(std::future::ready(false))
    }

    /// Lets the turn begin with this one of the [servers](Dial::servers). A client with a seed calls
    /// it before it dials; otherwise the dialer begins where it likes.
    fn begin_at(&self, _index: usize) {}

    /// Whether it connects within a simulation, of which all must follow from a seed. A client without a
    /// seed then takes the ids of its znodes from the generator of the thread (`fastrand`), which the
    /// simulation seeds, and not from the operating system.
    fn is_simulated(&self) -> bool {
        false
    }

    /// Whether no connection can be made any more, because a server in this process has ended. Then
    /// the client closes.
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
