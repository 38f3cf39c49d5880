//! The state after a transaction.

use std::collections::HashSet;
use std::path::PathBuf;

use zoolet_core::{Core, Frozen, TxnOp, Znode};
use zoolet_protocol::{ZPath, Zxid};

use super::base::Base;
use super::error::HistoryError;
use super::{Gaps, History, Moment};
use crate::storage::error::StorageError;

/// Which state is wanted.
///
/// ```
/// use zoolet_protocol::Zxid;
/// use zoolet_server::storage::history::Until;
///
/// assert_ne!(Until::Zxid(Zxid(1)), Until::Time(1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// That after a transaction.
    Zxid(Zxid),
    /// That at a time, in milliseconds since 1970: before the first transaction that was decided later, also where
    /// the clock of the servers went back behind it.
    Time(i64),
}

/// A state of the past, from which one may go on.
///
/// ```
/// use std::sync::Arc;
/// use zoolet_protocol::Zxid;
/// use zoolet_server::storage::history::{History, HistoryError, Until};
/// use zoolet_server::storage::{MemDisk, StorageConfig};
///
/// # fn main() -> Result<(), HistoryError> {
/// let disk = Arc::new(MemDisk::default());
/// let history = History::open(&StorageConfig { disk, ..StorageConfig::at("/data") })?;
/// let error = history.past(Until::Zxid(Zxid(5))).unwrap_err();
/// assert!(matches!(error, HistoryError::Nothing { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Past {
    core: Core,
    /// The transaction that was asked for, or the last one until the wanted time.
    zxid: Zxid,
    last: Option<Moment>,
    snapshot: Option<PathBuf>,
    replayed: u64,
    is_newest: bool,
    went_back: Option<Moment>,
}

impl Past {
    /// The znodes and sessions.
    #[must_use]
    pub fn state(&self) -> Frozen {
        self.core.freeze()
    }

    /// The transaction after which this is the state.
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// The last transaction that was read from a log for it.
    #[must_use]
    pub fn last(&self) -> Option<Moment> {
        self.last
    }

    /// The snapshot from which it was made; `None` if the logs begin with the first transaction.
    #[must_use]
    pub fn snapshot(&self) -> Option<&std::path::Path> {
        self.snapshot.as_deref()
    }

    /// The number of transactions that were applied to it.
    #[must_use]
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// The last later transaction whose time is that of the wanted state or an earlier one, as where the clock of
    /// the servers went back. Known of [`Until::Time`].
    #[must_use]
    pub fn went_back(&self) -> Option<Moment> {
        self.went_back
    }

    /// Whether no later transaction is in the files.
    #[must_use]
    pub fn is_newest(&self) -> bool {
        self.is_newest
    }
}

impl History {
    /// The state of the past that is wanted.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the files do not reach there, or a file that is needed is damaged.
    pub fn past(&self, until: Until) -> Result<Past, HistoryError> {
        if self.is_empty() {
            return Err(self.without_snapshot());
        }
        let (zxid, went_back) = match until {
            Until::Zxid(zxid) => (zxid, None),
            Until::Time(time_ms) => match self.last_until(time_ms)? {
                Some(found) => found,
                None => return Err(self.before(time_text(time_ms))?),
            },
        };
        Ok(Past { went_back, ..self.past_at(zxid)? })
    }

    fn past_at(&self, zxid: Zxid) -> Result<Past, HistoryError> {
        let mut unusable = Vec::new();
        let mut fuzzy = None;
        let older = self.files.snapshots.iter().rev().filter(|file| file.zxid <= zxid);
        for file in older {
            let base = match self.base(file)? {
                Ok(base) => base,
                Err(reason) => {
                    unusable.push(reason);
                    continue;
                }
            };
            match (self.replay(base, zxid), fuzzy.take()) {
                (Ok(Ok(past)), _) => return Ok(past),
                (Err(error), None) => return Err(error),
                // The older snapshot is of no use: its logs are gone, or it has the same fault.
                (Err(_), Some(first)) => return Err(first),
                (Ok(Err(_)), Some(first)) => fuzzy = Some(first),
                (Ok(Err(later)), None) => {
                    let snapshot = file.path.clone();
                    fuzzy = Some(HistoryError::Fuzzy { wanted: zxid, snapshot, later });
                }
            }
        }
        if let Some(Ok(past)) = self.beginning().map(|base| self.replay(base, zxid)).transpose()? {
            return Ok(past);
        }
        match fuzzy {
            Some(fuzzy) => Err(fuzzy),
            None if unusable.is_empty() => Err(self.before(zxid.to_string())?),
            None => Err(StorageError::NoUsableSnapshot(unusable).into()),
        }
    }

    fn before(&self, wanted: String) -> Result<HistoryError, HistoryError> {
        Ok(HistoryError::Before { wanted, known: self.known()? })
    }

    /// Applies the transactions up to `zxid`. Within, the last transaction that the base holds already although it
    /// is later.
    fn replay(&self, base: Base, zxid: Zxid) -> Result<Result<Past, Zxid>, HistoryError> {
        let Base { core, after, snapshot, last, .. } = base;
        if last.is_some_and(|last| last > zxid) {
            return Ok(Err(last.unwrap_or(zxid)));
        }
        // One of ours has no later ones, and an older one of ZooKeeper's does not say.
        let may_be_fuzzy = snapshot.is_some() && last.is_none();
        let mut past = Past {
            core,
            zxid,
            last: None,
            snapshot,
            replayed: 0,
            is_newest: true,
            went_back: None,
        };
        let mut records = self.records(after, Gaps::Refuse).detached();
        let (mut beyond, mut damage) = (false, None);
        loop {
            let record = match records.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                // It is behind the wanted state.
                Err(_) if past.last.map_or(after, |last| last.zxid) == zxid => {
                    beyond = true;
                    break;
                }
                // A snapshot behind it may have all that was lost.
                Err(error) if records.pass_over(&error)?.is_some() => {
                    damage.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(damage.unwrap_or(error)),
            };
            if record.txn.zxid > zxid {
                beyond = true;
                break;
            }
            past.core.apply(&record.txn);
            past.replayed += 1;
            past.last = Some(Moment::of(&record.txn));
        }
        past.is_newest = !beyond;
        let reached = past.last.map_or(after, |last| last.zxid);
        if let Some(damage) = damage.filter(|_| !beyond && reached < zxid) {
            return Err(damage);
        }
        if !beyond && reached < zxid {
            return Err(HistoryError::Beyond { wanted: zxid, known: self.known()? });
        }
        if may_be_fuzzy && let Some(later) = self.later_within(&past, after)? {
            return Ok(Err(later));
        }
        Ok(Ok(past))
    }

    /// The last transaction after a state that the state holds already, because its snapshot was written
    /// while the server went on: until the next snapshot, which was begun after that.
    fn later_within(&self, past: &Past, base: Zxid) -> Result<Option<Zxid>, HistoryError> {
        let state = past.state();
        let znodes = state.znodes();
        let of = |znode: &&Znode| znode.stat.czxid.max(znode.stat.mzxid).max(znode.stat.pzxid);
        let mut later = znodes.iter().map(of).max().filter(|newest| *newest > past.zxid);
        if past.is_newest {
            return Ok(later);
        }
        let mut snapshots = self.files.snapshots.iter().map(|file| file.zxid);
        let next = snapshots.find(|zxid| *zxid > base).unwrap_or(Zxid(i64::MAX));
        let find = |path: &ZPath| {
            let index = znodes.binary_search_by(|znode| znode.path.cmp(path)).ok()?;
            znodes.get(index)
        };
        // What was created since, and is no longer missing.
        let mut created: HashSet<ZPath> = HashSet::new();
        let mut records = self.records(past.zxid, Gaps::Tell).detached();
        while let Some(record) = records.next_record()? {
            let txn = &record.txn;
            if txn.zxid > next {
                break;
            }
            let mut is_held = false;
            for op in txn.op.single_operations() {
                match op {
                    TxnOp::Create(create) => {
                        created.insert(create.path.clone());
                    }
                    TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => {
                        is_held |= !created.remove(path) && find(path).is_none();
                    }
                    TxnOp::CloseSession { paths } => {
                        for path in paths {
                            is_held |= !created.remove(path) && find(path).is_none();
                        }
                    }
                    TxnOp::SetAcl { path, version, .. } if !created.contains(path) => {
                        is_held |= find(path).is_some_and(|znode| znode.stat.aversion >= *version);
                    }
                    _ => {}
                }
            }
            if is_held {
                later = later.max(Some(txn.zxid));
            }
        }
        Ok(later)
    }
}

fn time_text(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| format!("{ms} ms"), |time| format!("{time:.3}"))
}
