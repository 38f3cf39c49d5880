//! By how much a test moves the time of a server.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use zoolet_server::hooks::ClockOffset;

use super::FaultError;
use crate::limits::MOVED_TIME_MAX;

/// The milliseconds of `duration`, if it is not too long.
pub(super) fn checked_ms(duration: Duration) -> Result<u64, FaultError> {
    match duration <= MOVED_TIME_MAX {
        true => Ok(duration.as_millis() as u64),
        false => Err(FaultError::TooLong(duration)),
    }
}

/// By how much the time of a server is moved, across its restarts.
#[derive(Debug, Default)]
pub(super) struct TimeShift {
    advanced_ms: AtomicU64,
    skew_ms: AtomicI64,
}

impl TimeShift {
    pub(super) fn offset(&self) -> ClockOffset {
        let advanced_ms = self.advanced_ms.load(Ordering::SeqCst);
        let skew_ms = self.skew_ms.load(Ordering::SeqCst);
        ClockOffset {
            monotonic: Duration::from_millis(advanced_ms),
            wall_ms: skew_ms.saturating_add(i64::try_from(advanced_ms).unwrap_or(i64::MAX)),
        }
    }

    /// Moves the server's clock on, and the wall time with it.
    pub(super) fn advance(&self, duration: Duration) -> Result<(), FaultError> {
        let added_ms = checked_ms(duration)?;
        let max_ms = MOVED_TIME_MAX.as_millis() as u64;
        let add = |advanced_ms| Some(added_ms + advanced_ms).filter(|ms| *ms <= max_ms);
        let moved = self.advanced_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
        moved.map(drop).map_err(|_| FaultError::TooLong(duration))
    }

    /// Lets the wall time differ by `ms` milliseconds.
    pub(super) fn skew(&self, ms: i64) -> Result<(), FaultError> {
        checked_ms(Duration::from_millis(ms.unsigned_abs()))?;
        self.skew_ms.store(ms, Ordering::SeqCst);
        Ok(())
    }

    /// Ends the difference of the wall time.
    pub(super) fn end_skew(&self) {
        self.skew_ms.store(0, Ordering::SeqCst);
    }
}
