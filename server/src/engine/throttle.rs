//! What slows clients down or turns them away, if the configuration says so
//! ([`Throttling`](crate::Throttling)).
//!
//! - `token_bucket` decides how many clients may begin or resume a session.
//! - `large_requests` limits the memory of large requests.

pub(crate) mod large_requests;
pub(crate) mod token_bucket;

use std::time::Duration;

use parking_lot::Mutex;

use self::large_requests::LargeRequests;
use self::token_bucket::{Refused, SessionKind, TokenBucket};
use super::stats::ServerStats;
use crate::config::Throttling;
use crate::random::Random;

/// What slows clients down or turns them away.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// `None` if requests never wait.
    pub(crate) requests: Option<RequestThrottle>,
    /// `None` if no request counts as large.
    pub(crate) large_requests: Option<LargeRequests>,
    /// `None` if any number of clients may begin sessions.
    sessions: Option<Mutex<TokenBucket>>,
}

/// When requests wait (`RequestThrottler`, `ZooKeeperServer.shouldThrottle`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestThrottle {
    /// While more requests are outstanding, the clients of those wait.
    outstanding_max: u64,
    /// While so many are outstanding, all clients wait.
    requests_max: u64,
    pub(crate) stall_time: Duration,
    drops_stale: bool,
    stale_after_timeout: bool,
    refused_after_ms: u64,
}

/// Whether the requests of a connection wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// They do not.
    No,
    /// They wait until its own replies have left.
    ForOwnReplies,
    /// They wait until fewer requests of all clients are outstanding.
    ForAll,
}

/// What becomes of a request that has waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out.
    CarriedOut,
    /// It is carried out, although it is stale.
    CarriedOutStale,
    /// It is answered with `THROTTLEDOP`.
    Refused,
    /// It is dropped, and the connection with it.
    Dropped,
}

impl Throttle {
    pub(crate) fn new(throttling: &Throttling, now_ms: u64) -> Self {
        let bucket = |config| Mutex::new(TokenBucket::new(config, now_ms));
        Self {
            requests: RequestThrottle::of(throttling),
            large_requests: LargeRequests::of(throttling),
            sessions: throttling.connections.map(bucket),
        }
    }

    /// Takes the tokens of a client that begins or resumes a session.
    ///
    /// # Errors
    ///
    /// [`Refused`] if it is turned away.
    pub(crate) fn admit_session(
        &self,
        kind: SessionKind,
        now_ms: u64,
        random: &Random,
        stats: &ServerStats,
    ) -> Result<(), Refused> {
        let deficit = match &self.sessions {
            Some(bucket) => {
                let mut bucket = bucket.lock();
                bucket.take(kind, now_ms, random.fraction())?;
                bucket.deficit()
            }
            None => 0,
        };
        stats.connection_token_deficit.record(deficit);
        Ok(())
    }

    /// The probability with which a client is turned away at random.
    pub(crate) fn drop_probability(&self) -> f64 {
        self.sessions.as_ref().map_or(0.0, |bucket| bucket.lock().drop_probability())
    }
}

impl RequestThrottle {
    /// `None` if requests never wait.
    fn of(throttling: &Throttling) -> Option<Self> {
        let Throttling { global_outstanding_limit, max_requests, .. } = *throttling;
        if global_outstanding_limit.is_none() && max_requests.is_none() {
            return None;
        }
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Some(Self {
            outstanding_max: global_outstanding_limit.unwrap_or(u64::MAX),
            requests_max: max_requests.unwrap_or(u64::MAX),
            stall_time: throttling.stall_time,
            drops_stale: throttling.drop_stale,
            stale_after_timeout: throttling.stale_latency_check,
            refused_after_ms: throttling.throttled_op_wait.map_or(u64::MAX, ms),
        })
    }

    /// Whether the requests of a connection wait while so many are outstanding. `waits_for_disk`
    /// tells whether one of them is its own.
    pub(crate) fn wait(&self, outstanding: u64, waits_for_disk: impl FnOnce() -> bool) -> Wait {
        if outstanding >= self.requests_max {
            Wait::ForAll
        } else if outstanding > self.outstanding_max && waits_for_disk() {
            Wait::ForOwnReplies
        } else {
            Wait::No
        }
    }

    /// What becomes of a request that has waited for so long, in a session with this timeout.
    pub(crate) fn fate(&self, waited_ms: u64, timeout_ms: u64) -> Fate {
        let is_stale = self.stale_after_timeout && waited_ms > timeout_ms;
        match (is_stale, self.drops_stale) {
            (true, true) => Fate::Dropped,
            _ if waited_ms > self.refused_after_ms => Fate::Refused,
            (true, false) => Fate::CarriedOutStale,
            (false, _) => Fate::CarriedOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(choose: impl FnOnce(&mut Throttling)) -> RequestThrottle {
        let mut throttling = Throttling { max_requests: Some(10), ..Throttling::default() };
        choose(&mut throttling);
        RequestThrottle::of(&throttling).expect("requests may wait")
    }

    #[test]
    fn nothing_waits_unless_the_configuration_says_so() {
        assert_eq!(RequestThrottle::of(&Throttling::default()), None);
    }

    #[test]
    fn clients_with_outstanding_requests_wait_first() {
        let throttle = throttle(|it| it.global_outstanding_limit = Some(5));
        for (outstanding, own, expected) in [
            (5, true, Wait::No),
            (6, true, Wait::ForOwnReplies),
            (6, false, Wait::No),
            (9, false, Wait::No),
            (10, false, Wait::ForAll),
            (10, true, Wait::ForAll),
        ] {
            assert_eq!(throttle.wait(outstanding, || own), expected, "{outstanding} {own}");
        }
    }

    #[test]
    fn what_has_waited_too_long_is_refused_or_dropped() {
        let patient = throttle(|_| {});
        assert_eq!(patient.fate(u64::MAX, 0), Fate::CarriedOut);
        let refusing = throttle(|it| it.throttled_op_wait = Some(Duration::from_millis(100)));
        assert_eq!(refusing.fate(100, 1), Fate::CarriedOut);
        assert_eq!(refusing.fate(101, 1), Fate::Refused);
        let dropping = throttle(|it| it.stale_latency_check = true);
        assert_eq!(dropping.fate(1_000, 1_000), Fate::CarriedOut);
        assert_eq!(dropping.fate(1_001, 1_000), Fate::Dropped);
        let keeping = throttle(|it| {
            it.stale_latency_check = true;
            it.drop_stale = false;
        });
        assert_eq!(keeping.fate(1_001, 1_000), Fate::CarriedOutStale);
    }
}
