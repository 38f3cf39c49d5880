//! The errors of persistent nodes and memberships.

use zoolet_protocol::SessionId;

use crate::client;

/// Why a znode is not kept, or not any more. The variants name its path.
///
/// ```
/// use zoolet_recipes::NodeError;
///
/// let error = NodeError::WrongKind("/services/a".to_owned());
/// assert_eq!(error.to_string(), "/services/a: a znode that is not ephemeral has this name; delete it");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The time limit has passed. The node goes on with its attempts.
    #[error("{path}: the time limit has passed{}", cause_of(.cause.as_deref()))]
    TimedOut {
        /// The znode.
        path: String,
        /// Why the last attempt failed, if one did.
        cause: Option<Box<Self>>,
    },
    /// An ephemeral of another session has this name. That session may be alive. The node creates
    /// its znode when the other is gone; see [`TakeOver`](crate::TakeOver).
    #[error("{path}: an ephemeral of the session {owner} has this name")]
    Occupied {
        /// The znode.
        path: String,
        /// The session of the ephemeral.
        owner: SessionId,
    },
    /// A znode that is not ephemeral has the name of the ephemeral to be created. It would outlive
    /// the session. The node tries again until it is deleted.
    #[error("{0}: a znode that is not ephemeral has this name; delete it")]
    WrongKind(String),
    /// Other clients created and deleted the znode or its ancestors during each try of one attempt.
    #[error("{0}: other clients created and deleted it, or its ancestors, at the same time")]
    Contended(String),
    /// The identifier or name cannot be part of a znode's name.
    #[error(
        "{name:?} cannot be the name of a znode: it must not be empty, `.`, `..` or contain `/`"
    )]
    Name {
        /// The identifier.
        name: String,
    },
    /// The node is closed.
    #[error("{0}: the node is closed")]
    Closed(String),
    /// A request failed.
    #[error(transparent)]
    Client(#[from] client::Error),
}

impl NodeError {
    /// Whether the connection was the cause, so that the next attempt waits for one anyway.
    pub(crate) fn is_for_want_of_connection(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable() || *error == client::Error::SessionExpired,
            _ => false,
        }
    }
}

/// The cause, as the end of a message.
fn cause_of(cause: Option<&NodeError>) -> String {
    cause.map(|cause| format!("; the last attempt: {cause}")).unwrap_or_default()
}
