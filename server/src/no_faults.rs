//! What is there of the faults when the server is built without them: nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Engine;

#[derive(Debug, Clone, Default)]
pub(crate) struct Faults;

impl Faults {
    pub(crate) fn attach(&self, _engine: &Arc<Engine>) {}

    pub(crate) fn time(&self) -> TimeShift {
        TimeShift
    }
}

/// Time that is not moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeShift;

impl TimeShift {
    pub(crate) fn advanced(&self) -> Duration {
        Duration::ZERO
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        0
    }

    pub(crate) fn origin(&self, start: Instant) -> Instant {
        start
    }
}
