//! An item that a consumer has received.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{ErrorCode, Expect, MultiOp, Zxid};

use super::error::{QueueError, within};
use super::items::{ItemError, decode_items};
use super::lease::Lease;
use super::taken_item::TakenItem;
use crate::client::Error;
use crate::lock::state::LockState;

/// An item that a consumer has received.
///
/// **At most once**: without leases the item is not in the queue any more, and a consumer that
/// crashes has lost it. [`Delivery::done`] does nothing, and dropping a delivery too.
///
/// **At least once**: with leases the item is in the queue until [`Delivery::done`]. Until then it is
/// leased: an ephemeral znode of the consumer's session keeps others from it. When the delivery is
/// dropped, [`Delivery::release`] is called or the session ends, the item is delivered again, to
/// whoever is the next. So a consumer that is slow, or cut off, may work on an item that another one
/// has received: [`Delivery::lost`] and [`Delivery::run`] tell it, as those of a lock's
/// [`Guard`](crate::Guard) do, and the znodes that it changes with [`Delivery::done_with`] are changed
/// once.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::DistributedQueue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queue = DistributedQueue::new(&client, "/jobs")?.with_lock_path("/job-locks")?;
/// let delivery = queue.take().await?;
/// for item in delivery.items()? {
///     println!("{} bytes", item.len());
/// }
/// delivery.done().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a leased item that is dropped is delivered again, and any other is gone"]
pub struct Delivery(TakenItem);

impl Delivery {
    pub(crate) fn new(mut taken: TakenItem) -> Self {
        taken.is_delivered = true;
        taken.in_background = None;
        Self(taken)
    }

    /// The data of the item's znode.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.0.data
    }

    /// The items in the data, as Curator's queues write them: one, or several that were put
    /// together.
    ///
    /// # Errors
    ///
    /// If something else than a queue of Curator's layout has written the znode. Curator deletes such
    /// a znode; here it is up to the consumer, which calls [`Delivery::done`] to delete it.
    pub fn items(&self) -> Result<Vec<Bytes>, ItemError> {
        decode_items(&self.0.data)
    }

    /// The path of the item's znode.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.znodes.item(&self.0.name)
    }

    /// The znode of the lease, if the item is leased.
    #[must_use]
    pub fn lease_path(&self) -> Option<&str> {
        self.0.lease.as_ref().map(Lease::path)
    }

    /// The fencing token of a leased item: the zxid of the transaction that created the lease. It is
    /// greater than those of all earlier deliveries of this item. Without a lease it is the zxid of
    /// the transaction that deleted the item, or 0 if the answer to that was lost.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.0.token
    }

    /// Whether the item is still this consumer's, as far as is known without a request. An item
    /// without a lease is its for good.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.0.lease.as_ref().map_or(LockState::Held, Lease::state)
    }

    /// Waits until the lease is not [`Held`](LockState::Held) any more: another consumer may receive
    /// the item. Without a lease this waits for ever.
    ///
    /// The end of a lease whose session goes on, because someone has deleted its znode, is noticed
    /// within a third of the session timeout.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        match &self.0.lease {
            Some(lease) => lease.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Runs `future` while the item is this consumer's. As soon as [`Delivery::lost`] would return,
    /// `future` is dropped, so that it stops at its current `await`.
    ///
    /// # Errors
    ///
    /// [`QueueError::Lost`] if the future was stopped: another consumer may receive the item.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, QueueError> {
        tokio::select! {
            biased;
            () = self.lost() => Err(QueueError::Lost(self.path())),
            output = future => Ok(output),
        }
    }

    /// Deletes a leased item and its lease. Without a lease this does nothing.
    ///
    /// Without a connection this waits for one, or until the session must have ended.
    ///
    /// # Errors
    ///
    /// [`QueueError::Lost`] if the lease ended before: the item is or was delivered again, and this ends
    /// neither the item nor the lease of another consumer.
    /// [`QueueError::Unknown`] if the session ended before the answer came: the item is deleted, or
    /// delivered again. The errors of a write, after which the item is delivered again.
    ///
    /// # Cancellation
    ///
    /// The item is deleted, or delivered again.
    pub async fn done(self) -> Result<(), QueueError> {
        self.done_with(Vec::new()).await
    }

    /// As [`Delivery::done`], within a time limit.
    ///
    /// # Errors
    ///
    /// [`QueueError::TimedOut`] when the time has passed; else as [`Delivery::done`].
    pub async fn done_within(self, time: Duration) -> Result<(), QueueError> {
        let path = self.path();
        within(time, &path, pin!(self.done())).await
    }

    /// As [`Delivery::done`], together with other writes, all or none: their effects are made once,
    /// however often the item is delivered. Without a lease the writes are carried out once.
    ///
    /// # Errors
    ///
    /// As [`Delivery::done`]. The refusal of an operation: the item is delivered again, unless it had
    /// no lease.
    ///
    /// # Cancellation
    ///
    /// All is done, or the item is delivered again. Without a lease the writes are carried out or
    /// not.
    pub async fn done_with(mut self, ops: Vec<MultiOp>) -> Result<(), QueueError> {
        let path = self.path();
        let Some(lease) = self.0.lease.take() else {
            if ops.is_empty() {
                return Ok(());
            }
            return self.0.znodes.write(ops).await;
        };
        let mut all = vec![MultiOp::delete(path.as_str(), Expect::Any)];
        all.extend(ops);
        let ended = lease.end_with(&path, all).await;
        if ended.is_err() {
            self.0.znodes.list_again(&self.0.name);
        }
        ended.map_err(|error| of_item(error, path))
    }

    /// Puts the item behind all others of its priority or time, with the same id, and ends the lease:
    /// one transaction, so that the item is never twice in the queue. Without a lease the item is put
    /// into the queue again.
    ///
    /// # Errors
    ///
    /// As [`Delivery::done`].
    ///
    /// # Cancellation
    ///
    /// As of [`Delivery::done_with`]. Without a lease the item is put, in the background if need be.
    pub async fn requeue(self) -> Result<(), QueueError> {
        let TakenItem { znodes, name, data, .. } = &self.0;
        let Some(item) = znodes.settings.layout.item(name) else {
            unreachable!("{name} was delivered because it is an item")
        };
        let items = vec![(item.stem.to_owned(), data.clone())];
        if self.0.lease.is_none() {
            return znodes.put_now(items, None).await;
        }
        let creates = znodes.creates(items);
        self.done_with(creates).await
    }

    /// Ends the lease, so that the item is delivered again, in its place before all later ones, and
    /// returns when the lease has ended. Without a lease this does nothing.
    ///
    /// # Errors
    ///
    /// [`QueueError::Lost`] if the lease ended before; the errors of a deletion.
    ///
    /// # Cancellation
    ///
    /// Safe: the lease ends in the background.
    pub async fn release(mut self) -> Result<(), QueueError> {
        let Some(lease) = self.0.lease.take() else { return Ok(()) };
        let released = lease.release().await;
        self.0.znodes.list_again(&self.0.name);
        released
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("path", &self.path())
            .field("lease", &self.lease_path())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// The error of a multi that deletes an item: without the index of that operation.
fn of_item(error: QueueError, item: String) -> QueueError {
    match error {
        QueueError::Client(Error::Refused { code: ErrorCode::NO_NODE, index: Some(0), .. }) => {
            QueueError::Lost(item)
        }
        QueueError::Client(Error::Refused { op, path, code, index }) => {
            let index = index.and_then(|index| index.checked_sub(1));
            Error::Refused { op, path, code, index }.into()
        }
        error => error,
    }
}
