//! The log of transactions, as the engine uses it: a transaction is appended under the lock, and
//! durable later.

use std::io;
use std::sync::Arc;

use tokio::time::Instant;
use zoolet_core::{Core, Frozen, Settings, Txn};
use zoolet_protocol::Zxid;

use crate::clock::{ms_since, now};
use crate::storage::committer::{Commits, Committer, Origin, Since};
use crate::storage::directory::Directory;
use crate::storage::durable::Durable;
use crate::storage::recovery::{self, Recovered};
use crate::storage::start::make_durable;
use crate::storage::stats::StorageStats;
use crate::storage::{StorageConfig, StorageError};

/// Appends transactions to the log and takes snapshots; in memory only it does neither.
#[derive(Debug)]
pub(crate) struct Journal {
    durable: Durable,
    /// The last transaction that was appended.
    last: Zxid,
    /// The number of logs that ended with an incomplete record when this was opened.
    tails_cut: u64,
    stats: Option<Arc<StorageStats>>,
    /// `None` in memory only, or once it is closed.
    log: Option<Log>,
}

/// The log, and when it is due for a snapshot.
#[derive(Debug)]
struct Log {
    commits: Commits,
    snap_count: u64,
    snap_bytes: u64,
    log_bytes: u64,
    /// Since the last snapshot.
    txns: u64,
    bytes: u64,
    /// Of the current log.
    bytes_of_log: u64,
}

impl Journal {
    /// A journal without a log.
    pub(crate) fn in_memory() -> Self {
        let durable = Durable::always();
        Self { durable, last: Zxid::ZERO, tails_cut: 0, stats: None, log: None }
    }

    /// Recovers the state from the data directory, and opens its log.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if the directory cannot be read or written.
    pub(crate) fn open(
        config: &StorageConfig,
        settings: &Settings,
    ) -> Result<(Self, Core), StorageError> {
        Self::open_with(config, settings, Commits::start)
    }

    fn open_with(
        config: &StorageConfig,
        settings: &Settings,
        start: impl FnOnce(Committer) -> io::Result<Commits>,
    ) -> Result<(Self, Core), StorageError> {
        let (stats, begin) = (Arc::new(StorageStats::default()), now());
        let directory = Directory::of(config);
        let locked = directory.lock()?;
        let recovered = recovery::recover(&directory, settings, config.trust_empty_snapshot)?;
        recovered.times.record(recovered.replayed, &stats);
        stats.init_time.record(ms_since(begin));
        let last = recovered.core.last_zxid();
        let durable = Durable::from(last);
        let mark = make_durable(&directory, config, &locked, &recovered, &durable, &stats)?;
        let Recovered { core, replayed, needs_snapshot, snapshot, torn, .. } = recovered;
        let totals = core.totals();
        tracing::info!(
            "{} and {} at {last}: {}, {}",
            counted(totals.znodes as u64, "znode"),
            counted(totals.sessions as u64, "session"),
            snapshot
                .map_or_else(|| "no snapshot".to_owned(), |zxid| format!("the snapshot at {zxid}")),
            counted(replayed, "transaction"),
        );
        let committer = Committer::new(
            directory,
            config,
            locked.locks,
            mark,
            durable.clone(),
            Arc::clone(&stats),
        );
        let commits = start(committer).map_err(|source| StorageError::Io {
            what: "start the thread that writes to",
            path: config.data_dir.clone(),
            source,
        })?;
        let log = Log {
            commits,
            snap_count: config.snap_count.max(1),
            snap_bytes: config.snap_size_limit_bytes.unwrap_or(u64::MAX),
            log_bytes: config.log_size_limit_bytes.unwrap_or(u64::MAX),
            txns: if needs_snapshot { 0 } else { replayed },
            bytes: 0,
            bytes_of_log: 0,
        };
        let (tails_cut, stats) = (torn.len() as u64, Some(stats));
        Ok((Self { durable, last, tails_cut, stats, log: Some(log) }, core))
    }

    pub(crate) fn tails_cut(&self) -> u64 {
        self.tails_cut
    }

    /// What is counted of the log; `None` in memory only.
    pub(crate) fn stats(&self) -> Option<Arc<StorageStats>> {
        self.stats.clone()
    }

    pub(crate) fn durable(&self) -> Durable {
        self.durable.clone()
    }

    /// Appends a transaction, before it is applied. The request for it came at `moment`, which is
    /// asked for if there is a log.
    pub(crate) fn append(&mut self, txn: &Txn, origin: Origin, moment: impl FnOnce() -> Instant) {
        assert!(txn.zxid > self.last, "{} is appended after {}", txn.zxid, self.last);
        self.last = txn.zxid;
        if let Some(log) = &mut self.log {
            let bytes = log.commits.append(txn, Since { moment: moment(), origin }) as u64;
            log.txns += 1;
            log.bytes += bytes;
            log.bytes_of_log += bytes;
            if log.bytes_of_log >= log.log_bytes {
                log.end();
            }
        }
    }

    /// Whether enough was appended for the next snapshot.
    pub(crate) fn wants_snapshot(&self) -> bool {
        let is_due = |log: &Log| log.txns >= log.snap_count || log.bytes >= log.snap_bytes;
        self.log.as_ref().is_some_and(is_due)
    }

    /// Writes a snapshot of all that was appended, after which older logs are not needed, unless
    /// the last snapshot is still being written. The next transaction begins a new log.
    pub(crate) fn take_snapshot(&mut self, frozen: Frozen) {
        let Some(log) = &mut self.log else { return };
        assert_eq!(frozen.zxid, self.last, "a snapshot is taken of what was appended");
        log.end();
        log.commits.take_snapshot(frozen);
        (log.txns, log.bytes) = (0, 0);
    }

    /// Goes on after a state that did not come from the log, and is durable already. The next
    /// transaction begins a new log.
    pub(crate) fn go_on_after(&mut self, zxid: Zxid) {
        assert!(zxid > self.last, "the state at {} is followed by one at {zxid}", self.last);
        self.last = zxid;
        if let Some(log) = &mut self.log {
            log.end();
            log.commits.reach(zxid);
            (log.txns, log.bytes) = (0, 0);
        }
    }

    /// Closes the log: transactions that are appended from now on never become durable. Dropping
    /// the returned value waits until all that was appended before is written. It must not be
    /// dropped under the lock, because the tasks that this wakes may take the lock.
    pub(crate) fn close(&mut self) -> Option<impl Drop + use<>> {
        self.log.take().map(|log| log.commits)
    }
}

impl Log {
    fn end(&mut self) {
        self.commits.end_log();
        self.bytes_of_log = 0;
    }
}

/// A number with a noun, for a person.
fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod crash_sweep;
