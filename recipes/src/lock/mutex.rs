//! A mutex between processes: Curator's `InterProcessMutex`, with its znodes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Acl;

use super::guard::Guard;
use super::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
use super::line_lock::LineLock;
use super::methods::lock_methods;
use super::owner::Owner;
use crate::client::{Client, Parents};
use crate::error::{LockError, within};
use crate::line::Line;
use crate::line::order::PlaceKind;

/// Each place waits for all places before it. The marker is Curator's.
pub(crate) static KIND: PlaceKind = PlaceKind {
    marker: "lock-",
    waits_for: &["lock-"],
    ignores: &[],
    is_exclusive: true,
    may_have_second_place: &[],
};

/// As kazoo names its places.
static KAZOO: PlaceKind = PlaceKind { marker: "__lock__", waits_for: &BOTH, ..KIND };

/// As Curator names its places, in a line with kazoo's.
static CURATOR_BESIDE_KAZOO: PlaceKind = PlaceKind { waits_for: &BOTH, ..KIND };

/// The markers of a line with places of both libraries.
const BOTH: [&str; 2] = ["lock-", "__lock__"];

/// How the places of a mutex are named in a line that it shares with kazoo's `Lock`: see
/// [`InterProcessMutex::beside_kazoo`]. In both cases the mutex waits for kazoo's places, and for
/// those with Curator's names.
///
/// ```
/// use zoolet_recipes::KazooLine;
///
/// assert_ne!(KazooLine::Stock, KazooLine::WithPattern);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KazooLine {
    /// As kazoo's own (`__lock__`). Each lock of kazoo waits for them. Mutexes without this option
    /// and Curator's do not.
    Stock,
    /// As Curator's (`lock-`). Locks of kazoo wait for them that were made with
    /// `extra_lock_patterns=["-lock-"]`, which kazoo has since 2.7.1; and so do all mutexes of this
    /// library and Curator's.
    WithPattern,
}

/// A lock that one owner of all processes holds at a time, in the order in which they came.
///
/// Each [`InterProcessMutex::acquire`] enters the line by itself, as with tokio's `Mutex`, whatever
/// task calls it. To hold the lock twice, call [`Guard::reenter`], or
/// [`InterProcessMutex::acquire_as`] with the same [`Owner`], which sends no request.
///
/// Its znodes are those of Curator's `InterProcessMutex`, so that Java and Rust can share a path.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_recipes::InterProcessMutex;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
/// let guard = mutex.acquire_within(Duration::from_secs(1)).await?;
/// println!("held, with the fencing token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessMutex {
    lock: LineLock,
}

impl InterProcessMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        Ok(Self { lock: LineLock::new(Line::new(client, path, &KIND)?) })
    }

    /// The same mutex with this data for its znodes, which shows others who waits for or holds the
    /// lock. The default is this machine's address, as in Curator.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.lock.line.data = data.into();
        self
    }

    /// The same mutex with this access control list for its znodes and for the directories that are
    /// created for them. Without it each has the [default](zoolet_client::Client::default_acl) of
    /// its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.lock.line.set_acl(acl);
        self
    }

    /// The same mutex in one line with kazoo's `Lock` of the same path.
    ///
    /// By this a fleet moves from kazoo without a stop, while at each moment one client holds the
    /// lock:
    ///
    /// 1. All programs with kazoo's stock lock are replaced, one by one, by such with
    ///    [`KazooLine::Stock`].
    /// 2. When the last one of kazoo is gone, these are replaced by such with
    ///    [`KazooLine::WithPattern`].
    /// 3. When the last one with [`KazooLine::Stock`] is gone, these are replaced by such without
    ///    this option, and Curator can join.
    ///
    /// Where all of kazoo's locks have `extra_lock_patterns=["-lock-"]`, the first step is not needed.
    ///
    /// **Curator cannot take part while there are places with kazoo's names.** It takes each child of
    /// the directory for a place, and orders names without `lock-` by their first letters, so that
    /// two clients would hold the lock. A mutex without this option does not see kazoo's places.
    ///
    /// Nor can kazoo's `ReadLock` take part, whose places this mutex does not see. Directories are
    /// created as persistent znodes: a `Lock` of kazoo that has acquired once expects them to be there,
    /// and fails if the server has deleted an empty container.
    #[must_use]
    pub fn beside_kazoo(mut self, line: KazooLine) -> Self {
        self.lock.line.parents = Parents::Persistent;
        self.lock.line.kind = match line {
            KazooLine::Stock => &KAZOO,
            KazooLine::WithPattern => &CURATOR_BESIDE_KAZOO,
        };
        self
    }

    /// The znodes of the holder and of all waiting clients, in their order.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        let line = &self.lock.line;
        line.participants_of(line.kind.waits_for).await
    }

    /// As [`InterProcessMutex::participants`], with the data of each znode
    /// ([`InterProcessMutex::with_data`]): who they are. This is one read more for each.
    ///
    /// # Errors
    ///
    /// The errors of reads, as of a znode that this client may not read.
    pub async fn participants_with_data(&self) -> Result<Vec<(String, Bytes)>, LockError> {
        self.lock.line.data_of(self.participants().await?).await
    }
}

lock_methods! {
    impl InterProcessMutex => Guard;
    /// Waits until the lock is held.
    ///
    /// Each call enters the line by itself, as with tokio's `Mutex`: a task that calls it while it
    /// holds the lock waits for itself, and a warning (`tracing`) says so after a second. To hold
    /// the lock twice, call [`Guard::reenter`], or [`InterProcessMutex::acquire_as`] with one
    /// [`Owner`] both times.
    ///
    /// # Errors
    ///
    /// [`LockError::NumbersExhausted`] when the sequence numbers of the directory have overflowed;
    /// the errors of requests. A session that ends is no error: the next session enters the line
    /// again.
    acquire;
    /// Acquires the lock if it is free, without waiting for it. If it is held, this costs one read
    /// and creates nothing.
    try_acquire;
    /// As [`InterProcessMutex::acquire`], for an owner: while it holds the lock by this object or a
    /// clone of it, it gets another guard of it, without a request.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] at once if the owner holds the lock by another object of the
    /// same path and client, or waits for it; else as [`InterProcessMutex::acquire`].
    acquire_as = |mutex, owner| mutex.lock.acquire(owner);
    try_acquire_as = |mutex, owner| mutex.lock.try_acquire(owner);
    is_held_by = |mutex, owner| mutex.lock.held_by(owner).is_some();
    is_acquired_in_this_process = |mutex| mutex.lock.is_acquired();
    path = |mutex| mutex.lock.line.directory;
}
