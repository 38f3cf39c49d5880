//! Locks and semaphores. The thread that acquires a lock is its owner, as in Curator: it gets
//! another guard of a lock that it holds by the same object, and an error at once where it would
//! wait for itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, MultiOp, MultiResult, Zxid};

use super::{Client, Recipe};
use crate::error::LockError;
use crate::lock::inter_process_lock::{InterProcessLock, LockGuard};
use crate::lock::mutex::KazooLine;
use crate::lock::owner::Owner;
use crate::lock::state::LockState;

/// A lock that is held. Dropping the guard releases the lock in the background;
/// [`BlockingGuard::release`] waits until it is released.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_client::blocking::Client;
/// use zoolet_recipes::blocking::InterProcessMutex;
///
/// # fn example() -> Result<(), zoolet_recipes::LockError> {
/// let client = Client::connect("localhost:2181")?;
/// let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
/// let guard = mutex.acquire_within(Duration::from_secs(1))?;
/// println!("held, with the fencing token {}", guard.fencing_token());
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct BlockingGuard<G> {
    // Dropped before the client, whose session it belongs to.
    guard: G,
    client: Client,
}

/// The guard of an [`InterProcessMutex`] and of the locks of an [`InterProcessReadWriteLock`].
pub type Guard = BlockingGuard<crate::Guard>;
/// The guard of an [`InterProcessMultiLock`].
pub type MultiGuard = BlockingGuard<crate::MultiGuard>;
/// The permits of an [`InterProcessSemaphoreV2`] and of an [`InterProcessSemaphoreMutex`].
pub type Permits = BlockingGuard<crate::Permits>;
/// The guard of a [`SequentialMultiLock`].
pub type SequentialMultiGuard = BlockingGuard<crate::SequentialMultiGuard>;

impl<G: LockGuard + 'static> BlockingGuard<G> {
    fn new(client: &Client, guard: G) -> Self {
        Self { guard, client: client.clone() }
    }

    /// The async guard, whose calls [`Client::wait`] waits for.
    pub fn get(&self) -> &G {
        &self.guard
    }

    /// The async guard, for methods that change it.
    pub fn get_mut(&mut self) -> &mut G {
        &mut self.guard
    }

    /// The fencing token: a number that is greater than those of all earlier holders.
    pub fn fencing_token(&self) -> Zxid {
        self.guard.fencing_token()
    }

    /// The znodes by which the lock is held.
    pub fn paths(&self) -> &[String] {
        self.guard.paths()
    }

    /// Whether the lock is held, as far as is known without a request.
    pub fn state(&self) -> LockState {
        self.guard.state()
    }

    /// Waits until the lock is not [`Held`](LockState::Held) any more.
    pub fn lost(&self) {
        self.client.wait(self.guard.lost());
    }

    /// Waits until the lock is not [`Held`](LockState::Held) any more, within a time limit. Returns
    /// whether that happened.
    pub fn is_lost_within(&self, time: Duration) -> bool {
        self.client.wait_within(time, self.guard.lost()).is_some()
    }

    /// Waits until another client asks the holder to release the lock.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::revocation_requested`].
    pub fn revocation_requested(&self) -> Result<(), LockError> {
        self.client.wait(self.guard.revocation_requested())
    }

    /// Waits until another client asks the holder to release the lock, within a time limit. Returns
    /// whether that happened.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::revocation_requested`].
    pub fn is_revocation_requested_within(&self, time: Duration) -> Result<bool, LockError> {
        let requested = self.client.wait_within(time, self.guard.revocation_requested());
        requested.transpose().map(|requested| requested.is_some())
    }

    /// Releases the lock, and returns when its znodes are deleted.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock was lost before.
    pub fn release(self) -> Result<(), LockError> {
        let Self { guard, client } = self;
        client.wait(Box::new(guard).release())
    }

    /// As [`BlockingGuard::release`], within a time limit.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed: the release goes on in the background. Else as
    /// [`BlockingGuard::release`].
    pub fn release_within(self, time: Duration) -> Result<(), LockError> {
        let Self { guard, client } = self;
        client.wait(Box::new(guard).release_within(time))
    }
}

impl<G: LockGuard> std::fmt::Debug for BlockingGuard<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.guard.fmt(f)
    }
}

impl Guard {
    /// The znode by which the lock is held.
    pub fn path(&self) -> &str {
        self.guard.path()
    }
}

/// Guards of which there may be several for one held lock.
macro_rules! reentrant {
    ($($guard:ident),*) => {$(
        impl $guard {
            /// Another guard of the same held lock, for any thread. It sends no request. The lock
            /// is released with the last guard.
            pub fn reenter(&self) -> Self {
                Self::new(&self.client, self.guard.reenter())
            }
        }
    )*};
}

reentrant!(Guard, MultiGuard, SequentialMultiGuard);

/// Guards by which writes can be bound to the lock.
macro_rules! transactions {
    ($($guard:ident),*) => {$(
        impl $guard {
            /// Carries out writes only if the lock is held then. Returns their results.
            ///
            /// # Errors
            ///
            #[doc = concat!("As the async [`", stringify!($guard), "`](crate::", stringify!($guard), "::transaction).")]
            pub fn transaction(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, LockError> {
                self.client.wait(self.guard.transaction(ops))
            }
        }
    )*};
}

transactions!(Guard, MultiGuard, Permits);

/// Locks that one owner holds at a time.
macro_rules! locks {
    ($(
        $lock:ident => $guard:ident,
        $acquire:ident, $acquire_within:ident, $try_acquire:ident, ($($owner:expr)?);
    )*) => {$(
        #[doc = concat!("The async [`", stringify!($lock), "`](crate::", stringify!($lock), "), for threads.")]
        pub type $lock = Recipe<crate::$lock>;

        impl $lock {
            /// Waits until the lock is held.
            ///
            /// # Errors
            ///
            #[doc = concat!("As the async [`", stringify!($lock), "`](crate::", stringify!($lock), "::acquire); so of all that follow.")]
            pub fn acquire(&self) -> Result<$guard, LockError> {
                let guard = self.client.wait(self.recipe.$acquire($($owner)?))?;
                Ok(BlockingGuard::new(&self.client, guard))
            }

            /// Waits until the lock is held, within a time limit.
            ///
            /// # Errors
            ///
            /// [`LockError::TimedOut`] when the time has passed.
            pub fn acquire_within(&self, time: Duration) -> Result<$guard, LockError> {
                let guard = self.client.wait(self.recipe.$acquire_within(time $(, $owner)?))?;
                Ok(BlockingGuard::new(&self.client, guard))
            }

            /// Acquires the lock if it is free, without waiting for it.
            ///
            /// # Errors
            ///
            /// The errors of requests.
            pub fn try_acquire(&self) -> Result<Option<$guard>, LockError> {
                let guard = self.client.wait(self.recipe.$try_acquire($($owner)?))?;
                Ok(guard.map(|guard| BlockingGuard::new(&self.client, guard)))
            }

            /// Whether anyone in this process holds the lock by this object or a clone of it.
            #[must_use]
            pub fn is_acquired_in_this_process(&self) -> bool {
                self.recipe.is_acquired_in_this_process()
            }
        }
    )*};
}

/// The owner of what this thread acquires.
fn thread() -> Owner {
    Owner::current_thread()
}

locks! {
    InterProcessMutex => Guard, acquire_as, acquire_within_as, try_acquire_as, (thread());
    InterProcessReadLock => Guard, acquire_as, acquire_within_as, try_acquire_as, (thread());
    InterProcessWriteLock => Guard, acquire_as, acquire_within_as, try_acquire_as, (thread());
    InterProcessMultiLock => MultiGuard, acquire_as, acquire_within_as, try_acquire_as, (thread());
    SequentialMultiLock => SequentialMultiGuard,
        acquire_as, acquire_within_as, try_acquire_as, (thread());
    InterProcessSemaphoreMutex => Permits, acquire, acquire_within, try_acquire, ();
}

/// Locks whose owners are threads.
macro_rules! owned_by_threads {
    ($($lock:ident),*) => {$(
        impl $lock {
            /// Whether this thread holds the lock by this object or a clone of it.
            #[must_use]
            pub fn is_owned_by_current_thread(&self) -> bool {
                self.recipe.is_held_by(thread())
            }
        }
    )*};
}

owned_by_threads!(
    InterProcessMutex,
    InterProcessReadLock,
    InterProcessWriteLock,
    InterProcessMultiLock,
    SequentialMultiLock
);

impl InterProcessMutex {
    /// The same mutex in one line with kazoo's `Lock` of the same path: see
    /// [`InterProcessMutex::beside_kazoo`](crate::InterProcessMutex::beside_kazoo).
    #[must_use]
    pub fn beside_kazoo(self, line: KazooLine) -> Self {
        Self { recipe: self.recipe.beside_kazoo(line), client: self.client }
    }
}

/// Recipes whose znodes' data and access control list can be set.
macro_rules! settings {
    ($($lock:ident),*) => {$(
        impl $lock {
            /// The same recipe with this data for its znodes. The default is this machine's
            /// address, as in Curator.
            #[must_use]
            pub fn with_data(self, data: impl Into<Bytes>) -> Self {
                Self { recipe: self.recipe.with_data(data), client: self.client }
            }

            /// The same recipe with this access control list for its znodes and for the directories
            /// that are created for them. Without it each has the
            /// [default](zoolet_client::Client::default_acl) of its path.
            #[must_use]
            pub fn with_acl(self, acl: Vec<Acl>) -> Self {
                Self { recipe: self.recipe.with_acl(acl), client: self.client }
            }
        }
    )*};
}

settings!(
    InterProcessMutex,
    InterProcessReadWriteLock,
    InterProcessMultiLock,
    InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2
);

/// Recipes that list their participants.
macro_rules! participants {
    ($($lock:ident),*) => {$(
        impl $lock {
            /// The znodes of the participants.
            ///
            /// # Errors
            ///
            /// The errors of a read.
            pub fn participants(&self) -> Result<Vec<String>, LockError> {
                self.client.wait(self.recipe.participants())
            }

            /// The znodes of the participants, with their data.
            ///
            /// # Errors
            ///
            /// The errors of reads.
            pub fn participants_with_data(&self) -> Result<Vec<(String, Bytes)>, LockError> {
                self.client.wait(self.recipe.participants_with_data())
            }
        }
    )*};
}

participants!(
    InterProcessMutex,
    InterProcessReadLock,
    InterProcessWriteLock,
    InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2
);

impl InterProcessMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        crate::InterProcessMutex::new(client.ask(), path).map(|mutex| Self::of(client, mutex))
    }
}

impl InterProcessSemaphoreMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        let mutex = crate::InterProcessSemaphoreMutex::new(client.ask(), path)?;
        Ok(Self::of(client, mutex))
    }
}

impl InterProcessMultiLock {
    /// The mutexes of these paths; a path that is named twice counts once.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if one of them is not valid.
    pub fn new(client: &Client, paths: &[&str]) -> Result<Self, LockError> {
        let lock = crate::InterProcessMultiLock::new(client.ask(), paths)?;
        Ok(Self::of(client, lock))
    }
}

impl SequentialMultiLock {
    /// These async locks, in this order.
    #[must_use]
    pub fn new(client: &Client, locks: Vec<Arc<dyn InterProcessLock>>) -> Self {
        Self::of(client, crate::SequentialMultiLock::new(locks))
    }
}

/// The async [`InterProcessReadWriteLock`](crate::InterProcessReadWriteLock), for threads.
pub type InterProcessReadWriteLock = Recipe<crate::InterProcessReadWriteLock>;

impl InterProcessReadWriteLock {
    /// The lock of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        let lock = crate::InterProcessReadWriteLock::new(client.ask(), path)?;
        Ok(Self::of(client, lock))
    }

    /// The read lock.
    #[must_use]
    pub fn read_lock(&self) -> InterProcessReadLock {
        Recipe::of(&self.client, self.recipe.read_lock())
    }

    /// The write lock.
    #[must_use]
    pub fn write_lock(&self) -> InterProcessWriteLock {
        Recipe::of(&self.client, self.recipe.write_lock())
    }

    /// Turns the write lock into the read lock: no other writer comes in between.
    ///
    /// # Errors
    ///
    /// As the async [`downgrade`](crate::InterProcessReadWriteLock::downgrade).
    pub fn downgrade(&self, writing: Guard) -> Result<Guard, LockError> {
        let BlockingGuard { guard, client } = writing;
        let guard = client.wait(self.recipe.downgrade(guard))?;
        Ok(BlockingGuard { guard, client })
    }
}

/// The async [`InterProcessSemaphoreV2`](crate::InterProcessSemaphoreV2), for threads.
pub type InterProcessSemaphoreV2 = Recipe<crate::InterProcessSemaphoreV2>;

impl InterProcessSemaphoreV2 {
    /// The semaphore of a path, with this many permits. Nothing is created before one is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str, permits_max: usize) -> Result<Self, LockError> {
        let semaphore = crate::InterProcessSemaphoreV2::new(client.ask(), path, permits_max)?;
        Ok(Self::of(client, semaphore))
    }

    /// Waits for `count` permits, which are acquired all at once.
    ///
    /// # Errors
    ///
    /// As the async [`acquire`](crate::InterProcessSemaphoreV2::acquire); so of all that follow.
    pub fn acquire(&self, count: usize) -> Result<Permits, LockError> {
        let guard = self.client.wait(self.recipe.acquire(count))?;
        Ok(BlockingGuard::new(&self.client, guard))
    }

    /// Waits for `count` permits, within a time limit.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed.
    pub fn acquire_within(&self, count: usize, time: Duration) -> Result<Permits, LockError> {
        let guard = self.client.wait(self.recipe.acquire_within(count, time))?;
        Ok(BlockingGuard::new(&self.client, guard))
    }

    /// Acquires `count` permits if they are free, without waiting for them.
    ///
    /// # Errors
    ///
    /// The errors of requests.
    pub fn try_acquire(&self, count: usize) -> Result<Option<Permits>, LockError> {
        let guard = self.client.wait(self.recipe.try_acquire(count))?;
        Ok(guard.map(|guard| BlockingGuard::new(&self.client, guard)))
    }

    /// How many permits are free.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn permits_left(&self) -> Result<usize, LockError> {
        self.client.wait(self.recipe.permits_left())
    }
}
