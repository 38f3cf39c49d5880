//! A disk that reports to the oracle which transactions are written to the log, and when, those of
//! the server itself included. It decodes the few fields itself, so that it does not depend on the
//! server's decoder.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_protocol::{OpCode, SessionId, Zxid};
use zoolet_server::storage::{DirectoryLock, Disk, DiskFile, LockError, SimDisk};

use super::oracle::Oracle;

/// The fields of a transaction that the model needs.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) zxid: Zxid,
    pub(crate) session: SessionId,
    pub(crate) op: OpCode,
    /// Of the deletion of a container or TTL znode.
    pub(crate) path: Option<String>,
}

/// The bytes before the first record: a magic number, a version and an id.
const HEADER_BYTES: usize = 16;
/// The bytes before each record: a checksum and a length.
const FRAME_BYTES: usize = 12;

/// A [`SimDisk`] that reports log records and failures to the oracle.
#[derive(Debug, Clone)]
pub(crate) struct LogTap {
    pub(crate) disk: SimDisk,
    oracle: Arc<Oracle>,
}

impl LogTap {
    pub(crate) fn new(oracle: &Arc<Oracle>) -> Self {
        Self { disk: SimDisk::default(), oracle: Arc::clone(oracle) }
    }

    fn told<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|_| self.oracle.disk_failed())
    }
}

impl Disk for LogTap {
    fn create_directory(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.told(self.disk.create_directory(directory))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.disk.open(path)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        self.disk.length(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.told(self.disk.create(path))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_log = name.starts_with("log.");
        Ok(Box::new(TappedFile {
            file,
            is_log,
            unread: Vec::new(),
            skip: HEADER_BYTES,
            tap: self.clone(),
        }))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.told(self.disk.truncate(path, length))
    }

    fn rewrite(&self, path: &Path, part: Range<u64>) -> io::Result<()> {
        self.told(self.disk.rewrite(path, part))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.told(self.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.told(self.disk.remove(path))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.told(self.disk.sync_directory(directory))
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        self.disk.lock(directory)
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct TappedFile {
    file: Box<dyn DiskFile>,
    is_log: bool,
    /// The bytes that do not make a whole record yet.
    unread: Vec<u8>,
    /// The number of bytes before the first record that are still to come.
    skip: usize,
    tap: LogTap,
}

impl TappedFile {
    /// Reports the records that are complete now.
    fn listen(&mut self, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.unread.extend_from_slice(&bytes[skipped..]);
        while let Some((logged, length)) = first_record(&self.unread) {
            self.unread.drain(..length);
            self.tap.oracle.logged(&logged);
        }
    }
}

/// Decodes the first record, and returns it with its length.
fn first_record(bytes: &[u8]) -> Option<(Logged, usize)> {
    let length = usize::try_from(number::<4>(bytes, 8)?).ok()?;
    // One byte follows each record.
    let end = FRAME_BYTES + length + 1;
    let record = bytes.get(FRAME_BYTES..end - 1)?;
    bytes.get(end - 1)?;
    let op = OpCode(i32::try_from(number::<4>(record, 28)?).ok()?);
    let path = (op == OpCode::DELETE_CONTAINER).then(|| {
        let length = number::<4>(record, 32).and_then(|length| usize::try_from(length).ok());
        let text = record.get(36..36 + length.unwrap_or(0)).unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    });
    let session = SessionId(number::<8>(record, 0)?);
    Some((Logged { zxid: Zxid(number::<8>(record, 12)?), session, op, path }, end))
}

/// The integer of this many bytes at an offset.
fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<i64> {
    let bytes = bytes.get(at..at + BYTES)?;
    let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let start = if is_negative { -1 } else { 0 };
    Some(bytes.iter().fold(start, |number: i64, byte| (number << 8) | i64::from(*byte)))
}

impl Write for TappedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes).inspect_err(|_| self.tap.oracle.disk_failed())?;
        if self.is_log {
            self.listen(&bytes[..written]);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DiskFile for TappedFile {
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(position, bytes).inspect_err(|_| self.tap.oracle.disk_failed())
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.file.set_length(length).inspect_err(|_| self.tap.oracle.disk_failed())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync().inspect_err(|_| self.tap.oracle.disk_failed())
    }
}
