//! Several locks of any kind as one: Curator's `InterProcessMultiLock` over locks.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use zoolet_protocol::Zxid;

use super::guard::lock_guard_by_methods;
use super::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
use super::methods::lock_methods;
use super::owner::Owner;
use super::revocation::first_of;
use super::state::LockState;
use crate::attempts::Attempts;
use crate::error::{LockError, within};

/// Several locks of any kind as one lock. It acquires them one after the other, in the order in
/// which they are given: all are held, or none.
///
/// All users must name the locks in the same order, or two may each wait for what the other holds.
/// The mutexes of several paths are safe from that as an
/// [`InterProcessMultiLock`](crate::InterProcessMultiLock).
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
/// use zoolet_client::Client;
/// use zoolet_recipes::{InterProcessMutex, InterProcessReadWriteLock, SequentialMultiLock};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let catalogue = InterProcessReadWriteLock::new(&client, "/locks/catalogue")?;
/// let stock = InterProcessMutex::new(&client, "/locks/stock")?;
/// let both = SequentialMultiLock::new(vec![Arc::new(catalogue.read_lock()), Arc::new(stock)]);
/// let guard = both.acquire_within(Duration::from_secs(1)).await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SequentialMultiLock {
    locks: Arc<[Arc<dyn InterProcessLock>]>,
}

impl SequentialMultiLock {
    /// These locks, in this order.
    #[must_use]
    pub fn new(locks: Vec<Arc<dyn InterProcessLock>>) -> Self {
        Self { locks: locks.into() }
    }

    async fn acquire_for(&self, owner: Owner) -> Result<SequentialMultiGuard, LockError> {
        let mut attempts = Attempts::without_client();
        loop {
            if let Some(guards) = self.acquire_in_turn(owner).await? {
                return Ok(SequentialMultiGuard::new(guards));
            }
            attempts.wait_after(LockError::place_lost()).await?;
        }
    }

    /// Acquires the locks in their order. If one of them is lost while a later one is waited for,
    /// this releases the others and returns `None`.
    async fn acquire_in_turn(&self, owner: Owner) -> Result<Option<Guards>, LockError> {
        let mut acquired = Guards(Vec::new());
        for lock in self.locks.iter() {
            match acquired.unless_lost(lock.acquire_as(owner)).await {
                Some(Ok(guard)) => acquired.0.push(guard),
                Some(Err(error)) => return Err(acquired.roll_back(error).await),
                None => {
                    // Other errors only say that other locks are lost too.
                    let _ = acquired.release_each().await;
                    return Ok(None);
                }
            }
        }
        Ok(Some(acquired))
    }

    async fn try_acquire_for(
        &self,
        owner: Owner,
    ) -> Result<Option<SequentialMultiGuard>, LockError> {
        let mut acquired = Guards(Vec::new());
        for lock in self.locks.iter() {
            match lock.try_acquire_as(owner).await {
                Ok(Some(guard)) => acquired.0.push(guard),
                Ok(None) => {
                    LockError::all(acquired.release_each().await)?;
                    return Ok(None);
                }
                Err(error) => return Err(acquired.roll_back(error).await),
            }
        }
        Ok(Some(SequentialMultiGuard::new(acquired)))
    }
}

lock_methods! {
    impl SequentialMultiLock => SequentialMultiGuard;
    /// Waits until all locks are held. When one of them cannot be acquired, the following ones are
    /// not tried, and those that were acquired are released, the last first. When one is lost while
    /// a later one is waited for, all are acquired again.
    ///
    /// Each call enters the lines by itself, for an [`Owner`] of its own: a task that calls it
    /// while it holds one of the locks waits for itself. To hold them twice, call
    /// [`SequentialMultiGuard::reenter`], or [`SequentialMultiLock::acquire_as`] with one [`Owner`]
    /// both times.
    ///
    /// # Errors
    ///
    /// The error of the lock that cannot be acquired; [`LockError::Several`] if a release failed
    /// after that.
    acquire;
    /// Acquires all locks if they are free, without waiting for them.
    try_acquire;
    /// As [`SequentialMultiLock::acquire`], by [`InterProcessLock::acquire_as`] of each lock: an
    /// owner gets another guard of a lock that it holds. A lock without owners is waited for, also
    /// by its holder.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if the owner would wait for itself; else as
    /// [`SequentialMultiLock::acquire`].
    acquire_as = |lock, owner| lock.acquire_for(owner);
    try_acquire_as = |lock, owner| lock.try_acquire_for(owner);
    is_held_by = |lock, owner| lock.locks.iter().all(|lock| lock.is_held_by(owner));
    is_acquired_in_this_process =
        |lock| lock.locks.iter().all(|lock| lock.is_acquired_in_this_process());
    path = |lock| format!("{lock:?}");
}

/// Several locks of any kind that are held. Dropping the guard releases all of them in the
/// background, the last first; [`SequentialMultiGuard::release`] waits until they are released.
#[must_use = "the locks are released when the guard is dropped"]
pub struct SequentialMultiGuard {
    shared: Arc<Shared>,
}

/// What the guards of the same held locks share.
struct Shared {
    guards: Guards,
    paths: Vec<String>,
}

/// How long the next lock is waited for before the loss of those before it is listened for.
const LISTEN_AFTER: Duration = Duration::from_millis(100);

/// Guards in the order in which they were acquired. The last is dropped first.
struct Guards(Vec<Box<dyn LockGuard>>);

impl SequentialMultiGuard {
    fn new(guards: Guards) -> Self {
        let paths = guards.0.iter().flat_map(|guard| guard.paths()).cloned().collect();
        Self { shared: Arc::new(Shared { guards, paths }) }
    }

    /// The guards of the locks, in their order.
    #[must_use]
    pub fn guards(&self) -> &[Box<dyn LockGuard>] {
        &self.shared.guards.0
    }

    /// Another guard of the same held locks. It sends no request. The locks are released with the
    /// last guard.
    pub fn reenter(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }

    /// The greatest of the locks' fencing tokens: it is greater than those of all earlier holders
    /// of all these locks. A resource that one of the locks protects from holders of that lock
    /// alone must check that lock's own token ([`SequentialMultiGuard::guards`]).
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.guards().iter().map(|guard| guard.fencing_token()).max().unwrap_or(Zxid::ZERO)
    }

    /// The znodes by which the locks are held.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.shared.paths
    }

    /// Whether all locks are held, as far as is known without a request: the worst of their states.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.guards().iter().map(|guard| guard.state()).max().unwrap_or(LockState::Held)
    }

    /// Waits until one of the locks is not [`Held`](LockState::Held) any more.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        self.shared.guards.lost().await;
    }

    /// Waits until another client asks the holder to release one of the locks
    /// ([`Revoker`](crate::Revoker)), also if that was before this call. The holder decides what to
    /// do: the locks are not taken away.
    ///
    /// This costs a read and a watch for each lock, which are removed when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one of the locks is lost before; the errors of a read.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn revocation_requested(&self) -> Result<(), LockError> {
        first_of(self.guards().iter().map(|guard| guard.revocation_requested()).collect()).await
    }

    /// Runs `future` while all locks are held. As soon as `lost()` would return, `future` is
    /// dropped, so that it stops at its current `await`.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the future was stopped: another client may hold one of the locks.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, LockError> {
        tokio::select! {
            biased;
            () = self.lost() => Err(LockError::Lost(self.shared.paths.join(", "))),
            output = future => Ok(output),
        }
    }

    /// Releases all locks, the last first, also when one of the releases fails; returns at once if
    /// the locks have other guards. If the future is dropped, the release goes on in the
    /// background.
    ///
    /// # Errors
    ///
    /// What failed: one error, or [`LockError::Several`].
    pub async fn release(self) -> Result<(), LockError> {
        match Arc::into_inner(self.shared) {
            Some(shared) => LockError::all(shared.guards.release_each().await),
            None => Ok(()),
        }
    }

    /// As [`SequentialMultiGuard::release`], within one time limit for all locks.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed: the release goes on in the background. Else as
    /// [`SequentialMultiGuard::release`].
    pub async fn release_within(self, time: Duration) -> Result<(), LockError> {
        let paths = self.shared.paths.join(", ");
        within(time, paths, pin!(self.release())).await
    }
}

lock_guard_by_methods!(SequentialMultiGuard);

impl fmt::Debug for SequentialMultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SequentialMultiGuard(")?;
        for (n, guard) in self.guards().iter().enumerate() {
            let separator = if n == 0 { "" } else { ", " };
            write!(f, "{separator}{guard:?}")?;
        }
        f.write_str(")")
    }
}

impl Guards {
    /// Waits until one of the locks is lost.
    async fn lost(&self) {
        first_of(self.0.iter().map(|guard| guard.lost()).collect()).await;
    }

    /// Acquires the next lock, unless one of these is lost first.
    async fn unless_lost<T>(&self, acquiring: impl Future<Output = T>) -> Option<T> {
        let mut acquiring = pin!(acquiring);
        if self.0.is_empty() {
            return Some(acquiring.await);
        }
        // To listen costs a request for each lock, which is not worth it for a short wait.
        if let Ok(acquired) = tokio::time::timeout(LISTEN_AFTER, &mut acquiring).await {
            return Some(acquired);
        }
        tokio::select! {
            biased;
            () = self.lost() => None,
            acquired = acquiring => Some(acquired),
        }
    }

    async fn release_each(mut self) -> Vec<LockError> {
        let mut errors = Vec::new();
        while let Some(guard) = self.0.pop() {
            errors.extend(guard.release().await.err());
        }
        errors
    }

    /// Releases what was acquired before an error. Returns that error and those of the releases.
    async fn roll_back(self, error: LockError) -> LockError {
        error.and(self.release_each().await)
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
