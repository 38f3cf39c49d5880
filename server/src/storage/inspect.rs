//! Inspects and compacts the files of a stopped server, for administrators.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zoolet_core::{Frozen, Settings};
use zoolet_protocol::Zxid;

use super::config::{Durability, StorageConfig};
use super::directory::{Directory, Files, LogFile, OnRefusal, SnapshotFile};
use super::disk::Disk;
use super::error::StorageError;
use super::log_scan::{self, LogState};
use super::mark::{self, Mark};
use super::recovery;
use super::snapshot_fault::SnapshotUnusable;
use super::snapshot_file;
use super::snapshot_reader::{SnapshotError, SnapshotReader};

/// The files of a server. Inspecting them changes nothing, so it does not disturb a running server;
/// but records that the server writes at the same time may be read incompletely.
///
/// ```
/// use std::sync::Arc;
/// use zoolet_server::storage::{Inspection, MemDisk, StorageConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Arc::new(MemDisk::default());
/// let inspection = Inspection::new(&StorageConfig { disk, ..StorageConfig::at("/data") })?;
/// assert_eq!((inspection.len(), inspection.bytes()), (0, 0));
/// assert_eq!(inspection.open()?.state.zxid.0, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Inspection {
    config: StorageConfig,
    directory: Directory,
    files: Files,
    mark: Option<Mark>,
    mark_warning: Option<String>,
}

/// The result of checking a file.
///
/// ```
/// use zoolet_server::storage::{CheckedFile, FileState};
///
/// fn is_good(file: &CheckedFile) -> bool {
///     matches!(file.state, FileState::Whole)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckedFile {
    /// The file.
    pub path: PathBuf,
    /// Its kind.
    pub kind: FileKind,
    /// Its length in bytes, with the zeros by which a log is extended.
    pub bytes: u64,
    /// The number of znodes of a snapshot, as a server counts them, or of readable transactions of
    /// a log.
    pub records: u64,
    /// The last transaction of a log, or the zxid in the name of a snapshot.
    pub last: Option<Zxid>,
    /// Whether it is complete and undamaged.
    pub state: FileState,
}

/// The kind of a file.
///
/// ```
/// use zoolet_server::storage::FileKind;
///
/// assert_ne!(FileKind::Snapshot, FileKind::Log);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A snapshot.
    Snapshot,
    /// A transaction log.
    Log,
    /// The incomplete end of a log, which a start has cut off after a crash.
    TornTail,
}

/// Whether a file is complete and undamaged.
///
/// ```
/// use zoolet_server::storage::FileState;
///
/// assert!(!FileState::Torn { offset: 16 }.is_damaged());
/// ```
#[derive(Debug)]
pub enum FileState {
    /// It is complete and undamaged.
    Whole,
    /// It ends with incomplete records of a crash, which were never acknowledged.
    Torn {
        /// The offset at which they begin.
        offset: u64,
    },
    /// It is empty, because of a crash before the first write.
    Unwritten,
    /// It is damaged, and a server that needs it does not start.
    Damaged(StorageError),
}

impl FileState {
    /// Whether acknowledged data was lost.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

/// The state with which a server would start.
///
/// ```
/// use zoolet_server::storage::Opened;
///
/// fn print(opened: &Opened) {
///     println!("{} znodes at {}", opened.state.counted(), opened.state.zxid);
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The znodes and sessions.
    pub state: Frozen,
    /// The snapshot that it would read.
    pub snapshot: Option<Zxid>,
    /// The number of transactions that it would apply.
    pub replayed: u64,
}

impl Inspection {
    /// Lists the files.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if a directory does not exist, or a file is in the wrong one.
    pub fn new(config: &StorageConfig) -> Result<Self, StorageError> {
        let directory = Directory::of(config);
        // Before the files, because a running server goes on writing both.
        let mut mark_warning = None;
        let mark = mark::read(&directory, |warning| mark_warning = Some(warning))?;
        let files = directory.files()?;
        Ok(Self { config: config.clone(), directory, files, mark, mark_warning })
    }

    /// Why the mark beside the logs does not count, if there is one that does not: it cannot be
    /// read, or was copied.
    #[must_use]
    pub fn mark_warning(&self) -> Option<&str> {
        self.mark_warning.as_deref()
    }

    /// The number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.snapshots.len() + self.files.logs.len() + self.files.torn.len()
    }

    /// Whether there are no files.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let snapshots = self.files.snapshots.iter().map(|file| &file.path);
        let logs = self.files.logs.iter().chain(&self.files.torn).map(|file| &file.path);
        snapshots.chain(logs).map(|path| self.length(path)).sum()
    }

    fn length(&self, path: &Path) -> u64 {
        self.directory.disk.length(path).unwrap_or(0)
    }

    /// Reads every file to its end, and checks every record and checksum. The results are in the
    /// order snapshots, logs, and the cut ends of logs, which have nothing to check.
    pub fn check(&self) -> impl Iterator<Item = CheckedFile> + '_ {
        let snapshots = self.files.snapshots.iter().map(|file| self.check_snapshot(file));
        let torn =
            self.files.torn.iter().map(|file| self.unchecked(&file.path, FileKind::TornTail));
        snapshots.chain(self.files.logs.iter().map(|file| self.check_log(file))).chain(torn)
    }

    /// The logs, the oldest first.
    pub fn logs(&self) -> impl Iterator<Item = &Path> {
        self.files.logs.iter().map(|file| file.path.as_path())
    }

    /// The snapshots, the oldest first.
    pub fn snapshots(&self) -> impl Iterator<Item = &Path> {
        self.files.snapshots.iter().map(|file| file.path.as_path())
    }

    fn check_snapshot(&self, file: &SnapshotFile) -> CheckedFile {
        let disk = &*self.directory.disk;
        let mut checked = self.unchecked(&file.path, FileKind::Snapshot);
        checked.last = Some(file.zxid);
        match recovery::read_snapshot(disk, file, &Settings::default()) {
            Ok(read) => checked.records = read.core.totals().znodes as u64,
            Err(reason) => {
                let unusable = SnapshotUnusable { path: file.path.clone(), reason };
                let error = StorageError::NoUsableSnapshot(vec![unusable]);
                checked.state = FileState::Damaged(error);
            }
        }
        checked
    }

    fn check_log(&self, file: &LogFile) -> CheckedFile {
        let mut checked = self.unchecked(&file.path, FileKind::Log);
        let (mut records, mut last) = (0, None);
        let scanned = log_scan::scan(&*self.directory.disk, &file.path, |record| {
            if records == 0 {
                recovery::check_name(file, record.txn.zxid)?;
            }
            records += 1;
            last = Some(record.txn.zxid);
            Ok(())
        });
        let lost = |offset| {
            let mark = self.mark.filter(|mark| mark.log == file.zxid && offset < mark.end)?;
            Some(mark.lost(&self.directory, file, offset, last.unwrap_or(Zxid::ZERO)))
        };
        (checked.records, checked.last) = (records, last);
        checked.state = match scanned {
            Ok(LogState::Whole { end }) => lost(end).map_or(FileState::Whole, FileState::Damaged),
            Ok(LogState::Torn { offset, .. }) => {
                lost(offset).map_or(FileState::Torn { offset }, FileState::Damaged)
            }
            Ok(LogState::Unwritten) => FileState::Unwritten,
            Err(error) => FileState::Damaged(error),
        };
        checked
    }

    fn unchecked(&self, path: &Path, kind: FileKind) -> CheckedFile {
        CheckedFile {
            path: path.to_owned(),
            kind,
            bytes: self.length(path),
            records: 0,
            last: None,
            state: FileState::Whole,
        }
    }

    /// Recovers the state with which a server would start, and repairs nothing.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if the server would not start.
    pub fn open(&self) -> Result<Opened, StorageError> {
        let trusts_empty = self.config.trust_empty_snapshot;
        let recovered = recovery::recover(&self.directory, &Settings::default(), trusts_empty)?;
        let (snapshot, replayed) = (recovered.snapshot, recovered.replayed);
        Ok(Opened { state: recovered.core.freeze(), snapshot, replayed })
    }
}

/// Opens a snapshot, decompressing it as its name says.
///
/// # Errors
///
/// [`SnapshotError`] if it is not a snapshot.
///
/// ```no_run
/// use zoolet_server::storage::{FsDisk, open_snapshot};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let snapshot = open_snapshot(&FsDisk, "version-2/snapshot.1f.gz".as_ref())?;
/// println!("{} sessions", snapshot.sessions().len());
/// # Ok(())
/// # }
/// ```
pub fn open_snapshot(
    disk: &dyn Disk,
    path: &Path,
) -> Result<SnapshotReader<Box<dyn Read + Send>>, SnapshotError> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let compression = extension.parse().unwrap_or_default();
    SnapshotReader::new(super::Compression::reader(compression, disk.open(path)?))
}

/// The result of [`compact`].
///
/// ```
/// use zoolet_server::storage::Compacted;
///
/// fn print(compacted: &Compacted) {
///     println!("{} files went", compacted.deleted);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The number of deleted files.
    pub deleted: usize,
    /// The bytes of all files before.
    pub bytes_before: u64,
    /// The bytes of all files after.
    pub bytes_after: u64,
}

/// Writes the whole state to one snapshot, reads it back, and deletes all other snapshots and all
/// logs. It holds the lock of the directory all the time.
///
/// # Errors
///
/// [`StorageError`] if it could not complete. No data is lost then.
///
/// ```
/// use std::sync::Arc;
/// use zoolet_server::storage::{MemDisk, StorageConfig, compact};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Arc::new(MemDisk::default());
/// let compacted = compact(&StorageConfig { disk, ..StorageConfig::at("/data") })?;
/// assert_eq!(compacted.deleted, 0);
/// # Ok(())
/// # }
/// ```
pub fn compact(config: &StorageConfig) -> Result<Compacted, StorageError> {
    let directory = Directory::of(config);
    let locked = directory.lock()?;
    let bytes_before = Inspection::new(config)?.bytes();
    let settings = Settings::default();
    let recovered = recovery::recover(&directory, &settings, config.trust_empty_snapshot)?;
    recovered.mend(&directory)?;
    recovered.sync_snapshot(&directory)?;
    recovered.sync_logs(&directory)?;
    directory.sync_directories(locked.to_sync.iter().map(PathBuf::as_path), OnRefusal::Fail)?;
    directory.sync_names()?;
    let state = recovered.core.freeze();
    let is_synced = config.durability == Durability::Synced;
    let compression = config.snapshot_compression;
    snapshot_file::save(&directory, &state, compression, is_synced)?;
    let zxid = state.zxid;
    let path = directory.snapshot_path(zxid, compression);
    let file = SnapshotFile { zxid, path: path.clone(), compression };
    if let Err(reason) = recovery::read_snapshot(&*directory.disk, &file, &settings) {
        return Err(StorageError::NoUsableSnapshot(vec![SnapshotUnusable { path, reason }]));
    }
    let mut deleted = 0;
    let old = directory.files()?;
    let snapshots = old.snapshots.iter().map(|snapshot| &snapshot.path);
    for old in snapshots.chain(old.logs.iter().map(|log| &log.path)).filter(|old| **old != path) {
        let removed: io::Result<()> = directory.disk.remove(old);
        removed.map_err(StorageError::io("delete", old))?;
        deleted += 1;
    }
    let bytes_after = Inspection::new(config)?.bytes();
    Ok(Compacted { deleted, bytes_before, bytes_after })
}
