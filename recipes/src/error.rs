//! The errors of locks, leaders and barriers.

use std::time::Duration;

use crate::client;
use crate::value::error::ValueError;

/// Why a lock was not acquired, or is not held any more. The variants name the path of the lock or of
/// its znode.
///
/// ```
/// use zoolet_recipes::LockError;
///
/// let error = LockError::TimedOut("/locks/stock".to_owned());
/// assert_eq!(error.to_string(), "/locks/stock: the time limit has passed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The time limit has passed. An `acquire` leaves the line; a release goes on in the
    /// background.
    #[error("{0}: the time limit has passed")]
    TimedOut(String),
    /// A lock that was held is lost: its session has ended, or someone else has deleted its znode.
    /// Another client may hold it now, and may have held it for a while.
    #[error("{0}: the lock is lost: its session has ended, or its znode was deleted")]
    Lost(String),
    /// An attempt to acquire a lock failed: the session ended, or someone else deleted the znode,
    /// before the lock was held. The caller holds nothing, leaves nothing behind, and may try
    /// again.
    ///
    /// Every `acquire` enters the line again, as a rule without a limit: a program that deletes
    /// each new znode keeps it waiting. A `try_acquire` tries a few times, and returns this error
    /// when that happens many times in a row.
    #[error("{0}: the place in line was lost before the lock was held; nothing is held")]
    PlaceLost(String),
    /// The owner, a named [`Owner`](crate::Owner) or in [`blocking`](crate::blocking) the thread,
    /// holds the lock already or waits for it, so that it would wait for itself for ever. No
    /// request was sent. Contains the path of the lock.
    #[error("{0}: the owner holds this lock or waits for it already, and would wait for itself")]
    WouldDeadlock(String),
    /// The sequence numbers of this directory have overflowed, after 2^31 children, so that the
    /// order of the line is not certain. Delete the directory when no client uses it.
    #[error("{0}: the sequence numbers have overflowed; delete this znode when no client uses it")]
    NumbersExhausted(String),
    /// More permits were requested than the semaphore has.
    #[error("{path}: {count} permits were requested, and the semaphore has {max}")]
    TooMany {
        /// The path of the semaphore.
        path: String,
        /// The number of requested permits.
        count: usize,
        /// The number of permits of the semaphore.
        max: usize,
    },
    /// A guard was passed to a lock that did not return it.
    #[error("{0}: the guard of this znode belongs to another lock")]
    Foreign(String),
    /// Several errors of locks that are acquired or released together, in their order.
    #[error("{}", joined(.0))]
    Several(Vec<Self>),
    /// The number of a semaphore's permits could not be read.
    #[error(transparent)]
    Count(#[from] ValueError),
    /// A request failed.
    #[error(transparent)]
    Client(client::Error),
}

impl LockError {
    /// These errors as one result.
    pub(crate) fn all(errors: Vec<Self>) -> Result<(), Self> {
        let mut errors = errors.into_iter();
        match errors.next() {
            Some(first) => Err(first.and(errors.collect())),
            None => Ok(()),
        }
    }

    /// This error, for a request about a lock that is held: if its place is lost, the lock is.
    pub(crate) fn of_held(self) -> Self {
        match self {
            Self::PlaceLost(path) => Self::Lost(path),
            error => error,
        }
    }

    /// This error, for a request about a place that does not hold the lock.
    pub(crate) fn of_place(self) -> Self {
        match self {
            Self::Lost(path) => Self::PlaceLost(path),
            error => error,
        }
    }

    /// The loss of a place whose path is not known here: a caller that knows the path adds it
    /// ([`LockError::at`]).
    pub(crate) fn place_lost() -> Self {
        Self::PlaceLost(String::new())
    }

    /// This error, with the path of a lock that is lost, if it has none yet. The end of a session, which
    /// a request reports, names no path.
    pub(crate) fn at(mut self, lock: &str) -> Self {
        match &mut self {
            Self::Lost(path) | Self::PlaceLost(path) if path.is_empty() => path.push_str(lock),
            Self::Several(errors) => {
                for error in errors {
                    *error = error.clone().at(lock);
                }
            }
            _ => {}
        }
        self
    }

    /// This error together with those of the others that differ from it.
    pub(crate) fn and(self, others: Vec<Self>) -> Self {
        let mut all = vec![self];
        for other in others {
            // Locks are lost together, with their session: one error names all of them.
            if let (Self::Lost(paths), Self::Lost(path)) = (&mut all[0], &other) {
                if !paths.split(", ").any(|known| known == path) {
                    paths.push_str(", ");
                    paths.push_str(path);
                }
            } else if !all.contains(&other) {
                all.push(other);
            }
        }
        if all.len() == 1 { all.remove(0) } else { Self::Several(all) }
    }
}

/// Awaits a future within a time limit, or returns [`LockError::TimedOut`] with this path.
///
/// The caller pins the future, so that it is not moved: an `async fn` has room for its argument twice, and
/// the time limit would move it once more.
pub(crate) async fn within<T>(
    time: Duration,
    path: impl ToString,
    future: impl Future<Output = Result<T, LockError>> + Unpin,
) -> Result<T, LockError> {
    match tokio::time::timeout(time, future).await {
        Ok(result) => result,
        Err(_) => Err(LockError::TimedOut(path.to_string())),
    }
}

/// The messages of errors.
fn joined(errors: &[LockError]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl From<client::Error> for LockError {
    /// The end of a session ended the attempt. Calls on held locks return [`LockError::Lost`]
    /// instead.
    fn from(error: client::Error) -> Self {
        match error {
            client::Error::SessionExpired => Self::PlaceLost(String::new()),
            error => Self::Client(error),
        }
    }
}
