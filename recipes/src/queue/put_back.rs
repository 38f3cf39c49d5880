//! Whether an item can be put back that nobody received.
//!
//! An item that is taken without a lease is deleted first. If nobody waits for it any more, it is put
//! back by a write that is longer than the one by which another library may have put it: it has a
//! receipt. A server ends the connection at a write that is longer than its `jute.maxbuffer`. So before
//! a long item is deleted, the server is asked whether it takes such a write.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::error::QueueError;
use super::limits::ROOM_BYTES_MIN;
use super::receipts::ReservedReceipt;
use super::znodes::Znodes;

/// What is known of the length of the items that the server takes.
pub(crate) struct Room {
    /// The longest that it is known to take.
    known: AtomicUsize,
    /// The shortest that it is known to refuse.
    refused: AtomicUsize,
}

impl Default for Room {
    fn default() -> Self {
        let (known, refused) = (AtomicUsize::new(ROOM_BYTES_MIN), AtomicUsize::new(usize::MAX));
        Self { known, refused }
    }
}

impl Znodes {
    /// Whether the server takes the write that puts an item back. This asks it for a long item only, and
    /// once for all that are not longer.
    pub(crate) async fn can_put_back(
        &self,
        receipt: &ReservedReceipt<'_>,
        name: &str,
        data: &Bytes,
    ) -> Result<bool, QueueError> {
        let bytes = name.len() + data.len();
        if bytes <= self.room.known.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if bytes >= self.room.refused.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let Some(item) = self.settings.layout.item(name) else {
            unreachable!("{name} is tried because it is an item")
        };
        let creates = self.creates(vec![(item.stem.to_owned(), data.clone())]);
        let has_room = receipt.has_room(&creates).await?;
        if has_room {
            self.room.known.fetch_max(bytes, Ordering::Relaxed);
        } else {
            self.room.refused.fetch_min(bytes, Ordering::Relaxed);
        }
        Ok(has_room)
    }
}
