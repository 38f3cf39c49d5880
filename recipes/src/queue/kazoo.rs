//! The queues of kazoo, with their znodes.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, ZPath};

use super::delivery::Delivery;
use super::error::QueueError;
use super::layout::{Layout, kazoo_stem};
use super::methods::{consumer_methods, option_methods, refresh_method};
use super::znodes::{Settings, Znodes, child};
use crate::client::Client;

/// The priority of an item without one.
const PRIORITY: u16 = 100;

/// The greatest priority: it has three digits.
const PRIORITY_MAX: u16 = 999;

/// A queue of bytes with priorities, each item delivered **at most once**.
///
/// Its znodes are those of kazoo's `Queue`. Kazoo takes every child of the znode for an item, so
/// nothing else may be there.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::KazooQueue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queue = KazooQueue::new(&client, "/queue")?;
/// queue.put("a job").await?;
/// queue.put_with_priority("first", 1).await?;
/// assert_eq!(queue.take().await?.data(), "first");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KazooQueue {
    znodes: Arc<Znodes>,
}

impl KazooQueue {
    /// The queue of a path. Nothing is created before an item is put.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
        Ok(Self { znodes: Znodes::new(Settings::new(client, path, Layout::Kazoo)?)? })
    }
}

/// A queue of bytes with priorities, each item delivered **at least once**: see [`Delivery`].
///
/// Its znodes are those of kazoo's `LockingQueue`. What kazoo calls `consume` is [`Delivery::done`].
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::KazooLockingQueue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queue = KazooLockingQueue::new(&client, "/queue")?;
/// queue.put_all(["one", "two"], 100).await?;
/// let delivery = queue.take().await?;
/// assert_eq!(delivery.data(), "one");
/// delivery.done().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KazooLockingQueue {
    znodes: Arc<Znodes>,
}

impl KazooLockingQueue {
    /// The queue of a path. Nothing is created before an item is put.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
        let mut settings = Settings::new(client, path, Layout::Kazoo)?;
        settings.items = child(path, "entries").into();
        settings.leases = Some(child(path, "taken").into());
        Ok(Self { znodes: Znodes::new(settings)? })
    }

    /// Puts several items with a priority, all or none.
    ///
    /// # Errors
    ///
    /// As [`KazooLockingQueue::put_with_priority`].
    ///
    /// # Cancellation
    ///
    /// As of [`KazooLockingQueue::put`].
    pub async fn put_all(
        &self,
        items: impl IntoIterator<Item = impl Into<Bytes>>,
        priority: u16,
    ) -> Result<(), QueueError> {
        put(&self.znodes, items, priority).await
    }
}

macro_rules! put_methods {
    ($queue:ident) => {
        impl $queue {
            /// Puts an item with kazoo's default priority, 100. It is put once, also if answers are
            /// lost.
            ///
            /// # Errors
            ///
            /// [`QueueError::NotCarriedOut`] if the connection is lost each time the item is sent, as
            /// where it is too long; [`QueueError::Unknown`] if someone has deleted the receipt; the
            /// errors of a write.
            ///
            /// # Cancellation
            ///
            /// The item is put, in the background if need be.
            pub async fn put(&self, item: impl Into<Bytes>) -> Result<(), QueueError> {
                put(&self.znodes, [item], PRIORITY).await
            }

            /// As `put`, with a priority between 0 and 999, the least first.
            ///
            /// # Errors
            ///
            /// [`QueueError::Priority`]; else as `put`.
            ///
            /// # Cancellation
            ///
            /// As of `put`.
            pub async fn put_with_priority(
                &self,
                item: impl Into<Bytes>,
                priority: u16,
            ) -> Result<(), QueueError> {
                put(&self.znodes, [item], priority).await
            }
        }
    };
}

/// Puts items with a priority, all or none.
async fn put(
    znodes: &Arc<Znodes>,
    items: impl IntoIterator<Item = impl Into<Bytes>>,
    priority: u16,
) -> Result<(), QueueError> {
    if priority > PRIORITY_MAX {
        let path = znodes.path().to_owned();
        return Err(QueueError::Priority { path, priority, max: PRIORITY_MAX });
    }
    let items = items.into_iter().map(|item| (kazoo_stem(priority), item.into())).collect();
    znodes.put(items).await
}

option_methods!(KazooQueue);
consumer_methods!(KazooQueue);
refresh_method!(KazooQueue);
put_methods!(KazooQueue);

option_methods!(KazooLockingQueue);
consumer_methods!(KazooLockingQueue);
refresh_method!(KazooLockingQueue);
put_methods!(KazooLockingQueue);
