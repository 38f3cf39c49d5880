//! Curator's `DistributedDelayQueue`, with its znodes.

use std::convert::Infallible;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use zoolet_protocol::{Acl, ZPath};

use super::consume::{ErrorMode, consume};
use super::delivery::Delivery;
use super::error::QueueError;
use super::items::encode_items;
use super::layout::{Layout, delay_stem};
use super::methods::{consumer_methods, curator_methods, option_methods, refresh_method};
use super::znodes::{Settings, Znodes};
use crate::client::Client;

/// A queue of items that are taken when their time has come, the earliest first. Otherwise it is a
/// [`DistributedQueue`](crate::queue::DistributedQueue).
///
/// Whether the time of an item has come is decided by the clock of the server, which all consumers
/// know from the answers to their writes. (Curator asks the clock of each consumer.) In an ensemble it
/// is the clock of the leader; a new leader may have another time.
///
/// Its znodes are those of Curator's `DistributedDelayQueue`. An item that Curator delivers again
/// loses its time, and is due at once; here it keeps it.
///
/// ```no_run
/// use std::time::Duration;
///
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::DistributedDelayQueue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queue = DistributedDelayQueue::new(&client, "/reminders")?;
/// queue.put_after("in a minute", Duration::from_secs(60)).await?;
/// assert!(queue.try_take().await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedDelayQueue {
    znodes: Arc<Znodes>,
}

impl DistributedDelayQueue {
    /// The queue of a path. Nothing is created before an item is put.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
        Ok(Self { znodes: Znodes::new(Settings::new(client, path, Layout::Delay)?)? })
    }

    /// Puts an item that is taken when the server's clock shows this time or a later one. It is
    /// rounded down to milliseconds.
    ///
    /// # Errors
    ///
    /// [`QueueError::Time`]; else as [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    ///
    /// # Cancellation
    ///
    /// As of [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    pub async fn put(&self, item: impl Into<Bytes>, due: SystemTime) -> Result<(), QueueError> {
        self.put_multi([item.into()], due).await
    }

    /// Puts several items in one znode, which is taken when their time has come: one consumer receives
    /// all of them.
    ///
    /// # Errors
    ///
    /// As [`DistributedDelayQueue::put`]; [`QueueError::Item`] if an item is too long.
    ///
    /// # Cancellation
    ///
    /// As of [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    pub async fn put_multi(
        &self,
        items: impl IntoIterator<Item = impl AsRef<[u8]>>,
        due: SystemTime,
    ) -> Result<(), QueueError> {
        let since_1970 = due.duration_since(SystemTime::UNIX_EPOCH).ok();
        let due_ms = since_1970.and_then(|time| i64::try_from(time.as_millis()).ok());
        let due_ms = due_ms.ok_or_else(|| QueueError::Time(self.path().to_owned()))?;
        self.put_at(encode_items(items)?, due_ms).await
    }

    /// Puts an item that is taken when this much time has passed on the server's clock. If the time
    /// of the server is not known yet, this costs a request more.
    ///
    /// # Errors
    ///
    /// As [`DistributedDelayQueue::put`].
    ///
    /// # Cancellation
    ///
    /// As of [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    pub async fn put_after(
        &self,
        item: impl Into<Bytes>,
        delay: Duration,
    ) -> Result<(), QueueError> {
        let now_ms = self.znodes.receipts.server_time_ms().await?;
        let delay_ms = i64::try_from(delay.as_millis()).ok();
        let due_ms = delay_ms.and_then(|delay_ms| now_ms.checked_add(delay_ms));
        let due_ms = due_ms.ok_or_else(|| QueueError::Time(self.path().to_owned()))?;
        self.put_at(encode_items([item.into()])?, due_ms).await
    }

    async fn put_at(&self, data: Bytes, due_ms: i64) -> Result<(), QueueError> {
        self.znodes.put(vec![(delay_stem(due_ms), data)]).await
    }
}

option_methods!(DistributedDelayQueue);
consumer_methods!(DistributedDelayQueue);
curator_methods!(DistributedDelayQueue);
refresh_method!(DistributedDelayQueue);
