//! Curator's `DistributedQueue`, with its znodes.

use std::convert::Infallible;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, ZPath};

use super::consume::{ErrorMode, consume};
use super::delivery::Delivery;
use super::error::{QueueError, within};
use super::items::encode_items;
use super::layout::{Layout, plain_stem};
use super::methods::{consumer_methods, curator_methods, option_methods};
use super::znodes::{Settings, Znodes};
use crate::client::Client;

/// A queue whose items are delivered **at most once**, or **at least once** with
/// [`DistributedQueue::with_lock_path`]: see [`Delivery`].
///
/// Its znodes are those of Curator's `DistributedQueue`, and with
/// [`DistributedQueue::with_max_items`] of its bounded queue. Clones are cheap, share what they know
/// of the queue, and may be used by several tasks.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::DistributedQueue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queue = DistributedQueue::new(&client, "/jobs")?.with_lock_path("/job-locks")?;
/// queue.put("a job").await?;
/// let delivery = queue.take().await?;
/// assert_eq!(delivery.items()?, ["a job"]);
/// delivery.done().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedQueue {
    znodes: Arc<Znodes>,
}

impl DistributedQueue {
    /// The queue of a path. Nothing is created before an item is put.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
        Ok(Self { znodes: Znodes::new(Settings::new(client, path, Layout::Plain)?)? })
    }

    /// Puts an item at the end of the queue. It is put once, also if answers are lost. While the
    /// queue has as many items as it may have, this waits.
    ///
    /// # Errors
    ///
    /// [`QueueError::NotCarriedOut`] if the connection is lost each time the item is sent, as where it
    /// is too long; [`QueueError::Unknown`] if someone has deleted the receipt; the errors of a write.
    ///
    /// # Cancellation
    ///
    /// While it waits for room, nothing is put. After that the item is put, in the background if need
    /// be.
    pub async fn put(&self, item: impl Into<Bytes>) -> Result<(), QueueError> {
        self.put_multi([item.into()]).await
    }

    /// As [`DistributedQueue::put`], within a time limit.
    ///
    /// # Errors
    ///
    /// [`QueueError::TimedOut`] when the time has passed: the item is not put if the queue was full,
    /// and may be put otherwise. Else as [`DistributedQueue::put`].
    pub async fn put_within(
        &self,
        time: Duration,
        item: impl Into<Bytes>,
    ) -> Result<(), QueueError> {
        within(time, self.path(), pin!(self.put(item))).await
    }

    /// Puts several items in one znode: one consumer receives all of them.
    ///
    /// # Errors
    ///
    /// As [`DistributedQueue::put`]; [`QueueError::Item`] if an item is too long.
    ///
    /// # Cancellation
    ///
    /// As of [`DistributedQueue::put`].
    pub async fn put_multi(
        &self,
        items: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<(), QueueError> {
        self.znodes.put(vec![(plain_stem().to_owned(), encode_items(items)?)]).await
    }
}

option_methods!(DistributedQueue);
consumer_methods!(DistributedQueue);
curator_methods!(DistributedQueue);
