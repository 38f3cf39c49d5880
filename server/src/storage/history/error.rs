//! Why the past cannot be told.

use std::fmt;
use std::path::PathBuf;

use zoolet_protocol::Zxid;

use super::Moment;
use crate::storage::error::StorageError;

/// Why the past cannot be told.
///
/// ```
/// use zoolet_server::storage::history::HistoryError;
///
/// let error = HistoryError::Vanished { path: "version-2/log.1".into() };
/// assert!(error.to_string().starts_with("version-2/log.1 was deleted while it was to be read"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A server would refuse the files too.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A file was listed and is gone.
    #[error(
        "{} was deleted while it was to be read: a server deletes old files when it has written a \
         snapshot. Try again, or read a copy of the directory",
        path.display()
    )]
    Vanished {
        /// The file.
        path: PathBuf,
    },
    /// There is no file.
    #[error("there are neither logs nor snapshots in {}: no server has written anything here", path.display())]
    Nothing {
        /// The directory.
        path: PathBuf,
    },
    /// The state is older than all that the files can tell.
    #[error(
        "the files do not reach back to {wanted}: {known}. Name a later one, or put older snapshots and logs \
         from a backup beside them, in a copy of the directory"
    )]
    Before {
        /// What was asked for: a zxid, or a time.
        wanted: String,
        /// What the files tell.
        known: Known,
    },
    /// The transaction is newer than all that the files have.
    #[error("there is no transaction {wanted} yet: {known}")]
    Beyond {
        /// What was asked for.
        wanted: Zxid,
        /// What the files tell.
        known: Known,
    },
    /// The only snapshot that leads to the state holds later transactions too.
    #[error(
        "the state at {wanted} cannot be told: {} was written while the server went on, and holds what {later} \
         has done; no older snapshot leads there. Name {later} or a later one",
        snapshot.display()
    )]
    Fuzzy {
        /// The wanted transaction.
        wanted: Zxid,
        /// The snapshot.
        snapshot: PathBuf,
        /// The last transaction that it is known to hold.
        later: Zxid,
    },
    /// No snapshot is there, and the logs do not begin with the first transaction.
    #[error(
        "no state can be told: there is no snapshot, and the logs begin with {first}, in {}. Put the snapshot back \
         that the server wrote before it, in a copy of the directory",
        path.display()
    )]
    NoSnapshot {
        /// The oldest log.
        path: PathBuf,
        /// Its first transaction.
        first: Zxid,
    },
}

/// What the files of a directory tell.
///
/// ```
/// use zoolet_protocol::Zxid;
/// use zoolet_server::storage::history::{Known, Moment};
///
/// let last = Some(Moment { zxid: Zxid(9), time_ms: 0 });
/// let known = Known { first: Zxid(3), last };
/// assert_eq!(known.to_string(), "the files have the states from 0x3 to 0x9 (1970-01-01T00:00:00.000Z)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The transaction after which the first state is known.
    pub first: Zxid,
    /// The last transaction, if there is one after the first state.
    pub last: Option<Moment>,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        match last {
            Some(Moment { zxid, time_ms }) => {
                write!(f, "the files have the states from {first} to {zxid} (")?;
                match jiff::Timestamp::from_millisecond(*time_ms) {
                    Ok(time) => write!(f, "{time:.3})"),
                    Err(_) => write!(f, "{time_ms} ms)"),
                }
            }
            None => write!(f, "the files have the state at {first} only"),
        }
    }
}
