//! Retry policies: when to send a request again after a lost connection (Curator's).

use std::time::Duration;

use super::Client;
use super::clock::{Instant, now};
use super::error::Error;
use super::limits::EXPONENTIAL_RETRIES_MAX;
use super::random::Random;

/// When to send a request again after a lost connection, and when to give up (`RetryPolicy` of
/// Curator).
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

impl RetryPolicy {
    /// No retry.
    #[must_use]
    pub fn never() -> Self {
        Self(Policy::Never)
    }

    /// Retries for ever, with this delay before each (`RetryForever`).
    #[must_use]
    pub fn forever(delay: Duration) -> Self {
        Self(Policy::Forever { delay })
    }

    /// One retry after this delay (`RetryOneTime`).
    #[must_use]
    pub fn one_time(delay: Duration) -> Self {
        Self::n_times(1, delay)
    }

    /// At most `count` retries, with this delay before each (`RetryNTimes`).
    #[must_use]
    pub fn n_times(count: u32, delay: Duration) -> Self {
        Self(Policy::NTimes { count, delay })
    }

    /// Retries until `limit` has passed since the first attempt (`RetryUntilElapsed`).
    #[must_use]
    pub fn until_elapsed(limit: Duration, delay: Duration) -> Self {
        Self(Policy::UntilElapsed { limit, delay })
    }

    /// At most `count` retries, 29 at most, with random delays whose mean doubles each time,
    /// starting at about `base` (`ExponentialBackoffRetry`).
    #[must_use]
    pub fn exponential_backoff(base: Duration, count: u32) -> Self {
        Self::bounded_exponential_backoff(base, Duration::MAX, count)
    }

    /// As [`RetryPolicy::exponential_backoff`], with no delay above `delay_max`
    /// (`BoundedExponentialBackoffRetry`).
    #[must_use]
    pub fn bounded_exponential_backoff(base: Duration, delay_max: Duration, count: u32) -> Self {
        Self(Policy::Exponential { base, count: count.min(EXPONENTIAL_RETRIES_MAX), delay_max })
    }

    /// How long to wait before the next retry; `None` to give up. `retried` retries have failed,
    /// and `elapsed` has passed since the first attempt.
    #[must_use]
    pub fn delay(&self, retried: u32, elapsed: Duration) -> Option<Duration> {
        self.delay_by(&Random::OfThread, retried, elapsed)
    }

    /// As [`RetryPolicy::delay`], with the random numbers of a client.
    pub(crate) fn delay_by(
        &self,
        random: &Random,
        retried: u32,
        elapsed: Duration,
    ) -> Option<Duration> {
        match self.0 {
            Policy::Never => None,
            Policy::Forever { delay } => Some(delay),
            Policy::NTimes { count, delay } => (retried < count).then_some(delay),
            Policy::UntilElapsed { limit, delay } => (elapsed < limit).then_some(delay),
            Policy::Exponential { base, count, delay_max } => (retried < count).then(|| {
                let factor = random.factor(1 << (retried + 1).min(EXPONENTIAL_RETRIES_MAX));
                base.saturating_mul(factor.max(1)).min(delay_max)
            }),
        }
    }
}

impl Default for RetryPolicy {
    /// Three retries with exponential backoff from a second on: what Curator's examples use.
    fn default() -> Self {
        Self::exponential_backoff(Duration::from_secs(1), 3)
    }
}

/// The retries of one call.
pub(crate) struct Retry<'a> {
    client: &'a Client,
    start: Instant,
    retried: u32,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client, start: now(), retried: 0 }
    }

    /// Waits until it is time for the next attempt, or returns the error if there is to be none.
    /// After [`Error::NotSent`] every call may be repeated, after [`Error::ConnectionLoss`] only a
    /// call that the server may carry out twice.
    pub(crate) async fn after(&mut self, error: Error, is_repeatable: bool) -> Result<(), Error> {
        let may_repeat = match error {
            Error::NotSent { .. } => true,
            Error::ConnectionLoss { .. } => is_repeatable,
            _ => false,
        };
        let delay = self.client.retry_delay(&self.client.retry, self.retried, now() - self.start);
        let Some(delay) = delay.filter(|_| may_repeat) else { return Err(error) };
        tokio::time::sleep(delay).await;
        self.retried += 1;
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
