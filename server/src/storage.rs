//! ZooKeeper's own log and snapshot files, byte for byte.
//!
//! - [`Disk`] is the interface to the file system: the machine's, one in memory, and one that loses
//!   power.
//! - A snapshot contains a whole tree ([`SnapshotReader`], [`write_snapshot`]), a log the
//!   transactions after it ([`LogReader`], [`encode_log_record`]). `directory` knows their names,
//!   and deletes old files.
//! - `mark` is a file beside the logs that says how far they were synced. `torn_tail` keeps what
//!   recovery cuts off a log.
//! - `logs_note` is a file beside the snapshots that names a separate directory of the logs.
//! - `recovery` recovers the state from the files; `log_tail` distinguishes the rest of a crash
//!   from damage.
//! - `start` makes durable what a start has read and written, with syncs `side_by_side`.
//! - `committer` writes and syncs transactions; `durable` is the last zxid that survives a crash.
//! - `stats` is what the storage counts.
//! - [`history`] reads what logs and snapshots tell of the past.
//! - [`Inspection`] and [`compact`] are for administrators.

mod compression;
mod config;
mod disk;
mod error;
mod inspect;
mod log_reader;
mod log_scan;
mod log_tail;
mod log_writer;
mod mark_syncer;
mod names;
mod side_by_side;
mod snapshot;
mod snapshot_fault;
mod snapshot_reader;
mod torn_tail;
mod txn_record;

pub mod history;

pub(crate) mod committer;
pub(crate) mod directory;
pub(crate) mod durable;
pub(crate) mod incoming;
pub(crate) mod logs_note;
pub(crate) mod mark;
pub(crate) mod recovery;
pub(crate) mod snapshot_file;
pub(crate) mod start;
pub(crate) mod stats;

pub use self::compression::{Compression, UnknownCompression};
pub use self::config::{Durability, StorageConfig, UnknownDurability};
pub use self::disk::{DirectoryLock, Disk, DiskFile, FsDisk, LockError, MemDisk, SimDisk};
pub use self::error::StorageError;
pub use self::inspect::{
    CheckedFile, Compacted, FileKind, FileState, Inspection, Opened, compact, open_snapshot,
};
pub use self::log_reader::{LogEnd, LogError, LogReader, LogRecord};
pub use self::log_writer::encode_log_record;
pub use self::snapshot::write_snapshot;
pub use self::snapshot_fault::{SnapshotFault, SnapshotUnusable};
pub use self::snapshot_reader::{SnapshotError, SnapshotReader, SnapshotZnode};
pub use self::txn_record::{TxnDigest, TxnRecordError, decode_txn, encode_txn};
