//! What a fault applies to.

use std::fmt;

use zoolet_core::ConnectionId;
use zoolet_protocol::SessionId;

/// What a fault applies to.
///
/// ```
/// use zoolet_testkit::{ConnectionId, Scope};
///
/// assert_eq!(Scope::from(ConnectionId(3)).to_string(), "connection 3");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All clients, those included that connect later.
    Server,
    /// A session, over each of its connections, later ones included.
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

/// A connection and the session that it serves: what a [`Scope`] is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) connection: ConnectionId,
    /// [`SessionId::NONE`] before the handshake.
    pub(crate) session: SessionId,
}

impl Scope {
    pub(crate) fn covers(self, client: Client) -> bool {
        match self {
            Self::Server => true,
            Self::Session(session) => session == client.session,
            Self::Connection(connection) => connection == client.connection,
        }
    }
}
