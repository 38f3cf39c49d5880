//! What is there of the faults when the server is built without them: nothing.

use std::future::{Pending, pending};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use zoolet_core::ConnectionId;
use zoolet_protocol::SessionId;

use crate::engine::connection::{Connection, Hangup};
use crate::engine::lock::Engine;
use crate::engine::outbox::Outgoing;

#[derive(Debug, Clone, Default)]
pub(crate) struct Faults(());

impl Faults {
    pub(crate) fn attach(&self, _engine: &Arc<Engine>) {}

    pub(crate) fn detach(&self, _engine: &Engine) {}

    pub(crate) fn time(&self) -> TimeShift {
        TimeShift
    }

    pub(crate) fn changed(&self) -> Pending<()> {
        pending()
    }

    pub(crate) fn refuse(&self) -> bool {
        false
    }

    pub(crate) fn is_stopped(&self) -> bool {
        false
    }
}

/// A gate that is open.
#[derive(Debug)]
pub(crate) struct Gate;

#[derive(Debug)]
pub(crate) struct Stamp;

/// What becomes of a message that is to leave.
#[derive(Debug)]
pub(crate) enum Admitted {
    Waits(Stamp),
    #[expect(dead_code, reason = "nothing is lost")]
    Lost,
    #[expect(dead_code, reason = "nothing is lost")]
    Ends,
}

impl Gate {
    pub(crate) fn new(_faults: &Faults, _connection: ConnectionId) -> Self {
        Self
    }

    pub(crate) fn serves(&self, _session: SessionId) {}

    pub(crate) fn admit(&self, _outgoing: &mut Outgoing) -> Admitted {
        Admitted::Waits(Stamp)
    }

    pub(crate) fn lets_out(&self, _stamp: &Stamp) -> bool {
        true
    }

    pub(crate) fn is_frozen(&self) -> bool {
        false
    }

    pub(crate) async fn lifted(&self) {}
}

pub(crate) fn receive(connection: &Arc<Connection>, frame: Bytes) -> Result<(), Hangup> {
    connection.handle_frame(frame)
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
