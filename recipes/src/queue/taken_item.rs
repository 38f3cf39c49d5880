//! An item that this client has taken: deleted, or leased.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::Zxid;

use super::background::InBackground;
use super::error::QueueError;
use super::lease::Lease;
use super::znodes::Znodes;

/// What an attempt to take an item has come to; `None` if another consumer was quicker.
pub(crate) type Attempt = Result<Option<TakenItem>, QueueError>;

/// An item that was taken. Its lease ends when it is dropped. An item without a lease is put back if
/// nobody received it, because the future that waited for it was dropped.
pub(crate) struct TakenItem {
    pub(crate) znodes: Arc<Znodes>,
    pub(crate) name: String,
    pub(crate) data: Bytes,
    /// The zxid of the transaction that made the item this client's.
    pub(crate) token: Zxid,
    /// `None` for an item that is deleted.
    pub(crate) lease: Option<Lease>,
    pub(crate) is_delivered: bool,
    /// Until the item is delivered, or put back.
    pub(crate) in_background: Option<InBackground>,
}

impl Drop for TakenItem {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            drop(lease);
            self.znodes.list_again(&self.name);
            return;
        }
        if self.is_delivered {
            return;
        }
        let Some(item) = self.znodes.settings.layout.item(&self.name) else { return };
        let (znodes, data) = (Arc::clone(&self.znodes), self.data.clone());
        let (name, stem) = (self.name.clone(), item.stem.to_owned());
        let background = self.in_background.take();
        self.znodes.client().spawn(async move {
            let _background = background;
            if let Err(error) = znodes.create_items(vec![(stem, data)]).await {
                tracing::error!("{}: cannot put {name} back: {error}", znodes.path());
            }
        });
    }
}

/// Without the data, which are the user's.
impl fmt::Debug for TakenItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakenItem")
            .field("path", &self.znodes.item(&self.name))
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
