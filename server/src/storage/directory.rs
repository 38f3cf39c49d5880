//! The files of a server: their names, and which of them are still needed (`FileTxnSnapLog`,
//! `PurgeTxnLog`).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_protocol::Zxid;

use super::compression::Compression;
use super::config::StorageConfig;
use super::disk::{DirectoryLock, Disk, LockError};
use super::error::StorageError;
use super::side_by_side::{Work, side_by_side};

/// The subdirectory of the data directory that contains the files, unchanged since ZooKeeper 3.0.
const VERSION_DIRECTORY: &str = "version-2";

/// The name of a snapshot while it is written. ZooKeeper ignores such a file.
const UNFINISHED: &str = "unfinished-snapshot.";

/// The name of a file that keeps what was cut off a log. ZooKeeper ignores such a file.
const TORN: &str = "torn-log.";

/// The directories of a server's files.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(super) snapshots: PathBuf,
    pub(super) logs: PathBuf,
    /// Whether they are created if they are missing.
    creates: bool,
}

/// A log, and its first transaction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogFile {
    pub(crate) zxid: Zxid,
    pub(crate) path: PathBuf,
}

impl LogFile {
    /// Whether it begins with the transaction after `zxid`, or with an earlier one.
    pub(super) fn goes_on_from(&self, zxid: Zxid) -> bool {
        // The name may contain the greatest possible zxid, which has no successor.
        self.zxid <= zxid || self.zxid == zxid.next()
    }
}

/// A snapshot, and the last transaction that it certainly contains.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SnapshotFile {
    pub(crate) zxid: Zxid,
    pub(crate) path: PathBuf,
    pub(crate) compression: Compression,
}

/// The directories after they were created and locked.
#[derive(Debug, Default)]
pub(crate) struct Locked {
    pub(crate) locks: Vec<Box<dyn DirectoryLock>>,
    /// The directories that have the names of those that were created, which survive a crash once
    /// these were synced.
    pub(super) to_sync: BTreeSet<PathBuf>,
}

/// What follows if a directory cannot be synced at all: the user who runs the server may not open it, or
/// its file system syncs no directories, as one that is only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnRefusal {
    Fail,
    GoOn,
}

/// The files in the directories.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The oldest first.
    pub(crate) logs: Vec<LogFile>,
    /// The oldest first.
    pub(crate) snapshots: Vec<SnapshotFile>,
    /// Incomplete snapshots.
    pub(crate) unfinished: Vec<PathBuf>,
    /// The files that keep what was cut off logs, each with the zxid in the log's name.
    pub(crate) torn: Vec<LogFile>,
}

impl Directory {
    /// The directories of a configuration.
    pub(crate) fn of(config: &StorageConfig) -> Self {
        let logs = config.data_log_dir.as_ref().unwrap_or(&config.data_dir);
        let directory = Self::new(Arc::clone(&config.disk), &config.data_dir, logs);
        Self { creates: config.create_directories, ..directory }
    }

    /// The snapshots below `data`, and the logs below `logs`.
    fn new(disk: Arc<dyn Disk>, data: &Path, logs: &Path) -> Self {
        let (snapshots, logs) = (data.join(VERSION_DIRECTORY), logs.join(VERSION_DIRECTORY));
        Self { disk, snapshots, logs, creates: true }
    }

    /// Creates the directories, if that is allowed, and locks them against other servers until the
    /// locks are dropped.
    pub(crate) fn lock(&self) -> Result<Locked, StorageError> {
        if !self.creates {
            self.all().try_for_each(|directory| self.check_exists(directory))?;
        }
        let mut locked = Locked::default();
        for directory in self.all() {
            let created = self.disk.create_directory(directory);
            locked.to_sync.extend(created.map_err(StorageError::io("create", directory))?);
            let parent = above(directory);
            locked.locks.push(match self.disk.lock(parent) {
                Ok(lock) => lock,
                Err(LockError::Io(source)) => return Err(StorageError::io("lock", parent)(source)),
                Err(source) => {
                    return Err(StorageError::Locked { path: parent.to_owned(), source });
                }
            });
        }
        Ok(locked)
    }

    fn check_exists(&self, directory: &Path) -> Result<(), StorageError> {
        match self.disk.list(directory) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StorageError::MissingDirectory { path: directory.to_owned() })
            }
            Err(error) => Err(StorageError::io("list", directory)(error)),
        }
    }

    /// The directory of the snapshots with the bytes of all its files, and the same of the logs.
    pub(crate) fn sizes(&self) -> [(&Path, u64); 2] {
        let size = |directory: &Path| {
            let names = self.disk.list(directory).unwrap_or_default();
            let lengths = names.iter().map(|name| self.disk.length(&directory.join(name)));
            lengths.map(Result::unwrap_or_default).sum()
        };
        [&*self.snapshots, &*self.logs].map(|directory| (directory, size(directory)))
    }

    /// The directories that were configured, which have those of the files, and all above them, without
    /// duplicates: any of them may be new.
    pub(super) fn above(&self) -> BTreeSet<&Path> {
        self.all().map(above).flat_map(Path::ancestors).collect()
    }

    /// The directories, without duplicates.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Path> {
        let logs = (self.logs != self.snapshots).then_some(self.logs.as_path());
        std::iter::once(self.snapshots.as_path()).chain(logs)
    }

    /// Lists the logs and snapshots. Files with other names are ignored.
    pub(crate) fn files(&self) -> Result<Files, StorageError> {
        let mut files = Files::default();
        for directory in self.all() {
            let list = self.disk.list(directory);
            for name in list.map_err(StorageError::io("list", directory))? {
                let path = directory.join(&name);
                if let Some(zxid) = name.strip_prefix("log.").and_then(parse_zxid) {
                    files.logs.push(LogFile { zxid, path });
                } else if let Some((zxid, compression)) = parse_snapshot(&name) {
                    files.snapshots.push(SnapshotFile { zxid, path, compression });
                } else if name.starts_with(UNFINISHED) {
                    files.unfinished.push(path);
                } else if let Some(zxid) = parse_torn(&name) {
                    files.torn.push(LogFile { zxid, path });
                }
            }
        }
        files.logs.sort();
        files.snapshots.sort();
        files.torn.sort();
        self.check_places(&files)?;
        Ok(files)
    }

    /// With separate directories for logs and snapshots a file in the wrong one would be ignored
    /// and lost.
    fn check_places(&self, files: &Files) -> Result<(), StorageError> {
        let is_in = |path: &Path, directory: &Path| path.parent() == Some(directory);
        let (logs, snapshots) = (&self.logs, &self.snapshots);
        if let Some(LogFile { zxid, path }) = files.logs.iter().find(|f| !is_in(&f.path, logs)) {
            let path = path.clone();
            if files.logs.iter().any(|log| is_in(&log.path, logs)) {
                let (snapshots, logs) = (snapshots.clone(), logs.clone());
                return Err(StorageError::TwoHistories { path, first: *zxid, snapshots, logs });
            }
            return Err(StorageError::WrongDirectory { path, should_be: logs.clone() });
        }
        let misplaced = files.snapshots.iter().find(|file| !is_in(&file.path, snapshots));
        let Some(SnapshotFile { path, .. }) = misplaced else { return Ok(()) };
        let namesake = path.file_name().map(|name| snapshots.join(name));
        let has_namesake = files.snapshots.iter().any(|file| Some(&file.path) == namesake.as_ref());
        let (path, should_be) = (path.clone(), snapshots.clone());
        Err(match has_namesake {
            true => StorageError::SameSnapshot { path, should_be },
            false => StorageError::WrongDirectory { path, should_be },
        })
    }

    pub(super) fn log_path(&self, first: Zxid) -> PathBuf {
        self.logs.join(format!("log.{:x}", first.0))
    }

    /// Syncs the directories, so that the names of all files survive a crash.
    pub(crate) fn sync_names(&self) -> Result<(), StorageError> {
        self.sync_directories(self.all(), OnRefusal::Fail)
    }

    /// Syncs these directories, side by side.
    pub(super) fn sync_directories<'a>(
        &self,
        directories: impl Iterator<Item = &'a Path>,
        on_refusal: OnRefusal,
    ) -> Result<(), StorageError> {
        let disk = &*self.disk;
        let sync = |directory: &'a Path| {
            move || match disk.sync_directory(directory) {
                Err(error) if on_refusal == OnRefusal::GoOn && is_refusal(&error) => Ok(()),
                synced => synced.map_err(StorageError::io("sync", directory)),
            }
        };
        let mut syncs: Vec<_> = directories.map(sync).collect();
        let mut works: Vec<_> = syncs.iter_mut().map(|sync| sync as Work<'_>).collect();
        side_by_side(disk, &self.logs, &mut works)
    }

    pub(super) fn snapshot_path(&self, zxid: Zxid, compression: Compression) -> PathBuf {
        let extension = compression.extension();
        self.snapshots.join(format!("snapshot.{:x}{extension}", zxid.0))
    }

    pub(super) fn unfinished_path(&self, zxid: Zxid) -> PathBuf {
        self.snapshots.join(format!("{UNFINISHED}{:x}", zxid.0))
    }

    /// The temporary name of a snapshot that an administrator has asked for, while the server may
    /// write one of its own.
    pub(crate) fn unfinished_path_on_request(&self, zxid: Zxid) -> PathBuf {
        self.snapshots.join(format!("{UNFINISHED}{:x}.on-request", zxid.0))
    }

    /// Purges after a snapshot, unless all files are to be kept. What cannot be deleted is logged.
    pub(crate) fn purge_after_snapshot(&self, retain: Option<usize>) {
        let Some(retain) = retain else { return };
        match self.purge(retain) {
            Ok(0) => {}
            Ok(count) => tracing::info!("{count} old files deleted"),
            Err(error) => tracing::warn!("old files are left: {error}"),
        }
    }

    /// Deletes all but the newest `retain` snapshots, and the logs before the oldest of those, with
    /// the files of what was cut off them. Returns the number of deleted files.
    pub(crate) fn purge(&self, retain: usize) -> Result<usize, StorageError> {
        let Files { logs, snapshots, torn, .. } = self.files()?;
        let Some(oldest) = snapshots.iter().rev().nth(retain.max(1) - 1) else { return Ok(0) };
        let zxid = oldest.zxid;
        // The log that was open when the snapshot was taken may contain later transactions.
        let first_log = logs.iter().rev().find(|log| log.goes_on_from(zxid)).map(|log| log.zxid);
        let snapshots = snapshots.iter().filter(|snapshot| snapshot.zxid < zxid);
        let is_old = |log: &&LogFile| first_log.is_some_and(|first| log.zxid < first);
        let logs = logs.iter().filter(is_old).chain(torn.iter().filter(is_old));
        let old: Vec<&Path> = snapshots
            .map(|snapshot| snapshot.path.as_path())
            .chain(logs.map(|log| log.path.as_path()))
            .collect();
        for path in &old {
            self.disk.remove(path).map_err(StorageError::io("delete", path))?;
        }
        Ok(old.len())
    }
}

/// The directory that was configured. It has the lock, because the subdirectory belongs to ZooKeeper
/// too.
fn above(directory: &Path) -> &Path {
    directory.parent().unwrap_or(directory)
}

/// Whether a directory cannot be synced at all. Linux tells of a file system that syncs none with `EINVAL`.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};

    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

/// A zxid in hexadecimal digits, as in file names.
fn parse_zxid(text: &str) -> Option<Zxid> {
    let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let zxid = is_hex.then(|| i64::from_str_radix(text, 16).ok())??;
    Some(Zxid(zxid))
}

fn parse_snapshot(name: &str) -> Option<(Zxid, Compression)> {
    let rest = name.strip_prefix("snapshot.")?;
    let (zxid, compression) = match rest.split_once('.') {
        None => (rest, Compression::None),
        Some((zxid, extension)) => (zxid, Compression::of_extension(extension)?),
    };
    Some((parse_zxid(zxid)?, compression))
}

/// The name of the file that keeps what is cut off a log at an offset.
pub(super) fn torn_name(log: Zxid, offset: u64) -> String {
    format!("{TORN}{:x}.{offset}", log.0)
}

/// The zxid in the name of the log from which something was cut off.
fn parse_torn(name: &str) -> Option<Zxid> {
    parse_zxid(name.strip_prefix(TORN)?.split('.').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemDisk;

    fn directory(names: &[&str]) -> Directory {
        let disk = Arc::new(MemDisk::default());
        let directory = Directory::new(disk, Path::new("/data"), Path::new("/data"));
        for name in names {
            directory.disk.create(&directory.logs.join(name)).expect("memory takes it");
        }
        directory
    }

    fn names(directory: &Directory) -> Vec<String> {
        let mut names = directory.disk.list(&directory.logs).expect("it is there");
        names.sort();
        names
    }

    #[test]
    fn file_names_are_those_of_zookeeper() {
        let directory = directory(&[
            "log.1",
            "log.1f",
            "snapshot.0",
            "snapshot.1e.gz",
            "snapshot.a.snappy",
            "snapshot.1.tmp",
            "log.x",
            "log.+1",
            "log.",
            "notes.txt",
            "unfinished-snapshot.3",
        ]);
        let files = directory.files().expect("they are listed");
        let logs: Vec<_> = files.logs.iter().map(|log| log.zxid.0).collect();
        assert_eq!(logs, [1, 0x1f]);
        let snapshots: Vec<_> = files.snapshots.iter().map(|s| (s.zxid.0, s.compression)).collect();
        let expected =
            [(0, Compression::None), (0xa, Compression::Snappy), (0x1e, Compression::Gzip)];
        assert_eq!(snapshots, expected);
        assert_eq!(files.unfinished.len(), 1);
    }

    #[test]
    fn files_before_the_retained_snapshots_are_deleted() {
        let directory = directory(&[
            "log.1",
            "log.b",
            "log.15",
            "log.1f",
            "snapshot.0",
            "snapshot.a",
            "snapshot.14",
            "snapshot.1e",
            "keep.me",
            "zoolet.durable",
            "torn-log.1.16",
            "torn-log.15.400",
        ]);
        assert_eq!(directory.purge(3).expect("they can be deleted"), 3);
        let kept = ["keep.me", "log.15", "log.1f", "log.b", "snapshot.14", "snapshot.1e"];
        let kept = [kept.as_slice(), &["snapshot.a", "torn-log.15.400", "zoolet.durable"]].concat();
        assert_eq!(names(&directory), kept);
        assert_eq!(directory.purge(3).expect("there is nothing to do"), 0);
        assert_eq!(directory.purge(10).expect("there are fewer"), 0);
    }

    #[test]
    fn a_log_that_began_before_a_retained_snapshot_is_kept() {
        let directory = directory(&["log.1", "log.5", "snapshot.7", "snapshot.9"]);
        assert_eq!(directory.purge(2).expect("they can be deleted"), 1);
        assert_eq!(names(&directory), ["log.5", "snapshot.7", "snapshot.9"]);
    }

    #[test]
    fn a_file_with_the_greatest_zxid_deletes_nothing_that_is_needed() {
        let last = format!("log.{:x}", i64::MAX);
        let directory = directory(&["log.1", "log.5", &last, "snapshot.7"]);
        assert_eq!(directory.purge(1).expect("it can be deleted"), 1);
        assert_eq!(names(&directory), ["log.5", &last, "snapshot.7"]);
        let last = format!("snapshot.{:x}", i64::MAX);
        let directory = self::directory(&["log.1", "log.5", &last]);
        assert_eq!(directory.purge(1).expect("it can be deleted"), 1);
        assert_eq!(names(&directory), ["log.5", &last]);
    }

    /// A data directory may be mounted in a file system that is only read, and those sync no directories.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_above_that_cannot_be_synced_is_left_as_it_is() {
        let directory = Directory::new(
            Arc::new(crate::storage::FsDisk),
            Path::new("/data"),
            Path::new("/data"),
        );
        let sync = |path, on_refusal| {
            directory.sync_directories([Path::new(path)].into_iter(), on_refusal)
        };
        assert!(sync("/proc", OnRefusal::GoOn).is_ok());
        assert!(sync("/proc", OnRefusal::Fail).is_err());
        assert!(sync("/proc/no-such-directory", OnRefusal::GoOn).is_err());
    }

    /// The refusal of `/data` and `/logs` with these files.
    fn misplaced(paths: &[&str]) -> String {
        let disk = Arc::new(MemDisk::default());
        let directory = Directory::new(disk, Path::new("/data"), Path::new("/logs"));
        for path in paths {
            directory.disk.create(Path::new(path)).expect("memory takes it");
        }
        directory.files().expect_err("a file is in the wrong directory").to_string()
    }

    #[test]
    fn files_in_the_wrong_directory_are_refused() {
        assert_eq!(
            misplaced(&["/data/version-2/log.1"]),
            "/data/version-2/log.1 is in the wrong directory: move all files of its kind (with the logs \
            zoolet.durable too) to /logs/version-2 by mv -n, or set dataLogDir to the directory of the logs"
        );
        let text = misplaced(&["/logs/version-2/snapshot.a", "/data/version-2/snapshot.0"]);
        assert!(text.contains("snapshot.a is in the wrong directory: move"), "{text}");
        assert!(text.contains("to /data/version-2 by mv -n"), "{text}");
    }

    #[test]
    fn logs_in_both_directories_are_refused_with_a_cure_that_overwrites_nothing() {
        for in_logs in ["/logs/version-2/log.1", "/logs/version-2/log.2f"] {
            let in_data =
                ["/data/version-2/log.1f", "/data/version-2/log.1", "/data/version-2/log.a"];
            let text = misplaced(&[in_data.as_slice(), &[in_logs]].concat());
            assert_eq!(
                text,
                "/data/version-2/log.1 is in the wrong directory, and /logs/version-2 contains logs too. \
                Unless somebody moved only a part of the logs, these are two different histories: the \
                server ran once without dataLogDir. Keep a copy of both directories. To go on with \
                /logs/version-2, move aside the logs and zoolet.durable of /data/version-2, and its \
                snapshots from snapshot.1 on; to go on with /data/version-2, remove dataLogDir, and move \
                aside the files of /logs/version-2"
            );
        }
    }

    #[test]
    fn snapshots_of_the_same_name_are_not_moved_over_each_other() {
        let text = misplaced(&["/logs/version-2/snapshot.0", "/data/version-2/snapshot.0"]);
        assert!(text.contains("/data/version-2 contains a file of that name too"), "{text}");
        assert!(!text.contains("mv"), "{text}");
    }
}
