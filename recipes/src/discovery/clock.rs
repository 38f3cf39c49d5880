//! The only file of discovery that reads the system's clock, for the registration time of new
//! instances. No decision depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 on a machine whose clock is before that.
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub(super) fn wall_time_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
