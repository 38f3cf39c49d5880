//! A barrier that one client sets and removes: Curator's `DistributedBarrier`, with its znode.

use std::pin::pin;
use std::time::Duration;

use zoolet_protocol::{Acl, ErrorCode};

use crate::client::{self, Client, Parents, Watched};
use crate::defaults::with_acl;
use crate::error::{LockError, within};

/// A barrier at which all clients wait until it is removed.
///
/// Its znode is that of Curator's `DistributedBarrier` and of kazoo's `Barrier`: a persistent
/// znode, which stays until it is removed, also when the session of the client that set it ends.
/// Its deletion wakes all waiting clients at once.
///
/// ```no_run
/// use zoolet_recipes::DistributedBarrier;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let maintenance = DistributedBarrier::new(&client, "/maintenance")?;
/// maintenance.wait().await?; // returns at once if the barrier is not set
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedBarrier {
    client: Client,
    path: String,
    acl: Option<Vec<Acl>>,
}

impl DistributedBarrier {
    /// The barrier of a path. Nothing is created before it is set.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        zoolet_protocol::ZPath::check(path).map_err(client::Error::from)?;
        Ok(Self { client: client.clone(), path: path.to_owned(), acl: None })
    }

    /// The same barrier with this access control list for its znode and for the directories that
    /// are created for it. Without it each has the [default](zoolet_client::Client::default_acl) of
    /// its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets the barrier. If it is set already, nothing changes.
    ///
    /// # Errors
    ///
    /// The errors of a create. After [`Error::ConnectionLoss`](client::Error::ConnectionLoss) it may be
    /// called again.
    pub async fn set(&self) -> Result<(), LockError> {
        let data = self.client.default_data().unwrap_or_default();
        let create = with_acl(self.client.create(&self.path).data(data), self.acl.as_deref());
        match create.parents(Parents::Containers).await {
            Err(error) if !error.is(ErrorCode::NODE_EXISTS) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Removes the barrier, which wakes all waiting clients. If it is not set, nothing changes.
    ///
    /// # Errors
    ///
    /// The errors of a delete. After [`Error::ConnectionLoss`](client::Error::ConnectionLoss) it may be
    /// called again.
    pub async fn remove(&self) -> Result<(), LockError> {
        match self.client.delete(&self.path).await {
            Err(error) if !error.is(ErrorCode::NO_NODE) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Whether the barrier is set.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn is_set(&self) -> Result<bool, LockError> {
        Ok(self.client.exists(&self.path).await?.is_some())
    }

    /// Waits until the barrier is not set. When the session ends, the wait goes on in the next
    /// session.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    ///
    /// # Cancellation
    ///
    /// Safe: no watch is left.
    pub async fn wait(&self) -> Result<(), LockError> {
        loop {
            // Unlike `exists`, `get` leaves no watch if there is no znode.
            let Watched { watcher, .. } = match self.client.get(&self.path).and_watch().await {
                Ok(watched) => watched,
                Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(()),
                Err(client::Error::SessionExpired) => continue,
                Err(error) => return Err(error.into()),
            };
            match watcher.await {
                Ok(_) | Err(client::Error::SessionExpired) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// As [`DistributedBarrier::wait`], within a time limit for everything.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed; else as [`DistributedBarrier::wait`].
    pub async fn wait_within(&self, time: Duration) -> Result<(), LockError> {
        within(time, &self.path, pin!(self.wait())).await
    }
}
