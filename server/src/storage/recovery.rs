//! From files to a state: the newest good snapshot, and the logs from there on
//! (`FileTxnSnapLog.restore`, `ZooKeeperServer.loadData`).

use std::io;
use std::path::{Path, PathBuf};

use zoolet_core::{Core, Restore, RestoreError, Settings, Txn};
use zoolet_protocol::Zxid;

use super::directory::{Directory, Files, LogFile, SnapshotFile};
use super::disk::Disk;
use super::error::StorageError;
use super::log_scan::{self, LogState};
use super::mark::{self, Mark};
use super::snapshot_reader::{SnapshotError, SnapshotReader};
use super::torn_tail::{self, TornLog};

/// What the files hold, and what is to be done before anything is written to them.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) core: Core,
    /// The snapshot it started from.
    pub(crate) snapshot: Option<Zxid>,
    /// The transactions that came after it.
    pub(crate) replayed: u64,
    /// Whether the state is not the one that the files give without what was done to it here.
    pub(crate) needs_snapshot: bool,
    /// Logs that end with what a crash has left.
    pub(crate) torn: Vec<TornLog>,
    /// Logs without a record, of which not even the header was written.
    empty: Vec<PathBuf>,
    /// Snapshots that were not finished.
    unfinished: Vec<PathBuf>,
    /// The snapshot it started from.
    snapshot_path: Option<PathBuf>,
    /// The other logs that were read, and where the last record of each ends.
    logs: Vec<(LogFile, u64)>,
    /// How far the logs were synced.
    mark: Option<Mark>,
}

/// Why a snapshot cannot be used.
///
/// ```
/// use zoolet_server::storage::StorageError;
///
/// fn list(error: &StorageError) {
///     if let StorageError::NoUsableSnapshot(snapshots) = error {
///         for unusable in snapshots {
///             println!("{}: {}", unusable.path.display(), unusable.reason);
///         }
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct SnapshotUnusable {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: SnapshotFault,
}

/// What is wrong with a snapshot.
///
/// ```
/// use zoolet_core::RestoreError;
/// use zoolet_server::storage::SnapshotFault;
///
/// let fault = SnapshotFault::from(RestoreError::RootMissing);
/// assert_eq!(fault.to_string(), "the snapshot has no root");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFault {
    /// The file.
    #[error(transparent)]
    File(#[from] SnapshotError),
    /// The tree that is in it.
    #[error(transparent)]
    Tree(#[from] RestoreError),
    /// It has the name of another: what its name promises is not in it.
    #[error("it was written at {0}, so its name is not its own")]
    Misnamed(Zxid),
    /// Its name is of the last zxid there is, which no server reaches.
    #[error("its name is of a zxid after which there can be none")]
    LastZxid,
}

impl From<io::Error> for SnapshotFault {
    fn from(error: io::Error) -> Self {
        Self::File(error.into())
    }
}

/// Reads all that is needed. Changes nothing: see [`Recovered::mend`].
pub(crate) fn recover(
    directory: &Directory,
    settings: &Settings,
    trusts_empty: bool,
) -> Result<Recovered, StorageError> {
    // Before the files: a server that runs goes on with both.
    let mark = mark::read(directory)?;
    let Files { logs, snapshots, unfinished, .. } = directory.files()?;
    let mut recovered = newest_snapshot(&*directory.disk, &snapshots, settings)?;
    (recovered.unfinished, recovered.mark) = (unfinished, mark);
    let start = recovered.core.last_zxid();
    let needed = logs.iter().rposition(|log| log.goes_on_from(start)).unwrap_or(0);
    for log in &logs[..needed] {
        // It may be one of those that are needed.
        if let Some(first) = log_scan::first_zxid(&*directory.disk, &log.path) {
            check_name(log, first)?;
        }
    }
    let mut replay = Replay { directory, read: Zxid::ZERO, last: start, trusts_empty, recovered };
    for log in &logs[needed..] {
        replay.log(log)?;
    }
    let mut recovered = replay.recovered;
    recovered.check_mark(directory)?;
    let orphans = recovered.remove_orphans();
    if orphans > 0 {
        tracing::warn!("{orphans} ephemeral znodes of unknown sessions were deleted");
        recovered.needs_snapshot = true;
    }
    Ok(recovered)
}

/// A log is named after its first transaction, by the original too.
pub(super) fn check_name(log: &LogFile, first: Zxid) -> Result<(), StorageError> {
    if first == log.zxid {
        return Ok(());
    }
    Err(StorageError::Misnamed { path: log.path.clone(), first })
}

/// The state of the newest snapshot that can be read; of a new server if there is none.
fn newest_snapshot(
    disk: &dyn Disk,
    snapshots: &[SnapshotFile],
    settings: &Settings,
) -> Result<Recovered, StorageError> {
    let mut unusable = Vec::new();
    for file in snapshots.iter().rev() {
        match read_snapshot(disk, file, settings) {
            Ok((core, is_changed)) => {
                let mut recovered = Recovered::new(core);
                recovered.snapshot = Some(file.zxid);
                recovered.snapshot_path = Some(file.path.clone());
                recovered.needs_snapshot = is_changed || !unusable.is_empty();
                return Ok(recovered);
            }
            Err(reason) => {
                let path = file.path.clone();
                tracing::warn!("{}: {reason}; an older snapshot is looked for", path.display());
                unusable.push(SnapshotUnusable { path, reason });
            }
        }
    }
    if !unusable.is_empty() {
        return Err(StorageError::NoUsableSnapshot(unusable));
    }
    let mut recovered = Recovered::new(Core::new(settings.clone()));
    recovered.needs_snapshot = true;
    Ok(recovered)
}

/// The state that a snapshot holds, and whether more was made of it than it holds.
pub(super) fn read_snapshot(
    disk: &dyn Disk,
    file: &SnapshotFile,
    settings: &Settings,
) -> Result<(Core, bool), SnapshotFault> {
    let input = file.compression.reader(disk.open(&file.path)?);
    let mut snapshot = SnapshotReader::new(input)?;
    let mut restore = Restore::new(settings.clone());
    for &(session, timeout_ms) in snapshot.sessions() {
        restore.session(session, timeout_ms);
    }
    while let Some(znode) = snapshot.next_znode()? {
        restore.znode(znode.path, znode.data, znode.acl, znode.stat)?;
    }
    if !snapshot.fits_name(file.zxid) {
        return Err(SnapshotFault::Misnamed(snapshot.zxid().unwrap_or(Zxid::ZERO)));
    }
    if file.zxid == Zxid(i64::MAX) {
        return Err(SnapshotFault::LastZxid);
    }
    // ZooKeeper goes by the name too: the snapshot may hold some of what came later.
    let restored = restore.finish(file.zxid)?;
    if restored.built_ins_added > 0 {
        let path = file.path.display();
        tracing::warn!("{path}: {} built-in znodes were missing", restored.built_ins_added);
    }
    Ok((restored.core, restored.built_ins_added > 0))
}

/// Carries out what the logs hold.
struct Replay<'a> {
    directory: &'a Directory,
    /// The last transaction that was read.
    read: Zxid,
    /// The last transaction of the state.
    last: Zxid,
    trusts_empty: bool,
    recovered: Recovered,
}

impl Replay<'_> {
    fn log(&mut self, log: &LogFile) -> Result<(), StorageError> {
        let path = &log.path;
        let directory = self.directory;
        let mut is_first = true;
        let state = log_scan::scan(&*directory.disk, path, |record| {
            let zxid = record.txn.zxid;
            if is_first {
                check_name(log, zxid)?;
            }
            if zxid == Zxid(i64::MAX) {
                return Err(StorageError::LastZxid { path: path.clone(), offset: record.offset });
            }
            if zxid <= self.read {
                let (path, offset, after) = (path.clone(), record.offset, self.read);
                return Err(StorageError::Order { path, offset, after, found: zxid });
            }
            self.read = zxid;
            if zxid > self.last {
                self.check_gap(path, record.offset, zxid, is_first)?;
                self.txn(&record.txn);
            }
            is_first = false;
            Ok(())
        })?;
        match state {
            LogState::Whole { end } => self.recovered.logs.push((log.clone(), end)),
            LogState::Torn { offset, end } => {
                self.recovered.logs.push((log.clone(), offset));
                self.recovered.torn.push(TornLog { log: log.clone(), offset, end });
            }
            LogState::Unwritten => {
                tracing::warn!("{}: nothing was written to it yet", path.display());
                self.recovered.empty.push(path.clone());
            }
        }
        Ok(())
    }

    /// Every write takes the next number, the refused ones too; another epoch of an ensemble begins
    /// anew.
    fn check_gap(
        &self,
        path: &Path,
        offset: u64,
        found: Zxid,
        is_first: bool,
    ) -> Result<(), StorageError> {
        let after = self.last;
        if found == after.next() {
            return Ok(());
        }
        let path = path.to_owned();
        if self.recovered.snapshot.is_none() && after == Zxid::ZERO {
            if self.trusts_empty {
                return Ok(());
            }
            return Err(StorageError::SnapshotMissing { path, first: found });
        }
        if found.0 >> 32 != after.0 >> 32 {
            return Ok(());
        }
        if is_first {
            return Err(StorageError::Gap { path, offset, after, found });
        }
        // The original takes a number for some requests that it then does not log.
        tracing::warn!("{}: offset {offset}: {found} follows {after}", path.display());
        Ok(())
    }

    fn txn(&mut self, txn: &Txn) {
        self.last = txn.zxid;
        self.recovered.core.apply(txn);
        self.recovered.replayed += 1;
    }
}

impl Recovered {
    /// Deletes the ephemerals of sessions that do not exist, and returns how many they were.
    fn remove_orphans(&mut self) -> usize {
        let before = self.core.totals().ephemerals;
        for txn in self.core.prepare_orphan_removal() {
            self.core.apply(&txn);
        }
        if cfg!(debug_assertions)
            && let Err(disagreements) = self.core.check()
        {
            panic!("recovery has made an inconsistent state: {disagreements}");
        }
        before - self.core.totals().ephemerals
    }

    fn new(core: Core) -> Self {
        Self {
            core,
            snapshot: None,
            replayed: 0,
            needs_snapshot: false,
            torn: Vec::new(),
            empty: Vec::new(),
            unfinished: Vec::new(),
            snapshot_path: None,
            logs: Vec::new(),
            mark: None,
        }
    }

    /// What was synced must be there: nothing that a crash does takes it away.
    fn check_mark(&self, directory: &Directory) -> Result<(), StorageError> {
        let reached = self.core.last_zxid();
        let Some(mark) = self.mark.filter(|mark| reached < mark.last) else { return Ok(()) };
        let torn = self.torn.iter().find(|torn| torn.log.zxid == mark.log);
        Err(match torn {
            Some(torn) => mark.lost(directory, &torn.log, torn.offset, reached),
            None => mark.missing(directory, reached),
        })
    }

    /// Makes the files such that what was read is certain and what comes can follow it, but for the names of
    /// the files, which are certain when the directory was synced. Returns how far it is certain then.
    pub(crate) fn mend(&self, directory: &Directory) -> Result<Mark, StorageError> {
        let disk = &directory.disk;
        for path in self.unfinished.iter().chain(&self.empty) {
            disk.remove(path).map_err(StorageError::io("delete", path))?;
        }
        self.cut_torn(directory)?;
        if let Some(path) = &self.snapshot_path {
            // The original does not sync its snapshots.
            disk.truncate(path, u64::MAX).map_err(StorageError::io("sync", path))?;
        }
        for (log, end) in &self.logs {
            // A server that was killed may have left there what no disk has yet, and one whose disk failed
            // what no disk gets by a sync.
            let synced = match self.mark {
                Some(mark) if log.zxid < mark.log => continue,
                Some(mark) if log.zxid == mark.log => mark.end,
                _ => 0,
            };
            let written = disk.rewrite(&log.path, synced.min(*end)..*end);
            written.map_err(StorageError::io("write once more to", &log.path))?;
        }
        let (log, end) = self.logs.last().map_or((Zxid::ZERO, 0), |(log, end)| (log.zxid, *end));
        Ok(Mark { last: self.core.last_zxid(), log, end })
    }

    /// Cuts off what a crash has left, and keeps it beside.
    fn cut_torn(&self, directory: &Directory) -> Result<(), StorageError> {
        for torn in &self.torn {
            let kept = torn_tail::keep(directory, torn)?;
            directory.sync_names()?;
            let (path, offset) = (&torn.log.path, torn.offset);
            tracing::warn!(
                "{}: offset {offset}: what was being written when the server ended is cut off, and kept \
                 in {}; the last transaction is {}",
                path.display(),
                kept.display(),
                self.core.last_zxid(),
            );
            directory.disk.truncate(path, offset).map_err(StorageError::io("cut", path))?;
        }
        Ok(())
    }
}
