//! The errors of migrations.

use crate::client;
use crate::error::LockError;

/// Why the migrations of a set were not carried out. None of those that were missing was, unless the
/// variant says otherwise.
///
/// ```
/// use zoolet_recipes::migration::MigrationError;
///
/// let error = MigrationError::Mismatch { set: "app".to_owned(), migration: 2 };
/// assert_eq!(
///     error.to_string(),
///     "app: migration 2 (from 0) is not the one that was carried out before; restore it, and append \
///      the change as a migration of its own",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// More migrations were carried out than the set has: another program has a newer set of this id.
    #[error(
        "{set}: {carried_out} migrations were carried out and the set has {count}; this program is \
         older than one that ran before"
    )]
    MoreMetadata {
        /// The id of the set.
        set: String,
        /// How many migrations were carried out.
        carried_out: usize,
        /// How many the set has.
        count: usize,
    },
    /// A migration has other operations than the one that was carried out in its place.
    #[error(
        "{set}: migration {migration} (from 0) is not the one that was carried out before; restore it, \
         and append the change as a migration of its own"
    )]
    Mismatch {
        /// The id of the set.
        set: String,
        /// The place of the migration in the set, from 0.
        migration: usize,
    },
    /// The server refused an operation of a migration, so that none was carried out.
    #[error(
        "{set}: operation {operation} of the missing migration {migration} (both from 0): {error}"
    )]
    Refused {
        /// The id of the set.
        set: String,
        /// The place of the migration among those that were missing, from 0.
        migration: usize,
        /// The place of the operation in the migration, from 0.
        operation: usize,
        /// What the server said.
        error: client::Error,
    },
    /// The lock was not acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A request failed. After a [`ConnectionLoss`](client::Error::ConnectionLoss) the migrations may
    /// have been carried out; the next call sees whether they were.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The [filter](super::MigrationManager::with_filter) refused the set, for this reason.
    #[error("{set}: {reason}")]
    Filter {
        /// The id of the set.
        set: String,
        /// Why.
        reason: String,
    },
}
