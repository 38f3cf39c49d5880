//! Times and their distribution, in memory that does not grow with their number.

use serde_json::{Value, json};

/// Times in milliseconds. Quantiles are right to a sixteenth.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    pub(super) count: u64,
    sum_ms: u64,
    max_ms: u64,
    /// How many are in each class; classes grow with the times. The first index is the class without its lowest
    /// four bits, which are the second one.
    classes: Vec<Option<Box<[u64; 16]>>>,
    /// The classes of the last ones, which are not counted yet, and how many these are. Counts of many locks are
    /// no longer in a cache: one after the other costs more than several together.
    new: [u16; NEW_MAX],
    news: usize,
}

const NEW_MAX: usize = 20;

/// Times below this have a class each.
const EXACT_BITS: u32 = 5;

impl Times {
    pub(super) fn add(&mut self, ms: i64) {
        // A clock may have been set back.
        let ms = u64::try_from(ms).unwrap_or(0);
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
        self.max_ms = self.max_ms.max(ms);
        if let Some(new) = self.new.get_mut(self.news) {
            *new = class(ms);
        }
        self.news += 1;
        if self.news == NEW_MAX {
            self.count_new();
        }
    }

    fn count_new(&mut self) {
        let (new, news) = (self.new, std::mem::take(&mut self.news));
        new.iter().take(news).for_each(|class| self.add_to(*class, 1));
    }

    fn add_to(&mut self, class: u16, count: u64) {
        let (high, low) = (usize::from(class >> 4), usize::from(class & 15));
        if self.classes.len() <= high {
            self.classes.resize(high + 1, None);
        }
        if let Some(classes) = self.classes.get_mut(high) {
            classes.get_or_insert_default()[low] += count;
        }
    }

    /// The classes that have some, with how many.
    fn counts(&self) -> Vec<(u16, u64)> {
        let mut all = self.clone();
        all.count_new();
        let known =
            all.classes.iter().zip(0_u16..).filter_map(|(it, high)| Some((it.as_ref()?, high)));
        let counts =
            known.flat_map(|(it, high)| it.iter().zip(high << 4..).map(|(it, at)| (at, *it)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ms = self.sum_ms.saturating_add(other.sum_ms);
        self.max_ms = self.max_ms.max(other.max_ms);
        for (class, count) in other.counts() {
            self.add_to(class, count);
        }
    }

    pub(super) fn max_ms(&self) -> u64 {
        self.max_ms
    }

    pub(super) fn sum_ms(&self) -> u64 {
        self.sum_ms
    }

    /// The time that so many of a hundred do not exceed.
    pub(super) fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (class, count) in self.counts() {
            seen += count;
            if seen >= rank {
                return greatest(class).min(self.max_ms);
            }
        }
        self.max_ms
    }

    /// For a person; `None` if there are none.
    pub(super) fn text(&self) -> Option<String> {
        let [p50, p90, p99] = [50, 90, 99].map(|percent| span(self.percentile(percent)));
        let max = span(self.max_ms);
        (self.count > 0).then(|| format!("half {p50}, 90 % {p90}, 99 % {p99}, longest {max}"))
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "count": self.count,
            "sum_ms": self.sum_ms,
            "p50_ms": self.percentile(50),
            "p90_ms": self.percentile(90),
            "p99_ms": self.percentile(99),
            "max_ms": self.max_ms,
        })
    }
}

fn class(ms: u64) -> u16 {
    let bits = u64::BITS - ms.leading_zeros();
    if bits <= EXACT_BITS {
        return u16::try_from(ms).unwrap_or(0);
    }
    let part = (ms >> (bits - EXACT_BITS)) & 15;
    let class = 32 + u64::from(bits - EXACT_BITS - 1) * 16 + part;
    u16::try_from(class).unwrap_or(u16::MAX)
}

/// The greatest time of a class.
fn greatest(class: u16) -> u64 {
    let class = u64::from(class);
    if class < 32 {
        return class;
    }
    let (shift, part) = ((class - 32) / 16 + 1, (class - 32) % 16);
    u64::try_from((u128::from(16 + part + 1) << shift) - 1).unwrap_or(u64::MAX)
}

/// A time for a person.
pub(super) fn span(ms: u64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000..172_800_000 => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
        _ => format!("{} days", ms / 86_400_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_its_class() {
        for bits in 0..63 {
            for ms in [1_u64 << bits, (1 << bits) + (1 << bits) / 3, (2 << bits) - 1] {
                let greatest = greatest(class(ms));
                assert!(greatest >= ms && greatest - ms <= ms / 16, "{ms} is told as {greatest}");
                assert!(ms == 0 || class(ms) >= class(ms - 1), "{ms}");
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_all_times() {
        let mut times = Times::default();
        assert_eq!((times.text(), times.percentile(99)), (None, 0));
        (1..=100).for_each(|ms| times.add(ms));
        assert_eq!((times.percentile(10), times.max_ms(), times.sum_ms()), (10, 100, 5_050));
        assert!((50..=53).contains(&times.percentile(50)) && times.percentile(100) == 100);
        times.add(-5);
        let mut merged = Times::default();
        merged.add(7);
        merged.merge(&times);
        assert_eq!((merged.count, merged.max_ms()), (102, 100));
    }

    #[test]
    fn times_have_one_or_two_units() {
        let texts = [0, 999, 1_250, 61_000, 3_660_000, 172_800_000].map(span);
        assert_eq!(texts, ["0 ms", "999 ms", "1.2 s", "1 min 1 s", "1 h 1 min", "2 days"]);
    }
}
