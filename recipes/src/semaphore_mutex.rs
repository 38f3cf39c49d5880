//! A mutex without an owner: Curator's `InterProcessSemaphoreMutex`, with its znodes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::client::Client;
use crate::error::LockError;
use crate::semaphore::{InterProcessSemaphoreV2, Permits};

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
pub struct InterProcessSemaphoreMutex(InterProcessSemaphoreV2);

impl InterProcessSemaphoreMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        InterProcessSemaphoreV2::new(client, path, 1).map(Self)
    }

    /// The same mutex with data for its znodes, by which others see who holds it.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self(self.0.with_data(data))
    }

    /// The same mutex with an access control list for its znodes and for what is created above.
    #[must_use]
    pub fn with_acl(self, acl: Vec<Acl>) -> Self {
        Self(self.0.with_acl(acl))
    }

    /// Waits until the lock is held.
    ///
    /// # Errors
    ///
    /// What may go wrong with requests.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<Permits, LockError> {
        self.0.acquire(1).await
    }

    /// As [`InterProcessSemaphoreMutex::acquire`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else what may go wrong with requests.
    pub async fn acquire_within(&self, time: Duration) -> Result<Permits, LockError> {
        self.0.acquire_within(1, time).await
    }

    /// Whether someone holds it.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn is_held(&self) -> Result<bool, LockError> {
        Ok(self.0.permits_left().await? == 0)
    }
}
