//! The errors of partitions.

use crate::client;
use crate::error::LockError;
use crate::node::NodeError;

/// Why a client could not join a party, or has no share.
///
/// ```
/// use zoolet_recipes::{NodeError, PartitionError};
///
/// let error = PartitionError::from(NodeError::Closed("/work/party/x".into()));
/// assert_eq!(error.to_string(), "/work/party/x: the node is closed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The membership in the party, or a name that cannot be that of a znode.
    #[error(transparent)]
    Member(#[from] NodeError),
    /// The lock of an item.
    #[error(transparent)]
    Lock(LockError),
    /// A request failed.
    #[error(transparent)]
    Client(#[from] client::Error),
}

impl From<LockError> for PartitionError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Client(error) => Self::Client(error),
            error => Self::Lock(error),
        }
    }
}
