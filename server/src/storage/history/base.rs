//! The snapshots from which the records lead to a state.

use std::path::PathBuf;

use zoolet_core::{Core, Settings};
use zoolet_protocol::Zxid;

use super::error::{HistoryError, Known};
use super::records::lost;
use super::{Gaps, History};
use crate::storage::directory::SnapshotFile;
use crate::storage::error::StorageError;
use crate::storage::recovery::{self, FromSnapshot};
use crate::storage::snapshot_fault::{SnapshotFault, SnapshotUnusable};
use crate::storage::snapshot_reader::SnapshotError;

/// A state from which the records go on.
///
/// A snapshot of Apache ZooKeeper may hold some transactions after [`Base::after`]: the records that follow
/// it have them too, and at their end the state is right.
///
/// ```
/// use zoolet_server::storage::history::Base;
///
/// fn print(base: &Base) {
///     println!("{} znodes after {}", base.core.totals().znodes, base.after);
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Base {
    /// The state.
    pub core: Core,
    /// The last transaction that it certainly holds.
    pub after: Zxid,
    /// The snapshot. `None` if it is the state of a server that has just begun.
    pub snapshot: Option<PathBuf>,
    /// The last transaction that it may hold, if the snapshot tells it.
    pub(super) last: Option<Zxid>,
}

impl History {
    /// The oldest state from which the logs go on to the end.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if there is none.
    pub fn oldest_base(&self) -> Result<Base, HistoryError> {
        self.base_from(Zxid::ZERO)
    }

    /// The oldest state at `least` or later from which logs go on: `least` is the transaction before
    /// [`Gap::found`](super::Gap::found).
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if there is none.
    pub fn base_from(&self, least: Zxid) -> Result<Base, HistoryError> {
        let mut unusable = Vec::new();
        for file in self.files.snapshots.iter().filter(|file| file.zxid >= least) {
            if !self.leads_on(file.zxid) {
                continue;
            }
            match self.base(file)? {
                Ok(base) => return Ok(base),
                Err(reason) => unusable.push(reason),
            }
        }
        match self.beginning() {
            Some(base) if least == Zxid::ZERO => Ok(base),
            _ if unusable.is_empty() => Err(self.without_snapshot()),
            _ => Err(StorageError::NoUsableSnapshot(unusable).into()),
        }
    }

    /// The state of a new server, if the logs begin with the first transaction.
    pub(super) fn beginning(&self) -> Option<Base> {
        let begins = self.files.logs.first().is_some_and(|log| log.zxid == Zxid(1));
        let core = || Core::new(Settings::default());
        begins.then(|| Base { core: core(), after: Zxid::ZERO, snapshot: None, last: None })
    }

    /// Whether a log goes on from a state, as far as names tell.
    fn leads_on(&self, from: Zxid) -> bool {
        let logs = &self.files.logs;
        logs.is_empty() || logs.iter().any(|log| log.goes_on_from(from)) || {
            // The first transaction of an epoch does not follow the last one before.
            logs.first().is_some_and(|log| log.zxid.0 >> 32 != from.0 >> 32)
        }
    }

    /// The state of a snapshot, or why it is none.
    pub(super) fn base(
        &self,
        file: &SnapshotFile,
    ) -> Result<Result<Base, SnapshotUnusable>, HistoryError> {
        let path = &file.path;
        match recovery::read_snapshot(&*self.directory.disk, file, &Settings::default()) {
            Ok(FromSnapshot { core, last, .. }) => {
                Ok(Ok(Base { core, after: file.zxid, snapshot: Some(path.clone()), last }))
            }
            Err(SnapshotFault::File(SnapshotError::Io(error)))
                if error.kind() == std::io::ErrorKind::NotFound =>
            {
                Err(lost(path, error))
            }
            Err(reason) => Ok(Err(SnapshotUnusable { path: path.clone(), reason })),
        }
    }

    /// What the files tell, for messages.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if they tell no state.
    pub fn known(&self) -> Result<Known, HistoryError> {
        let first = match self.beginning() {
            Some(base) => base.after,
            None => {
                let mut snapshots = self.files.snapshots.iter().map(|file| file.zxid);
                let first = snapshots.find(|zxid| self.leads_on(*zxid));
                first.ok_or_else(|| self.without_snapshot())?
            }
        };
        Ok(Known { first, last: self.last()?.filter(|last| last.zxid > first) })
    }

    pub(super) fn without_snapshot(&self) -> HistoryError {
        match self.files.logs.first() {
            Some(log) => HistoryError::NoSnapshot { path: log.path.clone(), first: log.zxid },
            None => HistoryError::Nothing { path: self.directory.snapshots.clone() },
        }
    }

    /// Finds the last transaction that was decided at a time or before it. `None` if all were later.
    pub(super) fn last_until(&self, time_ms: i64) -> Result<Option<Zxid>, HistoryError> {
        let logs = &self.files.logs;
        let mut begin = 0;
        for index in (0..logs.len()).rev() {
            let mut records = self.records_of(index..index + 1);
            if records.next_record()?.is_some_and(|record| record.txn.time_ms <= time_ms) {
                begin = index;
                break;
            }
        }
        let mut records = self.records_of(begin..logs.len());
        let mut last = None;
        while let Some(record) = records.next_record()? {
            if record.txn.time_ms > time_ms {
                break;
            }
            last = Some(record.txn.zxid);
        }
        Ok(last)
    }

    fn records_of(&self, logs: std::ops::Range<usize>) -> super::Records {
        let logs = self.files.logs.get(logs).unwrap_or_default().to_vec();
        super::Records::new(self.directory.clone(), logs, Zxid::ZERO, Gaps::Tell)
    }
}
