//! What may go wrong with a lock.

use std::time::Duration;

use crate::client;
use crate::value::error::ValueError;

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
    /// The deadline passed first. A place in line is given up; a release goes on in the background.
    #[error("the deadline has passed")]
    Over,
    /// The lock that was held is gone: its session is over, or someone else deleted its znode.
    /// Another may hold it now, and may have held it for a while.
    #[error("the lock is lost")]
    Lost,
    /// This attempt came to nothing: the session ended, or someone else deleted the znode, before
    /// the lock was held. The caller holds nothing, leaves nothing behind, and may try again.
    ///
    /// The `acquire` of every lock takes a new place by itself, and every `try_acquire` does so
    /// some times: it says this where the same happens many times in a row, as when an
    /// administrator's script deletes each new znode.
    #[error("the place in line was lost before the lock was held; nothing is held")]
    PlaceLost,
    /// The owner that asks, a named [`Owner`](crate::Owner) or in [`blocking`](crate::blocking) the
    /// thread, holds the lock already or waits for it, in a way that would let it wait for itself
    /// for ever. Nothing was asked of the server.
    #[error("{0}: the owner holds this lock or waits for it already, and would wait for itself")]
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
    /// A guard was given to a lock that did not give it out: the path of its znode.
    #[error("{0}: the guard of this znode was not given out by this lock")]
    Foreign(String),
    /// Several things went wrong at once, with locks that are acquired or released together: all of
    /// them, in their order.
    #[error("{}", told(.0))]
    Several(Vec<Self>),
    /// The count of a semaphore's permits could not be read.
    #[error(transparent)]
    Count(#[from] ValueError),
    /// The client could not do its part.
    #[error(transparent)]
    Client(client::Error),
}

impl LockError {
    /// What went wrong, if something did.
    pub(crate) fn all(errors: Vec<Self>) -> Result<(), Self> {
        let mut errors = errors.into_iter();
        match errors.next() {
            Some(first) => Err(first.and(errors.collect())),
            None => Ok(()),
        }
    }

    /// The same error of a request about what is held: with its session the lock is gone.
    pub(crate) fn of_held(self) -> Self {
        match self {
            Self::PlaceLost => Self::Lost,
            error => error,
        }
    }

    /// The same error of a request about a place that is not held yet.
    pub(crate) fn of_place(self) -> Self {
        match self {
            Self::Lost => Self::PlaceLost,
            error => error,
        }
    }

    /// This error together with those that came after it and say something else.
    pub(crate) fn and(self, others: Vec<Self>) -> Self {
        let mut all = vec![self];
        for other in others {
            if !all.contains(&other) {
                all.push(other);
            }
        }
        if all.len() == 1 { all.remove(0) } else { Self::Several(all) }
    }
}

/// What a future gives, or [`LockError::Over`] when the time is over first.
pub(crate) async fn within<T>(
    time: Duration,
    future: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    tokio::time::timeout(time, future).await.unwrap_or(Err(LockError::Over))
}

/// Errors one after the other.
fn told(errors: &[LockError]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl From<client::Error> for LockError {
    /// A session that ended ended the attempt. Calls on what is held say [`LockError::Lost`]
    /// instead.
    fn from(error: client::Error) -> Self {
        match error {
            client::Error::SessionExpired => Self::PlaceLost,
            error => Self::Client(error),
        }
    }
}
