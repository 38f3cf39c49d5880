//! The limits of migrations, each with its reason.

/// How often a call sends its transaction. Each time the reply was lost, or another client changed the
/// directory of the meta data. A server loses each reply to a transaction that is too long for it, so
/// that there must be a limit.
pub(super) const ATTEMPTS_MAX: u32 = 8;

/// How many requests for meta data are under way at a time.
pub(super) const READS_IN_FLIGHT: usize = 128;
