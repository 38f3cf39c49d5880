//! The only file that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The current moment, by tokio's clock, which a test may pause.
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970, by the machine's clock.
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub(crate) fn machine_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The whole milliseconds since a moment.
pub(crate) fn ms_since(moment: Instant) -> u64 {
    u64::try_from(now().saturating_duration_since(moment).as_millis()).unwrap_or(u64::MAX)
}
