//! Writes transactions to the log, syncs it, and publishes the durable zxid.
//!
//! On the machine's disk a separate thread does that. The transactions that are appended while it
//! writes and syncs form its next batch. So many clients share one sync without a timer, and a
//! single client waits for no other (group commit). On a disk without threads, such as a simulated
//! one, each append writes and syncs before it returns.

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::BytesMut;
use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;
use zoolet_core::{Frozen, Txn};
use zoolet_protocol::Zxid;

use super::compression::Compression;
use super::config::StorageConfig;
use super::directory::Directory;
use super::disk::DirectoryLock;
use super::error::StorageError;
use super::log_writer::{LogWriter, encode_log_record};
use super::mark::MarkFile;
use super::snapshot_file;
use super::stats::StorageStats;
use crate::clock::{ms_since, now};
use crate::limits::LOG_BATCH_BYTES_MAX;
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
        if !queue.waiting.lock().work.is_empty() {
            queue.take().into_iter().flatten().for_each(|work| self.carry_out(work));
        }
    }

    /// Carries out work, unless a step has failed before: then it writes nothing more.
    fn carry_out(&mut self, work: Work) {
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
        // Messages leave without waiting for the mark, or for the numbers.
        self.durable.reach(batch.last);
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

/// Passes work to a [`Committer`]: by a call, or through the queue of its thread.
#[derive(Debug)]
pub(crate) enum Commits {
    /// The caller's thread carries the work out at once.
    Immediate(Box<Committer>),
    /// A thread of its own carries the work out.
    Queued(Arc<Queue>, Option<JoinHandle<()>>),
}

impl Commits {
    /// # Errors
    ///
    /// If the system can start no thread.
    pub(crate) fn start(mut committer: Committer) -> io::Result<Self> {
        if !committer.in_background {
            return Ok(Self::Immediate(Box::new(committer)));
        }
        let durable = committer.durable.clone();
        let queue = Arc::new(Queue::new(durable, Arc::clone(&committer.stats)));
        let taken = Arc::clone(&queue);
        let thread = thread::Builder::new().name("zoolet-log".to_owned()).spawn(move || {
            let carried_out = panic::catch_unwind(AssertUnwindSafe(|| {
                while let Some(work) = taken.take() {
                    work.into_iter().for_each(|work| committer.carry_out(work));
                }
                committer.finish();
            }));
            // Otherwise all messages would wait forever.
            if carried_out.is_err() {
                let source = io::Error::other("the thread that does so has panicked");
                let path = committer.directory.logs.clone();
                committer.durable.fail(StorageError::Io { what: "write to", path, source });
            }
        })?;
        Ok(Self::Queued(queue, Some(thread)))
    }

    /// Appends a transaction to the work, and returns the length of its record.
    pub(crate) fn append(&mut self, txn: &Txn, since: Since) -> usize {
        match self {
            Self::Immediate(committer) => {
                let mut records = BytesMut::new();
                encode_log_record(txn, &mut records);
                let bytes = records.len();
                committer.stats.appended.add(1);
                let since = vec![since];
                let batch = Batch { first: txn.zxid, last: txn.zxid, records, since };
                committer.carry_out(Work::Batch(batch));
                bytes
            }
            Self::Queued(queue, _) => queue.append(txn, since),
        }
    }

    pub(crate) fn end_log(&mut self) {
        self.push(Work::EndLog);
    }

    /// Lets messages leave that depend on a durable state without records, after those that depend
    /// on the records before.
    pub(crate) fn reach(&mut self, zxid: Zxid) {
        self.push(Work::Reach(zxid));
    }

    pub(crate) fn take_snapshot(&mut self, frozen: Frozen) {
        self.push(Work::Snapshot(Box::new(frozen)));
    }

    fn push(&mut self, work: Work) {
        match self {
            Self::Immediate(committer) => committer.carry_out(work),
            Self::Queued(queue, _) => queue.push(work),
        }
    }
}

impl Drop for Commits {
    /// Waits until all records that were appended are written.
    fn drop(&mut self) {
        match self {
            Self::Immediate(committer) => committer.finish(),
            Self::Queued(queue, thread) => {
                queue.close();
                if let Some(Err(_)) = thread.take().map(JoinHandle::join) {
                    tracing::error!("the thread of the log panicked");
                }
            }
        }
    }
}

/// The work that waits for the thread.
///
/// Appending never blocks: the thread wakes in-process clients, whose next request may append on
/// that same thread. The tasks that read sockets read no requests while the queue is too long.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// Notified when work is added or the queue is closed.
    filled: Condvar,
    durable: Durable,
    stats: Arc<StorageStats>,
}

#[derive(Debug, Default)]
struct Waiting {
    work: VecDeque<Work>,
    is_closed: bool,
}

impl Queue {
    fn new(durable: Durable, stats: Arc<StorageStats>) -> Self {
        Self { waiting: Mutex::default(), filled: Condvar::new(), durable, stats }
    }

    fn append(&self, txn: &Txn, since: Since) -> usize {
        self.stats.appended.add(1);
        let mut waiting = self.waiting.lock();
        let mut bytes = 0;
        // Records that exceed the last batch begin another.
        let mut rest = Some(BytesMut::new());
        if let Some(Work::Batch(batch)) = waiting.work.back_mut() {
            let before = batch.records.len();
            bytes = encode_to(&mut batch.records, txn);
            if batch.records.len() <= LOG_BATCH_BYTES_MAX {
                batch.last = txn.zxid;
                batch.since.push(since);
                rest = None;
            } else {
                rest = Some(batch.records.split_off(before));
            }
        }
        if let Some(mut records) = rest {
            if records.is_empty() {
                bytes = encode_to(&mut records, txn);
            }
            let batch = Batch { first: txn.zxid, last: txn.zxid, records, since: vec![since] };
            waiting.work.push_back(Work::Batch(batch));
        }
        self.durable.add_backlog(bytes);
        drop(waiting);
        self.filled.notify_one();
        bytes
    }

    fn push(&self, work: Work) {
        self.waiting.lock().work.push_back(work);
        self.filled.notify_one();
    }

    fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Waits for work and takes all of it; `None` when the queue is closed.
    fn take(&self) -> Option<VecDeque<Work>> {
        let mut waiting = self.waiting.lock();
        while waiting.work.is_empty() {
            if waiting.is_closed {
                return None;
            }
            self.filled.wait(&mut waiting);
        }
        self.durable.clear_backlog();
        self.stats.queue_size.record(self.stats.outstanding());
        Some(std::mem::take(&mut waiting.work))
    }
}

fn encode_to(records: &mut BytesMut, txn: &Txn) -> usize {
    let before = records.len();
    encode_log_record(txn, records);
    records.len() - before
}

#[cfg(test)]
mod tests {
    use zoolet_core::TxnOp;
    use zoolet_protocol::{SessionId, Xid, ZPath};

    use super::*;

    #[test]
    fn a_batch_is_no_longer_than_the_limit_that_recovery_assumes() {
        let queue = Queue::new(Durable::from(Zxid::ZERO), Arc::default());
        let since = Since { moment: now(), origin: Origin::Client };
        let lengths = [1_000, LOG_BATCH_BYTES_MAX - 2_000, 5_000, 2 * LOG_BATCH_BYTES_MAX, 1, 1];
        for (zxid, length) in (1..).map(Zxid).zip(lengths) {
            let path = ZPath::parse("/a").expect("a path");
            let op = TxnOp::SetData { path, data: Some(vec![1; length].into()), version: 1 };
            let txn = Txn { session: SessionId(1), cxid: Xid(1), zxid, time_ms: 0, op };
            queue.append(&txn, since);
        }
        let mut zxids = Vec::new();
        for work in queue.take().expect("it is not closed") {
            let Work::Batch(Batch { first, last, records, .. }) = work else { panic!("{work:?}") };
            assert!(records.len() <= LOG_BATCH_BYTES_MAX || first == last, "{first} to {last}");
            zxids.push((first.0, last.0));
        }
        assert_eq!(zxids, [(1, 2), (3, 3), (4, 4), (5, 6)]);
    }
}
