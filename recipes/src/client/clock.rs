//! The only place of this crate that reads clocks: tokio's, so that a test can turn it, and the one
//! that goes on while the machine is suspended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use tokio::time::Instant;

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Tells how long the machine was suspended so far: all other clocks stand still meanwhile.
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

/// By how much the clock that goes on is ahead of the one that stands still.
#[cfg(target_os = "linux")]
fn suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let since_boot = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let awake = since_boot(ClockId::Monotonic);
    since_boot(ClockId::Boottime).saturating_sub(awake)
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
fn suspended() -> Duration {
    Duration::ZERO
}
