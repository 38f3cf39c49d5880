//! The settings of an ensemble.

use std::ops::RangeInclusive;
use std::time::Duration;

use zoolet_core::Settings;

use crate::clock::WALL_START_MS;

/// The number of servers of an ensemble of the simulation.
pub const MEMBERS: usize = 3;

/// The settings of an ensemble of the simulation.
#[derive(Debug, Clone)]
pub struct EnsembleSettings {
    /// The length of a tick.
    pub tick: Duration,
    /// After how many ticks without a message a member gives its leader up.
    pub sync_limit: u32,
    /// Which members send the zxid with an event, as ZooKeeper does since 3.9.
    pub tell_zxids: [bool; MEMBERS],
}

/// All settings of an ensemble.
#[derive(Debug, Clone)]
pub(crate) struct Law {
    pub(super) tick: Duration,
    pub(super) sync_limit: u32,
    /// For each server whether it sends the zxid with an event.
    pub(super) tell_zxids: Vec<bool>,
    pub(super) timeouts_ms: RangeInclusive<i32>,
    /// The leader of the start; none to draw one.
    pub(super) first_leader: Option<usize>,
    /// Whether each leader begins an epoch of zxids.
    pub(super) has_epochs: bool,
    pub(super) elections: Elections,
    pub(super) sweeps: Sweeps,
    /// Whether a server without a leader serves clients that only read.
    pub(super) has_read_only_mode: bool,
    pub(super) settings: Settings,
    pub(super) frame_bytes_max: usize,
    /// The wall time at the start.
    pub(super) wall_start_ms: i64,
}

/// How leaders are elected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elections {
    /// By themselves, after a time that is drawn.
    Drawn,
    /// By the test.
    ByHand,
}

/// When the leader deletes containers and TTL znodes that are due.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sweeps {
    /// At intervals that are drawn.
    Drawn,
    /// At this interval. A container that never had a child is deleted at this age in milliseconds,
    /// or never if it is 0.
    Every(Duration, i64),
}

impl From<EnsembleSettings> for Law {
    fn from(settings: EnsembleSettings) -> Self {
        let EnsembleSettings { tick, sync_limit, tell_zxids } = settings;
        let tick_ms = i32::try_from(tick.as_millis()).unwrap_or(i32::MAX);
        Self {
            tick,
            sync_limit,
            tell_zxids: tell_zxids.into(),
            timeouts_ms: tick_ms.saturating_mul(2)..=tick_ms.saturating_mul(20),
            first_leader: None,
            has_epochs: false,
            elections: Elections::Drawn,
            sweeps: Sweeps::Drawn,
            has_read_only_mode: false,
            settings: Settings::default(),
            frame_bytes_max: zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT,
            wall_start_ms: WALL_START_MS,
        }
    }
}

impl Law {
    pub(super) fn servers(&self) -> usize {
        self.tell_zxids.len()
    }

    /// How long a server waits for a message of another.
    pub(super) fn patience(&self) -> Duration {
        self.tick * self.sync_limit
    }

    /// How long a server looks for a leader before it serves clients that only read
    /// (`QuorumPeer.run`).
    pub(super) fn read_only_delay(&self) -> Duration {
        self.tick.max(Duration::from_secs(2))
    }
}
