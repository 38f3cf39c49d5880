//! What may go wrong with a shared value.

use crate::client;
use crate::error::LockError;

/// Why a shared value was not read or not changed.
///
/// ```
/// use zoolet_recipes::ValueError;
///
/// let error = ValueError::Corrupt { path: "/count".into(), length: 3, expected: 4 };
/// assert_eq!(
///     error.to_string(),
///     "/count: 3 bytes where a number of 4 bytes is expected; set the number first",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The znode's data is no number of this kind. [`SharedCount::set`](crate::SharedCount::set) or
    /// [`DistributedAtomicLong::force_set`](crate::DistributedAtomicLong::force_set) makes it one.
    #[error(
        "{path}: {length} bytes where a number of {expected} bytes is expected; set the number first"
    )]
    Corrupt {
        /// Of which znode.
        path: String,
        /// How many bytes there are.
        length: usize,
        /// How many there should be.
        expected: usize,
    },
    /// Others changed it each time between the look and the change, as often as the retry policy
    /// allows. It was not changed.
    #[error("{path}: changed by others {tries} times between the look and the change")]
    Contended {
        /// Which znode.
        path: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The sum is no number of 64 bits. It was not changed.
    #[error("{path}: the sum is out of range")]
    OutOfRange {
        /// Which znode.
        path: String,
    },
    /// The data's version is -1, as that of old servers may be after 2^32 changes, and a change by
    /// version would be one whatever the version (CURATOR-688). Set it unconditionally.
    #[error("{path}: the version is -1, by which no change can be bound to it")]
    VersionUnusable {
        /// Which znode.
        path: String,
    },
    /// It was changed, but over a value that was not seen: the znode had been deleted and created
    /// anew since the look, and had come to the same version. ZooKeeper can bind a change to a version
    /// and to nothing else, and versions begin at 0 again; the answer tells that it was another znode.
    /// What it holds now is what was to be written. To keep it from happening, do not delete such
    /// znodes while they are in use.
    #[error("{path}: created anew since it was seen, and changed although its value was not seen")]
    CreatedAnew {
        /// Which znode.
        path: String,
    },
    /// The client could not do its part. After [`ConnectionLoss`](client::Error::ConnectionLoss) it may have been
    /// changed.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The mutex for changes that are always late could not be had. It was not changed.
    #[error("the mutex for changes: {0}")]
    Mutex(#[source] Box<LockError>),
}

impl From<LockError> for ValueError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Client(error) => Self::Client(error),
            LockError::Count(error) => error,
            error => Self::Mutex(Box::new(error)),
        }
    }
}
