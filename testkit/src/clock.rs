//! The only place of the test kit that reads a clock.

use tokio::time::Instant;

/// The present moment by tokio's clock, which a test may pause.
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
