//! A lock that many may hold to read, or one to write: Curator's `InterProcessReadWriteLock`, with
//! its znodes.

use std::slice;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use super::guard::Guard;
use super::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
use super::line_lock::LineLock;
use super::methods::lock_methods;
use super::owner::Owner;
use super::state::LockState;
use crate::attempts::Attempts;
use crate::client::Client;
use crate::error::{LockError, within};
use crate::line::Line;
use crate::line::order::PlaceKind;
use crate::line::proof::until_proven;

const READ_MARKER: &str = "__READ__";
const WRITE_MARKER: &str = "__WRIT__";

/// A reader waits for the last writer before it. Curator's reader waits for the first writer, and
/// wakes up when each of them is gone.
static READ: PlaceKind = PlaceKind {
    marker: READ_MARKER,
    waits_for: &[WRITE_MARKER],
    ignores: &[READ_MARKER],
    is_exclusive: false,
    may_have_second_place: &[],
};

/// A writer waits for all places before it.
static WRITE: PlaceKind = PlaceKind {
    marker: WRITE_MARKER,
    waits_for: &[READ_MARKER, WRITE_MARKER],
    ignores: &[],
    is_exclusive: true,
    may_have_second_place: &[WRITE_MARKER],
};

/// Two locks over one path: many readers may hold the read lock, or one writer the write lock, in
/// the order in which they came. A reader that comes after a waiting writer waits too.
///
/// Each `acquire` enters the line by itself, as with
/// [`InterProcessMutex`](crate::InterProcessMutex). A writer may also read, and so keep the read
/// lock when it releases the write lock: by [`InterProcessReadLock::acquire_beside`] the guard, by
/// [`InterProcessReadWriteLock::downgrade`], or by [`InterProcessReadLock::acquire_as`] the same
/// [`Owner`]. A reader cannot write as well: it would wait for itself.
///
/// Its znodes are those of Curator's `InterProcessReadWriteLock`, so that Java and Rust can share a
/// path. Do not use one path for this lock and for a mutex: they do not see each other.
///
/// ```no_run
/// use zoolet_recipes::InterProcessReadWriteLock;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let lock = InterProcessReadWriteLock::new(&client, "/locks/catalogue")?;
/// let writing = lock.write_lock().acquire().await?;
/// let reading = lock.read_lock().acquire_beside(&writing).await?; // no other writer comes in between
/// writing.release().await?;
/// reading.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessReadWriteLock {
    read: LineLock,
    write: LineLock,
}

/// The lock of an [`InterProcessReadWriteLock`] that many readers may hold.
#[derive(Debug, Clone)]
pub struct InterProcessReadLock(InterProcessReadWriteLock);

/// The lock of an [`InterProcessReadWriteLock`] that one writer may hold.
#[derive(Debug, Clone)]
pub struct InterProcessWriteLock(InterProcessReadWriteLock);

impl InterProcessReadWriteLock {
    /// The lock of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        Ok(Self {
            read: LineLock::new(Line::new(client, path, &READ)?),
            write: LineLock::new(Line::new(client, path, &WRITE)?),
        })
    }

    /// The same lock with this data for its znodes, which shows others who waits for or holds the
    /// lock. The default is this machine's address, as in Curator.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        let data = data.into();
        self.read.line.data = data.clone();
        self.write.line.data = data;
        self
    }

    /// The same lock with this access control list for its znodes and for the directories that are
    /// created for them. Without it each has the [default](zoolet_client::Client::default_acl) of
    /// its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.read.line.set_acl(acl.clone());
        self.write.line.set_acl(acl);
        self
    }

    /// The read lock.
    #[must_use]
    pub fn read_lock(&self) -> InterProcessReadLock {
        InterProcessReadLock(self.clone())
    }

    /// The write lock.
    #[must_use]
    pub fn write_lock(&self) -> InterProcessWriteLock {
        InterProcessWriteLock(self.clone())
    }

    /// Turns the write lock into the read lock with one request: no other writer comes in between.
    /// The fencing token stays the same.
    ///
    /// If the owner has other guards of the write lock, it keeps the write lock by those.
    ///
    /// # Errors
    ///
    /// [`LockError::Foreign`] for a guard that is not of this object's write lock; that guard is
    /// dropped. [`LockError::Lost`] if the lock was lost before; the errors of requests.
    ///
    /// # Cancellation
    ///
    /// Safe: when the future is dropped, both locks are released.
    pub async fn downgrade(&self, writing: Guard) -> Result<Guard, LockError> {
        let owner = writing.owner();
        self.check_is_write_guard(&writing)?;
        if let Some(reading) = self.read.held_by(owner) {
            writing.release().await?;
            return Ok(reading);
        }
        match writing.handle.into_place() {
            Ok((place, _registered_until_then)) => {
                let of_held = |error: LockError| error.of_held().at(&self.read.line.directory);
                let place = self.read.line.enter_instead(place).await;
                let mut place = place.map_err(of_held)?;
                until_proven(slice::from_mut(&mut place)).await.map_err(of_held)?;
                Ok(self.read.guard(place, self.read.register_beside(owner)))
            }
            Err(_has_other_guards) => self.read_lock().acquire_as(owner).await,
        }
    }

    /// Checks that a guard is of this object's write lock, and that the lock is not lost.
    fn check_is_write_guard(&self, writing: &Guard) -> Result<(), LockError> {
        match self.write.held_by(writing.owner()) {
            Some(held) if held.handle.is_same_lock(&writing.handle) => Ok(()),
            _ if writing.state() == LockState::Lost => {
                Err(LockError::Lost(writing.path().to_owned()))
            }
            _ => Err(LockError::Foreign(writing.path().to_owned())),
        }
    }

    /// Creates a read place beside the write place of the same owner, without waiting. It has the
    /// same number, so that no writer gets in between when the owner releases the write lock
    /// (CURATOR-621).
    async fn read_beside(&self, writing: &Guard) -> Result<Guard, LockError> {
        let read = &self.read;
        // From now on the deletion of the write place does not prove that no place is ahead.
        let beside = writing.lock().with_place(|place| {
            place.set_announces_release(false);
            (place.name().to_owned(), place.session().clone())
        });
        let beside = beside.ok_or_else(|| LockError::PlaceLost(writing.path().to_owned()))?;
        match read.line.enter_beside(&beside, writing.fencing_token()).await {
            Ok(mut place) => {
                until_proven(slice::from_mut(&mut place)).await?;
                Ok(read.guard(place, read.register_beside(writing.owner())))
            }
            Err(error) => {
                if matches!(error, LockError::Lost(_)) {
                    // `None` if the lock has been released.
                    let _ = writing.lock().with_place(|place| place.note_gone());
                }
                Err(error)
            }
        }
    }

    /// Acquires the read lock for an owner: beside its write lock, if it holds that.
    async fn acquire_read(&self, owner: Owner) -> Result<Guard, LockError> {
        let mut attempts = Attempts::new(&self.read.line.client);
        loop {
            if let Some(guard) = self.read.held_by(owner) {
                return Ok(guard);
            }
            let Some(writing) = self.write.held_by(owner) else {
                return self.read.acquire(owner).await;
            };
            match self.read_beside(&writing).await {
                Ok(reading) => return Ok(reading),
                // The owner does not hold the write lock any more, and enters the line.
                Err(LockError::Lost(_)) => {}
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    async fn try_acquire_read(&self, owner: Owner) -> Result<Option<Guard>, LockError> {
        if self.write.held_by(owner).is_some() {
            return self.acquire_read(owner).await.map(Some);
        }
        self.read.try_acquire(owner).await
    }
}

impl InterProcessReadLock {
    /// Acquires the read lock beside the write lock of the same owner, without waiting. No other
    /// writer comes before this guard is released too, also when `writing` is released first. The
    /// guard is acquired for the same [`Guard::owner`], and has the same fencing token.
    ///
    /// # Errors
    ///
    /// [`LockError::Foreign`] for a guard that is not of this object's write lock;
    /// [`LockError::Lost`] if that lock is lost; the errors of requests.
    ///
    /// # Cancellation
    ///
    /// Safe: `writing` stays as it is.
    pub async fn acquire_beside(&self, writing: &Guard) -> Result<Guard, LockError> {
        let mut attempts = Attempts::new(&self.0.read.line.client);
        loop {
            self.0.check_is_write_guard(writing)?;
            if let Some(guard) = self.0.read.held_by(writing.owner()) {
                return Ok(guard);
            }
            match self.0.read_beside(writing).await {
                Ok(reading) => return Ok(reading),
                Err(error @ LockError::Lost(_)) => return Err(error),
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    /// The znodes of all readers, holding or waiting, in their order.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        self.0.read.line.participants(READ_MARKER).await
    }

    /// As [`InterProcessReadLock::participants`], with the data of each znode
    /// ([`InterProcessReadWriteLock::with_data`]): who they are.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub async fn participants_with_data(&self) -> Result<Vec<(String, Bytes)>, LockError> {
        self.0.read.line.participants_with_data(READ_MARKER).await
    }
}

lock_methods! {
    impl InterProcessReadLock => Guard;
    /// Waits until no writer holds the lock, and no writer waits that came before.
    ///
    /// Each call enters the line by itself, as with tokio's `RwLock`: a writer waits for itself. To
    /// read while you write, call [`InterProcessReadLock::acquire_beside`] the guard, or
    /// [`InterProcessReadLock::acquire_as`] with one [`Owner`] for both.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    acquire;
    /// Acquires the lock if no writer holds it or waits, without waiting.
    try_acquire;
    /// As [`InterProcessReadLock::acquire`], for an owner. While it holds the read lock by this
    /// object, it gets another guard of it, without a request. While it holds the write lock by
    /// this object, it acquires the read lock beside it, without waiting.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] at once if the owner holds the write lock by another object of
    /// the same path and client, or waits for it; else as [`InterProcessReadLock::acquire`].
    acquire_as = |lock, owner| lock.0.acquire_read(owner);
    try_acquire_as = |lock, owner| lock.0.try_acquire_read(owner);
    is_held_by = |lock, owner| lock.0.read.held_by(owner).is_some();
    is_acquired_in_this_process = |lock| lock.0.read.is_acquired();
    path = |lock| lock.0.read.line.directory;
}

impl InterProcessWriteLock {
    /// The znodes of all writers, holding or waiting, in their order.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        self.0.write.line.participants(WRITE_MARKER).await
    }

    /// As [`InterProcessWriteLock::participants`], with the data of each znode
    /// ([`InterProcessReadWriteLock::with_data`]): who they are.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub async fn participants_with_data(&self) -> Result<Vec<(String, Bytes)>, LockError> {
        self.0.write.line.participants_with_data(WRITE_MARKER).await
    }
}

lock_methods! {
    impl InterProcessWriteLock => Guard;
    /// Waits until no reader and no other writer holds the lock that came before.
    ///
    /// Each call enters the line by itself, as with tokio's `RwLock`: a reader or a writer waits
    /// for itself. To hold the lock twice, call [`Guard::reenter`], or
    /// [`InterProcessWriteLock::acquire_as`] with one [`Owner`] both times.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    acquire;
    /// Acquires the lock if no client holds it or waits for it, without waiting.
    try_acquire;
    /// As [`InterProcessWriteLock::acquire`], for an owner: while it holds the write lock by this
    /// object, it gets another guard of it, without a request.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] at once if the owner holds the read lock and not the write
    /// lock, or if it holds the write lock by another object of the same path and client, or waits
    /// for it; else as [`InterProcessWriteLock::acquire`].
    acquire_as = |lock, owner| lock.0.write.acquire(owner);
    try_acquire_as = |lock, owner| lock.0.write.try_acquire(owner);
    is_held_by = |lock, owner| lock.0.write.held_by(owner).is_some();
    is_acquired_in_this_process = |lock| lock.0.write.is_acquired();
    path = |lock| lock.0.write.line.directory;
}
