//! How far a log was synced, in a small file beside the logs. What stands in a log up to there was
//! acknowledged: if it is gone, it was lost later, and is not what a crash leaves.
//!
//! The file is written after each sync of the log, and synced itself a moment later by a thread of its own,
//! and when a log ends. So it may tell less than is durable, and never more: what is written to it is
//! true already. ZooKeeper takes no notice of a file of this name, and neither does its purge.
//!
//! Whoever copies the files of a server that runs may copy this one last, and then it tells more than the
//! logs beside it hold. So it names itself by what a copy does not have ([`Disk::identity`]), and a copy of
//! it says nothing.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zoolet_protocol::Zxid;

use super::directory::{Directory, LogFile};
use super::disk::{Disk, DiskFile};
use super::error::StorageError;
use super::mark_syncer::MarkSyncer;
use crate::storage::durable::Durable;

/// The file.
pub(super) const NAME: &str = "zoolet.durable";

/// What it is called until it is whole.
const NAME_UNFINISHED: &str = "zoolet.durable.new";

/// What it begins with, and the version of its format.
const MAGIC: [u8; 8] = *b"ZLDM\0\0\0\x02";

/// There are two marks in it, each in a sector of its own, written by turns: one that is torn leaves the
/// other.
const SLOT_BYTES: usize = 512;

/// The magic, four numbers and a checksum.
const MARK_BYTES: usize = MAGIC.len() + 4 * 8 + 4;

/// How far the logs were synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// The last transaction that was durable.
    pub(crate) last: Zxid,
    /// The log that it is in, by the zxid in its name.
    pub(super) log: Zxid,
    /// Where the record ends.
    pub(super) end: u64,
}

impl Mark {
    /// That a log cannot be read so far.
    pub(super) fn lost(
        self,
        directory: &Directory,
        log: &LogFile,
        offset: u64,
        reached: Zxid,
    ) -> StorageError {
        let (end, durable, mark) = (self.end, self.last, path(directory));
        StorageError::Lost { path: log.path.clone(), offset, reached, end, durable, mark }
    }

    /// That no file reaches so far.
    pub(super) fn missing(self, directory: &Directory, reached: Zxid) -> StorageError {
        let path = directory.log_path(self.log);
        StorageError::Missing { path, reached, durable: self.last, mark: self::path(directory) }
    }

    /// The bytes of a mark in the file of this identity.
    fn encode(self, file: u64) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        let (sealed, checksum) = bytes.split_at_mut(MARK_BYTES - 4);
        sealed[..8].copy_from_slice(&MAGIC);
        sealed[8..16].copy_from_slice(&self.last.0.to_be_bytes());
        sealed[16..24].copy_from_slice(&self.log.0.to_be_bytes());
        sealed[24..32].copy_from_slice(&self.end.to_be_bytes());
        sealed[32..].copy_from_slice(&file.to_be_bytes());
        checksum.copy_from_slice(&simd_adler32::adler32(&&*sealed).to_be_bytes());
        bytes
    }

    /// A mark, and the identity of the file in which it was written.
    fn decode(bytes: &[u8]) -> Option<(Self, u64)> {
        let number = |at: usize| bytes.get(at..at + 8).and_then(|field| field.try_into().ok());
        let last = Zxid(i64::from_be_bytes(number(8)?));
        let log = Zxid(i64::from_be_bytes(number(16)?));
        let mark = Self { last, log, end: u64::from_be_bytes(number(24)?) };
        let file = u64::from_be_bytes(number(32)?);
        (bytes.get(..MARK_BYTES)? == mark.encode(file)).then_some((mark, file))
    }
}

/// The mark of a directory; `None` if there is none, or none that can be read.
pub(super) fn read(directory: &Directory) -> Result<Option<Mark>, StorageError> {
    let path = path(directory);
    let mut input = match directory.disk.open(&path) {
        Ok(input) => input.take(2 * SLOT_BYTES as u64),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io("read", &path)(error)),
    };
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(StorageError::io("read", &path))?;
    let Some((mark, written_in)) = bytes.chunks(SLOT_BYTES).filter_map(Mark::decode).max() else {
        tracing::warn!("{}: no mark can be read, so damage may look like a crash", path.display());
        return Ok(None);
    };
    let file = directory.disk.identity(&path).map_err(StorageError::io("look at", &path))?;
    if file != written_in {
        tracing::info!("{}: a copy, which says nothing of the logs beside it", path.display());
        return Ok(None);
    }
    Ok(Some(mark))
}

/// Where the mark of a directory is.
pub(super) fn path(directory: &Directory) -> PathBuf {
    directory.logs.join(NAME)
}

/// The file, to be written to.
#[derive(Debug)]
pub(crate) struct MarkFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    identity: u64,
    /// Which of the two is written next.
    slot: u64,
    /// Whether something was written that is not synced.
    is_dirty: bool,
    /// Nothing where no thread has a part in what is written.
    syncer: Option<MarkSyncer>,
}

impl MarkFile {
    /// Puts a file with one mark in the place of the one that is there. The name is certain once the
    /// directory was synced.
    pub(crate) fn create(
        directory: &Directory,
        mark: Mark,
        durable: &Durable,
    ) -> Result<Self, StorageError> {
        let (path, unfinished) = (path(directory), directory.logs.join(NAME_UNFINISHED));
        let (file, identity) = write_new(&*directory.disk, &unfinished, mark)?;
        let renamed = directory.disk.rename(&unfinished, &path);
        renamed.map_err(StorageError::io("rename", &unfinished))?;
        let syncer = match directory.disk.is_immediate() {
            true => None,
            false => Some(MarkSyncer::start(directory, &path, durable)?),
        };
        Ok(Self { file, path, identity, slot: 1, is_dirty: false, syncer })
    }

    pub(super) fn write(&mut self, mark: Mark) -> Result<(), StorageError> {
        let position = self.slot * SLOT_BYTES as u64;
        let written = self.file.write_at(position, &mark.encode(self.identity));
        written.map_err(StorageError::io("write to", &self.path))?;
        self.slot = 1 - self.slot;
        self.is_dirty = true;
        if let Some(syncer) = &self.syncer {
            syncer.notify();
        }
        Ok(())
    }

    /// Makes certain what was written, now.
    pub(super) fn sync(&mut self) -> Result<(), StorageError> {
        if self.is_dirty {
            self.file.sync().map_err(StorageError::io("sync", &self.path))?;
            self.is_dirty = false;
        }
        Ok(())
    }
}

/// A new file with one mark, and its identity.
fn write_new(
    disk: &dyn Disk,
    path: &Path,
    mark: Mark,
) -> Result<(Box<dyn DiskFile>, u64), StorageError> {
    let mut file = disk.create(path).map_err(StorageError::io("create", path))?;
    let identity = disk.identity(path).map_err(StorageError::io("look at", path))?;
    let mut bytes = [0; 2 * SLOT_BYTES];
    bytes[..MARK_BYTES].copy_from_slice(&mark.encode(identity));
    file.write_all(&bytes).map_err(StorageError::io("write to", path))?;
    file.sync().map_err(StorageError::io("sync", path))?;
    Ok((file, identity))
}
