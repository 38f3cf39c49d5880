//! Where code outside the server observes what passes between clients and the engine, and
//! interferes with it.
//!
//! A server has no hooks unless [`Builder::hooks`](crate::Builder::hooks) sets some; each place
//! where the engine would call them then costs one branch. The test kit (`zoolet-testkit`) is built
//! on them: its faults lose, delay and falsify frames and messages, and its observer counts them.
//!
//! This file knows nothing of the engine: [`HookedServer`] and [`HookedConnection`] are what the
//! engine gives to its hooks.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use zoolet_core::{ConnectionId, Core};
use zoolet_protocol::{ErrorCode, SessionId, Zxid};

pub use super::message::Message;
use crate::storage::StorageError;

/// What the engine of one server calls. Each server needs an object of its own, because connection
/// ids begin at 1 in each server.
///
/// # Locks
///
/// [`Hooks::send`], [`Hooks::discard`], [`Hooks::may_leave`], [`Hooks::may_wake`] and
/// [`Hooks::is_frozen`] run under the lock of a connection's outbox, and [`Hooks::server_txn`] runs
/// under the lock of the engine. They must not call the server back.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::{Arc, Weak};
///
/// use bytes::Bytes;
/// use tokio::sync::Notify;
/// use zoolet_core::ConnectionId;
/// use zoolet_protocol::{SessionId, Zxid};
/// use zoolet_server::Server;
/// use zoolet_server::hooks::{
///     Admission, ClockOffset, Closed, HookedConnection, HookedServer, Hooks, Message, ServerTxn,
/// };
///
/// /// Counts frames, and interferes with nothing.
/// #[derive(Debug, Default)]
/// struct FrameCount {
///     frames: AtomicU64,
///     changed: Notify,
/// }
///
/// impl Hooks for FrameCount {
///     fn started(&self, _server: Weak<dyn HookedServer>) {}
///     fn stopping(&self) {}
///     fn changed(&self) -> &Notify {
///         &self.changed
///     }
///     fn clock_offset(&self) -> ClockOffset {
///         ClockOffset::default()
///     }
///     fn is_server_frozen(&self) -> bool {
///         false
///     }
///     fn refuses_connection(&self) -> bool {
///         false
///     }
///     fn is_frozen(&self, _connection: ConnectionId) -> bool {
///         false
///     }
///     fn receive(&self, to: Arc<dyn HookedConnection>, frame: Bytes) -> Result<(), Closed> {
///         self.frames.fetch_add(1, Ordering::Relaxed);
///         to.handle(frame)
///     }
///     fn send(&self, _to: ConnectionId, _number: u64, _message: &mut Message) -> Admission {
///         Admission::Queue
///     }
///     fn discard(&self, _connection: ConnectionId, _message: &Message) {}
///     fn may_leave(&self, _connection: ConnectionId, _number: u64) -> bool {
///         true
///     }
///     fn may_wake(&self, _connection: ConnectionId) -> bool {
///         true
///     }
///     fn server_txn(&self, _txn: ServerTxn, _zxid: Zxid) {}
///     fn closed(&self, _connection: ConnectionId) {}
///     fn settled(&self) {}
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let count = Arc::new(FrameCount::default());
/// let server = Server::builder().hooks(count.clone()).start().await?;
/// assert_eq!(count.frames.load(Ordering::Relaxed), 0);
/// # Ok(())
/// # }
/// ```
pub trait Hooks: fmt::Debug + Send + Sync {
    /// The server has started. Called within the runtime that drives it, before its first
    /// connection.
    fn started(&self, server: Weak<dyn HookedServer>);

    /// The server stops. Called before it closes its connections.
    fn stopping(&self);

    /// Notified whenever [`Hooks::clock_offset`], [`Hooks::is_server_frozen`] or
    /// [`Hooks::is_frozen`] may answer otherwise than before.
    fn changed(&self) -> &Notify;

    /// By how much the server's clocks are moved. Read with every look at a clock.
    fn clock_offset(&self) -> ClockOffset;

    /// Whether the server stands still, as if its process were stopped: no session expires and no
    /// container or TTL znode is deleted.
    fn is_server_frozen(&self) -> bool;

    /// Whether a new connection is closed at once. Called once for each.
    fn refuses_connection(&self) -> bool;

    /// Whether the server reads nothing from a connection and does not end it.
    fn is_frozen(&self, connection: ConnectionId) -> bool;

    /// A frame has come in. The hook calls [`HookedConnection::handle`] for it, now or later, or
    /// [`HookedConnection::refuse`], or neither.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the server is to read no more from the connection.
    fn receive(&self, connection: Arc<dyn HookedConnection>, frame: Bytes) -> Result<(), Closed>;

    /// A message enters the outbox of a connection. `number` counts the messages of the outbox from
    /// 0 on, without those that were dropped.
    fn send(&self, connection: ConnectionId, number: u64, message: &mut Message) -> Admission;

    /// A message was meant for a connection that is closed already. The server drops it.
    fn discard(&self, connection: ConnectionId, message: &Message);

    /// Whether the message with this number may leave the outbox; those behind it wait as well.
    /// After a change the hook calls [`HookedServer::wake`].
    fn may_leave(&self, connection: ConnectionId, number: u64) -> bool;

    /// Whether the task that sends the messages of a connection may be woken. A hook that refused
    /// calls [`HookedServer::wake`] later.
    fn may_wake(&self, connection: ConnectionId) -> bool;

    /// The server has carried out a transaction that no client asked for; its events are in the
    /// outboxes.
    fn server_txn(&self, txn: ServerTxn, zxid: Zxid);

    /// A connection is closed, and its watches are gone.
    fn closed(&self, connection: ConnectionId);

    /// The server has carried out something that no frame asked for. The engine's lock is not held. During a tick
    /// this must not ask for another one (`tick`, `await_tick`), which would wait for it.
    fn settled(&self);
}

/// A transaction that the server makes by itself.
///
/// ```
/// use zoolet_protocol::SessionId;
/// use zoolet_server::hooks::ServerTxn;
///
/// let expiry = ServerTxn::Expiry(SessionId(7));
/// assert_ne!(expiry, ServerTxn::Sweep);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTxn {
    /// The session has expired.
    Expiry(SessionId),
    /// A container or TTL znode was deleted.
    Sweep,
}

/// By how much the clocks of a server are moved.
///
/// ```
/// use std::time::Duration;
/// use zoolet_server::hooks::ClockOffset;
///
/// let offset = ClockOffset::default();
/// assert_eq!((offset.monotonic, offset.wall_ms), (Duration::ZERO, 0));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// Added to the clock by which sessions expire. It must never decrease.
    pub monotonic: Duration,
    /// Added to the wall time, which a Stat shows and by which TTL znodes expire; in milliseconds.
    pub wall_ms: i64,
}

/// What happens to a message that enters an outbox.
///
/// ```
/// use zoolet_server::hooks::Admission;
///
/// fn is_received(admission: Admission) -> bool {
///     admission == Admission::Queue
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It waits for its turn to leave.
    Queue,
    /// It waits for its turn to leave, and the connection ends after it.
    Last,
    /// It is lost.
    Drop,
    /// It is lost, and the connection ends when the messages before it have left.
    End,
}

/// The connection is closed, or closes when its last messages have left: the server reads no more
/// from it.
///
/// ```
/// use zoolet_server::hooks::Closed;
///
/// assert_eq!(Closed.to_string(), "the connection is closed");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// Why the state was not reset.
///
/// ```
/// use zoolet_server::hooks::ResetError;
///
/// assert_eq!(ResetError::ShutDown.to_string(), "the server is shut down");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// The server is shut down.
    #[error("the server is shut down")]
    ShutDown,
    /// The server belongs to an ensemble.
    #[error("a server of an ensemble cannot be reset alone")]
    Member,
    /// The new state cannot be written to the data directory. The old one stays.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The new state could not be synced, so that nobody knows which state the next start finds. The
    /// server serves nobody any more.
    #[error("the new state could not be made durable for certain, so the server stops")]
    Failed,
}

/// A connection, as it is listed.
///
/// ```
/// use zoolet_core::ConnectionId;
/// use zoolet_protocol::SessionId;
/// use zoolet_server::hooks::ConnectionInfo;
///
/// fn has_session(info: &ConnectionInfo) -> bool {
///     info.session != SessionId::NONE
/// }
/// # let info = ConnectionInfo { id: ConnectionId(1), session: SessionId::NONE, address: None };
/// # assert!(!has_session(&info));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its id: connections are numbered from 1 in the order in which they are opened.
    pub id: ConnectionId,
    /// Its session; [`SessionId::NONE`] before the handshake.
    pub session: SessionId,
    /// The client's address; `None` in process.
    pub address: Option<SocketAddr>,
}

/// One connection, as its hooks use it.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_protocol::ErrorCode;
/// use zoolet_server::hooks::{Closed, HookedConnection};
///
/// /// Refuses every request after the handshake.
/// fn refuse_all(connection: &dyn HookedConnection, frame: Bytes) -> Result<(), Closed> {
///     match connection.is_established() {
///         true => connection.refuse(frame, ErrorCode::NO_AUTH),
///         false => connection.handle(frame),
///     }
/// }
/// ```
pub trait HookedConnection: Send + Sync {
    /// Its id.
    fn id(&self) -> ConnectionId;

    /// Whether it still takes messages for its client.
    fn is_open(&self) -> bool;

    /// Whether its handshake is done.
    fn is_established(&self) -> bool;

    /// Handles a frame. The answer is in the outbox when this returns, unless
    /// [`HookedConnection::answers_at_once`] says otherwise.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the connection is closed, or ends with this frame.
    fn handle(&self, frame: Bytes) -> Result<(), Closed>;

    /// Answers a request with an error code and does nothing of what it asks. A write takes a zxid,
    /// like any write that the server refuses.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the connection is closed, or ends with this frame.
    fn refuse(&self, frame: Bytes, code: ErrorCode) -> Result<(), Closed>;

    /// Closes it at once. What waits in its outbox is lost; the session lives on.
    fn cut(&self);

    /// Closes it when what waits in its outbox has left; the session lives on.
    fn finish(&self);

    /// Whether the answer to a frame is in the outbox when [`HookedConnection::handle`] returns, if
    /// there will be one. A server that waits for another answers later.
    fn answers_at_once(&self) -> bool {
        true
    }
}

/// A running server, as its hooks use it.
///
/// ```
/// use zoolet_server::hooks::HookedServer;
///
/// fn expire_all(server: &dyn HookedServer) {
///     for session in server.sessions() {
///         server.expire(session);
///     }
/// }
/// ```
pub trait HookedServer: Send + Sync {
    /// Whether it serves nobody any more.
    fn is_shut_down(&self) -> bool;

    /// The connections, in the order of their ids, those included that are just closing.
    fn connections(&self) -> Vec<ConnectionInfo>;

    /// The session of a connection; `None` if there is no such connection.
    fn session_of(&self, connection: ConnectionId) -> Option<SessionId>;

    /// Whether a connection still takes messages for its client.
    fn is_open(&self, connection: ConnectionId) -> bool;

    /// Closes a connection at once. What waits in its outbox is lost; the session lives on.
    fn cut(&self, connection: ConnectionId);

    /// Wakes the task that sends the messages of a connection, so that it asks [`Hooks::may_leave`]
    /// again.
    fn wake(&self, connection: ConnectionId);

    /// The live sessions, in order.
    fn sessions(&self) -> Vec<SessionId>;

    /// Those of the live sessions that this server serves, in order: all of them, unless it is one
    /// of several servers.
    fn own_sessions(&self) -> Vec<SessionId> {
        self.sessions()
    }

    /// Ends a session as if its timeout had passed.
    fn expire(&self, session: SessionId);

    /// Ends the sessions whose timeout has passed, even if a connection may hold input that nobody
    /// has read, and deletes the containers and TTL znodes that are due.
    fn tick(&self);

    /// Waits until the tick that is being carried out, if one is, is over.
    fn await_tick(&self);

    /// Deletes all containers and TTL znodes whose time has come.
    fn sweep(&self);

    /// Replaces the state by that of a new server: all znodes but the built-in ones are deleted, all
    /// sessions have ended, and all connections are closed. No watch fires. The zxid and the ids of
    /// sessions go on. With a data directory the new state is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`ResetError`].
    fn reset(&self) -> Result<(), ResetError>;

    /// Calls `inspect` with the state under the shared lock.
    fn inspect(&self, inspect: &mut dyn FnMut(&Core));

    /// Whether a crash at this moment would undo nothing of the state. What it would undo, no client has
    /// been told of.
    fn is_durable(&self) -> bool {
        true
    }

    /// The time since the server was started, by its own clock.
    fn since_start(&self) -> Duration;
}
