//! Recovers the state from the newest good snapshot and the logs after it
//! (`FileTxnSnapLog.restore`, `ZooKeeperServer.loadData`).

use std::path::{Path, PathBuf};

use zoolet_core::{Core, Restore, Settings, Txn};
use zoolet_protocol::Zxid;

use super::directory::{Directory, Files, LogFile, SnapshotFile};
use super::disk::Disk;
use super::error::StorageError;
use super::log_scan::{self, LogState};
use super::logs_note;
use super::mark::{self, Mark};
use super::snapshot_fault::{SnapshotFault, SnapshotUnusable};
use super::snapshot_reader::SnapshotReader;
use super::stats::StorageStats;
use super::torn_tail::{self, TornLog};
use crate::clock::{ms_since, now};

/// The recovered state, and the repairs that the files need before anything is written to them:
/// [`Recovered::mend`], [`Recovered::sync_snapshot`] and [`Recovered::sync_logs`].
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) core: Core,
    /// The zxid of the snapshot from which recovery started.
    pub(crate) snapshot: Option<Zxid>,
    /// The number of transactions that were applied after it.
    pub(crate) replayed: u64,
    /// Whether recovery has changed the state, so that a snapshot of it must be written.
    pub(crate) needs_snapshot: bool,
    pub(crate) times: Times,
    /// The logs that end with incomplete records of a crash.
    pub(crate) torn: Vec<TornLog>,
    /// The logs of which not even the header was written.
    empty: Vec<PathBuf>,
    /// The incomplete snapshots.
    unfinished: Vec<PathBuf>,
    /// The snapshot from which recovery started.
    snapshot_path: Option<PathBuf>,
    /// The other logs that were read, and the offset at which the last record of each ends.
    logs: Vec<(LogFile, u64)>,
    /// The durable mark that was found.
    pub(super) mark: Option<Mark>,
}

/// How long recovery took, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    snapshot_ms: u64,
    logs_ms: u64,
}

impl Times {
    /// Records them as ZooKeeper does: nothing about logs that hold nothing new.
    pub(crate) fn record(self, replayed: u64, stats: &StorageStats) {
        stats.startup_snapshot_time.record(self.snapshot_ms);
        if replayed > 0 {
            stats.startup_txns.record(replayed);
            stats.startup_txns_time.record(self.logs_ms);
        }
    }
}

/// Reads the files and changes nothing.
pub(crate) fn recover(
    directory: &Directory,
    settings: &Settings,
    trusts_empty: bool,
) -> Result<Recovered, StorageError> {
    // Before the files, because a running server goes on writing both.
    let mark = mark::read(directory, |warning| tracing::warn!("{warning}"))?;
    let files = directory.files()?;
    logs_note::check(directory, &files)?;
    let Files { logs, snapshots, unfinished, .. } = files;
    let begin = now();
    let mut recovered = newest_snapshot(&*directory.disk, &snapshots, settings)?;
    recovered.times.snapshot_ms = ms_since(begin);
    let begin = now();
    (recovered.unfinished, recovered.mark) = (unfinished, mark);
    let start = recovered.core.last_zxid();
    let needed = logs.iter().rposition(|log| log.goes_on_from(start)).unwrap_or(0);
    for log in &logs[..needed] {
        // The unreadable log may be needed.
        if let Some(first) = log_scan::first_zxid(&*directory.disk, &log.path) {
            check_name(log, first)?;
        }
    }
    let mut replay = Replay { directory, read: Zxid::ZERO, last: start, trusts_empty, recovered };
    for log in &logs[needed..] {
        replay.log(log)?;
    }
    let mut recovered = replay.recovered;
    recovered.times.logs_ms = ms_since(begin);
    recovered.check_mark(directory)?;
    let orphans = recovered.remove_orphans();
    if orphans > 0 {
        tracing::warn!("{orphans} ephemeral znodes of unknown sessions were deleted");
        recovered.needs_snapshot = true;
    }
    Ok(recovered)
}

/// Checks that a log begins with the transaction in its name, as ZooKeeper names it.
pub(super) fn check_name(log: &LogFile, first: Zxid) -> Result<(), StorageError> {
    if first == log.zxid {
        return Ok(());
    }
    Err(StorageError::Misnamed { path: log.path.clone(), first })
}

/// The state of the newest usable snapshot, or of a new server if there is no snapshot.
fn newest_snapshot(
    disk: &dyn Disk,
    snapshots: &[SnapshotFile],
    settings: &Settings,
) -> Result<Recovered, StorageError> {
    let mut unusable = Vec::new();
    for file in snapshots.iter().rev() {
        match read_snapshot(disk, file, settings) {
            Ok(FromSnapshot { core, is_changed, .. }) => {
                let mut recovered = Recovered::new(core);
                recovered.snapshot = Some(file.zxid);
                recovered.snapshot_path = Some(file.path.clone());
                recovered.needs_snapshot = is_changed || !unusable.is_empty();
                return Ok(recovered);
            }
            Err(reason) => {
                let path = file.path.clone();
                tracing::warn!("{}: {reason}; trying an older snapshot", path.display());
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

/// The state that a snapshot holds.
pub(super) struct FromSnapshot {
    pub(super) core: Core,
    /// Whether more was made of it than it holds.
    pub(super) is_changed: bool,
    /// The last transaction that it may hold, if it says so: ZooKeeper goes on while it writes one.
    pub(super) last: Option<Zxid>,
    /// The same, also if only its digest says so.
    pub(super) holds_nothing_after: Option<Zxid>,
}

/// Reads a snapshot, and the built-in znodes that it lacks.
pub(super) fn read_snapshot(
    disk: &dyn Disk,
    file: &SnapshotFile,
    settings: &Settings,
) -> Result<FromSnapshot, SnapshotFault> {
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
        return Err(SnapshotFault::LastZxid(file.zxid));
    }
    // ZooKeeper relies on the name too: the snapshot may contain some later transactions.
    let restored = restore.finish(file.zxid)?;
    if restored.built_ins_added > 0 {
        let path = file.path.display();
        tracing::warn!("{path}: {} built-in znodes were missing", restored.built_ins_added);
    }
    Ok(FromSnapshot {
        core: restored.core,
        is_changed: restored.built_ins_added > 0,
        last: snapshot.zxid(),
        holds_nothing_after: snapshot.holds_nothing_after(),
    })
}

/// Applies the transactions of the logs.
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

    /// Checks the order of zxids: every write takes the next one, refused ones too; a new epoch of
    /// an ensemble starts a new count.
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
        // ZooKeeper takes a zxid for some requests that it then does not log.
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
    /// Deletes the ephemeral znodes of sessions that do not exist, and returns their number.
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
            times: Times::default(),
            needs_snapshot: false,
            torn: Vec::new(),
            empty: Vec::new(),
            unfinished: Vec::new(),
            snapshot_path: None,
            logs: Vec::new(),
            mark: None,
        }
    }

    /// Checks that the logs reach the durable mark: a crash does not remove synced records.
    fn check_mark(&self, directory: &Directory) -> Result<(), StorageError> {
        let reached = self.core.last_zxid();
        let Some(mark) = self.mark.filter(|mark| reached < mark.last) else { return Ok(()) };
        let torn = self.torn.iter().find(|torn| torn.log.zxid == mark.log);
        Err(match torn {
            Some(torn) => mark.lost(directory, &torn.log, torn.offset, reached),
            None => mark.missing(directory, reached),
        })
    }

    /// Repairs the files so that new records can follow what was read: deletes those that are not
    /// complete, and cuts off what is torn. The names of the files survive a crash once the directory
    /// was synced.
    pub(crate) fn mend(&self, directory: &Directory) -> Result<(), StorageError> {
        for path in self.unfinished.iter().chain(&self.empty) {
            directory.disk.remove(path).map_err(StorageError::io("delete", path))?;
        }
        self.cut_torn(directory)
    }

    /// Makes the content of the snapshot that was read durable: ZooKeeper does not sync its snapshots.
    pub(super) fn sync_snapshot(&self, directory: &Directory) -> Result<(), StorageError> {
        let Some(path) = &self.snapshot_path else { return Ok(()) };
        directory.disk.truncate(path, u64::MAX).map_err(StorageError::io("sync", path))
    }

    /// Whether logs were read.
    pub(super) fn has_logs(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Makes the content of the logs durable, as far as it was read.
    pub(super) fn sync_logs(&self, directory: &Directory) -> Result<(), StorageError> {
        let disk = &directory.disk;
        for (log, end) in &self.logs {
            // A killed server may have left records that are not on the disk yet, and one whose
            // sync failed records that no later sync would write.
            let synced = match self.mark {
                Some(mark) if log.zxid < mark.log => continue,
                Some(mark) if log.zxid == mark.log => mark.end,
                _ => 0,
            };
            let written = disk.rewrite(&log.path, synced.min(*end)..*end);
            written.map_err(StorageError::io("write once more to", &log.path))?;
        }
        Ok(())
    }

    /// The mark of what is durable once the files were mended and synced.
    pub(super) fn new_mark(&self) -> Mark {
        let (log, end) = self.logs.last().map_or((Zxid::ZERO, 0), |(log, end)| (log.zxid, *end));
        Mark { last: self.core.last_zxid(), log, end }
    }

    /// Cuts the incomplete records of a crash off the logs, and keeps them in files of their own.
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
