//! A barrier that somebody puts up and takes down: Curator's `DistributedBarrier`, with its znode.

use std::time::Duration;

use zoolet_protocol::ErrorCode;

use crate::client::{self, Client, Parents, Watched};
use crate::error::LockError;

/// Something at which all who come wait until it is taken down.
///
/// Its znode is that of Curator's `DistributedBarrier` and of kazoo's `Barrier`: one that stays until
/// it is removed, whatever becomes of who set it. When it goes all who wait are woken at once; that
/// is what it is for.
///
/// ```no_run
/// use zoolet_recipes::DistributedBarrier;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let maintenance = DistributedBarrier::new(&client, "/maintenance")?;
/// maintenance.wait().await?; // returns at once if there is none
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedBarrier {
    client: Client,
    path: String,
}

impl DistributedBarrier {
    /// The barrier of a path. Nothing is created before it is set.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        zoolet_protocol::ZPath::check(path).map_err(client::Error::from)?;
        Ok(Self { client: client.clone(), path: path.to_owned() })
    }

    /// Puts it up; one that is up stays so.
    ///
    /// # Errors
    ///
    /// What may go wrong with a create. After [`Error::ConnectionLoss`](client::Error::ConnectionLoss) it may be
    /// called again.
    pub async fn set(&self) -> Result<(), LockError> {
        match self.client.create(&self.path).parents(Parents::Containers).await {
            Err(error) if !error.is(ErrorCode::NODE_EXISTS) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Takes it down, which wakes all who wait; one that is down stays so.
    ///
    /// # Errors
    ///
    /// What may go wrong with a delete. After [`Error::ConnectionLoss`](client::Error::ConnectionLoss) it may be
    /// called again.
    pub async fn remove(&self) -> Result<(), LockError> {
        match self.client.delete(&self.path).await {
            Err(error) if !error.is(ErrorCode::NO_NODE) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Whether it is up.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn is_set(&self) -> Result<bool, LockError> {
        Ok(self.client.exists(&self.path).await?.is_some())
    }

    /// Waits until it is down. A session that is lost meanwhile does not end the wait.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    ///
    /// # Cancellation
    ///
    /// Safe: no watch is left.
    pub async fn wait(&self) -> Result<(), LockError> {
        loop {
            // A look at the data leaves no watch where there is no znode.
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

    /// As [`DistributedBarrier::wait`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`DistributedBarrier::wait`].
    pub async fn wait_within(&self, time: Duration) -> Result<(), LockError> {
        tokio::time::timeout(time, self.wait()).await.unwrap_or(Err(LockError::Over))
    }
}
