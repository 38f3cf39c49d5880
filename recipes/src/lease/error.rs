//! The errors of leases.

use std::time::Duration;

use crate::client;
use crate::error::LockError;

/// Why a lease could not be asked for. Whether another holds it is no error.
///
/// ```
/// use zoolet_recipes::LeaseError;
///
/// let error = LeaseError::Version { path: "/lease/lease_holder".into(), version: 2 };
/// assert_eq!(
///     error.to_string(),
///     "/lease/lease_holder: a lease of version 2, and version 1 is known; update this program"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The znode's data is not that of a lease. It was not changed: delete the znode.
    #[error("{path}: not a lease: {reason}; delete the znode")]
    Unreadable {
        /// The znode.
        path: String,
        /// What is wrong with its data.
        reason: String,
    },
    /// A later version of kazoo wrote the lease. It was not changed.
    #[error("{path}: a lease of version {version}, and version 1 is known; update this program")]
    Version {
        /// The znode.
        path: String,
        /// The version.
        version: i64,
    },
    /// The identifier is too long for a znode that others are to read.
    #[error("an identifier of {length} bytes; the longest has {max}")]
    IdentifierTooLong {
        /// Its length.
        length: usize,
        /// The limit.
        max: usize,
    },
    /// The lease would end in a year that its text cannot express.
    #[error("a lease of {0:?} ends after the year 9999; ask for a shorter one")]
    TooLong(Duration),
    /// The lock under which leases change hands could not be acquired, or was lost before the lease
    /// was written.
    #[error("cannot acquire the lock of the lease: {0}")]
    Lock(#[source] Box<LockError>),
    /// A request failed.
    #[error(transparent)]
    Client(#[from] client::Error),
}

impl From<LockError> for LeaseError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Client(error) => Self::Client(error),
            error => Self::Lock(Box::new(error)),
        }
    }
}
