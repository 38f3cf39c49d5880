//! Why a call failed.

use std::fmt;

use super::connecting::ConnectError;
use zoolet_protocol::{DecodeError, ErrorCode, OpCode, PathError};

/// Why a call failed, and what the caller may conclude.
///
/// The variants carry the names of ZooKeeper's `KeeperException` where it has one. Whether a write
/// was carried out follows from the variant: after [`Error::Refused`] and [`Error::NotSent`] it
/// certainly was not, after [`Error::ConnectionLoss`] nobody knows: see [`Error::has_no_effect`].
///
/// ```
/// use zoolet_client::Error;
/// use zoolet_client::protocol::{ErrorCode, OpCode};
///
/// let (op, path, code) = (OpCode::CREATE, "/a/b".to_owned(), ErrorCode::NO_NODE);
/// let error = Error::Refused { op, path, code, index: None };
/// assert_eq!(error.to_string(), "create /a/b: NoNode: the parent /a does not exist");
/// assert_eq!(error.code(), Some(ErrorCode::NO_NODE));
/// assert!(error.has_no_effect());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request, with the code of a `KeeperException`: nothing was changed.
    #[error("{}: {code}{}", Subject(*op, path), MissingParent::of(*op, path, *code))]
    Refused {
        /// The operation that was refused.
        op: OpCode,
        /// The path that it names.
        path: String,
        /// The reason.
        code: ErrorCode,
        /// In a multi, the place of the refused operation among the operations, from 0.
        index: Option<usize>,
    },
    /// The connection was lost after the request was sent and before the reply came: the server may
    /// have carried it out (`KeeperException.ConnectionLoss`).
    #[error(
        "{}: the connection was lost before the reply came, so it may have happened",
        Subject(*op, path)
    )]
    ConnectionLoss {
        /// The operation that was asked for.
        op: OpCode,
        /// The path that it names.
        path: String,
    },
    /// The request was never sent, because there was no connection within the [connection
    /// timeout](crate::Builder::connection_timeout): nothing was changed. ZooKeeper's own client
    /// says `ConnectionLoss` here too.
    #[error("{}: not sent, because there was no connection in time", Subject(*op, path))]
    NotSent {
        /// The operation that was asked for.
        op: OpCode,
        /// The path that it names.
        path: String,
    },
    /// The request is longer than the client's limit, or the one that would register its watch again after a
    /// reconnect. It was not sent: a server closes the connection at a request that is longer than its own.
    #[error(
        "{}: the request has {bytes} bytes, and the limit of this client is {limit} \
         (Builder::jute_max_buffer; no more than jute.maxbuffer of the servers)",
        Subject(*op, path)
    )]
    TooLong {
        /// The operation that was asked for.
        op: OpCode,
        /// The path that it names.
        path: String,
        /// The bytes of the request.
        bytes: usize,
        /// The [limit](crate::Builder::jute_max_buffer).
        limit: usize,
    },
    /// The session to which the request or the watch belonged has expired
    /// (`KeeperException.SessionExpired`), or must be taken to have: its ephemerals and watches are
    /// gone. A request that was sent before may have been carried out.
    #[error("the session has expired")]
    SessionExpired,
    /// The client is closed: its user closed it, the server refused its credentials, or the server
    /// in this process to which it was connected has ended.
    #[error("the client is closed")]
    Closed,
    /// The path is not valid: nothing was sent.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The list of servers is not valid, or cannot have the builder's TLS: nothing was sent.
    #[error("{0}")]
    Hosts(String),
    /// No server could be connected to: what the last attempt met.
    #[error("no server could be connected to: {0}")]
    Unreachable(ConnectError),
    /// The server refused the credentials (`KeeperException.AuthFailed`); the client is closed.
    #[error("the server refused the credentials")]
    AuthFailed,
    /// The data of a znode cannot be decompressed.
    #[cfg(feature = "compression")]
    #[error("{path}: the data cannot be decompressed: {fault}")]
    Decompress {
        /// The znode.
        path: String,
        /// Why.
        fault: crate::compression::DecompressError,
    },
    /// The server sent what is not valid in the protocol. A write may have been carried out.
    #[error("the server's answer cannot be read: {0}")]
    Protocol(#[from] DecodeError),
}

impl Error {
    /// The server's code, if the server refused the request.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the server refused the request with this code.
    #[must_use]
    pub fn is(&self, code: ErrorCode) -> bool {
        self.code() == Some(code)
    }

    /// Which operation of a multi the server refused, by its place among them, from 0.
    #[must_use]
    pub fn operation_index(&self) -> Option<usize> {
        match self {
            Self::Refused { index, .. } => *index,
            _ => None,
        }
    }

    /// Whether the request certainly changed nothing.
    #[must_use]
    pub fn has_no_effect(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::NotSent { .. } | Self::AuthFailed => true,
            Self::Path(_) | Self::Hosts(_) | Self::Unreachable(_) | Self::TooLong { .. } => true,
            #[cfg(feature = "compression")]
            Self::Decompress { .. } => true,
            Self::ConnectionLoss { .. } | Self::SessionExpired | Self::Closed => false,
            Self::Protocol(_) => false,
        }
    }

    /// Whether the same request may succeed later, because it failed for want of a connection. A
    /// write may have been carried out all the same: see [`Error::has_no_effect`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::ConnectionLoss { .. } | Self::NotSent { .. } | Self::Unreachable(_))
    }

    /// Whether a request that must succeed is to be sent again: it failed for want of a connection,
    /// or the server was too busy to carry it out (`THROTTLEDOP`).
    pub(crate) fn is_passing(&self) -> bool {
        self.is_retryable() || self.is(ErrorCode::THROTTLED_OP)
    }
}

/// The parent whose absence made the server refuse a create. It may be the znode of the chroot, whose
/// path is not known here.
struct MissingParent<'a>(Option<&'a str>);

impl<'a> MissingParent<'a> {
    fn of(op: OpCode, path: &'a str, code: ErrorCode) -> Self {
        let parent = path.rfind('/').filter(|&slash| slash > 0).map(|slash| &path[..slash]);
        Self(parent.filter(|_| op.is_create() && code == ErrorCode::NO_NODE))
    }
}

impl fmt::Display for MissingParent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(parent) => write!(f, ": the parent {parent} does not exist"),
            None => Ok(()),
        }
    }
}

/// The operation of an error and its path, if it has one.
struct Subject<'a>(OpCode, &'a str);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(op, path) = self;
        if path.is_empty() { write!(f, "{op}") } else { write!(f, "{op} {path}") }
    }
}
