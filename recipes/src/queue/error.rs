//! The errors of queues.

use std::time::Duration;

use tokio::task::JoinError;
use zoolet_protocol::ErrorCode;

use super::items::ItemError;
use crate::client;
use crate::error::LockError;

/// Why a call of a queue failed. The variants name the path of the queue or of a znode.
///
/// ```
/// use zoolet_recipes::queue::QueueError;
///
/// let error = QueueError::TimedOut("/jobs".to_owned());
/// assert_eq!(error.to_string(), "/jobs: the time limit has passed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The time limit has passed.
    #[error("{0}: the time limit has passed")]
    TimedOut(String),
    /// A delivered item is not leased any more: the session has ended, or someone has deleted the
    /// lease or the item. Another consumer receives an item that still exists, or has received it.
    #[error("{0}: the lease of the item is lost: its session has ended, or a znode was deleted")]
    Lost(String),
    /// The write may have been carried out or not, and no request can find out: the session of a
    /// lease ended before the answer came, or someone has deleted the receipt of the write.
    #[error("{0}: the answer was lost, and nothing tells whether the write was carried out")]
    Unknown(String),
    /// The connection was lost at each attempt to send a write. It was not carried out.
    #[error(
        "{path}: the connection was lost {tries} times at this write, which was not carried out; a \
         server does that to a request that is longer than its jute.maxbuffer"
    )]
    NotCarriedOut {
        /// The queue.
        path: String,
        /// The number of attempts.
        tries: u32,
    },
    /// The server does not let this client read an item, which stays in the queue. This client passes it
    /// over for some time.
    #[error(
        "{0}: this client may not read the item, which stays in the queue; permit it to read, or delete \
         the item"
    )]
    Unreadable(String),
    /// An item is so long that the server would not take it again, should nobody receive it: it was put
    /// by a shorter write, of another library. It stays in the queue, and this client passes it over for
    /// some time.
    #[error(
        "{path}: the item stays in the queue: its {bytes} bytes could not be put back, since jute.maxbuffer of \
         the server, or Builder::jute_max_buffer of this client, has no room for them and 500 more; use leases, \
         or raise the limit"
    )]
    NoWayBack {
        /// The item.
        path: String,
        /// The length of its data.
        bytes: usize,
    },
    /// The leases of an item were deleted again and again while their consumers live, who do not know of it
    /// yet. The item stays in the queue, and this client passes it over for some time.
    #[error(
        "{0}: the item waits until those who had it know that their leases were deleted, which nobody should do"
    )]
    Contested(String),
    /// The id of an item is empty.
    #[error("{0}: the id of an item is empty")]
    EmptyId(String),
    /// The priority is not one that kazoo's queues have.
    #[error("{path}: the priority {priority} is not between 0 and {max}")]
    Priority {
        /// The queue.
        path: String,
        /// The priority.
        priority: u16,
        /// The greatest priority.
        max: u16,
    },
    /// The time of a delayed item is before 1970, or too far away for its name.
    #[error("{0}: the time of the item is before 1970, or too far in the future")]
    Time(String),
    /// The leader of a sharder would be elected below the path of its queues, where every child is a
    /// queue.
    #[error("{0}: the leader must be elected outside of the path of the queues")]
    LeaderPath(String),
    /// The leases of a queue, or its side directory, would be the directory of its items or below it.
    #[error("{0}: a queue needs a directory outside of that of its items for this")]
    Directory(String),
    /// The items cannot be encoded.
    #[error(transparent)]
    Item(#[from] ItemError),
    /// A place in the line of waiting clients could not be had.
    #[error(transparent)]
    Line(Box<LockError>),
    /// A request failed.
    #[error(transparent)]
    Client(#[from] client::Error),
}

impl QueueError {
    /// Whether this is about one item, which stays in the queue: others may be taken.
    pub(crate) fn is_of_item(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::NoWayBack { .. } | Self::Contested(_))
    }

    /// The error of a read of an item.
    pub(crate) fn of_read(error: client::Error, item: &str) -> Self {
        match error {
            error if error.is(ErrorCode::NO_AUTH) => Self::Unreadable(item.to_owned()),
            error => error.into(),
        }
    }
}

impl From<LockError> for QueueError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Client(error) => Self::Client(error),
            error => Self::Line(Box::new(error)),
        }
    }
}

/// The result of a task that nobody aborts.
pub(crate) fn joined<T>(result: Result<Result<T, QueueError>, JoinError>) -> Result<T, QueueError> {
    match result {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime has ended, and the client with it.
        Err(_) => Err(client::Error::Closed.into()),
    }
}

/// Awaits a future within a time limit, or returns [`QueueError::TimedOut`] with this path. The caller
/// pins it, for the same reason as in [`within`](crate::error::within).
pub(crate) async fn within<T>(
    time: Duration,
    path: &str,
    future: impl Future<Output = Result<T, QueueError>> + Unpin,
) -> Result<T, QueueError> {
    match tokio::time::timeout(time, future).await {
        Ok(result) => result,
        Err(_) => Err(QueueError::TimedOut(path.to_owned())),
    }
}
