//! What all locks have in common: Curator's `InterProcessLock`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use zoolet_protocol::Zxid;

use crate::error::{LockError, within};
use crate::lock::guard::{Guard, LockState};
use crate::lock::herd_lock::HerdLock;
use crate::lock::multi_lock::{InterProcessMultiLock, MultiGuard};
use crate::lock::mutex::InterProcessMutex;
use crate::lock::owner::Owner;
use crate::lock::permits::Permits;
use crate::lock::read_write_lock::{InterProcessReadLock, InterProcessWriteLock};
use crate::lock::semaphore_mutex::InterProcessSemaphoreMutex;
use crate::lock::sequential_multi_lock::{SequentialMultiGuard, SequentialMultiLock};

/// A future that is boxed, as a trait object needs it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A lock of whatever kind, for code that is to work with all of them.
///
/// Each lock has the same by methods of its own, which give its own kind of guard and box nothing.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_recipes::client::Client;
/// use zoolet_recipes::{InterProcessLock, InterProcessMutex, InterProcessSemaphoreMutex, LockError};
///
/// async fn in_turn(lock: &dyn InterProcessLock) -> Result<(), LockError> {
///     let guard = lock.acquire_within(Duration::from_secs(1)).await?;
///     println!("held by {:?}", guard.paths());
///     guard.release().await
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// in_turn(&InterProcessMutex::new(&client, "/locks/stock")?).await?;
/// in_turn(&InterProcessSemaphoreMutex::new(&client, "/locks/printer")?).await?;
/// # Ok(())
/// # }
/// ```
pub trait InterProcessLock: fmt::Debug + Send + Sync {
    /// Waits until the lock is held. Each call stands in line by itself: a task that calls it while
    /// it holds the lock waits for itself.
    ///
    /// # Errors
    ///
    /// As the method of the same name of the lock; so of all that follow.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>>;

    /// As [`InterProcessLock::acquire`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessLock::acquire`].
    fn acquire_within(
        &self,
        time: Duration,
    ) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(within(time, self.acquire()))
    }

    /// The lock if it is free, without waiting for it.
    ///
    /// # Errors
    ///
    /// As [`InterProcessLock::acquire`].
    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>>;

    /// As [`InterProcessLock::acquire`], for an owner: while it holds the lock by this object it gets
    /// another guard of it. A lock that has no owners, as [`InterProcessSemaphoreMutex`], does what
    /// `acquire` does, which this is if it is not implemented.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if the owner would wait for itself; else as
    /// [`InterProcessLock::acquire`].
    fn acquire_as(&self, _owner: Owner) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
        self.acquire()
    }

    /// As [`InterProcessLock::acquire_as`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessLock::acquire_as`].
    fn acquire_within_as(
        &self,
        time: Duration,
        owner: Owner,
    ) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(within(time, self.acquire_as(owner)))
    }

    /// As [`InterProcessLock::try_acquire`], for an owner; without owners if it is not implemented.
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

    /// Whether someone of this process holds the lock by this object.
    fn is_acquired_in_this_process(&self) -> bool;
}

/// A lock of whatever kind that is held. Dropping it releases the lock in the background.
///
/// ```no_run
/// use zoolet_recipes::{LockGuard, LockState};
///
/// fn is_to_be_trusted(guard: &dyn LockGuard) -> bool {
///     guard.state() == LockState::Held
/// }
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub trait LockGuard: fmt::Debug + Send + Sync {
    /// A number that is greater than that of everyone who held this lock before.
    fn fencing_token(&self) -> Zxid;

    /// The znodes by which the lock is held.
    fn paths(&self) -> Vec<&str>;

    /// Whether the lock is held, as far as is known without asking the server.
    fn state(&self) -> LockState;

    /// Waits until the lock is lost.
    fn lost(&self) -> BoxFuture<'_, ()>;

    /// Waits until the holder is asked to give the lock up; see
    /// [`Guard::revocation_requested`].
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it is lost meanwhile; what may go wrong with a read.
    fn revocation_requested(&self) -> BoxFuture<'_, Result<(), LockError>>;

    /// Releases the lock, and returns when it is free. If the future is dropped the release goes on
    /// in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was lost before.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>>;

    /// As [`LockGuard::release`], and waits no longer than this.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over: the release goes on in the background. Else as
    /// [`LockGuard::release`].
    fn release_within(
        self: Box<Self>,
        time: Duration,
    ) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin(within(time, self.release()))
    }
}

/// The trait of a lock by the methods that it has, and how it is acquired for an owner if it knows
/// owners.
macro_rules! lock_by_its_methods {
    ($($lock:ty $(: $acquire_as:ident, $try_acquire_as:ident)?;)*) => {$(
        impl InterProcessLock for $lock {
            fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
                Box::pin(async { Ok(Box::new(self.acquire().await?) as Box<dyn LockGuard>) })
            }

            fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>> {
                Box::pin(async {
                    let guard = self.try_acquire().await?;
                    Ok(guard.map(|guard| Box::new(guard) as Box<dyn LockGuard>))
                })
            }

            $(
                fn acquire_as(
                    &self,
                    owner: Owner,
                ) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
                    Box::pin(async move {
                        Ok(Box::new(self.$acquire_as(owner).await?) as Box<dyn LockGuard>)
                    })
                }

                fn try_acquire_as(
                    &self,
                    owner: Owner,
                ) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>> {
                    Box::pin(async move {
                        let guard = self.$try_acquire_as(owner).await?;
                        Ok(guard.map(|guard| Box::new(guard) as Box<dyn LockGuard>))
                    })
                }
            )?

            fn is_acquired_in_this_process(&self) -> bool {
                self.is_acquired_in_this_process()
            }
        }
    )*};
}

lock_by_its_methods! {
    InterProcessMutex: acquire_as, try_acquire_as;
    InterProcessReadLock: acquire_as, try_acquire_as;
    InterProcessWriteLock: acquire_as, try_acquire_as;
    InterProcessMultiLock: acquire_as, try_acquire_as;
    SequentialMultiLock: acquire_as, try_acquire_as;
    HerdLock: acquire_as, try_acquire_as;
    InterProcessSemaphoreMutex;
}

/// The trait of a guard by the methods that it has, and by how its paths are named.
macro_rules! guard_by_its_methods {
    ($($guard:ty: |$this:ident| $paths:expr;)*) => {$(
        impl LockGuard for $guard {
            fn fencing_token(&self) -> Zxid {
                self.fencing_token()
            }

            fn paths(&self) -> Vec<&str> {
                let $this = self;
                $paths
            }

            fn state(&self) -> LockState {
                self.state()
            }

            fn lost(&self) -> BoxFuture<'_, ()> {
                Box::pin(self.lost())
            }

            fn revocation_requested(&self) -> BoxFuture<'_, Result<(), LockError>> {
                Box::pin(self.revocation_requested())
            }

            fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
                Box::pin((*self).release())
            }
        }
    )*};
}

guard_by_its_methods! {
    Guard: |guard| vec![guard.path()];
    Permits: |permits| permits.paths().iter().map(String::as_str).collect();
    MultiGuard: |guard| guard.paths().collect();
    SequentialMultiGuard: |guard| guard.paths();
}
