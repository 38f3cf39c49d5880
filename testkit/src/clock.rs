//! The only place of the test kit that reads a clock, and the time at which simulated clocks begin.

use tokio::time::Instant;

/// The wall time at the start of each run, in milliseconds since 1970.
pub(crate) const WALL_START_MS: i64 = 1_700_000_000_000;

/// The present moment by tokio's clock, which a test may pause.
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
