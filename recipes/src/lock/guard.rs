//! The guards of locks that are held.

use std::fmt;
use std::time::Duration;

use zoolet_protocol::{MultiOp, MultiResult, Zxid};

use super::held_lock::{HeldLock, LockHandle};
use super::inter_process_lock::{BoxFuture, LockGuard};
use super::owner::Owner;
use super::state::LockState;
use crate::error::{LockError, within};

/// A lock that is held. Dropping the guard releases the lock in the background; [`Guard::release`]
/// waits until it is released.
///
/// A guard may be moved to another task or thread, which may release it. After
/// [`Guard::reenter`], or when its [`Owner`] has acquired the lock more than once, the lock is
/// released with the last guard.
///
/// ```no_run
/// use zoolet_recipes::InterProcessMutex;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let guard = InterProcessMutex::new(&client, "/locks/stock")?.acquire().await?;
/// let inner = guard.reenter(); // for a function that holds the lock itself
/// guard.release().await?; // `inner` holds the lock still
/// inner.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    pub(crate) handle: LockHandle,
}

impl Guard {
    /// The znode by which the lock is held.
    #[must_use]
    pub fn path(&self) -> &str {
        self.lock().path()
    }

    /// The owner of the lock: the one that was named, or a new one for each `acquire` without.
    #[must_use]
    pub fn owner(&self) -> Owner {
        match self.lock().owner() {
            Some(owner) => owner,
            None => unreachable!("a guard's lock is registered for an owner"),
        }
    }

    /// Another guard of the same held lock. It sends no request. The lock is released with the last
    /// guard; when the lock is lost, all its guards are.
    pub fn reenter(&self) -> Self {
        Self { handle: self.handle.another() }
    }
}

/// Makes a guard a [`LockGuard`]: each method of the trait calls the guard's own method of that name.
macro_rules! lock_guard_by_methods {
    ($guard:ident) => {
        impl LockGuard for $guard {
            fn fencing_token(&self) -> Zxid {
                self.fencing_token()
            }

            fn paths(&self) -> &[String] {
                self.paths()
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
    };
}

pub(crate) use lock_guard_by_methods;

/// Gives a guard the methods that all guards have, the trait [`LockGuard`], and a `Debug` of one
/// line. The guard has a field `handle`.
macro_rules! guard_methods {
    ($guard:ident) => {
        impl $guard {
            pub(crate) fn lock(&self) -> &HeldLock {
                self.handle.lock()
            }

            /// The fencing token: the zxid of the transaction that created the lock's znodes. It is
            /// greater than those of all earlier holders. Pass it to the resource that the lock
            /// protects, and let that refuse requests with a smaller one.
            #[must_use]
            pub fn fencing_token(&self) -> Zxid {
                self.lock().token()
            }

            /// The znodes by which the lock is held.
            #[must_use]
            pub fn paths(&self) -> &[String] {
                self.lock().paths()
            }

            /// Whether the lock is held, as far as is known without a request.
            #[must_use]
            pub fn state(&self) -> LockState {
                self.lock().state()
            }

            /// Waits until the lock is not [`Held`](LockState::Held) any more: its session has
            /// ended, a znode was deleted, or the last proof that the session is alive is too old.
            /// `state()` returns which. This costs a watch, which is removed when the lock is
            /// released.
            /// # Cancellation
            ///
            /// Safe.
            pub async fn lost(&self) {
                self.lock().not_held().await;
            }

            /// Waits until another client asks the holder to release the lock
            /// ([`Revoker`](crate::Revoker)), also if that was before this call. The holder decides
            /// what to do: the lock is not taken away.
            ///
            /// This costs a read and a watch, which is removed when the future is dropped.
            ///
            /// # Errors
            ///
            /// [`LockError::Lost`] if the lock is lost before; the errors of a read.
            ///
            /// # Cancellation
            ///
            /// Safe.
            pub async fn revocation_requested(&self) -> Result<(), LockError> {
                self.lock().revocation_requested().await
            }

            /// Runs `future` while the lock is held. As soon as `lost()` would return, `future` is
            /// dropped, so that it stops at its current `await`.
            ///
            /// # Errors
            ///
            /// [`LockError::Lost`] if the future was stopped: another client may hold the lock.
            pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, LockError> {
                tokio::select! {
                    biased;
                    () = self.lost() => Err(LockError::Lost(self.lock().path().to_owned())),
                    output = future => Ok(output),
                }
            }

            /// Carries out writes only if the lock is held then: the server checks the lock's
            /// znodes in the same multi. Returns the results of the writes.
            ///
            /// # Errors
            ///
            /// [`LockError::Lost`] if a znode of the lock is gone; the refusal of an operation.
            pub async fn transaction(
                &self,
                ops: Vec<MultiOp>,
            ) -> Result<Vec<MultiResult>, LockError> {
                self.lock().transaction(ops).await
            }

            /// Releases the lock, and returns when its znodes are deleted, or at once if the lock
            /// has other guards. If the future is dropped, the release goes on in the background.
            ///
            /// Without a connection this waits for one, or until the session must have ended.
            /// `release_within` sets a limit.
            ///
            /// # Errors
            ///
            /// [`LockError::Lost`] if the lock was lost before: a znode was deleted by someone
            /// else, or the session has ended. [`Error::Closed`](crate::client::Error::Closed) if
            /// the client is closed: with its session the lock is released.
            pub async fn release(self) -> Result<(), LockError> {
                self.handle.release().await
            }

            /// As `release`, within a time limit.
            ///
            /// # Errors
            ///
            /// [`LockError::TimedOut`] when the time has passed: the release goes on in the background.
            /// Else as `release`.
            pub async fn release_within(self, time: Duration) -> Result<(), LockError> {
                let path = self.lock().path().to_owned();
                within(time, path, std::pin::pin!(self.release())).await
            }
        }

        $crate::lock::guard::lock_guard_by_methods!($guard);

        impl fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($guard), "({:?})"), self.handle)
            }
        }
    };
}

guard_methods!(Guard);
pub(crate) use guard_methods;
