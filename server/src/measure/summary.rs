//! Summaries: how many values there were, their sum, the least and the greatest, and how they are
//! distributed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::counter::{Counter, Tally};
use super::histogram::{self, Distribution, Histogram};

/// The moments of the past that a summary remembers: with one every two minutes, its window reaches
/// eight to ten minutes back, as that of ZooKeeper's Prometheus library.
const MOMENTS: usize = 5;

/// Count, sum, minimum and maximum of times in milliseconds, which one thread at a time records.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    count: Tally,
    sum: Counter,
    extent: Extent,
}

impl Latency {
    /// Records a time that so many requests took.
    pub(crate) fn record(&self, ms: u64, times: u64) {
        self.count.add(times);
        // Mostly it is none, and a load is cheaper than a write to a shared cache line.
        if ms > 0 {
            self.sum.add(ms.wrapping_mul(times));
        }
        self.extent.record(ms);
    }

    /// Minimum, average and maximum; all 0 if nothing was recorded.
    pub(crate) fn summary_ms(&self) -> (u64, f64, u64) {
        let count = self.count.value();
        let average = self.sum.value() as f64 / count.max(1) as f64;
        (self.extent.min(), average, self.extent.max())
    }

    pub(crate) fn reset(&self) {
        self.count.reset();
        self.sum.reset();
        self.extent.reset();
    }
}

/// Minimum and maximum.
#[derive(Debug)]
struct Extent {
    min: AtomicU64,
    max: AtomicU64,
}

impl Default for Extent {
    fn default() -> Self {
        Self { min: AtomicU64::new(u64::MAX), max: AtomicU64::new(0) }
    }
}

impl Extent {
    fn record(&self, value: u64) {
        // Mostly nothing changes.
        if value < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(value, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// 0 if nothing was recorded, as in ZooKeeper's `AvgMinMaxCounter`.
    fn min(&self) -> u64 {
        match self.min.load(Ordering::Relaxed) {
            u64::MAX => 0,
            min => min,
        }
    }

    fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.min.store(u64::MAX, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
    }
}

/// Which of the recorded values the quantiles are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// All since the start, or since a reset.
    All,
    /// The last four intervals between two moments, and what came after them.
    Sliding,
    /// The last complete interval.
    Last,
}

/// A summary of values.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    histogram: Histogram,
    /// The sum of the values of which the histogram does not tell it.
    inexact_sum: Counter,
    extent: Extent,
    /// What had been recorded at the last moments, the latest at the end.
    moments: Mutex<VecDeque<Distribution>>,
}

/// A summary as it is at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Summarised {
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// The values of the window that was asked for.
    pub(crate) values: Distribution,
}

impl Summary {
    pub(crate) fn record(&self, value: u64) {
        self.record_times(value, 1);
    }

    /// Records a value that came so many times.
    pub(crate) fn record_times(&self, value: u64, times: u64) {
        self.histogram.record(value, times);
        if !histogram::is_exact(value) {
            self.inexact_sum.add(value.wrapping_mul(times));
        }
        self.extent.record(value);
    }

    /// Remembers this moment for the windows.
    pub(crate) fn rotate(&self) {
        let now = self.histogram.distribution();
        let mut moments = self.moments.lock();
        moments.push_back(now);
        if moments.len() > MOMENTS {
            moments.pop_front();
        }
    }

    pub(crate) fn summarise(&self, window: Window) -> Summarised {
        let all = self.histogram.distribution();
        let moments = self.moments.lock();
        let values = match window {
            Window::All => all.clone(),
            Window::Sliding if moments.len() == MOMENTS => all.since(&moments[0]),
            Window::Sliding => all.clone(),
            Window::Last => match (moments.back(), moments.iter().rev().nth(1)) {
                (Some(last), Some(before)) => last.since(before),
                (Some(last), None) => last.clone(),
                (None, _) => Distribution::default(),
            },
        };
        Summarised {
            count: all.count(),
            sum: all.exact_sum().wrapping_add(self.inexact_sum.value()),
            min: self.extent.min(),
            max: self.extent.max(),
            values,
        }
    }

    pub(crate) fn reset(&self) {
        self.histogram.reset();
        self.inexact_sum.reset();
        self.extent.reset();
        self.moments.lock().clear();
    }
}

impl Summarised {
    /// Two summaries as one.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let min = match (self.count, other.count) {
            (0, _) => other.min,
            (_, 0) => self.min,
            _ => self.min.min(other.min),
        };
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            min,
            max: self.max.max(other.max),
            values: self.values.and(&other.values),
        }
    }

    /// The average; 0 without values.
    pub(crate) fn average(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medians(summary: &Summary) -> [Option<u64>; 3] {
        [Window::All, Window::Sliding, Window::Last]
            .map(|window| summary.summarise(window).values.quantile(0.5))
    }

    #[test]
    fn the_sum_is_exact_whether_values_have_buckets_of_their_own_or_not() {
        let summary = Summary::default();
        let values = [0, 1, 62, 63, 64, 65, 66, 1_000, 1_001, 1 << 40];
        (1..).zip(values).for_each(|(times, value)| summary.record_times(value, times));
        let all = summary.summarise(Window::All);
        let expected: u64 = (1..).zip(values).map(|(times, value)| times * value).sum();
        assert_eq!((all.count, all.sum), (55, expected));
        summary.reset();
        assert_eq!(summary.summarise(Window::All).sum, 0);
    }

    #[test]
    fn a_window_forgets_what_is_older_than_its_moments() {
        let summary = Summary::default();
        assert_eq!(medians(&summary), [None; 3]);
        (0..3).for_each(|_| summary.record(10));
        assert_eq!(medians(&summary), [Some(10), Some(10), None]);
        summary.rotate();
        assert_eq!(medians(&summary), [Some(10), Some(10), Some(10)]);
        summary.record(20);
        for _ in 0..3 {
            summary.rotate();
            assert_eq!(summary.summarise(Window::Sliding).values.count(), 4);
        }
        // The fifth moment: the window begins with the first.
        summary.rotate();
        assert_eq!(medians(&summary), [Some(10), Some(20), None]);
        summary.rotate();
        assert_eq!(medians(&summary), [Some(10), None, None]);
        let all = summary.summarise(Window::All);
        assert_eq!((all.count, all.sum, all.min, all.max), (4, 50, 10, 20));
        summary.reset();
        assert_eq!(summary.summarise(Window::All), Summarised::default());
    }
}
