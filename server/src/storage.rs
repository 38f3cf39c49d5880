//! ZooKeeper's own files, byte for byte.
//!
//! So far there are the records of a transaction log and what reads one ([`LogReader`]); the server
//! does not write any yet.

mod log_reader;
mod txn_record;

pub use self::log_reader::{LogEnd, LogError, LogReader, LogRecord};
pub use self::txn_record::{TxnDigest, TxnRecordError, decode_txn, encode_txn};
