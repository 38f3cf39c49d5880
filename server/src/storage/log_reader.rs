//! Reads a transaction log (`FileTxnLog`), one record at a time.

use std::io::{self, Read};

use bytes::Bytes;
use zoolet_core::Txn;

use super::txn_record::{TxnDigest, TxnRecordError, decode_txn};
use crate::limits::LOG_RECORD_BYTES_MAX;

/// The magic number, "ZKLG".
pub(super) const MAGIC: [u8; 4] = *b"ZKLG";

/// The version of the format, unchanged since ZooKeeper 3.
pub(super) const VERSION: i32 = 2;

/// The bytes of the header: magic, version, and an id that no server reads.
pub(super) const HEADER_BYTES: usize = 16;

/// The bytes of the checksum and the length before a record.
pub(super) const FRAME_BYTES: usize = 12;

/// The byte after a record.
pub(super) const RECORD_END: u8 = b'B';

/// A record of a log.
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
    /// Its offset in the file.
    pub offset: u64,
    /// The transaction.
    pub txn: Txn,
    /// The digest of the tree after it, if one was written.
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
    /// The last record is complete; zeros or nothing follow it.
    Clean {
        /// The offset at which the last record ends.
        offset: u64,
    },
    /// The last record is incomplete. It was never acknowledged, so a server ignores it.
    Torn {
        /// The offset at which it begins.
        offset: u64,
    },
}

/// Why a log cannot be read further.
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
    /// It is not a log.
    #[error("not a transaction log: it begins with {0:08x} instead of ZKLG")]
    Magic(u32),
    /// It has an unknown version of the format.
    #[error("a transaction log of version {0}; only version 2 is known")]
    Version(i32),
    /// A record has an impossible length.
    #[error("offset {offset}: a record of {length} bytes; the limit is {LOG_RECORD_BYTES_MAX}")]
    Length {
        /// The offset of the record.
        offset: u64,
        /// The length.
        length: i32,
    },
    /// The bytes of a complete record do not have its checksum.
    #[error("offset {offset}: the checksum is {got:08x} where {expected:08x} was written")]
    Checksum {
        /// The offset of the record.
        offset: u64,
        /// The checksum in the file.
        expected: u64,
        /// The checksum of the bytes.
        got: u32,
    },
    /// A record with the right checksum is not a transaction.
    #[error("offset {offset}: {error}")]
    Record {
        /// The offset of the record.
        offset: u64,
        /// Why it cannot be decoded.
        error: TxnRecordError,
    },
}

/// Reads the records of a log in order. It holds one record at a time in memory.
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
    /// The offset of the next record.
    offset: u64,
    end: Option<LogEnd>,
}

impl<R: Read> LogReader<R> {
    /// Reads a log from its beginning, in small pieces: a file should be buffered.
    ///
    /// # Errors
    ///
    /// [`LogError`] if it is not a log.
    pub fn new(mut input: R) -> Result<Self, LogError> {
        let header = read_up_to(&mut input, HEADER_BYTES)?;
        check_header(&header)?;
        Ok(Self { input, offset: HEADER_BYTES as u64, end: None })
    }

    /// Reads the next record; `None` at the end, whose kind [`LogReader::end`] returns.
    ///
    /// # Errors
    ///
    /// [`LogError`] if a record was damaged after it was written. Later records are not read.
    pub fn next_record(&mut self) -> Result<Option<LogRecord>, LogError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let offset = self.offset;
        let frame = read_up_to(&mut self.input, FRAME_BYTES)?;
        let (expected, length) = match read_frame(&frame, offset)? {
            Frame::Record { checksum, length } => (checksum, length),
            Frame::End { is_clean } => return Ok(self.finish(is_clean)),
        };
        let mut record = read_up_to(&mut self.input, length + 1)?;
        if record.len() != length + 1 || record.pop() != Some(RECORD_END) {
            return Ok(self.finish(false));
        }
        check_sum(&record, expected, offset)?;
        let (txn, digest) =
            decode_txn(Bytes::from(record)).map_err(|error| LogError::Record { offset, error })?;
        self.offset += (FRAME_BYTES + length + 1) as u64;
        Ok(Some(LogRecord { offset, txn, digest }))
    }

    /// How the log ended, after [`LogReader::next_record`] has returned `None`.
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

/// Checks the first bytes of a file, of which there may be more.
pub(super) fn check_header(file: &[u8]) -> Result<(), LogError> {
    let Some(&[a, b, c, d, e, f, g, h, ..]) = file.first_chunk::<HEADER_BYTES>() else {
        return Err(LogError::Short(file.len()));
    };
    if [a, b, c, d] != MAGIC {
        return Err(LogError::Magic(u32::from_be_bytes([a, b, c, d])));
    }
    match i32::from_be_bytes([e, f, g, h]) {
        VERSION => Ok(()),
        version => Err(LogError::Version(version)),
    }
}

/// What stands where a record may begin.
pub(super) enum Frame {
    Record { checksum: u64, length: usize },
    End { is_clean: bool },
}

/// Reads the checksum and the length of the record at an offset, from the bytes that begin there.
pub(super) fn read_frame(bytes: &[u8], offset: u64) -> Result<Frame, LogError> {
    let Some(&[checksum @ .., l0, l1, l2, l3]) = bytes.first_chunk::<FRAME_BYTES>() else {
        // A log that was extended with zeros may end anywhere in them.
        return Ok(Frame::End { is_clean: bytes.iter().all(|&byte| byte == 0) });
    };
    let checksum = u64::from_be_bytes(checksum);
    let length = i32::from_be_bytes([l0, l1, l2, l3]);
    match usize::try_from(length) {
        Ok(0) => Ok(Frame::End { is_clean: checksum == 0 }),
        Ok(length) if length <= LOG_RECORD_BYTES_MAX => Ok(Frame::Record { checksum, length }),
        _ => Err(LogError::Length { offset, length }),
    }
}

/// Checks the bytes of the record at an offset.
pub(super) fn check_sum(record: &[u8], expected: u64, offset: u64) -> Result<(), LogError> {
    let got = simd_adler32::adler32(&record);
    if u64::from(got) == expected {
        Ok(())
    } else {
        Err(LogError::Checksum { offset, expected, got })
    }
}

/// Reads `count` bytes, or fewer at the end of the file. It allocates memory for the bytes that
/// exist, not for the claimed number.
fn read_up_to(input: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
