//! The errors of shared values.

use crate::client;
use crate::error::LockError;

/// Why a shared value could not be read or changed.
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
    /// The znode's data is not a number of this kind. [`SharedCount::set`](crate::SharedCount::set)
    /// or [`DistributedAtomicLong::force_set`](crate::DistributedAtomicLong::force_set) makes it
    /// one.
    #[error(
        "{path}: {length} bytes where a number of {expected} bytes is expected; set the number first"
    )]
    Corrupt {
        /// The znode.
        path: String,
        /// How many bytes its data has.
        length: usize,
        /// How many bytes a number has.
        expected: usize,
    },
    /// Other clients changed the value between the read and the write, as often as the retry policy
    /// allows. It was not changed.
    #[error("{path}: other clients changed it {tries} times between the read and the write")]
    Contended {
        /// The znode.
        path: String,
        /// The number of attempts.
        tries: u32,
    },
    /// The sum does not fit into the bits of the number. The number was not changed.
    #[error("{path}: the sum is out of range")]
    OutOfRange {
        /// The znode.
        path: String,
    },
    /// The version of the data is -1, as on old servers after 2^32 changes. A write with this
    /// version would be unconditional (CURATOR-688). Set the value unconditionally.
    #[error(
        "{path}: the version is -1, so that no conditional write is possible; set it unconditionally"
    )]
    VersionUnusable {
        /// The znode.
        path: String,
    },
    /// The write replaced a value that was not read: the znode was deleted and created again since
    /// the read, and had the same version. ZooKeeper checks nothing but the version, and versions
    /// begin at 0 again; the Stat in the answer shows that it is another znode. The znode has the
    /// new value now. To avoid this, do not delete such znodes while they are in use.
    #[error(
        "{path}: deleted and created again since it was read; the write replaced an unread value"
    )]
    CreatedAnew {
        /// The znode.
        path: String,
    },
    /// A request failed. After [`ConnectionLoss`](client::Error::ConnectionLoss) the value may have been changed.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The mutex for changes could not be acquired. The value was not changed.
    #[error("cannot acquire the mutex for changes: {0}")]
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
