//! Curator's `DistributedPriorityQueue`, with its znodes.

use std::convert::Infallible;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, ZPath};

use super::consume::{ErrorMode, consume};
use super::delivery::Delivery;
use super::error::QueueError;
use super::items::encode_items;
use super::layout::{Layout, priority_stem};
use super::methods::{consumer_methods, curator_methods, option_methods, refresh_method};
use super::znodes::{Settings, Znodes};
use crate::client::Client;

/// A queue of items with priorities: the least number is taken first. Otherwise it is a
/// [`DistributedQueue`](crate::queue::DistributedQueue).
///
/// A consumer lists the whole queue before each item, since a new item may be in front: see
/// [`DistributedPriorityQueue::with_refresh_after`].
///
/// Its znodes are those of Curator's `DistributedPriorityQueue`. An item that Curator delivers again
/// loses its priority, and is taken first; here it keeps it.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::DistributedPriorityQueue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queue = DistributedPriorityQueue::new(&client, "/jobs")?;
/// queue.put("later", 10).await?;
/// queue.put("first", -1).await?;
/// assert_eq!(queue.take().await?.items()?, ["first"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedPriorityQueue {
    znodes: Arc<Znodes>,
}

impl DistributedPriorityQueue {
    /// The queue of a path. Nothing is created before an item is put.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
        Ok(Self { znodes: Znodes::new(Settings::new(client, path, Layout::Priority)?)? })
    }

    /// Puts an item with a priority, behind those that have the same.
    ///
    /// # Errors
    ///
    /// As [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    ///
    /// # Cancellation
    ///
    /// As of [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    pub async fn put(&self, item: impl Into<Bytes>, priority: i32) -> Result<(), QueueError> {
        self.put_multi([item.into()], priority).await
    }

    /// Puts several items with a priority in one znode: one consumer receives all of them.
    ///
    /// # Errors
    ///
    /// As [`DistributedQueue::put_multi`](crate::queue::DistributedQueue::put_multi).
    ///
    /// # Cancellation
    ///
    /// As of [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    pub async fn put_multi(
        &self,
        items: impl IntoIterator<Item = impl AsRef<[u8]>>,
        priority: i32,
    ) -> Result<(), QueueError> {
        self.znodes.put(vec![(priority_stem(priority), encode_items(items)?)]).await
    }
}

option_methods!(DistributedPriorityQueue);
consumer_methods!(DistributedPriorityQueue);
curator_methods!(DistributedPriorityQueue);
refresh_method!(DistributedPriorityQueue);
