//! A mutex without an owner: Curator's `InterProcessSemaphoreMutex`, with its znodes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::client::Client;
use crate::error::{LockError, within};
use crate::lock::held::Acquired;
use crate::lock::owner::{Behind, Holding, LineId, acquire_behind};
use crate::lock::permits::Permits;
use crate::lock::semaphore::InterProcessSemaphoreV2;

/// A semaphore with one permit: a lock that knows no owner. Nobody acquires it twice, whoever has the
/// [`Permits`] may release them, and who holds it and wants it again waits for itself.
///
/// Its znodes are those of Curator's `InterProcessSemaphoreMutex`.
///
/// ```no_run
/// use zoolet_recipes::InterProcessSemaphoreMutex;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let held = InterProcessSemaphoreMutex::new(&client, "/locks/printer")?.acquire().await?;
/// tokio::spawn(async move { held.release().await }); // by another task, say
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessSemaphoreMutex {
    semaphore: InterProcessSemaphoreV2,
    line: LineId,
    acquired: Acquired,
}

impl InterProcessSemaphoreMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        let semaphore = InterProcessSemaphoreV2::new(client, path, 1)?;
        let line = LineId::new(client, path);
        Ok(Self { semaphore, line, acquired: Acquired::default() })
    }

    /// The same mutex with data for its znodes, by which others see who holds it.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self { semaphore: self.semaphore.with_data(data), ..self }
    }

    /// The same mutex with an access control list for its znodes and for what is created above.
    #[must_use]
    pub fn with_acl(self, acl: Vec<Acl>) -> Self {
        Self { semaphore: self.semaphore.with_acl(acl), ..self }
    }

    /// Waits until the lock is held. A task that calls it while it holds the lock waits for itself,
    /// and a warning (`tracing`) says so after a second.
    ///
    /// # Errors
    ///
    /// What may go wrong with requests.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<Permits, LockError> {
        let behind = Behind::own(&self.line);
        Ok(self.noted(acquire_behind(&behind, self.semaphore.acquire(1)).await?))
    }

    /// As [`InterProcessSemaphoreMutex::acquire`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else what may go wrong with requests.
    pub async fn acquire_within(&self, time: Duration) -> Result<Permits, LockError> {
        within(time, self.acquire()).await
    }

    /// The lock if it is free, without waiting for it. A lock that is held costs one read, and
    /// nothing is created.
    ///
    /// # Errors
    ///
    /// What may go wrong with requests.
    pub async fn try_acquire(&self) -> Result<Option<Permits>, LockError> {
        Ok(self.semaphore.try_acquire(1).await?.map(|permits| self.noted(permits)))
    }

    fn noted(&self, mut permits: Permits) -> Permits {
        permits.holding = Some(Holding::begin(&self.line, permits.holder.held()));
        self.acquired.note(&permits.holder);
        permits
    }

    /// Whether someone of this process holds it by this object.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.acquired.is_any_held()
    }

    /// Whether someone holds it.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn is_held(&self) -> Result<bool, LockError> {
        Ok(self.semaphore.permits_left().await? == 0)
    }
}
