//! Single numbers.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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

/// A [`Counter`] to which every request adds. Each thread adds to one of several parts, so that requests on
/// several cores do not take a cache line from each other. It takes some kilobytes where there are many
/// cores.
#[derive(Debug)]
pub(crate) struct Spread(Box<[Part]>);

/// Two cache lines, since some processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(AtomicU64);

/// More parts than this would take more memory than they save time.
const PARTS_MAX: usize = 64;

/// One part for each core, a power of two.
fn parts() -> usize {
    static PARTS: OnceLock<usize> = OnceLock::new();
    *PARTS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        cores.next_power_of_two().min(PARTS_MAX)
    })
}

/// The number of this thread: threads that begin one after the other have different parts.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or_default()
}

impl Default for Spread {
    fn default() -> Self {
        Self((0..parts()).map(|_| Part::default()).collect())
    }
}

impl Spread {
    pub(crate) fn add(&self, count: u64) {
        let part = thread_number() & (self.0.len() - 1);
        self.0[part].0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.wrapping_add(part.0.load(Ordering::Relaxed)))
    }

    pub(crate) fn reset(&self) {
        self.0.iter().for_each(|part| part.0.store(0, Ordering::Relaxed));
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
    fn what_many_threads_add_is_counted_together() {
        let spread = Spread::default();
        std::thread::scope(|scope| {
            for _ in 0..4 * parts() {
                scope.spawn(|| (0..1_000).for_each(|_| spread.add(2)));
            }
        });
        assert_eq!(spread.value(), 8_000 * parts() as u64);
        spread.reset();
        assert_eq!(spread.value(), 0);
    }

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
