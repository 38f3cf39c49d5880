//! What time is moved by.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::FaultError;

/// How far time is moved, and how long a message is delayed, at most: a thousand years, with which
/// nothing that is reckoned overflows.
const MOVED_MS_MAX: u64 = 1_000 * 365 * 24 * 60 * 60 * 1_000;

/// The milliseconds of a time that is not too long.
pub(super) fn check(duration: Duration) -> Result<u64, FaultError> {
    let ms = u64::try_from(duration.as_millis()).ok().filter(|ms| *ms <= MOVED_MS_MAX);
    ms.ok_or(FaultError::TooLong(duration))
}

/// What a server's time is moved by. Clones move the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeShift(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    advanced_ms: AtomicU64,
    skew_ms: AtomicI64,
    /// When the first server was started, from which the wall time goes on.
    origin: OnceLock<Instant>,
}

impl TimeShift {
    /// What was added to the server's clock.
    pub(crate) fn advanced(&self) -> Duration {
        Duration::from_millis(self.0.advanced_ms.load(Ordering::SeqCst))
    }

    /// Adds to the server's clock, and to the wall time with it.
    pub(super) fn advance(&self, duration: Duration) -> Result<(), FaultError> {
        let added = check(duration)?;
        let add = |advanced_ms| Some(added + advanced_ms).filter(|ms| *ms <= MOVED_MS_MAX);
        let moved = self.0.advanced_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
        moved.map(drop).map_err(|_| FaultError::TooLong(duration))
    }

    /// Lets the wall time differ by so many milliseconds.
    pub(super) fn skew(&self, ms: i64) -> Result<(), FaultError> {
        check(Duration::from_millis(ms.unsigned_abs()))?;
        self.0.skew_ms.store(ms, Ordering::SeqCst);
        Ok(())
    }

    /// Ends the difference of the wall time.
    pub(super) fn put_right(&self) {
        self.0.skew_ms.store(0, Ordering::SeqCst);
    }

    /// What was added to the wall time, in milliseconds.
    pub(crate) fn wall_ms(&self) -> i64 {
        let advanced_ms = self.0.advanced_ms.load(Ordering::SeqCst);
        let skew_ms = self.0.skew_ms.load(Ordering::SeqCst);
        skew_ms.saturating_add(i64::try_from(advanced_ms).unwrap_or(i64::MAX))
    }

    /// From when a virtual wall time is reckoned: the start of the first of several servers.
    pub(crate) fn origin(&self, start: Instant) -> Instant {
        *self.0.origin.get_or_init(|| start)
    }
}
