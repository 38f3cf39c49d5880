//! Single numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows until an administrator resets it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A number to which one thread at a time adds, because it holds a lock. That saves the atomic
/// addition of a [`Counter`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    all: AtomicU64,
    /// What was there at the last reset. A reset does not write what the adding thread writes, so
    /// none is lost.
    before: AtomicU64,
}

impl Tally {
    pub(crate) fn add(&self, count: u64) {
        self.all.store(self.all.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        let before = self.before.load(Ordering::Relaxed);
        self.all.load(Ordering::Relaxed).saturating_sub(before)
    }

    pub(crate) fn reset(&self) {
        self.before.store(self.all.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_from_its_last_reset() {
        let tally = Tally::default();
        tally.add(2);
        tally.reset();
        assert_eq!(tally.value(), 0);
        tally.add(3);
        assert_eq!(tally.value(), 3);
    }
}
