//! The only place of this command that reads a clock.

pub(crate) use std::time::Instant;

/// The present instant.
#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
