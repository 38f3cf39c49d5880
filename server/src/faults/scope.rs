//! Whom a fault concerns.

use std::fmt;
use std::net::SocketAddr;

use zoolet_core::ConnectionId;
use zoolet_protocol::SessionId;

use crate::engine::registry::Peer;

/// Whom a fault concerns.
///
/// ```
/// use zoolet_core::ConnectionId;
/// use zoolet_server::faults::Scope;
///
/// assert_eq!(Scope::from(ConnectionId(3)).to_string(), "connection 3");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everyone, those who come later included.
    Server,
    /// A session, over whatever connection, those by which it comes back included.
    Session(SessionId),
    /// A connection, until it ends.
    Connection(ConnectionId),
}

impl From<SessionId> for Scope {
    fn from(session: SessionId) -> Self {
        Self::Session(session)
    }
}

impl From<ConnectionId> for Scope {
    fn from(connection: ConnectionId) -> Self {
        Self::Connection(connection)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("the server"),
            Self::Session(session) => write!(f, "session {session}"),
            Self::Connection(connection) => write!(f, "connection {}", connection.0),
        }
    }
}

impl Scope {
    /// Whether it concerns a connection that serves a session.
    pub(super) fn covers(self, connection: ConnectionId, session: SessionId) -> bool {
        match self {
            Self::Server => true,
            Self::Session(wanted) => wanted == session,
            Self::Connection(wanted) => wanted == connection,
        }
    }
}

/// A connection, as it is listed.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_server::faults::Faults;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let faults = Faults::default();
/// let server = Server::builder().faults(&faults).start().await?;
/// assert!(faults.connections()?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its number, from 1 in the order in which they come.
    pub id: ConnectionId,
    /// The session that it serves; [`SessionId::NONE`] before the handshake.
    pub session: SessionId,
    /// Where it comes from; `None` in process.
    pub address: Option<SocketAddr>,
}

impl ConnectionInfo {
    pub(super) fn of(peer: &Peer) -> Self {
        Self { id: peer.id, session: peer.stats.session(), address: peer.address }
    }
}
