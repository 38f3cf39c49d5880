//! The durable mark: a small file beside the logs that says how far the log was synced. Records up
//! to the mark were acknowledged, so if one of them is missing it was lost later: a crash does not
//! remove it.
//!
//! The file is written after each sync of the log. A thread of its own syncs the file a moment
//! later, and so does the end of a log. So the mark may be behind the durable zxid, and is never
//! ahead of it. ZooKeeper and its purge ignore a file of this name.
//!
//! A backup of a running server may copy this file last, and then the mark would be ahead of the
//! copied logs. So the file contains its own identity
//! ([`Disk::identity`](super::Disk::identity)), which a copy does not share: the mark in a copy is
//! ignored.

use std::io::{self, Read};
use std::path::PathBuf;

use zoolet_protocol::Zxid;

use super::directory::{Directory, LogFile};
use super::disk::DiskFile;
use super::error::StorageError;
use super::mark_syncer::MarkSyncer;
use super::names::DURABLE_MARK;
use crate::storage::durable::Durable;

/// Its name until it is complete.
const NAME_UNFINISHED: &str = "zoolet.durable.new";

/// Its first bytes, which contain the version of its format.
const MAGIC: [u8; 8] = *b"ZLDM\0\0\0\x02";

/// The file contains two marks, each in a sector of its own, which are written alternately: if a
/// crash tears one the other is intact.
const SLOT_BYTES: usize = 512;

/// The magic, four numbers and a checksum.
const MARK_BYTES: usize = MAGIC.len() + 4 * 8 + 4;

/// How far the log was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// The last durable transaction.
    pub(crate) last: Zxid,
    /// The log that contains it, by the zxid in the log's name.
    pub(super) log: Zxid,
    /// The offset at which its record ends.
    pub(super) end: u64,
}

impl Mark {
    /// The error of a log that cannot be read up to the mark.
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

    /// The error of files that end before the mark.
    pub(super) fn missing(self, directory: &Directory, reached: Zxid) -> StorageError {
        let path = directory.log_path(self.log);
        StorageError::Missing { path, reached, durable: self.last, mark: self::path(directory) }
    }

    /// The bytes of a mark in the file with this identity.
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

    /// A mark, and the identity of the file to which it was written.
    fn decode(bytes: &[u8]) -> Option<(Self, u64)> {
        let number = |at: usize| bytes.get(at..at + 8).and_then(|field| field.try_into().ok());
        let last = Zxid(i64::from_be_bytes(number(8)?));
        let log = Zxid(i64::from_be_bytes(number(16)?));
        let mark = Self { last, log, end: u64::from_be_bytes(number(24)?) };
        let file = u64::from_be_bytes(number(32)?);
        (bytes.get(..MARK_BYTES)? == mark.encode(file)).then_some((mark, file))
    }
}

/// Reads the mark of a directory; `None` if there is no valid one. If there is a file that does not
/// count, `warn` gets the reason.
pub(super) fn read(
    directory: &Directory,
    warn: impl FnOnce(String),
) -> Result<Option<Mark>, StorageError> {
    let path = path(directory);
    let mut input = match directory.disk.open(&path) {
        Ok(input) => input.take(2 * SLOT_BYTES as u64),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io("read", &path)(error)),
    };
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(StorageError::io("read", &path))?;
    let Some((mark, written_in)) = bytes.chunks(SLOT_BYTES).filter_map(Mark::decode).max() else {
        warn(format!("{}: no mark can be read, so damage may look like a crash", path.display()));
        return Ok(None);
    };
    let file = directory.disk.identity(&path).map_err(StorageError::io("look at", &path))?;
    if file != written_in {
        warn(format!(
            "{}: a copy, which says nothing of the logs beside it: that the newest logs are missing \
             would not be noticed",
            path.display()
        ));
        return Ok(None);
    }
    Ok(Some(mark))
}

/// The path of the mark of a directory.
pub(super) fn path(directory: &Directory) -> PathBuf {
    directory.logs.join(DURABLE_MARK)
}

fn unfinished_path(directory: &Directory) -> PathBuf {
    directory.logs.join(NAME_UNFINISHED)
}

/// The mark's file, opened for writing.
#[derive(Debug)]
pub(crate) struct MarkFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    identity: u64,
    /// Which of the two marks is written next.
    slot: u64,
    /// Whether it was written since the last sync.
    is_dirty: bool,
    /// `None` on a disk without threads.
    syncer: Option<MarkSyncer>,
}

/// A new file with one mark, under its temporary name.
#[derive(Debug)]
pub(super) struct NewMark {
    file: Box<dyn DiskFile>,
    identity: u64,
}

impl NewMark {
    /// Writes it without a sync.
    pub(super) fn write(directory: &Directory, mark: Mark) -> Result<Self, StorageError> {
        let (path, disk) = (&unfinished_path(directory), &directory.disk);
        let mut file = disk.create(path).map_err(StorageError::io("create", path))?;
        let identity = disk.identity(path).map_err(StorageError::io("look at", path))?;
        let mut bytes = [0; 2 * SLOT_BYTES];
        bytes[..MARK_BYTES].copy_from_slice(&mark.encode(identity));
        file.write_all(&bytes).map_err(StorageError::io("write to", path))?;
        Ok(Self { file, identity })
    }

    pub(super) fn sync(&mut self, directory: &Directory) -> Result<(), StorageError> {
        let path = unfinished_path(directory);
        self.file.sync().map_err(StorageError::io("sync", &path))
    }

    /// Replaces the mark's file by it. The new name survives a crash once the directory was synced.
    pub(super) fn publish(
        self,
        directory: &Directory,
        durable: &Durable,
    ) -> Result<MarkFile, StorageError> {
        let (path, unfinished) = (path(directory), unfinished_path(directory));
        let renamed = directory.disk.rename(&unfinished, &path);
        renamed.map_err(StorageError::io("rename", &unfinished))?;
        let syncer = match directory.disk.is_immediate() {
            true => None,
            false => Some(MarkSyncer::start(directory, &path, durable)?),
        };
        let Self { file, identity } = self;
        Ok(MarkFile { file, path, identity, slot: 1, is_dirty: false, syncer })
    }
}

impl MarkFile {
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

    /// Syncs the file now.
    pub(super) fn sync(&mut self) -> Result<(), StorageError> {
        if self.is_dirty {
            self.file.sync().map_err(StorageError::io("sync", &self.path))?;
            self.is_dirty = false;
        }
        Ok(())
    }
}
