//! The faults of a simulation: their kinds, how often each happens, and single ones.

use std::fmt;

use super::servers::Servers;
use crate::ensemble::Notice;

/// A kind of fault.
///
/// ```
/// use zoolet_testkit::sim::FaultKind;
///
/// assert!(FaultKind::ALL.contains(&FaultKind::Pauses));
/// assert_eq!(FaultKind::LostReplies.to_string(), "lost replies");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// The connection of a machine is cut. The server notices at once or later.
    Cuts,
    /// A request of a machine is carried out, and the connection is lost before its reply.
    LostReplies,
    /// Messages of a machine are late, by up to 300 ms.
    Delays,
    /// No message arrives at a machine or from it for a while, perhaps until its session has
    /// expired.
    Silences,
    /// No message arrives at a machine for a while, but its own arrive.
    LateReplies,
    /// No connection of a machine succeeds for a while.
    Refusals,
    /// The server expires the sessions of a machine before their timeouts have passed, as if an
    /// administrator had ended them. Never by default: a client cannot know of it in time, so that
    /// every lock has two holders then for a moment, and only a store that checks fencing tokens is
    /// safe. Sessions expire in time by the other faults.
    Expiries,
    /// A machine stands still while time goes on, as in a long collection of garbage.
    Pauses,
    /// A machine loses power, and is started again.
    Crashes,
    /// The wall clock of a machine jumps: [`World::wall_clock`](super::World::wall_clock).
    ClockJumps,
    /// The process of the server is killed and started again.
    ServerRestarts,
    /// The server and its disk lose power, also while it writes.
    PowerLosses,
    /// The disk of the server fails to sync, which ends the server.
    FailedSyncs,
    /// The wall clock of the server jumps when it is started again.
    ServerClockJumps,
    /// A server of an ensemble is behind the others: as often as said, and during half of the
    /// [`Cuts`](Self::Cuts) that wait for a holder.
    Lags,
    /// A follower is cut off from its leader with its clients, or as often as not the server of the
    /// holder of a lock, which may be the leader. Half of these machines have [`SlowWork`](Self::SlowWork) as well.
    FollowersCutOff,
    /// A leader is cut off from its followers with its clients. The others elect another leader.
    LeadersCutOff,
    /// The work of a machine takes seconds longer, while its client goes on as always:
    /// [`World::sleep`](super::World::sleep) and [`World::sleep_up_to`](super::World::sleep_up_to)
    /// take longer. So a lock is held for longer than its session's timeout at times.
    SlowWork,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::Cuts,
        Self::LostReplies,
        Self::Delays,
        Self::Silences,
        Self::LateReplies,
        Self::Refusals,
        Self::Expiries,
        Self::Pauses,
        Self::Crashes,
        Self::ClockJumps,
        Self::ServerRestarts,
        Self::PowerLosses,
        Self::FailedSyncs,
        Self::ServerClockJumps,
        Self::Lags,
        Self::FollowersCutOff,
        Self::LeadersCutOff,
        Self::SlowWork,
    ];

    /// How often it happens in a minute by default: to each machine, or to the server.
    #[must_use]
    pub fn default_rate(self) -> f64 {
        match self {
            Self::LostReplies => 8.0,
            Self::Lags => 20.0,
            Self::Cuts | Self::Delays => 6.0,
            Self::Silences | Self::Pauses | Self::SlowWork => 4.0,
            Self::LateReplies | Self::Refusals | Self::FollowersCutOff => 3.0,
            Self::Expiries => 0.0,
            Self::Crashes | Self::ClockJumps | Self::ServerRestarts => 2.0,
            Self::LeadersCutOff => 2.0,
            Self::PowerLosses | Self::FailedSyncs | Self::ServerClockJumps => 1.0,
        }
    }

    /// Whether it can happen where these servers serve the machines.
    pub(super) fn is_of(self, servers: Servers) -> bool {
        match self {
            Self::ServerRestarts
            | Self::PowerLosses
            | Self::FailedSyncs
            | Self::ServerClockJumps
            | Self::Expiries => servers == Servers::One,
            Self::Lags | Self::FollowersCutOff | Self::LeadersCutOff => {
                servers == Servers::Ensemble
            }
            _ => true,
        }
    }

    /// Whether it happens to machines.
    pub(super) fn is_of_machines(self) -> bool {
        match self {
            Self::ServerRestarts
            | Self::PowerLosses
            | Self::FailedSyncs
            | Self::ServerClockJumps
            | Self::Lags
            | Self::LeadersCutOff => false,
            Self::Cuts
            | Self::LostReplies
            | Self::Delays
            | Self::Silences
            | Self::LateReplies
            | Self::Refusals
            | Self::Expiries
            | Self::Pauses
            | Self::Crashes
            | Self::ClockJumps
            | Self::FollowersCutOff
            | Self::SlowWork => true,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuts => "cuts",
            Self::LostReplies => "lost replies",
            Self::Delays => "delays",
            Self::Silences => "silences",
            Self::LateReplies => "late replies",
            Self::Refusals => "refusals",
            Self::Expiries => "expiries",
            Self::Pauses => "pauses",
            Self::Crashes => "crashes",
            Self::ClockJumps => "clock jumps",
            Self::ServerRestarts => "server restarts",
            Self::PowerLosses => "power losses",
            Self::FailedSyncs => "failed syncs",
            Self::ServerClockJumps => "server clock jumps",
            Self::Lags => "lags",
            Self::FollowersCutOff => "followers cut off",
            Self::LeadersCutOff => "leaders cut off",
            Self::SlowWork => "slow work",
        })
    }
}

/// One fault of a schedule. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) at_ms: u64,
    /// It waits until its machine enters a critical section, and then for this long.
    pub(super) after_entering: Option<u64>,
    pub(super) fault: Fault,
}

/// What happens, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Machine(usize, MachineFault),
    Server(ServerFault),
    Ensemble(EnsembleFault),
}

/// What happens to a machine or its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachineFault {
    Cut {
        noticed_after_ms: u64,
    },
    LoseReply {
        requests: u64,
    },
    Delay {
        ms_max: u64,
        for_ms: u64,
    },
    Silence {
        for_ms: u64,
    },
    LateReplies {
        for_ms: u64,
    },
    Refuse {
        for_ms: u64,
    },
    Expire,
    Pause {
        for_ms: u64,
    },
    Crash {
        down_ms: u64,
        noticed_after_ms: Option<u64>,
    },
    ClockJump {
        ms: i64,
    },
    /// The server that serves it is cut off from the others.
    ServerCutOff {
        notice: Notice,
        for_ms: u64,
    },
    SlowWork {
        for_ms: u64,
    },
}

/// What happens to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerFault {
    Restart {
        down_ms: u64,
    },
    LosePower {
        steps: u64,
        down_ms: u64,
        survives: u64,
    },
    FailToSync {
        down_ms: u64,
        survives: u64,
    },
    /// At the next start.
    ClockJump {
        ms: i64,
    },
}

impl fmt::Display for MachineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { noticed_after_ms: 0 } => f.write_str("its connection is cut"),
            Self::Cut { noticed_after_ms } => {
                write!(f, "its connection is cut; the server notices after {noticed_after_ms} ms")
            }
            Self::LoseReply { requests: 0 } => {
                f.write_str("its connection is cut after its next request, before the reply")
            }
            Self::LoseReply { requests } => {
                write!(f, "its connection is cut after {} more requests", requests + 1)
            }
            Self::Delay { ms_max, for_ms } => {
                write!(f, "its messages are up to {ms_max} ms late, for {for_ms} ms")
            }
            Self::Silence { for_ms } => {
                write!(f, "no message arrives there or from there for {for_ms} ms")
            }
            Self::LateReplies { for_ms } => write!(f, "no message arrives there for {for_ms} ms"),
            Self::Refuse { for_ms } => write!(f, "it cannot connect for {for_ms} ms"),
            Self::Expire => f.write_str("the server expires its session"),
            Self::Pause { for_ms } => write!(f, "it stands still for {for_ms} ms"),
            Self::Crash { down_ms, .. } => {
                write!(f, "it loses power, and starts again after {down_ms} ms")
            }
            Self::ClockJump { ms } => write!(f, "its wall clock jumps by {ms} ms"),
            Self::ServerCutOff { notice, for_ms } => {
                let notice = match notice {
                    Notice::OthersAtOnce => ", and its followers, if it has any, notice at once",
                    notice => of_leader(*notice),
                };
                write!(f, "its server is cut off from the others for {for_ms} ms{notice}")
            }
            Self::SlowWork { for_ms } => {
                write!(f, "no work of it ends for {for_ms} ms, while its client goes on")
            }
        }
    }
}

impl MachineFault {
    /// How long it lasts, if it does not happen at once.
    pub(super) fn for_ms(self) -> Option<u64> {
        match self {
            Self::Delay { for_ms, .. }
            | Self::Silence { for_ms }
            | Self::LateReplies { for_ms }
            | Self::Refuse { for_ms }
            | Self::Pause { for_ms }
            | Self::SlowWork { for_ms }
            | Self::ServerCutOff { for_ms, .. } => Some(for_ms),
            Self::Crash { down_ms, .. } => Some(down_ms),
            Self::Cut { .. } | Self::LoseReply { .. } | Self::Expire | Self::ClockJump { .. } => {
                None
            }
        }
    }
}

impl fmt::Display for ServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart { down_ms } => {
                write!(f, "it is killed, and starts again after {down_ms} ms")
            }
            Self::LosePower { steps: 0, down_ms, .. } => {
                write!(f, "it loses power, and starts again after {down_ms} ms")
            }
            Self::LosePower { down_ms, .. } => {
                write!(f, "it loses power while it writes, and starts again after {down_ms} ms")
            }
            Self::FailToSync { down_ms, .. } => {
                write!(f, "its disk fails to sync; it starts again after {down_ms} ms")
            }
            Self::ClockJump { ms } => {
                write!(f, "its wall clock jumps by {ms} ms at the next start")
            }
        }
    }
}

impl ServerFault {
    /// How long the server is down.
    pub(super) fn for_ms(self) -> Option<u64> {
        match self {
            Self::Restart { down_ms }
            | Self::LosePower { down_ms, .. }
            | Self::FailToSync { down_ms, .. } => Some(down_ms),
            Self::ClockJump { .. } => None,
        }
    }
}

/// What happens to the servers of an ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnsembleFault {
    Lag { member: usize, delay_ms: u64, for_ms: u64 },
    HoldApplying { member: usize, for_ms: u64 },
    HoldLink { member: usize, for_ms: u64 },
    CutFollower { member: usize, notice: Notice, for_ms: u64 },
    CutLeader { notice: Notice, for_ms: u64 },
}

impl EnsembleFault {
    pub(super) fn for_ms(self) -> u64 {
        match self {
            Self::Lag { for_ms, .. }
            | Self::HoldApplying { for_ms, .. }
            | Self::HoldLink { for_ms, .. }
            | Self::CutFollower { for_ms, .. }
            | Self::CutLeader { for_ms, .. } => for_ms,
        }
    }
}

impl fmt::Display for EnsembleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lag { member, delay_ms, for_ms } => {
                write!(f, "server {member} applies {delay_ms} ms late, for {for_ms} ms")
            }
            Self::HoldApplying { member, for_ms } => {
                write!(f, "server {member} applies nothing for {for_ms} ms")
            }
            Self::HoldLink { member, for_ms } => {
                write!(f, "server {member} receives nothing from its leader for {for_ms} ms")
            }
            // The leader may be the member that was drawn; then it is the next one.
            Self::CutFollower { notice, for_ms, .. } => {
                let notice = of_follower(*notice);
                write!(f, "a follower is cut off from its leader for {for_ms} ms{notice}")
            }
            Self::CutLeader { notice, for_ms } => {
                let notice = of_leader(*notice);
                write!(f, "the leader is cut off from its followers for {for_ms} ms{notice}")
            }
        }
    }
}

/// What is added to a cut of a follower: if only the others notice, nothing changes, since the leader
/// goes on without it.
fn of_follower(notice: Notice) -> &'static str {
    match notice {
        Notice::AtOnce => ", and both sides notice at once",
        Notice::OthersAtOnce | Notice::Nobody => "",
    }
}

/// What is added to a cut of the leader.
fn of_leader(notice: Notice) -> &'static str {
    match notice {
        Notice::AtOnce => ", and both sides notice at once",
        Notice::OthersAtOnce => ", and its followers notice at once",
        Notice::Nobody => "",
    }
}
