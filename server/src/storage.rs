//! ZooKeeper's own files, byte for byte.
//!
//! So far there are the records of a transaction log and what reads one ([`LogReader`]), and
//! snapshots both ways ([`SnapshotReader`], [`write_snapshot`]). The server does not use them yet.

mod log_reader;
mod snapshot;
mod snapshot_reader;
mod txn_record;

pub use self::log_reader::{LogEnd, LogError, LogReader, LogRecord};
pub use self::snapshot::write_snapshot;
pub use self::snapshot_reader::{SnapshotError, SnapshotReader, SnapshotZnode};
pub use self::txn_record::{TxnDigest, TxnRecordError, decode_txn, encode_txn};
