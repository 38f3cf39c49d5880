//! The server's clock.
//!
//! Durations come from tokio's clock, which a test may pause. The wall time comes from the machine,
//! or, in tests, from tokio's clock as well.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hooks::{ClockOffset, Hooks};
use crate::clock::machine_ms;
pub(crate) use crate::clock::now;

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
    /// A start, from which time passes by tokio's clock: under a paused clock a test also controls
    /// TTL znodes and the times in a Stat.
    Virtual {
        /// The wall time at the start of the server, in milliseconds since 1970.
        start_ms: i64,
    },
}

impl WallTime {
    /// Starts at the machine's current time, and goes on by tokio's clock.
    #[must_use]
    pub fn starting_now() -> Self {
        Self::Virtual { start_ms: machine_ms() }
    }
}

#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    wall: WallTime,
    hooks: Option<Arc<dyn Hooks>>,
}

impl Clock {
    pub(crate) fn new(wall: WallTime, hooks: Option<Arc<dyn Hooks>>) -> Self {
        Self { start: now(), wall, hooks }
    }

    /// By how much hooks move the clock.
    #[inline]
    fn offset(&self) -> ClockOffset {
        self.hooks.as_ref().map_or_else(ClockOffset::default, |hooks| hooks.clock_offset())
    }

    /// Milliseconds since the server was started.
    pub(crate) fn now_ms(&self) -> u64 {
        self.since_start().as_millis() as u64
    }

    /// The time since the server was started.
    pub(crate) fn since_start(&self) -> Duration {
        now().saturating_duration_since(self.start) + self.offset().monotonic
    }

    /// The moment `ms` milliseconds after the start.
    pub(crate) fn at_ms(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms).saturating_sub(self.offset().monotonic)
    }

    /// Milliseconds since 1970, for the times in a Stat.
    pub(crate) fn wall_ms(&self) -> i64 {
        let unmoved_ms = match self.wall {
            WallTime::Machine => machine_ms(),
            WallTime::Virtual { start_ms } => {
                let since = now().saturating_duration_since(self.start);
                start_ms.saturating_add(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
        };
        unmoved_ms.saturating_add(self.offset().wall_ms)
    }
}
