//! The limits of the test kit, each with its reason.

use std::time::Duration;

/// The servers of one ensemble for tests. More than these vote in no real one, and each is a copy of
/// the whole state.
pub(crate) const ENSEMBLE_SERVERS_MAX: usize = 15;

/// The entries that one recording keeps. No reader needs a longer script, and a test that runs for
/// hours would otherwise fill the memory.
pub(crate) const RECORDED_MESSAGES_MAX: usize = 100_000;

/// The events that one run of a simulation keeps for its story. A run that goes on after so many
/// has a machine that repeats something without end.
pub(crate) const SIM_ENTRIES_MAX: usize = 200_000;

/// The longest time by which a clock can be moved or a message delayed: a thousand years, with
/// which no computation overflows.
pub(crate) const MOVED_TIME_MAX: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);
