//! The bucket beside a simple model, over many random histories.

use super::*;
use crate::config::SessionWeights;

/// The bucket as its documentation tells it, in whole numbers and without tricks.
struct Model {
    config: ConnectionThrottling,
    tokens: u64,
    filled_ms: u64,
    /// In units of a thousandth.
    drop: i64,
    frozen_ms: u64,
}

impl Model {
    fn unit(&self) -> u64 {
        self.config.weights.map_or(1, |weights| u64::from(weights.new))
    }

    fn capacity(&self) -> u64 {
        u64::from(self.config.tokens) * self.unit()
    }

    fn take(&mut self, kind: SessionKind, now_ms: u64, chance_thousandths: i64) -> bool {
        let fill_time_ms = u64::from(self.config.fill_time_ms);
        if now_ms - self.filled_ms > fill_time_ms {
            let earned =
                (now_ms - self.filled_ms) * u64::from(self.config.fill_count) * self.unit();
            self.tokens = (self.tokens + earned / fill_time_ms).min(self.capacity());
            self.filled_ms = now_ms;
        }
        if let Some(freeze_ms) = self.config.freeze_time_ms {
            if now_ms - self.frozen_ms > u64::from(freeze_ms) {
                if self.tokens == 0 && self.drop < 1_000 {
                    self.drop = (self.drop + 20).min(1_000);
                } else if self.tokens == self.capacity() {
                    self.drop = (self.drop - 2).max(0);
                }
                self.frozen_ms = now_ms;
            }
            if chance_thousandths < self.drop {
                return false;
            }
        }
        let needed = match (self.config.weights, kind) {
            (None, _) => 1,
            (Some(weights), SessionKind::New) => u64::from(weights.new),
            (Some(weights), SessionKind::Renewed) => u64::from(weights.renewed),
        };
        if self.tokens < needed {
            return false;
        }
        self.tokens -= needed;
        true
    }
}

#[test]
fn the_bucket_does_what_the_model_does() {
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let config = ConnectionThrottling {
            fill_time_ms: random.u32(1..20),
            fill_count: random.u32(1..5),
            freeze_time_ms: random.bool().then(|| random.u32(0..30)),
            weights: random.bool().then(SessionWeights::default),
            ..ConnectionThrottling::of_tokens(random.u32(1..30))
        };
        let mut now_ms = random.u64(..1_000);
        let mut bucket = TokenBucket::new(config, now_ms);
        let mut model = Model { config, tokens: 0, filled_ms: now_ms, drop: 0, frozen_ms: now_ms };
        model.tokens = model.capacity();
        for step in 0..300 {
            let pause_ms = if random.bool() { 3 } else { 60 };
            now_ms += random.u64(..pause_ms);
            let kind = if random.bool() { SessionKind::New } else { SessionKind::Renewed };
            // Between two thousandths, where both agree whatever rounding does.
            let chance = random.i64(..1_000);
            let taken = bucket.take(kind, now_ms, chance as f64 / 1_000.0 + 0.000_5);
            assert_eq!(
                taken.is_ok(),
                model.take(kind, now_ms, chance),
                "{seed}, {step}: {config:?}"
            );
            assert_eq!(bucket.deficit(), model.capacity() - model.tokens, "{seed}, {step}");
            let drop = bucket.drop_probability() * 1_000.0;
            assert!((drop - model.drop as f64).abs() < 1e-6, "{seed}, {step}: {drop}");
        }
    }
}

#[test]
fn no_more_clients_are_admitted_than_the_bucket_and_its_filling_allow() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let config = ConnectionThrottling {
            fill_time_ms: random.u32(1..20),
            fill_count: random.u32(1..5),
            ..ConnectionThrottling::of_tokens(random.u32(1..50))
        };
        let mut bucket = TokenBucket::new(config, 0);
        let (mut now_ms, mut admitted) = (0, 0);
        for _ in 0..2_000 {
            now_ms += random.u64(..4);
            admitted += u64::from(bucket.take(SessionKind::New, now_ms, 0.5).is_ok());
        }
        let earned = now_ms * u64::from(config.fill_count) / u64::from(config.fill_time_ms);
        assert!(admitted <= u64::from(config.tokens) + earned, "{seed}: {admitted} of {earned}");
    }
}

#[test]
fn extreme_settings_neither_overflow_nor_admit_for_ever() {
    let config = ConnectionThrottling {
        fill_count: u32::MAX,
        weights: Some(SessionWeights { new: u32::MAX, renewed: u32::MAX }),
        ..ConnectionThrottling::of_tokens(u32::MAX)
    };
    let mut bucket = TokenBucket::new(config, 0);
    assert_eq!(bucket.take(SessionKind::New, u64::MAX, 0.0), Ok(()));
    let mut empty = TokenBucket::new(ConnectionThrottling::of_tokens(1), 5);
    assert_eq!(empty.take(SessionKind::New, 5, 0.0), Ok(()));
    // The clock may be read out of order by two threads.
    assert_eq!(empty.take(SessionKind::New, 3, 0.0), Err(Refused));
}
