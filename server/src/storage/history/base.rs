//! The snapshots from which the records lead to a state.

use std::path::PathBuf;

use zoolet_core::{Core, Settings};
use zoolet_protocol::Zxid;

use super::error::{HistoryError, Known};
use super::records::lost;
use super::{Gaps, History, Moment};
use crate::storage::directory::SnapshotFile;
use crate::storage::error::StorageError;
use crate::storage::recovery::{self, FromSnapshot};
use crate::storage::snapshot_fault::{SnapshotFault, SnapshotUnusable};
use crate::storage::snapshot_reader::SnapshotError;

/// A state from which the records go on.
///
/// A snapshot of Apache ZooKeeper may hold some transactions after [`Base::after`]: the records that follow
/// it have them too, and at their end the state is right. [`History::deleted_while_written`] tells what it lacks.
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
    /// The older snapshots that cannot be used.
    pub unusable: Vec<SnapshotUnusable>,
    /// The last transaction that it may hold, if the snapshot tells it.
    pub(super) last: Option<Zxid>,
    /// The same, also if only its digest tells it.
    pub(super) holds_nothing_after: Option<Zxid>,
}

impl History {
    /// The oldest state from which the logs go on: that of a new server, if they begin with the first transaction,
    /// or that of the oldest usable snapshot. Logs before it may have transactions that lead to no state.
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
        let beginning = self.beginning().filter(|_| least == Zxid::ZERO);
        // A later snapshot would leave out what the logs have before it.
        let most = if beginning.is_some() { Zxid::ZERO } else { Zxid(i64::MAX) };
        let wanted = self.files.snapshots.iter().filter(|it| (least..=most).contains(&it.zxid));
        for file in wanted.filter(|file| self.leads_on(file.zxid)) {
            match self.base(file)? {
                Ok(base) => return Ok(Base { unusable, ..base }),
                Err(reason) => unusable.push(reason),
            }
        }
        match beginning {
            Some(base) => Ok(Base { unusable, ..base }),
            _ if unusable.is_empty() => Err(self.without_snapshot()),
            _ => Err(StorageError::NoUsableSnapshot(unusable).into()),
        }
    }

    /// The state of a new server, if the logs begin with the first transaction.
    pub(super) fn beginning(&self) -> Option<Base> {
        let begins = self.files.logs.first().is_some_and(|log| log.zxid == Zxid(1));
        let core = || Core::new(Settings::default());
        begins.then(|| Base {
            core: core(),
            after: Zxid::ZERO,
            snapshot: None,
            unusable: Vec::new(),
            last: None,
            holds_nothing_after: None,
        })
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
            Ok(FromSnapshot { core, last, holds_nothing_after, .. }) => Ok(Ok(Base {
                core,
                after: file.zxid,
                snapshot: Some(path.clone()),
                unusable: Vec::new(),
                last,
                holds_nothing_after,
            })),
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

    /// Finds the last transaction before the first one that was decided after a time; `None` if all were later. The
    /// clock of a server may go back: the second one is the last transaction behind it that was not decided
    /// after that time either.
    pub(super) fn last_until(
        &self,
        time_ms: i64,
    ) -> Result<Option<(Zxid, Option<Moment>)>, HistoryError> {
        let mut records = self.records(Zxid::ZERO, Gaps::Tell);
        let mut last = None;
        loop {
            match records.next_record() {
                Ok(Some(record)) if record.txn.time_ms <= time_ms => last = Some(record.txn.zxid),
                Ok(_) => break,
                Err(error) if records.pass_over(&error)?.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let Some(last) = last else { return Ok(None) };
        let mut back = None;
        // A damage behind the wanted state is none of it.
        while let Ok(Some(record)) = records.next_record() {
            if record.txn.time_ms <= time_ms {
                back = Some(Moment::of(&record.txn));
            }
        }
        Ok(Some((last, back)))
    }
}
