//! A mutex without owners: Curator's `InterProcessSemaphoreMutex`, with its znodes.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use super::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
use super::mutex;
use super::owner::Owner;
use super::permits::Permits;
use super::registry::{self, LockId, Registration};
use super::semaphore::InterProcessSemaphoreV2;
use crate::client::Client;
use crate::error::{LockError, within};
use crate::line::LineId;

/// A semaphore with one permit: a lock without owners. It cannot be acquired twice, and any task
/// that has the [`Permits`] may release them. A task that holds it and acquires it again waits for
/// itself.
///
/// Its znodes are those of Curator's `InterProcessSemaphoreMutex`.
///
/// ```no_run
/// use zoolet_recipes::InterProcessSemaphoreMutex;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let held = InterProcessSemaphoreMutex::new(&client, "/locks/printer")?.acquire().await?;
/// tokio::spawn(async move { held.release().await }); // another task may release it
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessSemaphoreMutex {
    semaphore: InterProcessSemaphoreV2,
    line: LineId,
    id: LockId,
}

impl InterProcessSemaphoreMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        let semaphore = InterProcessSemaphoreV2::new(client, path, 1)?;
        Ok(Self { semaphore, line: LineId::new(client, path), id: LockId::new() })
    }

    /// The same mutex with this data for its znodes, which shows others who holds it. The default
    /// is this machine's address, as in Curator.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        Self { semaphore: self.semaphore.with_data(data), ..self }
    }

    /// The same mutex with this access control list for its znodes and for the directories that are
    /// created for them. Without it each has the [default](zoolet_client::Client::default_acl) of
    /// its path.
    #[must_use]
    pub fn with_acl(self, acl: Vec<Acl>) -> Self {
        Self { semaphore: self.semaphore.with_acl(acl), ..self }
    }

    /// Waits until the lock is held. A task that calls this while it holds the lock waits for
    /// itself, and a warning (`tracing`) says so after a second.
    ///
    /// # Errors
    ///
    /// The errors of requests. A session that ends is no error: the next session enters the line
    /// again.
    ///
    /// # Cancellation
    ///
    /// Safe: when the future is dropped, the client's znodes are deleted in the background.
    pub async fn acquire(&self) -> Result<Permits, LockError> {
        let registration = self.register();
        let registrations = std::slice::from_ref(&registration);
        let acquiring = pin!(self.semaphore.acquire(1));
        let permits = registry::with_self_wait_warning(registrations, acquiring).await?;
        Ok(permits.registered(registration))
    }

    /// As [`InterProcessSemaphoreMutex::acquire`], within a time limit for everything.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed; else as
    /// [`InterProcessSemaphoreMutex::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<Permits, LockError> {
        within(time, self.line.path(), pin!(self.acquire())).await
    }

    /// Acquires the lock if it is free, without waiting for it. If it is held, this costs one read
    /// and creates nothing.
    ///
    /// # Errors
    ///
    /// As [`InterProcessSemaphoreMutex::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Permits>, LockError> {
        let permits = self.semaphore.try_acquire(1).await?;
        Ok(permits.map(|permits| permits.registered(self.register())))
    }

    /// Registers an owner of its own for one acquire: the lock has no others.
    fn register(&self) -> Registration {
        Registration::beside(&self.line, &mutex::KIND, self.id, Owner::new())
    }

    /// Whether anyone in this process holds the lock by this object or a clone of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        registry::is_held(&self.line, self.id)
    }

    /// Whether anyone holds the lock.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn is_held(&self) -> Result<bool, LockError> {
        Ok(self.semaphore.permits_left().await? == 0)
    }

    /// The znode of the holder, if anyone holds the lock.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        self.semaphore.participants().await
    }

    /// As [`InterProcessSemaphoreMutex::participants`], with the data of the znode
    /// ([`InterProcessSemaphoreMutex::with_data`]).
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub async fn participants_with_data(&self) -> Result<Vec<(String, Bytes)>, LockError> {
        self.semaphore.participants_with_data().await
    }
}

impl InterProcessLock for InterProcessSemaphoreMutex {
    fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(async { Ok(Box::new(self.acquire().await?) as Box<dyn LockGuard>) })
    }

    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>> {
        Box::pin(async {
            let permits = self.try_acquire().await?;
            Ok(permits.map(|permits| Box::new(permits) as Box<dyn LockGuard>))
        })
    }

    fn is_acquired_in_this_process(&self) -> bool {
        self.is_acquired_in_this_process()
    }
}
