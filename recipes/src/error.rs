//! What may go wrong with a lock.

use crate::client;

/// Why a lock was not acquired, or not kept.
///
/// ```
/// use zoolet_recipes::LockError;
///
/// assert_eq!(LockError::Over.to_string(), "the deadline has passed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The deadline passed first. The place in line is given up.
    #[error("the deadline has passed")]
    Over,
    /// The lock, or the place in line, is lost: its session is over, or its znode was deleted by
    /// someone else. Another may hold the lock.
    #[error("the lock is lost")]
    Lost,
    /// The one who asks holds the lock already, in a way that lets him wait for himself for ever.
    #[error("{0}: the owner would wait for itself")]
    WouldDeadlock(String),
    /// The parent has run out of numbers, after 2^31 children: from here on the order of the line
    /// is not certain. Delete the parent when nobody uses it.
    #[error("{0}: no sequence numbers are left; delete this znode when nobody uses it")]
    NumbersExhausted(String),
    /// More permits were asked for than the semaphore has.
    #[error("{count} permits were asked for, and there are {max}")]
    TooMany {
        /// How many were asked for.
        count: usize,
        /// How many there are.
        max: usize,
    },
    /// The client could not do its part.
    #[error(transparent)]
    Client(client::Error),
}

impl From<client::Error> for LockError {
    /// A session that is over is a lock that is lost.
    fn from(error: client::Error) -> Self {
        match error {
            client::Error::Lost => Self::Lost,
            error => Self::Client(error),
        }
    }
}
