//! Allows one call in an interval (`RateLimiter`).

use std::time::Duration;

use parking_lot::Mutex;

/// Allows one call in an interval, or any number if the interval is no time. The first interval begins when it is made, and a new one with the
/// first call after the last one is over.
#[derive(Debug)]
pub(super) struct RateLimiter {
    interval_ms: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    began_ms: u64,
    is_used: bool,
}

impl RateLimiter {
    pub(super) fn new(interval: Duration, now_ms: u64) -> Self {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        Self { interval_ms, state: Mutex::new(State { began_ms: now_ms, is_used: false }) }
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    /// Whether a call is allowed now; if so it counts.
    pub(super) fn allow(&self, now_ms: u64) -> bool {
        if self.interval_ms == 0 {
            return true;
        }
        let mut state = self.state.lock();
        if now_ms > state.began_ms.saturating_add(self.interval_ms) {
            *state = State { began_ms: now_ms, is_used: false };
        }
        !std::mem::replace(&mut state.is_used, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_is_allowed_in_an_interval() {
        let limiter = RateLimiter::new(Duration::from_millis(100), 1_000);
        assert!(limiter.allow(1_050));
        assert!(!limiter.allow(1_060) && !limiter.allow(1_100), "within the first interval");
        assert!(limiter.allow(1_101) && !limiter.allow(1_201));
        assert!(limiter.allow(9_000));
        let unlimited = RateLimiter::new(Duration::ZERO, 0);
        assert!(unlimited.allow(0) && unlimited.allow(0));
    }
}
