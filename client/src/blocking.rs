//! The client for code without async: each call returns when it is finished.
//!
//! A [`Client`] has a thread that keeps its session. Within async code every call panics, because it
//! would block a thread of the runtime: use the async [`Client`](crate::Client) there.

mod transaction;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zoolet_protocol::{
    Acl, ConnectTarget, CreateMode, MultiOp, MultiResult, Names, Stat, WatchMode,
};

pub use self::transaction::Transaction;
use crate::{Builder, Created, Error, Event, PersistentWatcher, SavedSession, Watched};

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
/// use zoolet_client::blocking::Client;
/// use zoolet_client::CreateMode;
///
/// # fn example() -> Result<(), zoolet_client::Error> {
/// let client = Client::connect("localhost:2181")?;
/// client.create_as("/greeting", "hello", CreateMode::Ephemeral)?;
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
    client: crate::Client,
    background: Arc<Background>,
}

impl Client {
    /// Connects with the defaults, and waits until there is a session.
    ///
    /// # Errors
    ///
    /// As [`Client::connect_with`].
    pub fn connect(target: impl Into<ConnectTarget>) -> Result<Self, Error> {
        Self::connect_with(crate::Client::builder(), target)
    }

    /// Connects as a builder says, and waits until there is a session.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`]; [`Error::Unreachable`] too if no thread can be started.
    pub fn connect_with(builder: Builder, target: impl Into<ConnectTarget>) -> Result<Self, Error> {
        let background = Background::start().map_err(|error| Error::Unreachable(error.into()))?;
        let client = background.runtime.block_on(builder.connect(target))?;
        Ok(Self { client, background: Arc::new(background) })
    }

    /// The async client of the same session, whose calls [`Client::wait`] waits for. The thread of
    /// this client keeps its session too: a clone is of no use after the last of this.
    #[must_use]
    pub fn ask(&self) -> &crate::Client {
        &self.client
    }

    /// As [`Client::hand_over`](crate::Client::hand_over) of the async client.
    #[must_use = "without it the session can only time out"]
    pub fn hand_over(self) -> Option<SavedSession> {
        self.client.hand_over()
    }

    /// Waits for a call of [`Client::ask`], or for any other future.
    pub fn wait<F: IntoFuture>(&self, call: F) -> F::Output {
        self.background.runtime.block_on(async { call.await })
    }

    /// As [`Client::wait`], no longer than this; `None` if the time is over. What was not waited
    /// for is dropped.
    pub fn wait_within<F: IntoFuture>(&self, time: Duration, call: F) -> Option<F::Output> {
        let call = async { tokio::time::timeout(time, async { call.await }).await };
        self.background.runtime.block_on(call).ok()
    }

    /// Creates a persistent znode. With an access control list or with its missing ancestors:
    /// `client.wait(client.ask().create(path).acl(acl).parents(Parents::Persistent))`.
    ///
    /// # Errors
    ///
    /// As of the async client; so of all that follow.
    pub fn create(&self, path: &str, data: impl Into<Bytes>) -> Result<Created, Error> {
        self.wait(self.client.create(path).data(data))
    }

    /// Creates a znode of a mode.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn create_as(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        mode: CreateMode,
    ) -> Result<Created, Error> {
        self.wait(self.client.create(path).data(data).mode(mode))
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

    /// A znode's data, decompressed, and its Stat.
    ///
    /// # Errors
    ///
    /// As of the async client.
    #[cfg(feature = "compression")]
    pub fn get_decompressed(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        self.wait(self.client.get_decompressed(path))
    }

    /// Sets a znode's data, compressed, whatever its version.
    ///
    /// # Errors
    ///
    /// As of the async client.
    #[cfg(feature = "compression")]
    pub fn set_compressed(&self, path: &str, data: impl AsRef<[u8]>) -> Result<Stat, Error> {
        self.wait(self.client.set_compressed(path, data))
    }

    /// Deletes a znode, whatever its version.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.delete(path))
    }

    /// Deletes a znode and all its descendants, the deepest first.
    ///
    /// # Errors
    ///
    /// As [`delete_with_descendants`](crate::Client::delete_with_descendants) of the async client.
    pub fn delete_with_descendants(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.delete_with_descendants(path))
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

    /// Carries out all operations, or none. [`Client::transaction`] builds them.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn multi(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, Error> {
        self.wait(self.client.multi(ops))
    }

    /// A znode's access control list and its Stat.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn acl(&self, path: &str) -> Result<(Vec<Acl>, Stat), Error> {
        self.wait(self.client.acl(path))
    }

    /// Sets a znode's access control list, whatever its version.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn set_acl(&self, path: &str, acl: Vec<Acl>) -> Result<Stat, Error> {
        self.wait(self.client.set_acl(path, acl))
    }

    /// Waits until the server has seen all that happened before.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn sync(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.sync(path))
    }

    /// A znode's data and Stat, and a watch that tells of one change: [`Client::wait`] and
    /// [`Client::wait_within`] wait for it, and dropping it forgets it.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn get_and_watch(&self, path: &str) -> Result<Watched<(Bytes, Stat)>, Error> {
        self.wait(self.client.get(path).and_watch())
    }

    /// A znode's Stat, or `None` if there is no such znode, and a watch in any case.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn exists_and_watch(&self, path: &str) -> Result<Watched<Option<Stat>>, Error> {
        self.wait(self.client.exists(path).and_watch())
    }

    /// The names of a znode's children, and a watch on them.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn children_and_watch(&self, path: &str) -> Result<Watched<Names>, Error> {
        self.wait(self.client.children(path).and_watch())
    }

    /// Watches all changes of a znode and of its children, or of all its descendants.
    ///
    /// # Errors
    ///
    /// As of the async client.
    pub fn watch(&self, path: &str, mode: WatchMode) -> Result<Changes, Error> {
        let watcher = self.wait(self.client.watch(path, mode))?;
        Ok(Changes { watcher, client: self.clone(), is_over: false })
    }
}

/// The changes that a watch tells until it is dropped, each as an item; waits for the next. The
/// last is the error that ended the watch: the session was lost, or the client closed.
///
/// ```no_run
/// use zoolet_client::blocking::Client;
/// use zoolet_client::protocol::WatchMode;
///
/// # fn example() -> Result<(), zoolet_client::Error> {
/// let client = Client::connect("localhost:2181")?;
/// for change in client.watch("/config", WatchMode::PERSISTENT_RECURSIVE)? {
///     println!("{:?}", change?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is forgotten"]
pub struct Changes {
    // Before the client, whose session it is of.
    watcher: PersistentWatcher,
    client: Client,
    is_over: bool,
}

impl Changes {
    /// The next change, if one comes within this time.
    ///
    /// # Errors
    ///
    /// [`Error::SessionExpired`] when the session is over, [`Error::Closed`] when the client is, once.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Event>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let change = self.client.wait_within(time, self.watcher.next()).transpose();
        self.is_over = change.is_err();
        change
    }
}

impl Iterator for Changes {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let change = self.client.wait(self.watcher.next());
        self.is_over = change.is_err();
        Some(change)
    }
}
