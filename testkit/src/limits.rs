//! The limits of the test kit, each with its reason.

use std::time::Duration;

/// The servers of one ensemble for tests. More than these vote in no real one, and each is a copy of
/// the whole state.
pub(crate) const ENSEMBLE_SERVERS_MAX: usize = 15;

/// The requests of one connection that a server of an ensemble for tests has not answered. ZooKeeper
/// reads no more of them after a thousand; a client in the same process cannot be kept waiting, so
/// that its connection ends, after so many that no test in earnest has them.
pub(crate) const ENSEMBLE_REQUESTS_MAX: usize = 10_000;

/// The entries that one recording keeps. No reader needs a longer script, and a test that runs for
/// hours would otherwise fill the memory.
pub(crate) const RECORDED_MESSAGES_MAX: usize = 100_000;

/// The events that one run of a simulation keeps for its story. A run that goes on after so many
/// has a machine that repeats something without end.
pub(crate) const SIM_ENTRIES_MAX: usize = 200_000;

/// How often a program may begin a round at the same moment. One that does so more often awaits
/// nothing, and would never end.
pub(crate) const SIM_ROUNDS_AT_ONCE_MAX: u32 = 100_000;

/// The longest time by which a clock can be moved or a message delayed: a thousand years, with
/// which no computation overflows.
pub(crate) const MOVED_TIME_MAX: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);
