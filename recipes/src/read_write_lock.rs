//! A lock that many may hold to read, or one to write: Curator's `InterProcessReadWriteLock`, with
//! its znodes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use crate::client::Client;
use crate::error::LockError;
use crate::guard::{Guard, LockState};
use crate::line::Kind;
use crate::line_lock::LineLock;
use crate::owner::{Owner, Stand};
use crate::place::Line;

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

/// A pair of locks over one path: many owners may hold the one to read, or one owner the one to
/// write, in the order in which they came. A reader that comes after a writer who waits, waits too.
///
/// Both are re-entrant. The owner who writes may also read, and so keep the lock to read when it
/// gives up writing. An owner who reads cannot write: it would wait for itself, and is told so.
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
/// let reading = lock.read_lock().acquire().await?; // no one else writes in between
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
        let owner = writing.owner().ok_or(LockError::Lost)?;
        if writing.state() == LockState::Lost {
            return Err(LockError::Lost);
        }
        if !self.write.held_by(owner).is_some_and(|held| held.is_same_as(&writing)) {
            return Err(LockError::Foreign(writing.path().to_owned()));
        }
        if let Some(reading) = self.read.held_by(owner) {
            writing.release().await?;
            return Ok(reading);
        }
        match writing.into_place() {
            Ok((place, _standing_until_then)) => {
                let place =
                    self.read.line.enter_instead(place).await.map_err(LockError::of_held)?;
                let Line { client, directory, .. } = &self.read.line;
                Ok(self.read.hold(owner, place, Stand::join_own(client, directory, owner)))
            }
            Err(_others_write) => self.read_lock().acquire_as(owner).await,
        }
    }
}

impl InterProcessReadLock {
    /// Waits until nobody writes, and nobody who came before waits to.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.acquire_as(Owner::current()).await
    }

    /// As [`InterProcessReadLock::acquire`], for an owner of one's own.
    ///
    /// # Errors
    ///
    /// As [`InterProcessReadLock::acquire`].
    pub async fn acquire_as(&self, owner: Owner) -> Result<Guard, LockError> {
        let InterProcessReadWriteLock { read, write } = &self.0;
        if let Some(guard) = read.held_by(owner) {
            return Ok(guard);
        }
        let Some(writing) = write.held_by(owner) else { return read.acquire(owner).await };
        // Beside its own writing place the owner need not wait. The place has the same number, so
        // that nobody comes in between when it stops writing (CURATOR-621).
        let beside = writing.keep_beside()?;
        let place = read.line.enter_beside(&beside, writing.fencing_token()).await?;
        let Line { client, directory, .. } = &read.line;
        let stand = Stand::join_own(client, directory, owner);
        Ok(read.hold(owner, place, stand))
    }

    /// As [`InterProcessReadLock::acquire`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessReadLock::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, LockError> {
        tokio::time::timeout(time, self.acquire()).await.unwrap_or(Err(LockError::Over))
    }

    /// The lock if nobody writes or waits to, without waiting for it.
    ///
    /// # Errors
    ///
    /// As [`InterProcessReadLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let owner = Owner::current();
        if self.0.write.held_by(owner).is_some() {
            return self.acquire_as(owner).await.map(Some);
        }
        self.0.read.try_acquire(owner).await
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
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if the owner reads and does not write; else as
    /// [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.acquire_as(Owner::current()).await
    }

    /// As [`InterProcessWriteLock::acquire`], for an owner of one's own.
    ///
    /// # Errors
    ///
    /// As [`InterProcessWriteLock::acquire`].
    pub async fn acquire_as(&self, owner: Owner) -> Result<Guard, LockError> {
        self.0.write.acquire(owner).await
    }

    /// As [`InterProcessWriteLock::acquire`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessWriteLock::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, LockError> {
        tokio::time::timeout(time, self.acquire()).await.unwrap_or(Err(LockError::Over))
    }

    /// The lock if nobody holds it or waits for it, without waiting for it.
    ///
    /// # Errors
    ///
    /// As [`InterProcessWriteLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.0.write.try_acquire(Owner::current()).await
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
