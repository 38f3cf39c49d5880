//! When to try again after a connection was lost, and when to give up: Curator's policies.

use std::time::Duration;

use super::clock::{Instant, now};
use super::error::Error;

/// When to try again (`RetryPolicy` of Curator).
///
/// ```
/// use std::time::Duration;
/// use zoolet_client::RetryPolicy;
///
/// let policy = RetryPolicy::n_times(2, Duration::from_millis(10));
/// assert_eq!(policy.delay(0, Duration::ZERO), Some(Duration::from_millis(10)));
/// assert_eq!(policy.delay(2, Duration::ZERO), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy(Policy);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Policy {
    Never,
    Forever { delay: Duration },
    NTimes { count: u32, delay: Duration },
    UntilElapsed { limit: Duration, delay: Duration },
    Exponential { base: Duration, count: u32, delay_max: Duration },
}

/// The most tries of a policy whose delay doubles, as in Curator, so that it does not overflow.
const EXPONENTIAL_TRIES_MAX: u32 = 29;

impl RetryPolicy {
    /// Never again.
    #[must_use]
    pub fn never() -> Self {
        Self(Policy::Never)
    }

    /// For ever, after the same delay each time.
    #[must_use]
    pub fn forever(delay: Duration) -> Self {
        Self(Policy::Forever { delay })
    }

    /// Once more.
    #[must_use]
    pub fn one_time(delay: Duration) -> Self {
        Self::n_times(1, delay)
    }

    /// At most `count` times more.
    #[must_use]
    pub fn n_times(count: u32, delay: Duration) -> Self {
        Self(Policy::NTimes { count, delay })
    }

    /// Until `limit` has passed since the first try.
    #[must_use]
    pub fn until_elapsed(limit: Duration, delay: Duration) -> Self {
        Self(Policy::UntilElapsed { limit, delay })
    }

    /// At most `count` times more, after delays that grow at random, in the mean to twice the one
    /// before (`ExponentialBackoffRetry`).
    #[must_use]
    pub fn exponential_backoff(base: Duration, count: u32) -> Self {
        Self::bounded_exponential_backoff(base, Duration::MAX, count)
    }

    /// As [`RetryPolicy::exponential_backoff`], with a greatest delay.
    #[must_use]
    pub fn bounded_exponential_backoff(base: Duration, delay_max: Duration, count: u32) -> Self {
        Self(Policy::Exponential { base, count: count.min(EXPONENTIAL_TRIES_MAX), delay_max })
    }

    /// How long to wait before the next try, when `tried` tries more than the first have failed
    /// and `elapsed` has passed since it; `None` to give up.
    #[must_use]
    pub fn delay(&self, tried: u32, elapsed: Duration) -> Option<Duration> {
        match self.0 {
            Policy::Never => None,
            Policy::Forever { delay } => Some(delay),
            Policy::NTimes { count, delay } => (tried < count).then_some(delay),
            Policy::UntilElapsed { limit, delay } => (elapsed < limit).then_some(delay),
            Policy::Exponential { base, count, delay_max } => (tried < count).then(|| {
                let factor = fastrand::u32(1..1 << (tried + 1).min(EXPONENTIAL_TRIES_MAX));
                base.saturating_mul(factor.max(1)).min(delay_max)
            }),
        }
    }
}

impl Default for RetryPolicy {
    /// Three times more, from a second on: what Curator's examples use.
    fn default() -> Self {
        Self::exponential_backoff(Duration::from_secs(1), 3)
    }
}

/// Whether and when to call again what failed for want of a connection.
pub(crate) struct Retry {
    policy: RetryPolicy,
    start: Instant,
    tried: u32,
}

impl Retry {
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self { policy: policy.clone(), start: now(), tried: 0 }
    }

    /// Waits until it is time to call again, or gives the error back: a read may be repeated, a
    /// write only while it surely did not happen.
    pub(crate) async fn after(&mut self, error: Error, is_repeatable: bool) -> Result<(), Error> {
        let may_repeat = match error {
            Error::NotSent { .. } => true,
            Error::ConnectionLoss { .. } => is_repeatable,
            _ => false,
        };
        let delay = self.policy.delay(self.tried, now() - self.start);
        let Some(delay) = delay.filter(|_| may_repeat) else { return Err(error) };
        tokio::time::sleep(delay).await;
        self.tried += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_policy_gives_up_when_it_should() {
        assert_eq!(RetryPolicy::never().delay(0, MS), None);
        assert_eq!(RetryPolicy::forever(MS).delay(1_000_000, Duration::MAX), Some(MS));
        assert_eq!(RetryPolicy::one_time(MS).delay(0, MS), Some(MS));
        assert_eq!(RetryPolicy::one_time(MS).delay(1, MS), None);
        assert_eq!(RetryPolicy::until_elapsed(10 * MS, MS).delay(99, 9 * MS), Some(MS));
        assert_eq!(RetryPolicy::until_elapsed(10 * MS, MS).delay(0, 10 * MS), None);
    }

    #[test]
    fn delays_grow_within_their_bounds() {
        let policy = RetryPolicy::bounded_exponential_backoff(MS, 20 * MS, 100);
        for tried in 0..29 {
            let delay = policy.delay(tried, MS).expect("it goes on for 29 tries");
            assert!(delay >= MS && delay <= (20 * MS).min((1 << (tried + 1)) * MS), "{tried}");
        }
        assert_eq!(policy.delay(29, MS), None);
    }
}
