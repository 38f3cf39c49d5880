//! Waiting for an item, without a herd.
//!
//! A consumer that finds nothing enters the line of consumers. The first in line watches the queue;
//! each of the others watches the znode ahead. So a new item wakes one consumer. It leaves the line
//! when it has an item, and the next one lists the queue.
//!
//! Consumers of other libraries are not in the line, and watch the queue each by itself.

use std::sync::Arc;
use std::time::Duration;

use super::delivery::Delivery;
use super::error::QueueError;
use super::in_line::{InLine, Waited};
use super::limits::RECHECK_AFTER;
use super::listing::Watches;
use super::retries::pause_before_next;
use super::znodes::Znodes;
use crate::client::{Error, Watcher};

impl Znodes {
    /// Takes an item, and waits for one if there is none.
    pub(crate) async fn next(self: &Arc<Self>) -> Result<Delivery, QueueError> {
        loop {
            if let Some(delivery) = self.try_take().await? {
                return Ok(delivery);
            }
            // Without a delivery the place was lost, with its session as a rule.
            if let Some(delivery) = self.stand_in_line().await? {
                return Ok(delivery);
            }
        }
    }

    /// Enters the line and waits for an item. Returns `None` if the place is lost.
    async fn stand_in_line(self: &Arc<Self>) -> Result<Option<Delivery>, QueueError> {
        let mut in_line = InLine::enter(&self.consumers).await?;
        loop {
            match in_line.wait().await? {
                Waited::InFront => return self.take_in_front(&in_line).await,
                Waited::PlaceLost => return Ok(None),
                Waited::RecheckIsDue => {
                    if let Some(delivery) = self.try_take().await? {
                        return Ok(Some(delivery));
                    }
                }
            }
        }
    }

    /// Watches the queue from the place in front until an item is taken. Returns `None` if the place
    /// is lost.
    async fn take_in_front(
        self: &Arc<Self>,
        in_line: &InLine,
    ) -> Result<Option<Delivery>, QueueError> {
        loop {
            let now_ms = self.now_ms().await?;
            let watches = match self.list_with_watches(in_line.session(), now_ms).await {
                Ok(watches) => watches,
                Err(Error::SessionExpired) => return Ok(None),
                Err(error) => {
                    pause_before_next(error).await?;
                    continue;
                }
            };
            // Where another consumer is quicker, the watches report it.
            while let Some(candidate) = self.pop(now_ms) {
                if let Some(delivery) = self.take(candidate).await? {
                    return Ok(Some(delivery));
                }
            }
            match change(watches, now_ms).await {
                Ok(Heard::Change) => {}
                Ok(Heard::Nothing) => {
                    if !in_line.exists().await? {
                        return Ok(None);
                    }
                }
                Err(Error::SessionExpired) => return Ok(None),
                Err(error) => pause_before_next(error).await?,
            }
        }
    }
}

/// What a consumer in front has heard.
enum Heard {
    Change,
    /// The time has passed.
    Nothing,
}

/// Waits until one of the watches fires, or until it is time to list the queue all the same.
async fn change(watches: Watches, now_ms: i64) -> Result<Heard, Error> {
    let Watches { items, leases, next_due_ms } = watches;
    tokio::select! {
        biased;
        event = items => event.map(|_| Heard::Change),
        event = event_of(leases) => event.map(|()| Heard::Change),
        () = tokio::time::sleep(time_until(next_due_ms, now_ms)) => Ok(Heard::Nothing),
    }
}

/// How long to wait if nothing changes.
fn time_until(due_ms: Option<i64>, now_ms: i64) -> Duration {
    let left = due_ms.map(|due_ms| due_ms.saturating_sub(now_ms).max(1));
    let left = left.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    left.map_or(RECHECK_AFTER, |left| left.min(RECHECK_AFTER))
}

async fn event_of(watcher: Option<Watcher>) -> Result<(), Error> {
    match watcher {
        Some(watcher) => watcher.await.map(drop),
        None => std::future::pending().await,
    }
}
