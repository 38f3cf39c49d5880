//! What the storage counts.

use crate::measure::{Counter, Summary};

/// The counters of the log and the snapshots. Times are in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct StorageStats {
    /// The syncs of the log.
    pub(crate) fsync_time: Summary,
    /// The syncs that took longer than `StorageConfig::sync_warning`.
    pub(crate) slow_syncs: Counter,
    pub(crate) snapshot_time: Summary,
    pub(crate) snapshot_errors: Counter,
    /// Reading the data directory at the start.
    pub(crate) init_time: Summary,
    pub(crate) startup_txns: Summary,
    pub(crate) startup_txns_time: Summary,
    pub(crate) startup_snapshot_time: Summary,
    /// The transactions that were appended, and those of them that are durable.
    pub(crate) appended: Counter,
    pub(crate) durable: Counter,
    /// How many transactions wait when the committer takes them.
    pub(crate) queue_size: Summary,
    /// How long a transaction waits for the committer.
    pub(crate) queue_time: Summary,
    /// Writing and syncing a batch.
    pub(crate) flush_time: Summary,
    /// From the append of a transaction until it is durable.
    pub(crate) queue_and_flush_time: Summary,
    /// The transactions of a batch.
    pub(crate) batch_size: Summary,
    /// The bytes of a batch.
    pub(crate) batch_bytes: Summary,
    /// From the arrival of a client's write until it is durable.
    pub(crate) update_latency: Summary,
}

impl StorageStats {
    /// The transactions that are appended and not yet durable.
    pub(crate) fn outstanding(&self) -> u64 {
        self.appended.value().saturating_sub(self.durable.value())
    }

    /// All summaries.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = &Summary> {
        [
            &self.fsync_time,
            &self.snapshot_time,
            &self.init_time,
            &self.startup_txns,
            &self.startup_txns_time,
            &self.startup_snapshot_time,
            &self.queue_size,
            &self.queue_time,
            &self.flush_time,
            &self.queue_and_flush_time,
            &self.batch_size,
            &self.batch_bytes,
            &self.update_latency,
        ]
        .into_iter()
    }
}
