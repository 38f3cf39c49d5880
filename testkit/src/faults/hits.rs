//! How often a fault took effect.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts how often a fault took effect.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    count: AtomicU64,
    changed: Notify,
}

impl Hits {
    pub(crate) fn count(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(crate) fn total(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until there were at least `times`.
    pub(crate) async fn reach(&self, times: u64) {
        loop {
            let changed = self.changed.notified();
            if self.total() >= times {
                return;
            }
            changed.await;
        }
    }
}
