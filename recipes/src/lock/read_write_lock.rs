//! A lock that many may hold to read, or one to write: Curator's `InterProcessReadWriteLock`, with
//! its znodes.

use std::slice;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::client::Client;
use crate::error::{LockError, within};
use crate::line::order::Kind;
use crate::line::place::Line;
use crate::lock::guard::{Guard, LockState};
use crate::lock::held;
use crate::lock::line_lock::LineLock;
use crate::lock::owner::{Owner, Stand};
use crate::tries::Tries;

const READ_MARKER: &str = "__READ__";
const WRITE_MARKER: &str = "__WRIT__";

/// Who reads waits for the last writer before it. Curator's waits for the first, and wakes at every
/// writer's end.
static READ: Kind = Kind {
    marker: READ_MARKER,
    waits_for: &[WRITE_MARKER],
    holds_beside: &[READ_MARKER],
    is_exclusive: false,
    with_places_beside: &[],
};

/// Who writes waits for everyone before it.
static WRITE: Kind = Kind {
    marker: WRITE_MARKER,
    waits_for: &[READ_MARKER, WRITE_MARKER],
    holds_beside: &[],
    is_exclusive: true,
    with_places_beside: &[WRITE_MARKER],
};

/// A pair of locks over one path: many may hold the one to read, or one the one to write, in the
/// order in which they came. A reader that comes after a writer who waits, waits too.
///
/// Each `acquire` stands in line by itself, as with [`InterProcessMutex`](crate::InterProcessMutex).
/// Who writes may also read, and so keep the lock to read when it gives up writing: by
/// [`InterProcessReadLock::acquire_beside`] the guard, by [`InterProcessReadWriteLock::downgrade`], or
/// by [`InterProcessReadLock::acquire_as`] the same [`Owner`]. Who reads cannot write: it would wait
/// for itself.
///
/// Its znodes are those of Curator's `InterProcessReadWriteLock`, so that Java and Rust contend for
/// one path. Do not use a path for this and for a mutex: they do not see each other.
///
/// ```no_run
/// use zoolet_recipes::InterProcessReadWriteLock;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let lock = InterProcessReadWriteLock::new(&client, "/locks/catalogue")?;
/// let writing = lock.write_lock().acquire().await?;
/// let reading = lock.read_lock().acquire_beside(&writing).await?; // no one else writes in between
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

/// The side of an [`InterProcessReadWriteLock`] that many may hold.
#[derive(Debug, Clone)]
pub struct InterProcessReadLock(InterProcessReadWriteLock);

/// The side of an [`InterProcessReadWriteLock`] that one may hold.
#[derive(Debug, Clone)]
pub struct InterProcessWriteLock(InterProcessReadWriteLock);

impl InterProcessReadWriteLock {
    /// The lock of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        Ok(Self {
            read: LineLock::new(Line::new(client, path, &READ)?),
            write: LineLock::new(Line::new(client, path, &WRITE)?),
        })
    }

    /// The same lock with data for its znodes, by which others see who stands in line.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        let data = data.into();
        self.read.line.data = data.clone();
        self.write.line.data = data;
        self
    }

    /// The same lock with an access control list for its znodes and for what is created above.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.read.line.acl = acl.clone().into();
        self.write.line.acl = acl.into();
        self
    }

    /// The side to read.
    #[must_use]
    pub fn read_lock(&self) -> InterProcessReadLock {
        InterProcessReadLock(self.clone())
    }

    /// The side to write.
    #[must_use]
    pub fn write_lock(&self) -> InterProcessWriteLock {
        InterProcessWriteLock(self.clone())
    }

    /// Turns writing into reading, with one request: nobody writes in between. The fencing token
    /// stays.
    ///
    /// An owner that has more than one guard to write goes on writing with the others.
    ///
    /// # Errors
    ///
    /// [`LockError::Foreign`] for a guard that is not of this object's side to write, which is
    /// released by that; [`LockError::Lost`] if it was lost before; what may go wrong with requests.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future gives up both.
    pub async fn downgrade(&self, writing: Guard) -> Result<Guard, LockError> {
        let owner = writing.owner();
        self.check_writes(&writing)?;
        if let Some(reading) = self.read.held_by(owner) {
            writing.release().await?;
            return Ok(reading);
        }
        match writing.into_place() {
            Ok((place, _standing_until_then)) => {
                let read = &self.read;
                let mut place = read.line.enter_instead(place).await.map_err(LockError::of_held)?;
                let proven = held::until_proven(slice::from_mut(&mut place)).await;
                proven.map_err(|error| LockError::from(error).of_held())?;
                let stand = Stand::join_beside(&read.line.id, read.line.kind, owner);
                Ok(read.hold(place, stand))
            }
            Err(_others_write) => self.read_lock().acquire_as(owner).await,
        }
    }

    /// Checks that a guard is one of this object's side to write, and not lost.
    fn check_writes(&self, writing: &Guard) -> Result<(), LockError> {
        match self.write.held_by(writing.owner()) {
            Some(held) if held.is_same_as(writing) => Ok(()),
            _ if writing.state() == LockState::Lost => Err(LockError::Lost),
            _ => Err(LockError::Foreign(writing.path().to_owned())),
        }
    }

    /// Takes a place to read beside the one to write of the same owner, which need not wait. It has
    /// the same number, so that nobody comes in between when the owner stops writing (CURATOR-621).
    async fn read_beside(&self, writing: &Guard) -> Result<Guard, LockError> {
        let read = &self.read;
        let beside = writing.keep_beside()?;
        match read.line.enter_beside(&beside, writing.fencing_token()).await {
            Ok(mut place) => {
                held::until_proven(slice::from_mut(&mut place)).await?;
                let owner = writing.owner();
                let stand = Stand::join_beside(&read.line.id, read.line.kind, owner);
                Ok(read.hold(place, stand))
            }
            Err(error) => {
                if error == LockError::Lost {
                    writing.note_lost();
                }
                Err(error)
            }
        }
    }
}

impl InterProcessReadLock {
    /// Waits until nobody writes, and nobody who came before waits to.
    ///
    /// Each call stands in line by itself, as with tokio's `RwLock`: who writes already waits for
    /// itself. To read beside one's own writing, call [`InterProcessReadLock::acquire_beside`]
    /// the guard, or [`InterProcessReadLock::acquire_as`] with one [`Owner`] for both.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.acquire_as(Owner::new()).await
    }

    /// As [`InterProcessReadLock::acquire`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessReadLock::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, LockError> {
        within(time, self.acquire()).await
    }

    /// The lock if nobody writes or waits to, without waiting for it.
    ///
    /// # Errors
    ///
    /// As [`InterProcessReadLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.try_acquire_as(Owner::new()).await
    }

    /// As [`InterProcessReadLock::acquire`], for an owner: while it reads by this object it gets
    /// another guard of that, without a request, and while it writes by this object it reads beside
    /// that, without waiting.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] at once if the owner writes by another object of the same path
    /// and client, or waits to; else as [`InterProcessReadLock::acquire`].
    pub async fn acquire_as(&self, owner: Owner) -> Result<Guard, LockError> {
        let InterProcessReadWriteLock { read, write } = &self.0;
        let mut tries = Tries::new();
        loop {
            if let Some(guard) = read.held_by(owner) {
                return Ok(guard);
            }
            let Some(writing) = write.held_by(owner) else { return read.acquire(owner).await };
            match self.0.read_beside(&writing).await {
                Ok(reading) => return Ok(reading),
                // The owner does not write any more, and stands in line like everybody.
                Err(LockError::Lost) => {}
                Err(error) => tries.after(error).await?,
            }
        }
    }

    /// The lock beside one that is held to write, without waiting: nobody else writes before this is
    /// released too, also when `writing` is released first. It is acquired for the same
    /// [`Guard::owner`], and has the same fencing token.
    ///
    /// # Errors
    ///
    /// [`LockError::Foreign`] for a guard that is not of this object's side to write;
    /// [`LockError::Lost`] if that is lost; what may go wrong with requests.
    ///
    /// # Cancellation
    ///
    /// Safe: `writing` stays as it is.
    pub async fn acquire_beside(&self, writing: &Guard) -> Result<Guard, LockError> {
        let mut tries = Tries::new();
        loop {
            self.0.check_writes(writing)?;
            if let Some(guard) = self.0.read.held_by(writing.owner()) {
                return Ok(guard);
            }
            match self.0.read_beside(writing).await {
                Err(error) if error != LockError::Lost => tries.after(error).await?,
                result => return result,
            }
        }
    }

    /// As [`InterProcessReadLock::acquire_as`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessReadLock::acquire_as`].
    pub async fn acquire_within_as(
        &self,
        time: Duration,
        owner: Owner,
    ) -> Result<Guard, LockError> {
        within(time, self.acquire_as(owner)).await
    }

    /// As [`InterProcessReadLock::try_acquire`], for an owner.
    ///
    /// # Errors
    ///
    /// As [`InterProcessReadLock::acquire_as`].
    pub async fn try_acquire_as(&self, owner: Owner) -> Result<Option<Guard>, LockError> {
        if self.0.write.held_by(owner).is_some() {
            return self.acquire_as(owner).await.map(Some);
        }
        self.0.read.try_acquire(owner).await
    }

    /// Whether an owner holds it by this object.
    #[must_use]
    pub fn is_held_by(&self, owner: Owner) -> bool {
        self.0.read.held_by(owner).is_some()
    }

    /// Whether someone of this process holds it by this object.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.0.read.is_acquired()
    }

    /// The znodes of all who read or wait to, in their order.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        self.0.read.participants(READ_MARKER).await
    }
}

impl InterProcessWriteLock {
    /// Waits until nobody else reads or writes who came before.
    ///
    /// Each call stands in line by itself, as with tokio's `RwLock`: who reads or writes already
    /// waits for itself. To hold the lock twice, call [`Guard::reenter`], or
    /// [`InterProcessWriteLock::acquire_as`] with one [`Owner`] both times.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.acquire_as(Owner::new()).await
    }

    /// As [`InterProcessWriteLock::acquire`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessWriteLock::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, LockError> {
        within(time, self.acquire()).await
    }

    /// The lock if nobody holds it or waits for it, without waiting for it.
    ///
    /// # Errors
    ///
    /// As [`InterProcessWriteLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.try_acquire_as(Owner::new()).await
    }

    /// As [`InterProcessWriteLock::acquire`], for an owner: while it writes by this object it gets
    /// another guard of that, without a request.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] at once if the owner reads and does not write, or if it writes by
    /// another object of the same path and client, or waits to; else as
    /// [`InterProcessWriteLock::acquire`].
    pub async fn acquire_as(&self, owner: Owner) -> Result<Guard, LockError> {
        self.0.write.acquire(owner).await
    }

    /// As [`InterProcessWriteLock::acquire_as`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessWriteLock::acquire_as`].
    pub async fn acquire_within_as(
        &self,
        time: Duration,
        owner: Owner,
    ) -> Result<Guard, LockError> {
        within(time, self.acquire_as(owner)).await
    }

    /// As [`InterProcessWriteLock::try_acquire`], for an owner.
    ///
    /// # Errors
    ///
    /// As [`InterProcessWriteLock::acquire_as`].
    pub async fn try_acquire_as(&self, owner: Owner) -> Result<Option<Guard>, LockError> {
        self.0.write.try_acquire(owner).await
    }

    /// Whether an owner holds it by this object.
    #[must_use]
    pub fn is_held_by(&self, owner: Owner) -> bool {
        self.0.write.held_by(owner).is_some()
    }

    /// Whether someone of this process holds it by this object.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.0.write.is_acquired()
    }

    /// The znodes of all who write or wait to, in their order.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        self.0.write.participants(WRITE_MARKER).await
    }
}
