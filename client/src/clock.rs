//! The only file of this crate that reads clocks: tokio's, which a test can pause and move, the
//! system's clock that also counts while the machine is suspended, and the time of day.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) use tokio::time::Instant;

/// The present moment by tokio's clock, which a test can pause and move.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = zoolet_client::recipe::now();
/// assert!(zoolet_client::recipe::now() >= start);
/// # }
/// ```
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub fn now() -> Instant {
    Instant::now()
}

/// The time of day by the machine's clock, for what other machines read. It may jump, also backwards:
/// no order and no duration follows from it.
///
/// ```
/// assert!(zoolet_client::recipe::wall_time() > std::time::UNIX_EPOCH);
/// ```
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// Tells how long the machine was suspended so far, in all. Tokio's clock stands still meanwhile.
#[derive(Clone)]
pub(crate) struct SuspensionClock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl SuspensionClock {
    pub(crate) fn new(suspended: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(suspended))
    }

    pub(crate) fn suspended(&self) -> Duration {
        (self.0)()
    }
}

impl Default for SuspensionClock {
    fn default() -> Self {
        Self::new(suspended)
    }
}

impl fmt::Debug for SuspensionClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SuspensionClock").field(&self.suspended()).finish()
    }
}

/// By how much `CLOCK_BOOTTIME`, which counts during a suspension, is ahead of `CLOCK_MONOTONIC`.
#[cfg(target_os = "linux")]
fn suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let since_boot = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    ahead(|| since_boot(ClockId::Boottime), || since_boot(ClockId::Monotonic))
}

/// By how much one clock is ahead of another, at most. The clock that is ahead is read first: a
/// thread that is descheduled between the two reads must not take that for a suspension.
#[cfg(any(target_os = "linux", test))]
fn ahead(going_on: impl FnOnce() -> Duration, standing: impl FnOnce() -> Duration) -> Duration {
    let going_on = going_on();
    going_on.saturating_sub(standing())
}

/// Other systems do not tell it.
#[cfg(not(target_os = "linux"))]
fn suspended() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_delay_between_the_two_clock_reads_is_no_suspension() {
        let time = Cell::new(Duration::from_secs(100));
        let read = |suspended: Duration| {
            let read = time.get() + suspended;
            time.set(time.get() + Duration::from_millis(20));
            read
        };
        assert_eq!(ahead(|| read(Duration::ZERO), || read(Duration::ZERO)), Duration::ZERO);
        let minute = Duration::from_secs(60);
        let seen = ahead(|| read(minute), || read(Duration::ZERO));
        assert!(minute - Duration::from_millis(20) <= seen && seen <= minute, "{seen:?}");
    }
}
