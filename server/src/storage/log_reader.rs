//! Reads a transaction log (`FileTxnLog`), one record at a time.

use std::io::{self, Read};

use bytes::Bytes;
use zoolet_core::Txn;

use super::txn_record::{TxnDigest, TxnRecordError, decode_txn};
use crate::limits::LOG_RECORD_BYTES_MAX;

/// "ZKLG".
pub(super) const MAGIC: [u8; 4] = *b"ZKLG";

/// The version of the format: there has been no other since ZooKeeper 3.
pub(super) const VERSION: i32 = 2;

/// Magic, version, and an id that nobody reads.
pub(super) const HEADER_BYTES: usize = 16;

/// The checksum and the length of a record.
pub(super) const FRAME_BYTES: usize = 12;

/// What ends a record.
pub(super) const RECORD_END: u8 = b'B';

/// One record.
///
/// ```
/// use zoolet_server::storage::LogRecord;
///
/// fn is_newer(record: &LogRecord, zxid: zoolet_protocol::Zxid) -> bool {
///     record.txn.zxid > zxid
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// Where it begins in the file.
    pub offset: u64,
    /// What was decided.
    pub txn: Txn,
    /// The sum over the tree after it, if it was written.
    pub digest: Option<TxnDigest>,
}

/// How a log ended.
///
/// ```
/// use zoolet_server::storage::LogEnd;
///
/// assert_ne!(LogEnd::Clean { offset: 16 }, LogEnd::Torn { offset: 16 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEnd {
    /// The last record is whole; behind it are zeros or nothing.
    Clean {
        /// Where the last record ends.
        offset: u64,
    },
    /// The last record was not written to its end. Nobody was told of it, so it is as if it had not
    /// been begun.
    Torn {
        /// Where it begins.
        offset: u64,
    },
}

/// Why a log cannot be read on.
///
/// ```
/// use zoolet_server::storage::LogReader;
///
/// let error = LogReader::new(&b"PK\x03\x04 some other file"[..]).unwrap_err();
/// assert_eq!(error.to_string(), "not a transaction log: it begins with 504b0304 instead of ZKLG");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is shorter than the header of a log.
    #[error("not a transaction log: {0} bytes, and its header alone has 16")]
    Short(usize),
    /// It is some other file.
    #[error("not a transaction log: it begins with {0:08x} instead of ZKLG")]
    Magic(u32),
    /// It is a log in a format of another time.
    #[error("a transaction log of version {0}; only version 2 is known")]
    Version(i32),
    /// A length that no record has.
    #[error("offset {offset}: a record of {length} bytes; the limit is {LOG_RECORD_BYTES_MAX}")]
    Length {
        /// Where the record begins.
        offset: u64,
        /// What it claims.
        length: i32,
    },
    /// The bytes of a whole record are not those that were written.
    #[error("offset {offset}: the checksum is {got:08x} where {expected:08x} was written")]
    Checksum {
        /// Where the record begins.
        offset: u64,
        /// What was written.
        expected: u64,
        /// What the bytes give.
        got: u32,
    },
    /// A record with the right checksum is no transaction.
    #[error("offset {offset}: {error}")]
    Record {
        /// Where the record begins.
        offset: u64,
        /// What is wrong with it.
        error: TxnRecordError,
    },
}

/// Reads the records of a log in their order. Holds one record at a time, however long the log is.
///
/// ```no_run
/// use std::fs::File;
/// use std::io::BufReader;
/// use zoolet_server::storage::LogReader;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let mut log = LogReader::new(BufReader::new(File::open("version-2/log.1")?))?;
/// while let Some(record) = log.next_record()? {
///     println!("{}: {:?}", record.txn.zxid, record.txn.op);
/// }
/// println!("{:?}", log.end());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogReader<R> {
    input: R,
    /// Where the next record begins.
    offset: u64,
    end: Option<LogEnd>,
}

impl<R: Read> LogReader<R> {
    /// A reader of a log from its beginning. The input is read in small pieces, so a file wants a
    /// buffer before it.
    ///
    /// # Errors
    ///
    /// [`LogError`] if it is no log.
    pub fn new(mut input: R) -> Result<Self, LogError> {
        let header = read_up_to(&mut input, HEADER_BYTES)?;
        let Ok(header) = <[u8; HEADER_BYTES]>::try_from(header.as_slice()) else {
            return Err(LogError::Short(header.len()));
        };
        let [a, b, c, d, e, f, g, h, ..] = header;
        if [a, b, c, d] != MAGIC {
            return Err(LogError::Magic(u32::from_be_bytes([a, b, c, d])));
        }
        match i32::from_be_bytes([e, f, g, h]) {
            VERSION => Ok(Self { input, offset: HEADER_BYTES as u64, end: None }),
            version => Err(LogError::Version(version)),
        }
    }

    /// The next record; `None` at the end, and [`LogReader::end`] tells which end that is.
    ///
    /// # Errors
    ///
    /// [`LogError`] if a record was damaged after it was written. What comes behind it is not read.
    pub fn next_record(&mut self) -> Result<Option<LogRecord>, LogError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let offset = self.offset;
        let frame = read_up_to(&mut self.input, FRAME_BYTES)?;
        let Ok(frame) = <[u8; FRAME_BYTES]>::try_from(frame.as_slice()) else {
            // A file that is grown ahead of its records may end anywhere in the zeros.
            let is_clean = frame.iter().all(|&byte| byte == 0);
            return Ok(self.finish(is_clean));
        };
        let [checksum @ .., l0, l1, l2, l3] = frame;
        let expected = u64::from_be_bytes(checksum);
        let length = i32::from_be_bytes([l0, l1, l2, l3]);
        if length == 0 {
            return Ok(self.finish(expected == 0));
        }
        let length = match usize::try_from(length) {
            Ok(bytes) if bytes <= LOG_RECORD_BYTES_MAX => bytes,
            _ => return Err(LogError::Length { offset, length }),
        };
        let mut record = read_up_to(&mut self.input, length + 1)?;
        if record.len() != length + 1 || record.pop() != Some(RECORD_END) {
            return Ok(self.finish(false));
        }
        let got = simd_adler32::adler32(&record.as_slice());
        if u64::from(got) != expected {
            return Err(LogError::Checksum { offset, expected, got });
        }
        let (txn, digest) =
            decode_txn(Bytes::from(record)).map_err(|error| LogError::Record { offset, error })?;
        self.offset += (FRAME_BYTES + length + 1) as u64;
        Ok(Some(LogRecord { offset, txn, digest }))
    }

    /// How the log ended, once [`LogReader::next_record`] has said that it did.
    #[must_use]
    pub fn end(&self) -> Option<LogEnd> {
        self.end
    }

    fn finish(&mut self, is_clean: bool) -> Option<LogRecord> {
        let offset = self.offset;
        self.end = Some(if is_clean { LogEnd::Clean { offset } } else { LogEnd::Torn { offset } });
        None
    }
}

/// As many bytes as there are, `count` at most. Memory is taken for what is there, not for what is
/// claimed.
fn read_up_to(input: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
