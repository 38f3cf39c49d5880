//! Curator's `DistributedIdQueue`, with its znodes.

use std::convert::Infallible;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, Create, CreateMode, ErrorCode, Expect, MultiOp, Names, ZPath};

use super::consume::{ErrorMode, consume};
use super::delivery::Delivery;
use super::error::QueueError;
use super::items::encode_items;
use super::layout::{Layout, id_of, id_stem, written_id};
use super::methods::{consumer_methods, curator_methods, option_methods};
use super::retries::answered;
use super::znodes::{Settings, Znodes, child};
use crate::client::Client;

/// A queue of items with ids, by which they can be removed before a consumer takes them. Several
/// items may have the same id. Otherwise it is a [`DistributedQueue`](crate::queue::DistributedQueue).
///
/// Its znodes are those of Curator's `DistributedIdQueue`. In an id, `/` and `|` are written as `_`,
/// as Curator does, so that ids which differ in nothing else are the same.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::DistributedIdQueue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queue = DistributedIdQueue::new(&client, "/mails")?;
/// queue.put("a mail", "order-7").await?;
/// assert_eq!(queue.remove("order-7").await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedIdQueue {
    znodes: Arc<Znodes>,
}

impl DistributedIdQueue {
    /// The queue of a path. Nothing is created before an item is put.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
        Ok(Self { znodes: Znodes::new(Settings::new(client, path, Layout::Id)?)? })
    }

    /// Puts an item with an id at the end of the queue.
    ///
    /// # Errors
    ///
    /// [`QueueError::EmptyId`]; else as [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    ///
    /// # Cancellation
    ///
    /// As of [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    pub async fn put(&self, item: impl Into<Bytes>, id: &str) -> Result<(), QueueError> {
        if id.is_empty() {
            return Err(QueueError::EmptyId(self.path().to_owned()));
        }
        self.znodes.put(vec![(id_stem(id), encode_items([item.into()])?)]).await
    }

    /// Removes the items with an id, and returns how many this call has removed. An item that is
    /// leased stays, as in Curator.
    ///
    /// # Errors
    ///
    /// The errors of requests. Items before the one that failed are removed.
    ///
    /// # Cancellation
    ///
    /// Some of the items may be removed.
    pub async fn remove(&self, id: &str) -> Result<usize, QueueError> {
        let (client, directory) = (self.znodes.client(), self.znodes.items());
        let names = answered(|| client.children(directory)).await?.unwrap_or(Names::EMPTY);
        let id = written_id(id);
        let mut removed = 0;
        for name in names.iter() {
            let has_id =
                Layout::Id.item(name).and_then(|item| id_of(item.stem)) == Some(id.as_str());
            if has_id && self.remove_item(name).await? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Removes an item, unless it is leased or another client was quicker.
    async fn remove_item(&self, name: &str) -> Result<bool, QueueError> {
        let delete = MultiOp::delete(self.znodes.item(name), Expect::Any);
        let ops = match &self.znodes.settings.leases {
            // The server refuses it if there is a lease.
            Some(leases) => {
                let lease = child(leases, name);
                let acl = self.znodes.acl(&lease);
                let create = Create::new(lease.as_str(), CreateMode::Ephemeral).acl(acl);
                vec![create.into(), delete, MultiOp::delete(lease, Expect::Any)]
            }
            None => vec![delete],
        };
        loop {
            match self.znodes.write(ops.clone()).await {
                Ok(()) => {
                    self.znodes.forget_listed(name);
                    return Ok(true);
                }
                Err(QueueError::Client(error)) if error.is(ErrorCode::NODE_EXISTS) => {
                    return Ok(false);
                }
                Err(QueueError::Client(error)) if error.is(ErrorCode::NO_NODE) => {
                    // The first operation needs the directory of the leases.
                    let is_of_lease =
                        self.znodes.settings.leases.is_some() && error.operation_index() == Some(0);
                    if !is_of_lease {
                        return Ok(false);
                    }
                    self.znodes.create_lease_directory().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

option_methods!(DistributedIdQueue);
consumer_methods!(DistributedIdQueue);
curator_methods!(DistributedIdQueue);
