//! Writes transactions to the log, syncs it, and publishes the durable zxid.
//!
//! On the machine's disk a thread of its own does that, or a task (`commits.rs`). The transactions that
//! are appended while it writes and syncs form its next batch. So many clients share one sync without
//! a timer, and a single client waits for no other (group commit). On a disk without threads, such as
//! a simulated one, each append writes and syncs before it returns.

mod commits;
mod queue;

use std::sync::Arc;
use std::thread::{self, JoinHandle};
#[cfg(test)]
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;
use zoolet_core::Frozen;
use zoolet_protocol::Zxid;

pub(crate) use self::commits::Commits;
#[cfg(test)]
pub(crate) use self::queue::Queue;
use super::compression::Compression;
use super::config::StorageConfig;
use super::directory::Directory;
use super::disk::DirectoryLock;
use super::error::StorageError;
use super::log_writer::LogWriter;
use super::mark::MarkFile;
use super::snapshot_file;
use super::stats::StorageStats;
use crate::clock::{ms_since, now};
use crate::storage::durable::Durable;

/// A step of the committer's work.
#[derive(Debug)]
enum Work {
    /// Write these records.
    Batch(Batch),
    /// End the current log.
    EndLog,
    /// Write a snapshot of the state after the records before it.
    Snapshot(Box<Frozen>),
    /// A state at this zxid is durable, without records.
    Reach(Zxid),
}

/// Transactions that are written and synced together.
#[derive(Debug)]
pub(crate) struct Batch {
    first: Zxid,
    last: Zxid,
    records: BytesMut,
    /// A moment for each transaction.
    since: Vec<Since>,
}

/// When a transaction was appended, and by which client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    pub(crate) moment: Instant,
    pub(crate) origin: Origin,
}

/// The client of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Client,
    Server,
}

/// Carries the work out.
#[derive(Debug)]
pub(crate) struct Committer {
    directory: Directory,
    writer: LogWriter,
    durable: Durable,
    stats: Arc<StorageStats>,
    compression: Compression,
    retain: Option<usize>,
    is_synced: bool,
    /// Whether a separate thread carries the work out, and another writes snapshots at the same
    /// time.
    in_background: bool,
    snapshot: Option<JoinHandle<()>>,
    /// Whether the last work was a batch for which one client alone waited, and no records followed.
    is_alone: bool,
    /// Held until all records are written.
    _locks: Vec<Box<dyn DirectoryLock>>,
}

impl Committer {
    pub(crate) fn new(
        directory: Directory,
        config: &StorageConfig,
        locks: Vec<Box<dyn DirectoryLock>>,
        mark: Option<MarkFile>,
        durable: Durable,
        stats: Arc<StorageStats>,
    ) -> Self {
        let is_synced = mark.is_some();
        Self {
            writer: LogWriter::new(directory.clone(), config, mark, Arc::clone(&stats)),
            in_background: !directory.disk.is_immediate(),
            directory,
            durable,
            stats,
            compression: config.snapshot_compression,
            retain: config.snap_retain_count,
            is_synced,
            snapshot: None,
            is_alone: false,
            _locks: locks,
        }
    }

    /// A queue whose committer runs when the test calls it.
    #[cfg(test)]
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::new(Queue::new(self.durable.clone(), Arc::clone(&self.stats)))
    }

    /// Carries out the queued work, as the thread would.
    #[cfg(test)]
    pub(crate) fn carry_out_all(&mut self, queue: &Queue) {
        if let Some(work) = queue.take_now() {
            work.into_iter().for_each(|work| self.carry_out(work));
            queue.carried_out(Duration::ZERO, false);
        }
    }

    /// Carries out work, unless a step has failed before: then it writes nothing more.
    fn carry_out(&mut self, work: Work) {
        self.is_alone = false;
        if self.durable.has_failed() {
            return;
        }
        let done = match work {
            Work::Batch(batch) => self.write(&batch),
            Work::EndLog => self.writer.end(),
            Work::Reach(zxid) => {
                self.durable.reach(zxid);
                Ok(())
            }
            Work::Snapshot(frozen) => {
                self.take_snapshot(*frozen);
                Ok(())
            }
        };
        if let Err(error) = done {
            self.durable.fail(error);
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StorageError> {
        let (stats, begin) = (Arc::clone(&self.stats), now());
        for since in &batch.since {
            stats.queue_time.record(ms_between(since.moment, begin));
        }
        self.writer.write(batch.first, &batch.records)?;
        // Messages leave without waiting for the mark, or for the numbers. If a task writes, the
        // client's task still waits for its worker.
        self.is_alone = self.durable.reach_before_more(batch.last);
        let done = now();
        stats.durable.add(batch.since.len() as u64);
        stats.batch_size.record(batch.since.len() as u64);
        stats.batch_bytes.record(batch.records.len() as u64);
        stats.flush_time.record(ms_between(begin, done));
        for since in &batch.since {
            let ms = ms_between(since.moment, done);
            stats.queue_and_flush_time.record(ms);
            if since.origin == Origin::Client {
                stats.update_latency.record(ms);
            }
        }
        self.writer.mark(batch.last)
    }

    /// Writes a snapshot, unless another is being written.
    fn take_snapshot(&mut self, frozen: Frozen) {
        if self.snapshot.as_ref().is_some_and(|running| !running.is_finished()) {
            tracing::info!("no snapshot at {}: one is being written", frozen.zxid);
            return;
        }
        let (directory, compression) = (self.directory.clone(), self.compression);
        let (is_synced, retain) = (self.is_synced, self.retain);
        let stats = Arc::clone(&self.stats);
        let save = move || {
            save_and_purge(&directory, &frozen, compression, is_synced, retain, &stats);
        };
        if !self.in_background {
            return save();
        }
        match thread::Builder::new().name("zoolet-snapshot".to_owned()).spawn(save) {
            Ok(running) => self.snapshot = Some(running),
            // The log contains everything, and the next snapshot may succeed.
            Err(error) => tracing::error!("no snapshot: {error}"),
        }
    }

    fn finish(&mut self) {
        self.carry_out(Work::EndLog);
        if let Some(snapshot) = self.snapshot.take()
            && snapshot.join().is_err()
        {
            tracing::error!("the snapshot was not finished: its thread panicked");
        }
    }
}

/// A snapshot that fails loses nothing: the log contains everything, and the next one may succeed.
fn save_and_purge(
    directory: &Directory,
    frozen: &Frozen,
    compression: Compression,
    is_synced: bool,
    retain: Option<usize>,
    stats: &StorageStats,
) {
    let begin = now();
    if let Err(error) = snapshot_file::save(directory, frozen, compression, is_synced) {
        stats.snapshot_errors.add(1);
        tracing::error!("no snapshot at {}: {error}", frozen.zxid);
        return;
    }
    stats.snapshot_time.record(ms_since(begin));
    tracing::info!("snapshot of {} znodes at {}", frozen.counted(), frozen.zxid);
    directory.purge_after_snapshot(retain);
}

fn ms_between(earlier: Instant, later: Instant) -> u64 {
    u64::try_from(later.saturating_duration_since(earlier).as_millis()).unwrap_or(u64::MAX)
}
