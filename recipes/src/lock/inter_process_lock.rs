//! What all locks have in common: Curator's `InterProcessLock`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use zoolet_protocol::Zxid;

use super::owner::Owner;
use super::state::LockState;
use crate::error::{LockError, within};

/// A boxed future, as a trait object needs it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A lock of any kind, for code that works with all of them.
///
/// Each lock has methods of the same names, which return its own kind of guard and box nothing.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_client::Client;
/// use zoolet_recipes::{InterProcessLock, InterProcessMutex, InterProcessSemaphoreMutex, LockError};
///
/// async fn hold_shortly(lock: &dyn InterProcessLock) -> Result<(), LockError> {
///     let guard = lock.acquire_within(Duration::from_secs(1)).await?;
///     println!("held by {:?}", guard.paths());
///     guard.release().await
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// hold_shortly(&InterProcessMutex::new(&client, "/locks/stock")?).await?;
/// hold_shortly(&InterProcessSemaphoreMutex::new(&client, "/locks/printer")?).await?;
/// # Ok(())
/// # }
/// ```
pub trait InterProcessLock: fmt::Debug + Send + Sync {
    /// Waits until the lock is held. Each call enters the line by itself: a task that calls it
    /// while it holds the lock waits for itself.
    ///
    /// # Errors
    ///
    /// As the lock's own method of the same name. The same is true for all methods of this trait.
    ///
    /// # Cancellation
    ///
    /// Safe: when the future is dropped, the client's znodes are deleted in the background.
    fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>>;

    /// As [`InterProcessLock::acquire`], within a time limit for everything.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed; else as [`InterProcessLock::acquire`].
    fn acquire_within(
        &self,
        time: Duration,
    ) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(within(time, Printed(self), self.acquire()))
    }

    /// Acquires the lock if it is free, without waiting for it.
    ///
    /// # Errors
    ///
    /// As [`InterProcessLock::acquire`].
    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>>;

    /// As [`InterProcessLock::acquire`], for an owner: while it holds the lock by this object, it
    /// gets another guard of it. A lock that has no owners, as
    /// [`InterProcessSemaphoreMutex`](crate::InterProcessSemaphoreMutex), does the same as
    /// `acquire`, which is the default.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if the owner would wait for itself; else as
    /// [`InterProcessLock::acquire`].
    fn acquire_as(&self, _owner: Owner) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
        self.acquire()
    }

    /// As [`InterProcessLock::acquire_as`], within a time limit for everything.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed; else as [`InterProcessLock::acquire_as`].
    fn acquire_within_as(
        &self,
        time: Duration,
        owner: Owner,
    ) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(within(time, Printed(self), self.acquire_as(owner)))
    }

    /// As [`InterProcessLock::try_acquire`], for an owner. The default ignores the owner.
    ///
    /// # Errors
    ///
    /// As [`InterProcessLock::acquire_as`].
    fn try_acquire_as(
        &self,
        _owner: Owner,
    ) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>> {
        self.try_acquire()
    }

    /// Whether an owner holds the lock by this object. A lock without owners returns `false`, which
    /// is the default.
    fn is_held_by(&self, _owner: Owner) -> bool {
        false
    }

    /// Whether anyone in this process holds the lock by this object.
    fn is_acquired_in_this_process(&self) -> bool;
}

/// A lock of any kind that is held. Dropping it releases the lock in the background.
///
/// ```no_run
/// use zoolet_recipes::{LockGuard, LockState};
///
/// fn is_certainly_held(guard: &dyn LockGuard) -> bool {
///     guard.state() == LockState::Held
/// }
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub trait LockGuard: fmt::Debug + Send + Sync {
    /// The fencing token: a number that is greater than those of all earlier holders.
    fn fencing_token(&self) -> Zxid;

    /// The znodes by which the lock is held.
    fn paths(&self) -> &[String];

    /// Whether the lock is held, as far as is known without a request.
    fn state(&self) -> LockState;

    /// Waits until the lock is not [`Held`](LockState::Held) any more.
    fn lost(&self) -> BoxFuture<'_, ()>;

    /// Waits until another client asks the holder to release the lock; see
    /// [`Guard::revocation_requested`](crate::Guard::revocation_requested).
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is lost before; the errors of a read.
    fn revocation_requested(&self) -> BoxFuture<'_, Result<(), LockError>>;

    /// Releases the lock, and returns when its znodes are deleted. If the future is dropped, the
    /// release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock was lost before.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>>;

    /// As [`LockGuard::release`], within a time limit.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed: the release goes on in the background. Else as
    /// [`LockGuard::release`].
    fn release_within(
        self: Box<Self>,
        time: Duration,
    ) -> BoxFuture<'static, Result<(), LockError>> {
        let paths = self.paths().join(", ");
        Box::pin(within(time, paths, self.release()))
    }
}

/// A lock in an error: the trait knows no path.
struct Printed<'a, L: ?Sized>(&'a L);

impl<L: fmt::Debug + ?Sized> fmt::Display for Printed<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
