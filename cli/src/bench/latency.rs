//! Distributions of times.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::values::{Metric, Unit, Value};

/// Three significant digits of each time are kept.
const DIGITS: u8 = 3;

/// A histogram of times.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    nanoseconds: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self { nanoseconds: Histogram::new(DIGITS).expect("so many digits can be kept") }
    }

    pub(crate) fn record(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // It grows by itself, so no time is too long.
        self.nanoseconds.record(nanoseconds).expect("a time that has passed can be kept");
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.nanoseconds.add(&other.nanoseconds).expect("it grows by itself");
    }

    pub(crate) fn count(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// A quantile in microseconds.
    fn quantile(&self, share: f64) -> Option<f64> {
        let is_known = !self.nanoseconds.is_empty();
        is_known.then(|| self.nanoseconds.value_at_quantile(share) as f64 / NANOSECONDS_EACH)
    }

    /// The median in microseconds.
    pub(crate) fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The quantiles that are reported.
    pub(crate) fn values(&self) -> Vec<Value> {
        QUANTILES.iter().map(|&(metric, share)| (metric, self.quantile(share))).collect()
    }
}

/// Nanoseconds in a microsecond.
const NANOSECONDS_EACH: f64 = 1000.0;

const fn time(key: &'static str, heading: &'static str) -> Metric {
    Metric { key, heading, unit: Unit::Microseconds }
}

pub(crate) const P50: Metric = time("latency_p50_us", "p50");
pub(crate) const P99: Metric = time("latency_p99_us", "p99");

/// The reported quantiles.
pub(crate) const QUANTILES: [(Metric, f64); 5] = [
    (P50, 0.5),
    (time("latency_p90_us", "p90"), 0.9),
    (P99, 0.99),
    (time("latency_p999_us", "p99.9"), 0.999),
    (time("latency_max_us", "max"), 1.0),
];
