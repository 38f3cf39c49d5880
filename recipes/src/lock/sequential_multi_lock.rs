//! Several locks of any kind as one: Curator's `InterProcessMultiLock` over locks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use zoolet_protocol::Zxid;

use crate::error::{LockError, within};
use crate::lock::guard::LockState;
use crate::lock::inter_process_lock::{InterProcessLock, LockGuard};
use crate::lock::owner::Owner;
use crate::lock::revocation::first_of;
use crate::tries::Tries;

/// Several locks of any kind as one, acquired one after the other in the order in which they are
/// given: all are held, or none.
///
/// Whoever takes the same locks must name them in the same order, or two may each wait for what the
/// other holds until a deadline passes. Over the mutexes of paths an
/// [`InterProcessMultiLock`](crate::InterProcessMultiLock) has no such trouble.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
/// use zoolet_recipes::client::Client;
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

    /// Waits until all are held. When one cannot be acquired the others are not tried, and those
    /// that were acquired are released, the last first. When one is lost while a later one is waited
    /// for, all are acquired anew.
    ///
    /// Each call stands in the lines by itself, for an [`Owner`] of its own: a task that calls it
    /// while it holds one of the locks waits for itself. To hold them twice, call
    /// [`SequentialMultiGuard::reenter`], or [`SequentialMultiLock::acquire_as`] with one [`Owner`]
    /// both times.
    ///
    /// # Errors
    ///
    /// What kept one of them from being acquired; [`LockError::Several`] if a release went wrong
    /// after that.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves all lines.
    pub async fn acquire(&self) -> Result<SequentialMultiGuard, LockError> {
        self.acquire_as(Owner::new()).await
    }

    /// As [`SequentialMultiLock::acquire`], within one time for all of them.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`SequentialMultiLock::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<SequentialMultiGuard, LockError> {
        within(time, self.acquire()).await
    }

    /// All of them if they are free, without waiting for them.
    ///
    /// # Errors
    ///
    /// As [`SequentialMultiLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<SequentialMultiGuard>, LockError> {
        self.try_acquire_as(Owner::new()).await
    }

    /// As [`SequentialMultiLock::acquire`], with [`InterProcessLock::acquire_as`] of each: an owner
    /// holds again what it holds. A lock that has no owners is waited for, also by who holds it.
    ///
    /// # Errors
    ///
    /// As [`SequentialMultiLock::acquire`], [`LockError::WouldDeadlock`] too.
    pub async fn acquire_as(&self, owner: Owner) -> Result<SequentialMultiGuard, LockError> {
        let mut tries = Tries::new();
        loop {
            if let Some(guards) = self.acquire_in_turn(owner).await? {
                return Ok(SequentialMultiGuard { guards: Arc::new(guards) });
            }
            tries.after(LockError::PlaceLost).await?;
        }
    }

    /// All of them, unless one is lost while a later one is waited for; the others are released then.
    async fn acquire_in_turn(&self, owner: Owner) -> Result<Option<Guards>, LockError> {
        let mut acquired = Guards(Vec::new());
        for lock in self.locks.iter() {
            match acquired.unless_lost(lock.acquire_as(owner)).await {
                Some(Ok(guard)) => acquired.0.push(guard),
                Some(Err(error)) => return Err(acquired.roll_back(error).await),
                None => {
                    // What else goes wrong says no more than that they are lost too.
                    let _ = acquired.release_each().await;
                    return Ok(None);
                }
            }
        }
        Ok(Some(acquired))
    }

    /// As [`SequentialMultiLock::acquire_as`], within one time for all of them.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`SequentialMultiLock::acquire_as`].
    pub async fn acquire_within_as(
        &self,
        time: Duration,
        owner: Owner,
    ) -> Result<SequentialMultiGuard, LockError> {
        within(time, self.acquire_as(owner)).await
    }

    /// As [`SequentialMultiLock::try_acquire`], for an owner.
    ///
    /// # Errors
    ///
    /// As [`SequentialMultiLock::acquire_as`].
    pub async fn try_acquire_as(
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
        Ok(Some(SequentialMultiGuard { guards: Arc::new(acquired) }))
    }

    /// Whether this process holds each of them by its object.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.locks.iter().all(|lock| lock.is_acquired_in_this_process())
    }
}

/// Several locks of any kind that are held. Dropping it releases all in the background, the last
/// first; [`SequentialMultiGuard::release`] waits for that.
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct SequentialMultiGuard {
    guards: Arc<Guards>,
}

/// How long the next lock is waited for before the loss of those before it is listened for.
const LISTEN_AFTER: Duration = Duration::from_millis(100);

/// Guards in their order; dropped, the last is first.
#[derive(Debug)]
struct Guards(Vec<Box<dyn LockGuard>>);

impl SequentialMultiGuard {
    /// The guards of the locks, in their order.
    #[must_use]
    pub fn guards(&self) -> &[Box<dyn LockGuard>] {
        &self.guards.0
    }

    /// Another guard of the same hold. It makes no request, and the locks are free when the last
    /// guard is gone.
    pub fn reenter(&self) -> Self {
        Self { guards: Arc::clone(&self.guards) }
    }

    /// The greatest of the locks' fencing tokens: greater than that of whoever held all these locks
    /// before. What one of them protects from those who take that alone goes by that lock's own
    /// token ([`SequentialMultiGuard::guards`]).
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.guards.0.iter().map(|guard| guard.fencing_token()).max().unwrap_or(Zxid::ZERO)
    }

    /// The znodes by which the locks are held.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        self.guards.0.iter().flat_map(|guard| guard.paths()).collect()
    }

    /// Whether all are held, as far as is known without asking the server: the worst of their
    /// states.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.guards.0.iter().map(|guard| guard.state()).max().unwrap_or(LockState::Held)
    }

    /// Waits until one of them is lost.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        self.guards.lost().await;
    }

    /// Waits until the holder is asked to give one of the locks up ([`Revoker`](crate::Revoker)), also if that was
    /// before. What to do then is for the holder to say: nothing is taken from it.
    ///
    /// It costs a look and a watch, which is taken back when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one is lost meanwhile; what may go wrong with a read.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn revocation_requested(&self) -> Result<(), LockError> {
        first_of(self.guards.0.iter().map(|guard| guard.revocation_requested()).collect()).await
    }

    /// Releases all, the last first, also when one of the releases goes wrong; returns at once if
    /// there are other guards of the same hold. If the future is dropped it goes on in the
    /// background.
    ///
    /// # Errors
    ///
    /// What went wrong: one error, or [`LockError::Several`].
    pub async fn release(self) -> Result<(), LockError> {
        match Arc::into_inner(self.guards) {
            Some(guards) => LockError::all(guards.release_each().await),
            None => Ok(()),
        }
    }

    /// As [`SequentialMultiGuard::release`], and waits no longer than this for all of them.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over: the release goes on in the background. Else as
    /// [`SequentialMultiGuard::release`].
    pub async fn release_within(self, time: Duration) -> Result<(), LockError> {
        within(time, self.release()).await
    }
}

impl Guards {
    /// Waits until one of them is lost.
    async fn lost(&self) {
        first_of(self.0.iter().map(|guard| guard.lost()).collect()).await;
    }

    /// What comes of acquiring the next lock, unless one of these is lost meanwhile.
    async fn unless_lost<T>(&self, acquiring: impl Future<Output = T>) -> Option<T> {
        let mut acquiring = pin!(acquiring);
        if self.0.is_empty() {
            return Some(acquiring.await);
        }
        // To hear of a loss costs a request for each lock: not where nothing is waited for.
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

    /// Releases what was acquired before an error, and tells that and what else went wrong.
    async fn roll_back(self, error: LockError) -> LockError {
        error.and(self.release_each().await)
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
