//! A mutex between processes: Curator's `InterProcessMutex`, with its znodes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::client::Client;
use crate::error::{LockError, within};
use crate::line::order::Kind;
use crate::line::place::Line;
use crate::lock::guard::Guard;
use crate::lock::line_lock::LineLock;
use crate::lock::owner::Owner;

/// Everyone waits for everyone before. The name is Curator's.
pub(crate) static KIND: Kind = Kind {
    marker: "lock-",
    waits_for: &["lock-"],
    holds_beside: &[],
    is_exclusive: true,
    with_places_beside: &[],
};

/// A lock that one holds at a time, in the order in which they came, over all processes.
///
/// Each [`InterProcessMutex::acquire`] stands in line by itself, as with tokio's `Mutex`, whatever
/// task calls it. Who wants to hold the lock twice calls [`Guard::reenter`], or
/// [`InterProcessMutex::acquire_as`] with the same [`Owner`], which costs no request.
///
/// Its znodes are those of Curator's `InterProcessMutex`, so that Java and Rust contend for one
/// path.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_recipes::InterProcessMutex;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
/// let guard = mutex.acquire_within(Duration::from_secs(1)).await?;
/// println!("held, with the fencing token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessMutex {
    lock: LineLock,
}

impl InterProcessMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        Ok(Self { lock: LineLock::new(Line::new(client, path, &KIND)?) })
    }

    /// The same mutex with data for its znodes, by which others see who stands in line.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.lock.line.data = data.into();
        self
    }

    /// The same mutex with an access control list for its znodes and for what is created above.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.lock.line.acl = acl.into();
        self
    }

    /// The line in which its owners stand.
    pub(crate) fn line(&self) -> Line {
        self.lock.line.clone()
    }

    /// Waits until the lock is held.
    ///
    /// Each call stands in line by itself, as with tokio's `Mutex`: a task that calls it while it
    /// holds the lock waits for itself, and a warning (`tracing`) says so after a second. To hold the
    /// lock twice, call [`Guard::reenter`], or [`InterProcessMutex::acquire_as`] with one [`Owner`]
    /// both times.
    ///
    /// # Errors
    ///
    /// [`LockError::NumbersExhausted`] when the order is not certain any more; what else may go
    /// wrong with requests. A lost session is no error: a new place is taken in the next.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.acquire_as(Owner::new()).await
    }

    /// As [`InterProcessMutex::acquire`], within a time that covers everything: connecting, waiting
    /// and trying again. The clean-up goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessMutex::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, LockError> {
        within(time, self.acquire()).await
    }

    /// The lock if it is free, without waiting for it. A lock that is held costs one read, and
    /// nothing is created.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.try_acquire_as(Owner::new()).await
    }

    /// As [`InterProcessMutex::acquire`], for an owner: while it holds the lock by this object it
    /// gets another guard of it, without a request.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] at once if the owner holds it by another object of the same path
    /// and client, or waits for it; else as [`InterProcessMutex::acquire`].
    pub async fn acquire_as(&self, owner: Owner) -> Result<Guard, LockError> {
        self.lock.acquire(owner).await
    }

    /// As [`InterProcessMutex::acquire_as`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessMutex::acquire_as`].
    pub async fn acquire_within_as(
        &self,
        time: Duration,
        owner: Owner,
    ) -> Result<Guard, LockError> {
        within(time, self.acquire_as(owner)).await
    }

    /// As [`InterProcessMutex::try_acquire`], for an owner.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire_as`].
    pub async fn try_acquire_as(&self, owner: Owner) -> Result<Option<Guard>, LockError> {
        self.lock.try_acquire(owner).await
    }

    /// Whether an owner holds it by this object.
    #[must_use]
    pub fn is_held_by(&self, owner: Owner) -> bool {
        self.lock.held_by(owner).is_some()
    }

    /// Whether someone of this process holds it by this object.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.lock.is_acquired()
    }

    /// The znodes of all who stand in line, the holder first.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        self.lock.participants(KIND.marker).await
    }
}
