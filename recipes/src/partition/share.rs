//! The items that a client has of a set, each by a lock.

use std::pin::Pin;
use std::task::Poll;

use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::Zxid;

use super::error::PartitionError;
use crate::client::recipe::Publisher;
use crate::client::{Client, Subscription, Watcher};
use crate::error::LockError;
use crate::lock::guard::Guard;
use crate::lock::state::LockState;

/// The items that a client has, until they are released. Dropping a share releases them in the
/// background.
///
/// When the members of the party change, the set is to be shared out anew: release the share soon,
/// and acquire the next. The items stay this client's until then, and others wait for them.
///
/// ```no_run
/// # async fn example(share: zoolet_recipes::Share) -> Result<(), zoolet_recipes::PartitionError> {
/// tokio::select! {
///     biased; // the end of a session is both, and a lost share cannot be released
///     () = share.lost() => println!("others may have the items"),
///     () = share.change_requested() => share.release().await?, // others wait for items
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the items are released when the share is dropped"]
pub struct Share {
    /// In the order of the items.
    items: Vec<(String, Guard)>,
    is_change_requested: Subscription<bool>,
    _listener: AbortOnDropHandle<()>,
}

impl Share {
    /// The share of a client that holds these locks. `changes` fires when the party changes.
    pub(super) fn new(client: &Client, items: Vec<(String, Guard)>, changes: Watcher) -> Self {
        let sender = Publisher::new(false);
        let is_change_requested = sender.subscribe();
        let listening = async move {
            // The end of the session changes the party too.
            let _ = changes.await;
            sender.send_replace(true);
        };
        let listener = AbortOnDropHandle::new(client.spawn(listening));
        Self { items, is_change_requested, _listener: listener }
    }

    /// The items, in the order in which the set is shared out.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &str> {
        self.items.iter().map(|(item, _)| item.as_str())
    }

    /// The fencing token of an item, which is greater than those of all clients that had the item
    /// before; `None` if this is no item of the share.
    #[must_use]
    pub fn fencing_token(&self, item: &str) -> Option<Zxid> {
        let own = self.items.iter().find(|(name, _)| name == item);
        own.map(|(_, guard)| guard.fencing_token())
    }

    /// Whether all items are this client's, as far as is known without a request: the worst state of
    /// their locks.
    #[must_use]
    pub fn state(&self) -> LockState {
        let states = self.items.iter().map(|(_, guard)| guard.state());
        states.max().unwrap_or(LockState::Held)
    }

    /// Waits until one of the items is not certainly this client's any more: see
    /// [`Guard::lost`]. A share without items is never lost.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        let mut losses: Vec<_> =
            self.items.iter().map(|(_, guard)| Box::pin(guard.lost())).collect();
        std::future::poll_fn(|context| {
            let is_lost = losses.iter_mut().any(|lost| lost.as_mut().poll(context).is_ready());
            if is_lost { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether the members of the party have changed since the set was shared out.
    #[must_use]
    pub fn is_change_requested(&self) -> bool {
        *self.is_change_requested.borrow()
    }

    /// Waits until the members of the party change.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn change_requested(&self) {
        let mut changes = self.is_change_requested.clone();
        // Without a listener the client is closed, and the share lost.
        let _ = changes.wait_for(|is_requested| *is_requested).await;
    }

    /// Releases all items, and returns when other clients can have them.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], as [`PartitionError::Lock`], if items were lost before, with their
    /// znodes.
    ///
    /// # Cancellation
    ///
    /// Safe: the release goes on in the background.
    pub async fn release(self) -> Result<(), PartitionError> {
        let Self { items, .. } = self;
        // All requests are sent before the first answer is awaited.
        let releases = items.into_iter().map(|(_, guard)| guard.release()).collect();
        let errors: Vec<_> = all(releases).await.into_iter().filter_map(Result::err).collect();
        Ok(LockError::all(errors)?)
    }
}

/// Runs futures at the same time, and returns their results in their order.
pub(super) async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    enum Slot<F: Future> {
        Running(Pin<Box<F>>),
        Done(F::Output),
    }
    let mut slots: Vec<Slot<F>> =
        futures.into_iter().map(|it| Slot::Running(Box::pin(it))).collect();
    let finish = std::future::poll_fn(|context| {
        let mut are_done = true;
        for slot in &mut slots {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *slot = Slot::Done(output),
                    Poll::Pending => are_done = false,
                }
            }
        }
        if are_done { Poll::Ready(()) } else { Poll::Pending }
    });
    finish.await;
    let output = |slot: Slot<F>| match slot {
        Slot::Done(output) => output,
        Slot::Running(_) => unreachable!("all futures are done"),
    };
    slots.into_iter().map(output).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zoolet_client::recipe::now;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn futures_run_at_the_same_time_and_their_results_keep_their_order() {
        let start = now();
        let wait = |seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            seconds
        };
        assert_eq!(all([3, 1, 2].map(wait).into()).await, [3, 1, 2]);
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }
}
