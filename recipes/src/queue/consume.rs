//! The loop of a consumer that is a function.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;

use super::delivery::Delivery;
use super::error::QueueError;
use super::znodes::Znodes;

/// What happens to a leased item when the function that handles it fails (`ErrorMode` of Curator).
///
/// ```
/// use zoolet_recipes::queue::ErrorMode;
///
/// assert_ne!(ErrorMode::Requeue, ErrorMode::Delete);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorMode {
    /// It is put behind the others, and delivered again. Items that were put together stay together:
    /// those before the one that failed are delivered again too.
    Requeue,
    /// It is deleted.
    Delete,
}

/// Calls a function with each item of a queue.
pub(crate) async fn consume<F, Handling, E>(
    znodes: &Arc<Znodes>,
    on_error: ErrorMode,
    mut handle: F,
) -> Result<Infallible, QueueError>
where
    F: FnMut(Bytes) -> Handling,
    Handling: Future<Output = Result<(), E>>,
    E: Display,
{
    loop {
        let delivery = match znodes.next().await {
            Ok(delivery) => delivery,
            Err(error) if error.is_of_item() || is_not_carried_out(&error) => {
                tracing::warn!("an item is not taken: {error}");
                continue;
            }
            Err(error) => return Err(error),
        };
        let path = delivery.path();
        let handled = delivery.run(handle_all(&delivery, on_error, &mut handle)).await;
        let ended = match handled {
            Ok(true) => delivery.done().await,
            Ok(false) => delivery.requeue().await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => {}
            Err(error @ (QueueError::Lost(_) | QueueError::Unknown(_))) => {
                tracing::warn!("{path}: the item may be delivered again: {error}");
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_not_carried_out(error: &QueueError) -> bool {
    matches!(error, QueueError::NotCarriedOut { .. })
}

/// Calls a function with each item of a znode. Returns whether the znode is to be deleted.
async fn handle_all<F, Handling, E>(
    delivery: &Delivery,
    on_error: ErrorMode,
    handle: &mut F,
) -> bool
where
    F: FnMut(Bytes) -> Handling,
    Handling: Future<Output = Result<(), E>>,
    E: Display,
{
    let items = match delivery.items() {
        Ok(items) => items,
        Err(error) => {
            tracing::error!("{}: deletes data that are no items: {error}", delivery.path());
            return true;
        }
    };
    for item in items {
        if let Err(error) = handle(item).await {
            tracing::error!("{}: the consumer failed: {error}", delivery.path());
            if on_error == ErrorMode::Requeue && delivery.lease_path().is_some() {
                return false;
            }
        }
    }
    true
}
