//! Locks and semaphores. The thread that acquires is the owner, as in Curator: it acquires again what
//! it holds by the same object, and is told at once where it would wait for itself.

use std::sync::Arc;
use std::time::Duration;

use zoolet_protocol::{MultiOp, MultiResult, Zxid};

use super::{Client, Recipe};
use crate::error::LockError;
use crate::lock::guard::LockState;
use crate::lock::inter_process_lock::{InterProcessLock, LockGuard};
use crate::lock::owner::Owner;

/// A lock that is held. Dropping it releases it in the background; [`Held::release`] waits for that.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_recipes::blocking::{Client, InterProcessMutex};
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
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Held<G> {
    // Before the client, whose session it is of.
    guard: G,
    client: Client,
}

/// What an [`InterProcessMutex`] and the sides of an [`InterProcessReadWriteLock`] give.
pub type Guard = Held<crate::Guard>;
/// What an [`InterProcessMultiLock`] gives.
pub type MultiGuard = Held<crate::MultiGuard>;
/// What an [`InterProcessSemaphoreV2`] and an [`InterProcessSemaphoreMutex`] give.
pub type Permits = Held<crate::Permits>;
/// What a [`SequentialMultiLock`] gives.
pub type SequentialMultiGuard = Held<crate::SequentialMultiGuard>;

impl<G: LockGuard + 'static> Held<G> {
    /// The async guard, whose calls [`Client::wait`] waits for.
    pub fn get(&self) -> &G {
        &self.guard
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self) -> &mut G {
        &mut self.guard
    }

    /// A number that is greater than that of everyone who held the lock before.
    pub fn fencing_token(&self) -> Zxid {
        self.guard.fencing_token()
    }

    /// Whether it is still held.
    pub fn state(&self) -> LockState {
        self.guard.state()
    }

    /// Waits until the lock is lost, no longer than this, and tells whether it is.
    pub fn is_lost_within(&self, time: Duration) -> bool {
        self.client.wait_within(time, self.guard.lost()).is_some()
    }

    /// Waits until the holder is asked to give the lock up, no longer than this, and tells whether
    /// it was.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::revocation_requested`].
    pub fn is_revocation_requested_within(&self, time: Duration) -> Result<bool, LockError> {
        let requested = self.client.wait_within(time, self.guard.revocation_requested());
        requested.transpose().map(|requested| requested.is_some())
    }

    /// Releases it, and returns when it is free.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was lost before.
    pub fn release(self) -> Result<(), LockError> {
        let Self { guard, client } = self;
        client.wait(Box::new(guard).release())
    }

    /// Releases it, and waits no longer than this until it is free.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over: the release goes on in the background. Else as
    /// [`Held::release`].
    pub fn release_within(self, time: Duration) -> Result<(), LockError> {
        let Self { guard, client } = self;
        client.wait(Box::new(guard).release_within(time))
    }
}

/// Guards of which there may be several of one hold.
macro_rules! reentrant {
    ($($guard:ident),*) => {$(
        impl Held<crate::$guard> {
            /// Another guard of the same hold, for whatever thread. It makes no request, and the lock
            /// is free when the last guard is gone.
            pub fn reenter(&self) -> Self {
                Self { guard: self.guard.reenter(), client: self.client.clone() }
            }
        }
    )*};
}

reentrant!(Guard, MultiGuard, SequentialMultiGuard);

/// Writes that are bound to what is held.
macro_rules! transactions {
    ($($guard:ident),*) => {$(
        impl Held<crate::$guard> {
            /// Carries writes out only if the lock is held then.
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

/// Locks of which one is held at a time by who acquires it.
macro_rules! locks {
    ($(
        $lock:ident => $guard:ident,
        $acquire:ident, $acquire_within:ident, $try_acquire:ident, ($($owner:expr)?);
    )*) => {$(
        #[doc = concat!("The async [`", stringify!($lock), "`](crate::", stringify!($lock), "), for threads.")]
        pub type $lock = Recipe<crate::$lock>;

        impl Recipe<crate::$lock> {
            /// Waits until the lock is held.
            ///
            /// # Errors
            ///
            #[doc = concat!("As the async [`", stringify!($lock), "`](crate::", stringify!($lock), "::acquire); so of all that follow.")]
            pub fn acquire(&self) -> Result<Held<crate::$guard>, LockError> {
                let guard = self.client.wait(self.recipe.$acquire($($owner)?))?;
                Ok(Held { guard, client: self.client.clone() })
            }

            /// Waits no longer than this until the lock is held.
            ///
            /// # Errors
            ///
            /// [`LockError::Over`] when the time is over.
            pub fn acquire_within(&self, time: Duration) -> Result<Held<crate::$guard>, LockError> {
                let guard = self.client.wait(self.recipe.$acquire_within(time $(, $owner)?))?;
                Ok(Held { guard, client: self.client.clone() })
            }

            /// The lock if it is free, without waiting for it.
            ///
            /// # Errors
            ///
            /// What may go wrong with requests.
            pub fn try_acquire(&self) -> Result<Option<Held<crate::$guard>>, LockError> {
                let guard = self.client.wait(self.recipe.$try_acquire($($owner)?))?;
                Ok(guard.map(|guard| Held { guard, client: self.client.clone() }))
            }

            /// Whether someone of this process holds the lock by this object.
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

/// Locks of which each thread is an owner.
macro_rules! owned_by_threads {
    ($($lock:ident),*) => {$(
        impl Recipe<crate::$lock> {
            /// Whether this thread holds the lock by this object.
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
    InterProcessMultiLock
);

impl InterProcessMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        crate::InterProcessMutex::new(client.ask(), path).map(|mutex| Self::of(client, mutex))
    }
}

impl InterProcessSemaphoreMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` names no znode.
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
    /// [`Error::Path`](crate::client::Error::Path) if one names no znode.
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
    /// [`Error::Path`](crate::client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        let lock = crate::InterProcessReadWriteLock::new(client.ask(), path)?;
        Ok(Self::of(client, lock))
    }

    /// The side to read.
    #[must_use]
    pub fn read_lock(&self) -> InterProcessReadLock {
        Recipe::of(&self.client, self.recipe.read_lock())
    }

    /// The side to write.
    #[must_use]
    pub fn write_lock(&self) -> InterProcessWriteLock {
        Recipe::of(&self.client, self.recipe.write_lock())
    }

    /// Turns writing into reading, with nobody who writes in between.
    ///
    /// # Errors
    ///
    /// As the async [`downgrade`](crate::InterProcessReadWriteLock::downgrade).
    pub fn downgrade(&self, writing: Guard) -> Result<Guard, LockError> {
        let Held { guard, client } = writing;
        let guard = client.wait(self.recipe.downgrade(guard))?;
        Ok(Held { guard, client })
    }
}

/// The async [`InterProcessSemaphoreV2`](crate::InterProcessSemaphoreV2), for threads.
pub type InterProcessSemaphoreV2 = Recipe<crate::InterProcessSemaphoreV2>;

impl InterProcessSemaphoreV2 {
    /// The semaphore of a path, with this many permits. Nothing is created before one is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str, permits_max: usize) -> Result<Self, LockError> {
        let semaphore = crate::InterProcessSemaphoreV2::new(client.ask(), path, permits_max)?;
        Ok(Self::of(client, semaphore))
    }

    /// Waits for `count` permits, all at once.
    ///
    /// # Errors
    ///
    /// As the async [`acquire`](crate::InterProcessSemaphoreV2::acquire); so of all that follow.
    pub fn acquire(&self, count: usize) -> Result<Permits, LockError> {
        let guard = self.client.wait(self.recipe.acquire(count))?;
        Ok(Held { guard, client: self.client.clone() })
    }

    /// Waits no longer than this for `count` permits.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over.
    pub fn acquire_within(&self, count: usize, time: Duration) -> Result<Permits, LockError> {
        let guard = self.client.wait(self.recipe.acquire_within(count, time))?;
        Ok(Held { guard, client: self.client.clone() })
    }

    /// `count` permits if they are free, without waiting for them.
    ///
    /// # Errors
    ///
    /// What may go wrong with requests.
    pub fn try_acquire(&self, count: usize) -> Result<Option<Permits>, LockError> {
        let guard = self.client.wait(self.recipe.try_acquire(count))?;
        Ok(guard.map(|guard| Held { guard, client: self.client.clone() }))
    }

    /// How many permits are free.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub fn permits_left(&self) -> Result<usize, LockError> {
        self.client.wait(self.recipe.permits_left())
    }
}
