//! The limits of discovery, with their reasons.

/// How many instances of one service can be down at once for one provider. An error of a further
/// one is not noted, so that it stays in use. Each takes about a hundred bytes.
pub(super) const DOWN_INSTANCES_MAX: usize = 10_000;

/// How many reads of a query are sent before the first reply is waited for: so many that the
/// round trips do not count, and so few that the server can serve others in between.
pub(super) const READS_IN_FLIGHT: usize = 128;

/// How long to wait after a failed read of an own instance before the next one.
pub(super) const LOOK_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(1);
