//! The only place that reads a clock.
//!
//! Durations come from tokio's clock, so that they pass as a test lets them pass. The wall time
//! of znodes comes from the machine, or, in tests, from tokio's clock as well.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Where the times in a Stat come from.
///
/// ```
/// use zoolet_server::WallTime;
///
/// assert_eq!(WallTime::default(), WallTime::Machine);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WallTime {
    /// The machine's clock, with its jumps.
    #[default]
    Machine,
    /// A start, in milliseconds since 1970, and then tokio's clock: under a paused clock TTL
    /// znodes and times in a Stat pass as the test lets them.
    Virtual {
        /// The wall time at the start of the server.
        start_ms: i64,
    },
}

#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    wall: WallTime,
}

#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
impl Clock {
    pub(crate) fn new(wall: WallTime) -> Self {
        Self { start: Instant::now(), wall }
    }

    /// Milliseconds since the server was started.
    pub(crate) fn now_ms(&self) -> u64 {
        self.since_start().as_millis() as u64
    }

    /// The time since the server was started.
    pub(crate) fn since_start(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    /// The moment `ms` milliseconds after the start.
    pub(crate) fn at_ms(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// Milliseconds since 1970, for times in a Stat.
    pub(crate) fn wall_ms(&self) -> i64 {
        match self.wall {
            WallTime::Machine => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
            WallTime::Virtual { start_ms } => start_ms.saturating_add(self.now_ms() as i64),
        }
    }
}
