//! Curator's `SimpleDistributedQueue`, whose znodes are those of ZooKeeper's own queue.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, ZPath};

use super::error::QueueError;
use super::layout::{Layout, simple_stem};
use super::methods::option_methods;
use super::retries::answered;
use super::znodes::{Settings, Znodes};
use crate::client::Client;

/// A queue of bytes, each item delivered **at most once**: it is deleted before its consumer has it,
/// and lost if the consumer crashes then.
///
/// Its znodes are those of ZooKeeper's own queue recipe and of Curator's `SimpleDistributedQueue`.
/// Clones are cheap, share what they know of the queue, and may be used by several tasks.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::SimpleDistributedQueue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queue = SimpleDistributedQueue::new(&client, "/queue")?;
/// queue.offer("a job").await?;
/// assert_eq!(queue.take().await?, "a job");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SimpleDistributedQueue {
    znodes: Arc<Znodes>,
}

impl SimpleDistributedQueue {
    /// The queue of a path. Nothing is created before an item is put.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
        Ok(Self { znodes: Znodes::new(Settings::new(client, path, Layout::Simple)?)? })
    }

    /// Puts an item at the end of the queue. It is put once, also if answers are lost.
    ///
    /// # Errors
    ///
    /// [`QueueError::NotCarriedOut`] if the connection is lost each time the item is sent, as where it
    /// is too long; [`QueueError::Unknown`] if someone has deleted the receipt; the errors of a write.
    ///
    /// # Cancellation
    ///
    /// The item is put, in the background if need be.
    pub async fn offer(&self, item: impl Into<Bytes>) -> Result<(), QueueError> {
        self.znodes.put(vec![(simple_stem().to_owned(), item.into())]).await
    }

    /// The first item, which stays in the queue; `None` if there is none. Another consumer may take
    /// it at any time.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub async fn peek(&self) -> Result<Option<Bytes>, QueueError> {
        let (client, directory) = (self.znodes.client(), self.znodes.items());
        let Some(names) = answered(|| client.children(directory)).await? else { return Ok(None) };
        let order = |name: &str| Some(Layout::Simple.item(name)?.order);
        let mut items: Vec<_> =
            names.iter().filter_map(|name| Some((order(name)?, name))).collect();
        items.sort_unstable();
        for (_, name) in items {
            // Otherwise another consumer has taken it.
            if let Some((data, _)) = answered(|| client.get(&self.znodes.item(name))).await? {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Takes the first item, if there is one.
    ///
    /// # Errors
    ///
    /// As [`SimpleDistributedQueue::take`].
    ///
    /// # Cancellation
    ///
    /// As of [`SimpleDistributedQueue::take`].
    pub async fn poll(&self) -> Result<Option<Bytes>, QueueError> {
        Ok(self.znodes.try_take().await?.map(|delivery| delivery.data().clone()))
    }

    /// As [`SimpleDistributedQueue::take`], within a time limit for everything; `None` when it has
    /// passed.
    ///
    /// # Errors
    ///
    /// As [`SimpleDistributedQueue::take`].
    ///
    /// # Cancellation
    ///
    /// As of [`SimpleDistributedQueue::take`].
    pub async fn poll_within(&self, time: Duration) -> Result<Option<Bytes>, QueueError> {
        tokio::time::timeout(time, self.take()).await.ok().transpose()
    }

    /// Takes the first item, and waits for one if there is none. The [module](crate::queue) says in
    /// which order consumers get items, and how they wait. Without a connection this waits for one.
    ///
    /// # Errors
    ///
    /// The errors of requests. [`QueueError::Unknown`] if someone has deleted the receipt of a
    /// deletion whose answer was lost: the item may be lost. [`QueueError::Unreadable`] and
    /// [`QueueError::NoWayBack`] are about one item, which stays in the queue: the next call goes on
    /// with the others.
    ///
    /// # Cancellation
    ///
    /// Safe: an item that was taken is put back at the end of the queue. If the process ends or the
    /// client is closed before that, the item is lost: [`SimpleDistributedQueue::settled`] waits.
    pub async fn take(&self) -> Result<Bytes, QueueError> {
        Ok(self.znodes.next().await?.data().clone())
    }
}

option_methods!(SimpleDistributedQueue);
