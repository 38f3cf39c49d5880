//! Putting items.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Acl, Create, CreateMode, ErrorCode, MultiOp};

use super::background::InBackground;
use super::error::{QueueError, joined};
use super::in_line::{InLine, Waited};
use super::limits::DIRECTORY_ATTEMPTS_MAX;
use super::listing::children_with_watch;
use super::retries::{answered, pause_before_next};
use super::znodes::Znodes;
use crate::client::{Client, Error, Parents};
use crate::defaults::with_acl;

impl Znodes {
    /// Puts items, all or none, each with a name without its number and data. While the queue is full
    /// this waits.
    pub(crate) async fn put(
        self: &Arc<Self>,
        items: Vec<(String, Bytes)>,
    ) -> Result<(), QueueError> {
        // The place is kept until the items are there, so that the next producer counts them.
        let in_line = match self.settings.max_items {
            Some(max) => self.wait_for_room(max).await?,
            None => None,
        };
        self.put_now(items, in_line).await
    }

    /// As [`Znodes::put`], also into a queue that is full. It goes on when nobody waits for it any more.
    pub(crate) async fn put_now(
        self: &Arc<Self>,
        items: Vec<(String, Bytes)>,
        in_line: Option<InLine>,
    ) -> Result<(), QueueError> {
        let (znodes, background) = (Arc::clone(self), InBackground::begin(self));
        let put = self.client().spawn(async move {
            let put = znodes.create_items(items).await;
            drop((in_line, background));
            put
        });
        joined(put.await)
    }

    /// Carries out writes once, all or none. It goes on when nobody waits for it any more.
    pub(crate) async fn write(self: &Arc<Self>, ops: Vec<MultiOp>) -> Result<(), QueueError> {
        let (znodes, background) = (Arc::clone(self), InBackground::begin(self));
        let write = self.client().spawn(async move {
            let _background = background;
            znodes.receipts.write(ops).await
        });
        joined(write.await).map(drop)
    }

    /// Creates items, all or none, and the directory if it is missing.
    pub(crate) async fn create_items(&self, items: Vec<(String, Bytes)>) -> Result<(), QueueError> {
        let ops = self.creates(items);
        let mut attempts = 0;
        loop {
            match self.receipts.write(ops.clone()).await {
                Ok(_) => return Ok(()),
                Err(QueueError::Client(error))
                    if error.is(ErrorCode::NO_NODE) && attempts < DIRECTORY_ATTEMPTS_MAX =>
                {
                    attempts += 1;
                    self.create_directory().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The operations of a multi that create items.
    pub(crate) fn creates(&self, items: Vec<(String, Bytes)>) -> Vec<MultiOp> {
        let create = |(stem, data): (String, Bytes)| {
            let path = self.item(&stem);
            let acl = self.acl(&path);
            let create = Create::new(path, CreateMode::PersistentSequential);
            MultiOp::from(create.data(data).acl(acl))
        };
        items.into_iter().map(create).collect()
    }

    /// Creates the directory of the items and its ancestors where they are missing.
    async fn create_directory(&self) -> Result<(), QueueError> {
        create_directory(self.client(), self.items(), self.settings.acl.as_deref()).await
    }

    /// Creates the directory of the leases, if items are leased.
    pub(crate) async fn create_lease_directory(&self) -> Result<(), QueueError> {
        match &self.settings.leases {
            Some(leases) => {
                create_directory(self.client(), leases, self.settings.acl.as_deref()).await
            }
            None => Ok(()),
        }
    }

    /// How many children the directory of the items has.
    pub(crate) async fn count(&self) -> Result<usize, QueueError> {
        let stat = answered(|| self.client().exists(self.items())).await?.flatten();
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    /// Waits until the queue has fewer items than `max`. Returns the place in line, if it waited.
    async fn wait_for_room(&self, max: NonZeroUsize) -> Result<Option<InLine>, QueueError> {
        loop {
            if self.count().await? < max.get() {
                return Ok(None);
            }
            if let Some(in_line) = self.stand_in_line_for_room(max).await? {
                return Ok(Some(in_line));
            }
        }
    }

    /// Waits in the line of producers. The first of them watches the queue. Returns `None` if the
    /// place is lost.
    async fn stand_in_line_for_room(
        &self,
        max: NonZeroUsize,
    ) -> Result<Option<InLine>, QueueError> {
        let mut in_line = InLine::enter(&self.producers).await?;
        loop {
            match in_line.wait().await? {
                Waited::InFront => break,
                Waited::PlaceLost => return Ok(None),
                Waited::RecheckIsDue => {
                    if self.count().await? < max.get() {
                        return Ok(Some(in_line));
                    }
                }
            }
        }
        loop {
            let heard = match children_with_watch(in_line.session(), self.items()).await {
                Ok((names, watcher)) => {
                    if names.map_or(0, |names| names.len()) < max.get() {
                        return Ok(Some(in_line));
                    }
                    watcher.await.map(drop)
                }
                Err(error) => Err(error),
            };
            match heard {
                Ok(()) => {}
                Err(Error::SessionExpired) => return Ok(None),
                Err(error) => pause_before_next(error).await?,
            }
        }
    }
}

/// Creates a directory, unless it exists, and its ancestors where they are missing.
///
/// The ancestors are containers and the directory is none, as in Curator, whose clients create the
/// directory once and rely on it afterwards. The numbers of a directory that the server deletes begin
/// again at 0, so that a new item may have the name of an old one.
pub(crate) async fn create_directory(
    client: &Client,
    path: &str,
    acl: Option<&[Acl]>,
) -> Result<(), QueueError> {
    loop {
        let create = with_acl(client.create(path), acl);
        match create.parents(Parents::Containers).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => return Ok(()),
            Err(error) => pause_before_next(error).await?,
        }
    }
}
