//! Why a server cannot use its files.

use std::io;
use std::path::{Path, PathBuf};

use zoolet_protocol::Zxid;

use super::disk::LockError;
use super::log_reader::LogError;
use super::mark::NAME as MARK;
use super::recovery::SnapshotUnusable;

/// Why a server cannot use its files, or go on using them.
///
/// ```
/// use zoolet_server::StartError;
/// use zoolet_server::storage::StorageError;
///
/// fn is_in_use(error: &StartError) -> bool {
///     matches!(error, StartError::Storage(StorageError::Locked { .. }))
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The system refuses something.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another server uses the directory.
    #[error("{} is in use: {source}; stop that server, or choose another directory", path.display())]
    Locked {
        /// Which.
        path: PathBuf,
        /// By whom.
        source: LockError,
    },
    /// A file is in the wrong one of two directories.
    #[error(
        "{} is not where it is looked for, in {}: move it there, or set dataLogDir to where it is",
        path.display(), should_be.display()
    )]
    WrongDirectory {
        /// The file.
        path: PathBuf,
        /// Where it should be.
        should_be: PathBuf,
    },
    /// A log was damaged after it was written.
    #[error(
        "{}: {error}. What was written there was acknowledged: put a good copy in its place, or give \
         up all that is in this log and in later ones by moving them and {MARK} away",
        path.display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where, and how.
        error: LogError,
    },
    /// A piece of a log was lost after it was written.
    #[error(
        "{}: offset {offset}: no record, but there is something at offset {behind}. What was written \
         there was acknowledged: put a good copy in its place, or give up all that is in this log and \
         in later ones by moving them and {MARK} away",
        path.display()
    )]
    Hole {
        /// In which log.
        path: PathBuf,
        /// Where it begins.
        offset: u64,
        /// Where the last byte behind it is.
        behind: u64,
    },
    /// A log ends before the place up to which it was synced.
    #[error(
        "{}: offset {offset}: no record can be read from here on, but by {} the log was synced up to \
         offset {end}, where {durable} ends. What was written there was acknowledged: put a good copy in \
         its place, or give up what comes after {reached} by moving {MARK} away",
        path.display(), mark.display()
    )]
    Lost {
        /// Which.
        path: PathBuf,
        /// Where the last record that can be read ends.
        offset: u64,
        /// The last transaction that can be read.
        reached: Zxid,
        /// Where what was synced ends.
        end: u64,
        /// The last transaction that was synced.
        durable: Zxid,
        /// The file that says so.
        mark: PathBuf,
    },
    /// The files end before the last transaction that was synced.
    #[error(
        "the last transaction in any file is {reached}, but by {} everything was synced up to {durable}, \
         which was in {}: put back what is missing, or give up what comes after {reached} by moving \
         {MARK} away",
        mark.display(), path.display()
    )]
    Missing {
        /// The log that it was in.
        path: PathBuf,
        /// The last transaction that can be read.
        reached: Zxid,
        /// The last transaction that was synced.
        durable: Zxid,
        /// The file that says so.
        mark: PathBuf,
    },
    /// A log has the name of another.
    #[error(
        "{}: its first transaction is {first}, so its name is not its own: name it log.{:x}, or move it \
         away if that log is there",
        path.display(), first.0
    )]
    Misnamed {
        /// Which.
        path: PathBuf,
        /// What it begins with.
        first: Zxid,
    },
    /// A transaction has the last zxid there is, and no other can follow it.
    #[error(
        "{}: offset {offset}: the transaction {}, after which there can be none: no server has come so \
         far, so move this log away",
        path.display(), Zxid(i64::MAX)
    )]
    LastZxid {
        /// In which log.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
    },
    /// Transactions are in no file.
    #[error(
        "{}: offset {offset}: the transaction {found} follows {after}, and none between is in any \
         file: put the missing log back, or move this one, all later ones and {MARK} away",
        path.display()
    )]
    Gap {
        /// In which log.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// The last transaction before it.
        after: Zxid,
        /// Its own.
        found: Zxid,
    },
    /// Transactions are not in their order.
    #[error(
        "{}: offset {offset}: the transaction {found} comes after {after}; did two servers write \
         here?",
        path.display()
    )]
    Order {
        /// In which log.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// The last transaction before it.
        after: Zxid,
        /// Its own.
        found: Zxid,
    },
    /// There are snapshots, and none can be used.
    #[error(
        "no snapshot can be used:{}\nPut a good copy in the place of one, or move them away: the logs \
         are enough where they go back to the first transaction",
        Lines(.0)
    )]
    NoUsableSnapshot(Vec<SnapshotUnusable>),
    /// There are transactions, and not what they start from.
    #[error(
        "there is no snapshot, but {} begins with transaction {first}: put the snapshot back, or set \
         snapshot.trust.empty=true if what came before may be forgotten",
        path.display()
    )]
    SnapshotMissing {
        /// The first log.
        path: PathBuf,
        /// What it begins with.
        first: Zxid,
    },
}

impl StorageError {
    /// For `map_err`, on whatever the system refuses.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

struct Lines<'a>(&'a [SnapshotUnusable]);

impl std::fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|unusable| write!(f, "\n  {unusable}"))
    }
}
