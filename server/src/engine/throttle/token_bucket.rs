//! A bucket of tokens that fills with time, with refusals at random (`BlueThrottle`).
//!
//! Time and chance are arguments, so that tests say what they are.

use crate::config::ConnectionThrottling;

/// A bucket of tokens.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    config: ConnectionThrottling,
    /// How many tokens a full bucket has.
    capacity: u64,
    fill_count: u64,
    tokens: u64,
    filled_ms: u64,
    /// The probability with which a client is turned away.
    drop: f64,
    /// When it last changed, or could have.
    frozen_ms: u64,
}

/// A session that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionKind {
    New,
    Renewed,
}

/// The bucket turns a client away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many clients begin sessions; connection_throttle_tokens sets the limit")]
pub(crate) struct Refused;

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn new(config: ConnectionThrottling, now_ms: u64) -> Self {
        // The settings are meant for new sessions.
        let unit = config.weights.map_or(1, |weights| u64::from(weights.new));
        let capacity = u64::from(config.tokens).saturating_mul(unit);
        Self {
            capacity,
            fill_count: u64::from(config.fill_count).saturating_mul(unit),
            tokens: capacity,
            filled_ms: now_ms,
            drop: 0.0,
            frozen_ms: now_ms,
            config,
        }
    }

    /// Takes the tokens of a client. `chance` is a random number from 0 to below 1.
    ///
    /// # Errors
    ///
    /// [`Refused`] if there are not enough, or by chance.
    pub(crate) fn take(
        &mut self,
        kind: SessionKind,
        now_ms: u64,
        chance: f64,
    ) -> Result<(), Refused> {
        self.fill(now_ms);
        if let Some(freeze_time_ms) = self.config.freeze_time_ms {
            self.adapt(now_ms, u64::from(freeze_time_ms));
            if chance < self.drop {
                return Err(Refused);
            }
        }
        let needed = match (self.config.weights, kind) {
            (None, _) => 1,
            (Some(weights), SessionKind::New) => u64::from(weights.new),
            (Some(weights), SessionKind::Renewed) => u64::from(weights.renewed),
        };
        self.tokens = self.tokens.checked_sub(needed).ok_or(Refused)?;
        Ok(())
    }

    /// The tokens that are missing in the bucket.
    pub(crate) fn deficit(&self) -> u64 {
        self.capacity - self.tokens
    }

    /// The probability with which a client is turned away, whether or not there are tokens.
    pub(crate) fn drop_probability(&self) -> f64 {
        self.drop
    }

    /// Adds what was earned since the last time. What is left of a fill time is lost, as in
    /// ZooKeeper, and one that is not over adds nothing.
    fn fill(&mut self, now_ms: u64) {
        let fill_time_ms = u64::from(self.config.fill_time_ms.max(1));
        let passed_ms = now_ms.saturating_sub(self.filled_ms);
        if passed_ms > fill_time_ms {
            let earned = passed_ms.saturating_mul(self.fill_count) / fill_time_ms;
            self.tokens = self.tokens.saturating_add(earned).min(self.capacity);
            self.filled_ms = now_ms;
        }
    }

    /// Changes the probability, unless it was frozen recently.
    fn adapt(&mut self, now_ms: u64, freeze_time_ms: u64) {
        if now_ms.saturating_sub(self.frozen_ms) <= freeze_time_ms {
            return;
        }
        let ConnectionThrottling { drop_increase, drop_decrease, decrease_ratio, .. } = self.config;
        let enough = (self.capacity as f64 * decrease_ratio).round() as u64;
        if self.tokens == 0 && self.drop < 1.0 {
            self.drop = (self.drop + drop_increase).min(1.0);
        } else if self.deficit() <= enough {
            self.drop = (self.drop - drop_decrease).max(0.0);
        }
        self.frozen_ms = now_ms;
    }
}

#[cfg(test)]
mod tests;
