//! How a member is behind the others, and for how long it is cut off from them.

use std::time::Duration;

use tokio::time::Instant;

/// How a follower lags.
#[derive(Debug, Default)]
pub(super) struct Lag {
    /// It applies each transaction this much later than the leader.
    pub(super) delay: Duration,
    /// It stays this many transactions behind.
    pub(super) count: usize,
    /// It applies nothing, but answers the leader's pings.
    pub(super) applying: Hold,
    /// It receives nothing from the leader. What it sends arrives.
    pub(super) link: Hold,
}

/// A cut between one member and the others, in both directions, that ends by itself.
#[derive(Debug)]
pub(super) struct TimedCut {
    pub(super) member: usize,
    pub(super) ends: Instant,
}

/// Until when something is held back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Hold {
    #[default]
    No,
    Until(Instant),
    /// Until a test releases it.
    Released,
}

impl Hold {
    /// This one, and up to a time at least: a fault does not shorten another.
    pub(super) fn and_until(self, time: Instant) -> Self {
        match self {
            Self::No => Self::Until(time),
            Self::Until(until) => Self::Until(until.max(time)),
            Self::Released => Self::Released,
        }
    }
}
