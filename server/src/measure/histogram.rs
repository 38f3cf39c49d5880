//! A histogram of whole numbers: exact below 64, and within 1.6 % above.
//!
//! Recording is one atomic addition, without a lock. `hdrhistogram` has the same buckets, but either
//! needs a lock around each recording, or a recorder for each thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::counter::Spread;

/// Each power of two is divided into so many buckets.
const DIVISIONS: u64 = 1 << DIVISION_BITS;
const DIVISION_BITS: u32 = 5;

/// The greatest number that is told apart: 50 days in milliseconds, or 4 GiB.
const VALUE_MAX: u64 = u32::MAX as u64;

const BUCKETS: usize = bucket(VALUE_MAX) + 1;

/// The counts of a histogram.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// Most histograms of a server record nothing, so the memory is taken with the first value.
    counts: OnceLock<Box<[AtomicU64]>>,
    /// How often 0 was recorded: almost every request takes less than a millisecond.
    zeros: OnceLock<Spread>,
}

impl Histogram {
    /// Records a value that came so many times.
    pub(super) fn record(&self, value: u64, times: u64) {
        if value == 0 {
            return self.zeros.get_or_init(Spread::default).add(times);
        }
        let counts = self.counts.get_or_init(|| (0..BUCKETS).map(|_| AtomicU64::new(0)).collect());
        counts[bucket(value)].fetch_add(times, Ordering::Relaxed);
    }

    pub(super) fn distribution(&self) -> Distribution {
        let counts = self.counts.get().into_iter().flatten().enumerate();
        let counts = counts.map(|(bucket, count)| (bucket, count.load(Ordering::Relaxed)));
        let zeros = self.zeros.get().map(|zeros| (bucket(0), zeros.value()));
        Distribution(zeros.into_iter().chain(counts).filter(|(_, count)| *count > 0).collect())
    }

    pub(super) fn reset(&self) {
        for count in self.counts.get().into_iter().flatten() {
            count.store(0, Ordering::Relaxed);
        }
        if let Some(zeros) = self.zeros.get() {
            zeros.reset();
        }
    }
}

/// Whether a value has a bucket of its own.
pub(super) const fn is_exact(value: u64) -> bool {
    value < 2 * DIVISIONS
}

/// The bucket of a value.
const fn bucket(value: u64) -> usize {
    let value = if value > VALUE_MAX { VALUE_MAX } else { value };
    if is_exact(value) {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - DIVISION_BITS;
    (shift as u64 * DIVISIONS + (value >> shift)) as usize
}

/// The value in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if is_exact(bucket) {
        return bucket;
    }
    let shift = bucket / DIVISIONS - 1;
    ((bucket - shift * DIVISIONS) << shift) + (1 << shift) / 2
}

/// The counts of a histogram at some moment, or between two moments: the buckets that are not empty,
/// in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Distribution(Vec<(usize, u64)>);

impl Distribution {
    /// The number of values.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The sum of the values that have buckets of their own.
    pub(super) fn exact_sum(&self) -> u64 {
        let exact = self.0.iter().take_while(|(bucket, _)| is_exact(*bucket as u64));
        exact.fold(0, |sum, &(value, count)| sum.wrapping_add(count.wrapping_mul(value as u64)))
    }

    /// What has been recorded since an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.0.iter().peekable();
        let more = self.0.iter().map(|&(bucket, count)| {
            while before.next_if(|(other, _)| *other < bucket).is_some() {}
            let counted = before.next_if(|(other, _)| *other == bucket).map_or(0, |(_, n)| *n);
            (bucket, count.saturating_sub(counted))
        });
        Self(more.filter(|(_, count)| *count > 0).collect())
    }

    /// What two histograms have recorded together.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mut both: std::collections::BTreeMap<_, u64> = self.0.iter().copied().collect();
        for (bucket, count) in &other.0 {
            *both.entry(*bucket).or_default() += count;
        }
        Self(both.into_iter().collect())
    }

    /// The least value that at least the share `quantile` of the values does not exceed; `None`
    /// without values.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<u64> {
        let rank = ((quantile * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.0.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        reached.or_else(|| self.0.last()).map(|(bucket, _)| middle(*bucket))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value, 1));
        histogram.distribution()
    }

    proptest! {
        /// A quantile is a recorded value of the right rank, within the precision.
        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(0..=VALUE_MAX, 1..200),
            quantile in 0.0..=1.0,
        ) {
            let found = of(&values).quantile(quantile).unwrap();
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            prop_assert!(found.abs_diff(exact) <= exact / 63, "{found} for {exact}");
            prop_assert!(exact >= 64 || found == exact, "{found} for {exact}");
        }

        #[test]
        fn what_came_later_is_the_difference(
            before in prop::collection::vec(0..1_000u64, 0..50),
            after in prop::collection::vec(0..1_000u64, 0..50),
        ) {
            let all = [before.clone(), after.clone()].concat();
            prop_assert_eq!(of(&all).since(&of(&before)), of(&after));
            prop_assert_eq!(of(&before).and(&of(&after)), of(&all));
        }
    }

    #[test]
    fn the_buckets_follow_one_another() {
        for value in 0..100_000 {
            let step = bucket(value + 1) - bucket(value);
            assert!(step <= 1, "after {value}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(of(&[]).quantile(0.5), None);
    }
}
