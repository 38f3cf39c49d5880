//! Why a server cannot use its data directory.

use std::io;
use std::path::{Path, PathBuf};

use zoolet_protocol::Zxid;

use super::disk::LockError;
use super::log_reader::LogError;
use super::names::DURABLE_MARK;
use super::snapshot_fault::SnapshotUnusable;

/// Why a server cannot use its data directory, or can no longer write to it.
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
    /// The operating system returned an error.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A directory is missing, and may not be created
    /// ([`StorageConfig::create_directories`](super::StorageConfig::create_directories)).
    #[error(
        "the directory {} is missing, and datadir.autocreate=false forbids to create it; mount its \
         disk, or create it for a new server",
        path.display()
    )]
    MissingDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Another server uses the directory.
    #[error("{} is in use: {source}; stop that server, or choose another directory", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that uses it.
        source: LockError,
    },
    /// A file is in the wrong directory: a log with the snapshots, or a snapshot with the logs.
    #[error(
        "{} is in the wrong directory: move all files of its kind (with the logs {DURABLE_MARK} too) to {} \
         by mv -n, or set dataLogDir to the directory of the logs",
        path.display(), should_be.display()
    )]
    WrongDirectory {
        /// The file.
        path: PathBuf,
        /// The directory in which it should be.
        should_be: PathBuf,
    },
    /// There are logs in both directories.
    #[error(
        "{} is in the wrong directory, and {logs} contains logs too. Unless somebody moved only a part \
         of the logs, these are two different histories: the server ran once without dataLogDir. Keep a \
         copy of both directories. To go on with {logs}, move aside the logs and {DURABLE_MARK} of \
         {snapshots}, and its snapshots from snapshot.{:x} on; to go on with {snapshots}, remove dataLogDir, \
         and move aside the files of {logs}",
        path.display(), first.0, logs = logs.display(), snapshots = snapshots.display()
    )]
    TwoHistories {
        /// The first log in the directory of the snapshots.
        path: PathBuf,
        /// The first transaction of that log. Later snapshots belong to the same history.
        first: Zxid,
        /// The directory of the snapshots.
        snapshots: PathBuf,
        /// The directory of the logs.
        logs: PathBuf,
    },
    /// There are snapshots of the same name in both directories.
    #[error(
        "{} is in the wrong directory, and {} contains a file of that name too: the server ran once with \
         other directories. Keep a copy of both, and move aside the one that is not to be used",
        path.display(), should_be.display()
    )]
    SameSnapshot {
        /// The snapshot in the directory of the logs.
        path: PathBuf,
        /// The directory of the snapshots.
        should_be: PathBuf,
    },
    /// The logs are in another directory than the configured one.
    #[error(
        "{} says that the logs are in {noted}, but {} contains neither logs nor {DURABLE_MARK}: is \
         dataLogDir missing? Set it to the directory of the logs, or abandon the logs by moving {} away",
        note.display(), logs.display(), note.display()
    )]
    LogsElsewhere {
        /// The file that names the directory of the logs.
        note: PathBuf,
        /// The directory that it names.
        noted: String,
        /// The directory in which the configured server would look for logs.
        logs: PathBuf,
    },
    /// A log was damaged after it was written.
    #[error(
        "{}: {error}. The server had acknowledged what was written there, unless it crashed before it had synced \
         that: restore a good copy of the file, or abandon everything in this log and in later ones by moving them \
         away, with {DURABLE_MARK} if there is one",
        path.display()
    )]
    Damaged {
        /// The log.
        path: PathBuf,
        /// The offset, and what is wrong.
        error: LogError,
    },
    /// A part of a log was lost after it was written.
    #[error(
        "{}: offset {offset}: no record, although data follows at offset {behind}. The server had \
         acknowledged what was written there, unless it crashed before it had synced that: restore a good copy of \
         the file, or abandon everything in this log and in later ones by moving them away, with {DURABLE_MARK} if \
         there is one",
        path.display()
    )]
    Hole {
        /// The log.
        path: PathBuf,
        /// The offset at which the lost part begins.
        offset: u64,
        /// The offset of the last byte after it.
        behind: u64,
    },
    /// A log ends before the durable mark.
    #[error(
        "{}: offset {offset}: no record can be read from here on, although according to {} the log was \
         synced up to offset {end}, where {durable} ends. The server had acknowledged what was written \
         there: restore a good copy of the file, or abandon everything after {reached} by moving \
         {DURABLE_MARK} away",
        path.display(), mark.display()
    )]
    Lost {
        /// The log.
        path: PathBuf,
        /// The offset at which the last readable record ends.
        offset: u64,
        /// The last readable transaction.
        reached: Zxid,
        /// The offset up to which the log was synced.
        end: u64,
        /// The last transaction that was synced.
        durable: Zxid,
        /// The file with the durable mark.
        mark: PathBuf,
    },
    /// The files end before the last transaction that was synced.
    #[error(
        "the last transaction in any file is {reached}, although according to {} everything was synced up \
         to {durable}, which was in {}: restore the missing files, or abandon everything after \
         {reached} by moving {DURABLE_MARK} away",
        mark.display(), path.display()
    )]
    Missing {
        /// The log that contained it.
        path: PathBuf,
        /// The last readable transaction.
        reached: Zxid,
        /// The last transaction that was synced.
        durable: Zxid,
        /// The file with the durable mark.
        mark: PathBuf,
    },
    /// A log does not begin with the transaction in its name.
    #[error(
        "{}: its first transaction is {first}, which its name does not say: name it log.{:x}, or move it \
         away if that log exists",
        path.display(), first.0
    )]
    Misnamed {
        /// The log.
        path: PathBuf,
        /// Its first transaction.
        first: Zxid,
    },
    /// A transaction has the greatest possible zxid, which no other can follow.
    #[error(
        "{}: offset {offset}: the transaction has the greatest possible zxid, {}, which no server \
         reaches: move this log away",
        path.display(), Zxid(i64::MAX)
    )]
    LastZxid {
        /// The log.
        path: PathBuf,
        /// The offset of the record.
        offset: u64,
    },
    /// Transactions are missing.
    #[error(
        "{}: offset {offset}: the transaction {found} follows {after}, and none between is in any \
         file: put the missing log back, or move this one and all later ones away, with {DURABLE_MARK} if there \
         is one",
        path.display()
    )]
    Gap {
        /// The log with the next transaction.
        path: PathBuf,
        /// The offset of its record.
        offset: u64,
        /// The last transaction before the missing ones.
        after: Zxid,
        /// The next transaction.
        found: Zxid,
    },
    /// A transaction is out of order.
    #[error(
        "{}: offset {offset}: the transaction {found} comes after {after}; did two servers write \
         here?",
        path.display()
    )]
    Order {
        /// The log.
        path: PathBuf,
        /// The offset of its record.
        offset: u64,
        /// The transaction before it.
        after: Zxid,
        /// Its zxid.
        found: Zxid,
    },
    /// No snapshot is usable.
    #[error(
        "no snapshot can be used:{}\nRestore a good copy of one, or move all of them away if the logs \
         begin with the first transaction",
        Lines(.0)
    )]
    NoUsableSnapshot(Vec<SnapshotUnusable>),
    /// The logs do not begin with the first transaction, and there is no snapshot.
    #[error(
        "there is no snapshot, but {} begins with transaction {first}: put the snapshot back, or set \
         snapshot.trust.empty=true if the earlier transactions are not needed",
        path.display()
    )]
    SnapshotMissing {
        /// The first log.
        path: PathBuf,
        /// Its first transaction.
        first: Zxid,
    },
}

impl StorageError {
    /// For `map_err`: an error of the system in an operation on a path.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
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
