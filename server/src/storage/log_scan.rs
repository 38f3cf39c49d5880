//! Reads a log to its end, and classifies the end.

use std::io::{self, Read};
use std::path::Path;

use zoolet_protocol::Zxid;

use super::disk::Disk;
use super::error::StorageError;
use super::log_reader::{HEADER_BYTES, LogEnd, LogError, LogReader, LogRecord, MAGIC, VERSION};
use super::log_tail::{self, Tail};

/// The end of an undamaged log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogState {
    /// The last record ends at this offset.
    Whole { end: u64 },
    /// From this offset on, up to `end`, there are incomplete records of a crash; only zeros
    /// follow.
    Torn { offset: u64, end: u64 },
    /// Not even the header was written.
    Unwritten,
}

/// Calls `each` with every record of a log, in order.
pub(super) fn scan(
    disk: &dyn Disk,
    path: &Path,
    mut each: impl FnMut(&LogRecord) -> Result<(), StorageError>,
) -> Result<LogState, StorageError> {
    let damaged = |error| match error {
        LogError::Io(error) => StorageError::io("read", path)(error),
        error => StorageError::Damaged { path: path.to_owned(), error },
    };
    let mut reader = match LogReader::new(open(disk, path)?) {
        Ok(reader) => reader,
        Err(LogError::Short(_) | LogError::Magic(_)) if is_unwritten(disk, path)? => {
            return Ok(LogState::Unwritten);
        }
        Err(error) => return Err(damaged(error)),
    };
    let (offset, checksum) = loop {
        match reader.next_record() {
            Ok(Some(record)) => each(&record)?,
            Ok(None) => match reader.end() {
                Some(LogEnd::Clean { offset } | LogEnd::Torn { offset }) => break (offset, None),
                None => unreachable!("a log without a next record has ended"),
            },
            Err(error @ LogError::Checksum { offset, .. }) => break (offset, Some(error)),
            Err(error) => return Err(damaged(error)),
        }
    };
    let tail = log_tail::look(open(disk, path)?, offset, checksum.is_some());
    match (tail.map_err(StorageError::io("read", path))?, checksum) {
        (Tail::Clean, _) => Ok(LogState::Whole { end: offset }),
        (Tail::Torn { behind }, _) => Ok(LogState::Torn { offset, end: behind + 1 }),
        (Tail::Damaged { .. }, Some(error)) => Err(damaged(error)),
        (Tail::Damaged { behind }, None) => {
            Err(StorageError::Hole { path: path.to_owned(), offset, behind })
        }
    }
}

/// The first transaction of a log, if it is readable: a log that is not needed may be damaged.
pub(super) fn first_zxid(disk: &dyn Disk, path: &Path) -> Option<Zxid> {
    let mut reader = LogReader::new(disk.open(path).ok()?).ok()?;
    Some(reader.next_record().ok()??.txn.zxid)
}

fn open(disk: &dyn Disk, path: &Path) -> Result<Box<dyn Read + Send>, StorageError> {
    disk.open(path).map_err(StorageError::io("read", path))
}

/// Whether a file is a log whose header is incomplete because of a crash.
pub(super) fn is_unwritten(disk: &dyn Disk, path: &Path) -> Result<bool, StorageError> {
    is_blank(open(disk, path)?).map_err(StorageError::io("read", path))
}

fn is_blank(mut input: impl Read) -> io::Result<bool> {
    let mut header = Vec::new();
    input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    let mut expected = [0; HEADER_BYTES];
    expected[..4].copy_from_slice(&MAGIC);
    expected[4..8].copy_from_slice(&VERSION.to_be_bytes());
    let is_ours = header.iter().zip(expected).all(|(&is, right)| is == 0 || is == right);
    Ok(is_ours && log_tail::look(input, 0, false)? == Tail::Clean)
}
