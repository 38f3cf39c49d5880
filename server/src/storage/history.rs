//! Reads what a data directory tells of the past: every transaction of its logs, and the state after each.
//!
//! Nothing is changed, and no lock is taken, so a server may run on the directory meanwhile.
//!
//! - `frames` cuts a log into records, which share the memory of the block in which they were read.
//! - `records` goes through the records of all logs in their order, and makes the checks of recovery.
//! - `salvage` finds the records behind a damaged place.
//! - `base` finds the snapshot from which the records lead to a state.
//! - `deleted` finds the znodes that a snapshot lacks because they were deleted while it was written.
//! - `state` is the state after a transaction, with a proof that a snapshot which was written while the server
//!   went on does not hold later ones.
//!
//! What recovery reads, this reads too: a record is decoded by the same code, and a log that recovery refuses
//! is refused here, after the records before the damage.

mod base;
mod deleted;
mod error;
mod frames;
mod records;
mod salvage;
mod state;

use std::sync::Arc;

use zoolet_protocol::Zxid;

pub use self::base::Base;
pub use self::deleted::DeletedZnode;
pub use self::error::{HistoryError, Known};
pub use self::records::{Ended, Gap, Gaps, Records};
pub use self::salvage::Damage;
pub use self::state::{Past, Until};

use super::config::StorageConfig;
use super::directory::{Directory, Files};
use super::logs_note;

/// The logs and snapshots of a data directory, to be read.
///
/// ```
/// use std::sync::Arc;
/// use zoolet_protocol::Zxid;
/// use zoolet_server::storage::history::{Gaps, History};
/// use zoolet_server::storage::{MemDisk, StorageConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Arc::new(MemDisk::default());
/// let history = History::open(&StorageConfig { disk, ..StorageConfig::at("/data") })?;
/// let mut records = history.records(Zxid::ZERO, Gaps::Refuse);
/// assert!(records.next_record()?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct History {
    directory: Directory,
    files: Arc<Files>,
}

/// A transaction, and when it was decided.
///
/// ```
/// use zoolet_protocol::Zxid;
/// use zoolet_server::storage::history::Moment;
///
/// let moment = Moment { zxid: Zxid(7), time_ms: 1_700_000_000_000 };
/// assert!(moment.zxid > Zxid::ZERO);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The transaction.
    pub zxid: Zxid,
    /// When it was decided, in milliseconds since 1970, by the clock of the server.
    pub time_ms: i64,
}

impl History {
    /// Lists the files. Later ones are not read, except by [`Records::resume`].
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if a directory does not exist, a file is in the wrong one, or the logs are elsewhere.
    pub fn open(config: &StorageConfig) -> Result<Self, HistoryError> {
        let directory = Directory::of(config);
        let files = directory.files()?;
        logs_note::check(&directory, &files)?;
        Ok(Self { directory, files: Arc::new(files) })
    }

    /// Whether there are neither logs nor snapshots.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.logs.is_empty() && self.files.snapshots.is_empty()
    }

    /// The bytes of the logs that [`History::records`] reads from there on, with the zeros by which a log is
    /// extended.
    #[must_use]
    pub fn bytes_after(&self, after: Zxid) -> u64 {
        let logs = self.files.logs_after(after).iter();
        logs.map(|log| self.directory.disk.length(&log.path).unwrap_or(0)).sum()
    }

    /// The records after a transaction, from the oldest log that may hold some of them.
    #[must_use]
    pub fn records(&self, after: Zxid, gaps: Gaps) -> Records {
        Records::new(self.directory.clone(), self.files.logs_after(after).to_vec(), after, gaps)
    }

    /// The first transaction of any log.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the logs before it cannot be read.
    pub fn first(&self) -> Result<Option<Moment>, HistoryError> {
        let first = self.records(Zxid::ZERO, Gaps::Tell).next_record()?;
        Ok(first.map(|record| Moment::of(&record.txn)))
    }

    /// The last transaction of all logs. It reads the last log to its end.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if that log is damaged.
    pub fn last(&self) -> Result<Option<Moment>, HistoryError> {
        for index in (0..self.files.logs.len()).rev() {
            let logs = self.files.logs.iter().skip(index).take(1).cloned().collect();
            let mut records = Records::new(self.directory.clone(), logs, Zxid::ZERO, Gaps::Tell);
            let mut last = None;
            while let Some(record) = records.next_record()? {
                last = Some(Moment::of(&record.txn));
            }
            if last.is_some() {
                return Ok(last);
            }
        }
        Ok(None)
    }
}

impl Moment {
    /// That of a transaction.
    #[must_use]
    pub fn of(txn: &zoolet_core::Txn) -> Self {
        Self { zxid: txn.zxid, time_ms: txn.time_ms }
    }
}
