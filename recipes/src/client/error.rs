//! What may go wrong, by what the caller may conclude from it.

use super::connecting::ConnectError;
use zoolet_protocol::{DecodeError, ErrorCode, OpCode, PathError};

/// Why a call did not give what it should, and what may be concluded.
///
/// ```
/// use zoolet_recipes::client::Error;
/// use zoolet_recipes::protocol::{ErrorCode, OpCode};
///
/// let error =
///     Error::Refused { op: OpCode::CREATE, path: "/a/b".into(), code: ErrorCode::NO_NODE };
/// assert_eq!(error.to_string(), "create /a/b: NoNode");
/// assert_eq!(error.code(), Some(ErrorCode::NO_NODE));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused: nothing happened.
    #[error("{op} {path}: {code}")]
    Refused {
        /// What was asked.
        op: OpCode,
        /// Of which znode.
        path: String,
        /// Why not.
        code: ErrorCode,
    },
    /// The connection was lost before the answer came: it may have happened.
    #[error("{op} {path}: the connection was lost before the answer came, so it may have happened")]
    Unknown {
        /// What was asked.
        op: OpCode,
        /// Of which znode.
        path: String,
    },
    /// It was never sent, because there was no connection in time: nothing happened.
    #[error("{op} {path}: not sent, because there was no connection in time")]
    NotSent {
        /// What was asked.
        op: OpCode,
        /// Of which znode.
        path: String,
    },
    /// The session that it depended on is over.
    #[error("the session is lost")]
    Lost,
    /// The client is closed: its user closed it, the server refused its credentials, or the server
    /// in this process to which it was connected has ended.
    #[error("the client is closed")]
    Closed,
    /// The path names no znode: nothing was sent.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The list of servers cannot be read.
    #[error("{0}")]
    Hosts(String),
    /// No server could be connected to; what the last try met.
    #[error("no server could be connected to: {0}")]
    Unreachable(ConnectError),
    /// The credentials were refused by the server.
    #[error("the server refused the credentials")]
    AuthFailed,
    /// The server sent what it should not.
    #[error("the server's answer cannot be read: {0}")]
    Protocol(#[from] DecodeError),
}

impl Error {
    /// The server's code, if the server refused.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the server refused with this code.
    #[must_use]
    pub fn is(&self, code: ErrorCode) -> bool {
        self.code() == Some(code)
    }

    /// Whether the same may succeed when it is tried again: the connection was the trouble.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::NotSent { .. } | Self::Unreachable(_))
    }

    /// Whether what must come to pass is to be asked for again: also a server that has too much to do did
    /// not carry it out, and will.
    pub(crate) fn is_passing(&self) -> bool {
        self.is_retryable() || self.is(ErrorCode::THROTTLED_OP)
    }
}
