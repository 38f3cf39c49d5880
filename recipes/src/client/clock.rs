//! The only place of this crate that reads a clock: tokio's, so that a test can turn it.

pub(crate) use tokio::time::Instant;

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
