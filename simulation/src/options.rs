//! The options of a run. Switching a part off does not change the rest of a run, so that a failing
//! run can be shrunk.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use zoolet_planted_bugs::PlantedBug;

/// A kind of fault, or of what clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The server loses power between two writes, or its process is killed or stopped.
    Crashes,
    /// The server loses power while it writes.
    TornWrites,
    /// A sync fails.
    FailedSyncs,
    /// Connections are cut, some after a request arrived and before its answer.
    Cuts,
    /// Frames are late.
    Delays,
    /// No frame arrives for a while, perhaps until the session has expired.
    Silence,
    /// No connection succeeds for a while.
    Refusals,
    /// The wall clock of the server jumps.
    ClockJumps,
    /// Reads, writes and watches.
    Plain,
    /// Clients acquire an `InterProcessMutex`.
    Mutexes,
    /// Clients acquire both locks of an `InterProcessReadWriteLock`.
    ReadWriteLocks,
    /// Clients acquire permits of an `InterProcessSemaphoreV2`.
    Semaphores,
    /// Clients acquire an `InterProcessMultiLock`.
    MultiLocks,
    /// Clients compete for a `LeaderLatch`.
    Latches,
    /// Clients increment a `DistributedAtomicLong`.
    Counters,
    /// Clients close their sessions, and new clients connect.
    NewClients,
    /// Followers of an ensemble are behind their leader.
    Lags,
    /// A follower is cut off from its leader.
    FollowersCut,
    /// A leader is cut off from its followers.
    LeadersCut,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 19] = [
        Self::Crashes,
        Self::TornWrites,
        Self::FailedSyncs,
        Self::Cuts,
        Self::Delays,
        Self::Silence,
        Self::Refusals,
        Self::ClockJumps,
        Self::Plain,
        Self::Mutexes,
        Self::ReadWriteLocks,
        Self::Semaphores,
        Self::MultiLocks,
        Self::Latches,
        Self::Counters,
        Self::NewClients,
        Self::Lags,
        Self::FollowersCut,
        Self::LeadersCut,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Crashes => "crashes",
            Self::TornWrites => "torn-writes",
            Self::FailedSyncs => "failed-syncs",
            Self::Cuts => "cuts",
            Self::Delays => "delays",
            Self::Silence => "silence",
            Self::Refusals => "refusals",
            Self::ClockJumps => "clock-jumps",
            Self::Plain => "plain",
            Self::Mutexes => "mutexes",
            Self::ReadWriteLocks => "read-write-locks",
            Self::Semaphores => "semaphores",
            Self::MultiLocks => "multi-locks",
            Self::Latches => "latches",
            Self::Counters => "counters",
            Self::NewClients => "new-clients",
            Self::Lags => "lags",
            Self::FollowersCut => "followers-cut",
            Self::LeadersCut => "leaders-cut",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let part = Self::ALL.into_iter().find(|part| part.name() == text);
        part.ok_or_else(|| format!("{text} is not one of: {names}"))
    }
}

/// The name of a planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bug(pub PlantedBug);

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bug = PlantedBug::ALL.map(Self).into_iter().find(|bug| bug.to_string() == text);
        bug.ok_or_else(|| format!("{text} is not one of: {:?}", PlantedBug::ALL))
    }
}

/// The options of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Three servers instead of one, without a disk.
    pub is_ensemble: bool,
    /// The parts that are switched off.
    pub without: BTreeSet<Part>,
    /// The number of clients.
    pub clients: usize,
    /// The number of actions of each client.
    pub operations: usize,
    /// The duration of the faults, in seconds of the run's clock.
    pub seconds: u64,
    /// The bug that is planted in the run.
    pub bug: Option<Bug>,
    /// Whether the run keeps its last messages.
    pub keeps_trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            is_ensemble: false,
            without: BTreeSet::new(),
            clients: 4,
            operations: 10,
            seconds: 12,
            bug: None,
            keeps_trace: false,
        }
    }
}

impl Options {
    /// A run on an ensemble. Clients do more in less time, so that more of them wait for each
    /// other.
    #[must_use]
    pub fn ensemble() -> Self {
        Self { is_ensemble: true, operations: 16, seconds: 8, ..Self::default() }
    }

    /// Runs that can find a bug.
    #[must_use]
    pub fn with_bug(bug: Bug) -> Self {
        // Lagging members are enough to find these, and fewer other faults make it more likely.
        let lag = [
            Part::Silence,
            Part::Refusals,
            Part::Semaphores,
            Part::Latches,
            Part::FollowersCut,
            Part::LeadersCut,
        ];
        let base = match bug.0 {
            PlantedBug::EventNotReported | PlantedBug::EventNotConfirmed => {
                Self { without: lag.into(), ..Self::ensemble() }
            }
            PlantedBug::PingsProve => Self::ensemble(),
            _ => Self::default(),
        };
        Self { bug: Some(bug), ..base }
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        !self.without.contains(&part)
    }
}

impl fmt::Display for Options {
    /// The options as command-line arguments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = if self.is_ensemble { Self::ensemble() } else { Self::default() };
        if self.is_ensemble {
            write!(f, " --ensemble")?;
        }
        if !self.without.is_empty() {
            let names: Vec<_> = self.without.iter().map(ToString::to_string).collect();
            write!(f, " --without {}", names.join(","))?;
        }
        if self.clients != default.clients {
            write!(f, " --clients {}", self.clients)?;
        }
        if self.operations != default.operations {
            write!(f, " --operations {}", self.operations)?;
        }
        if self.seconds != default.seconds {
            write!(f, " --seconds {}", self.seconds)?;
        }
        if let Some(bug) = self.bug {
            write!(f, " --bug {bug}")?;
        }
        Ok(())
    }
}
