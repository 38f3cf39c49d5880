//! The limits of persistent nodes, each with its reason.

use std::time::Duration;

/// How many events wait for a receiver that does not read them: more than a node tells in an hour
/// of outages, and next to no memory. A receiver that falls behind is told how many it missed.
pub(super) const EVENTS_MAX: usize = 64;

/// How often one attempt starts again because other clients create and delete the znode or its
/// ancestors at the same time. The next attempt comes after a pause.
pub(super) const ROUNDS_MAX: u32 = 10;

/// The logarithm of how many numbers one request skips that are in use at most: 64 make a request of
/// about twenty kilobytes, and all rounds of an attempt skip three hundred.
pub(super) const NUMBERS_SKIPPED_LOG2_MAX: u32 = 6;

/// Up to which version of another program's znode a new znode gets a greater one: each version costs
/// an operation. From there on, a new znode would have to be set this often before its version is the
/// same, while the other program does not know yet that its own is gone.
pub(super) const VERSIONS_PASSED_MAX: u32 = 8;

/// How many of its own former sessions a node remembers. Only the znodes of those count that no
/// server has expired yet, and a session that is over lasts for one session timeout at most.
pub(super) const FORMER_SESSIONS_MAX: usize = 16;

/// The first pause after an attempt that failed.
pub(super) const BACK_OFF_MIN: Duration = Duration::from_millis(100);

/// The longest pause after an attempt that failed: an administrator who corrects an access control
/// list waits no longer than this.
pub(super) const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// How many times the pause grows. It has reached its maximum long before.
pub(super) const BACK_OFF_STEPS: u32 = 20;

/// A znode that was there for so long was not deleted by a program that deletes each new one, so
/// that the next is created without a pause.
pub(super) const STABLE_AFTER: Duration = Duration::from_secs(60);

/// How many members are read at the same time: enough to hide the round trips, and few enough for
/// the queue of a server.
pub(super) const READS_AT_ONCE: usize = 256;
