//! The client and the mutex for code without async: each call returns when it is done.
//!
//! A [`Client`] has a thread that keeps its session. A call is made on the thread that calls, and so
//! that thread is the owner of a lock. Within async code every call panics, rather than keep a
//! runtime's thread from its work: use the async client there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zoolet_protocol::{MultiOp, MultiResult, Names, Stat, Zxid};

use crate::client::{self, Builder, Created, Error, Target};
use crate::error::LockError;
use crate::guard::LockState;

/// The thread that keeps a session; it ends when nobody needs it any more.
#[derive(Debug)]
struct Background {
    runtime: Handle,
    /// Dropped, it tells the thread to end.
    _end: oneshot::Sender<()>,
}

impl Background {
    fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let keep = move || drop(runtime.block_on(ended));
        std::thread::Builder::new().name("zoolet-client".to_owned()).spawn(keep)?;
        Ok(Self { runtime: handle, _end: end })
    }
}

/// A client whose calls return when they are answered. Clones share the session.
///
/// ```no_run
/// use zoolet_recipes::blocking::Client;
///
/// # fn example() -> Result<(), zoolet_recipes::client::Error> {
/// let client = Client::connect("localhost:2181")?;
/// client.wait(client.ask().create("/greeting").data("hello").ephemeral())?;
/// let (data, _) = client.get("/greeting")?;
/// assert_eq!(&data[..], b"hello");
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Every call panics within async code.
#[derive(Debug, Clone)]
pub struct Client {
    // Before the thread, which ends its session.
    client: client::Client,
    background: Arc<Background>,
}

impl Client {
    /// Connects with the defaults, and waits until there is a session.
    ///
    /// # Errors
    ///
    /// As [`Client::connect_with`].
    pub fn connect<Way>(target: impl Target<Way>) -> Result<Self, Error> {
        Self::connect_with(client::Client::builder(), target)
    }

    /// Connects as a builder says, and waits until there is a session.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`]; [`Error::Unreachable`] too if no thread can be started.
    pub fn connect_with<Way>(builder: Builder, target: impl Target<Way>) -> Result<Self, Error> {
        let background =
            Background::start().map_err(|error| Error::Unreachable(error.to_string()))?;
        let client = background.runtime.block_on(builder.connect(target))?;
        Ok(Self { client, background: Arc::new(background) })
    }

    /// The async client of the same session, whose calls [`Client::wait`] waits for.
    /// The thread of this client keeps its session too: a clone is of no use after the last of this.
    #[must_use]
    pub fn ask(&self) -> &client::Client {
        &self.client
    }

    /// Waits for a call of [`Client::ask`], or for any other future.
    pub fn wait<F: IntoFuture>(&self, call: F) -> F::Output {
        self.background.runtime.block_on(async { call.await })
    }

    /// Creates a znode that stays.
    ///
    /// # Errors
    ///
    /// As of the async client; so of all that follow.
    pub fn create(&self, path: &str, data: impl Into<Bytes>) -> Result<Created, Error> {
        self.wait(self.client.create(path).data(data))
    }

    /// A znode's data and Stat.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.wait(self.client.get(path))
    }

    /// Sets a znode's data, whatever its version.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn set(&self, path: &str, data: impl Into<Bytes>) -> Result<Stat, Error> {
        self.wait(self.client.set(path, data))
    }

    /// Deletes a znode, whatever its version.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.delete(path))
    }

    /// A znode's Stat, or `None` if there is no such znode.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.wait(self.client.exists(path))
    }

    /// The names of a znode's children, in no order.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn children(&self, path: &str) -> Result<Names, Error> {
        self.wait(self.client.children(path))
    }

    /// Carries out all operations, or none.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn multi(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, Error> {
        self.wait(self.client.multi(ops))
    }
}

/// [`InterProcessMutex`](crate::InterProcessMutex), owned by the thread that acquires it.
///
/// ```no_run
/// use zoolet_recipes::blocking::{Client, InterProcessMutex};
///
/// # fn example() -> Result<(), zoolet_recipes::LockError> {
/// let client = Client::connect("localhost:2181")?;
/// let guard = InterProcessMutex::new(&client, "/locks/stock")?.acquire()?;
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessMutex {
    mutex: crate::InterProcessMutex,
    client: Client,
}

impl InterProcessMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        let mutex = crate::InterProcessMutex::new(&client.client, path)?;
        Ok(Self { mutex, client: client.clone() })
    }

    /// Waits until the lock is held.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    pub fn acquire(&self) -> Result<Guard, LockError> {
        let guard = self.client.wait(self.mutex.acquire())?;
        Ok(Guard { guard, client: self.client.clone() })
    }

    /// Waits no longer than this until the lock is held.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessMutex::acquire`].
    pub fn acquire_within(&self, time: Duration) -> Result<Guard, LockError> {
        let guard = self.client.wait(self.mutex.acquire_within(time))?;
        Ok(Guard { guard, client: self.client.clone() })
    }

    /// The lock if it is free.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`].
    pub fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let guard = self.client.wait(self.mutex.try_acquire())?;
        Ok(guard.map(|guard| Guard { guard, client: self.client.clone() }))
    }
}

/// A lock that is held. Dropping it releases it in the background; [`Guard::release`] waits for that.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    guard: crate::Guard,
    client: Client,
}

impl Guard {
    /// A number that is greater than that of everyone who held the lock before.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.guard.fencing_token()
    }

    /// Whether it is still held.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.guard.state()
    }

    /// Carries writes out only if the lock is held then.
    ///
    /// # Errors
    ///
    /// As [`Guard::transaction`](crate::Guard::transaction).
    pub fn transaction(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, LockError> {
        self.client.wait(self.guard.transaction(ops))
    }

    /// Releases it, and returns when it is free.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was lost before.
    pub fn release(self) -> Result<(), LockError> {
        self.client.wait(self.guard.release())
    }
}
