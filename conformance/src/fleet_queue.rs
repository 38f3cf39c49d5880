//! The queues of fleets: numbers that members put and take.

use std::time::Duration;

use zoolet_client::Client;
use zoolet_recipes::queue::{
    Delivery, DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue,
    DistributedQueue, KazooLockingQueue, KazooQueue, QueueError,
};

/// How many ids, priorities and delays the members of a fleet use.
const IDS: i64 = 10;
const PRIORITIES: i64 = 5;
const DELAY_MS_MAX: u64 = 200;

/// Any result of a member.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A queue of one of the recipes `queue`, `leased-queue`, `id-queue`, `priority-queue`, `delay-queue`,
/// `kazoo-queue` and `kazoo-locking-queue`.
#[derive(Debug)]
pub enum AnyQueue {
    /// Of Curator, with or without leases.
    Curator(DistributedQueue),
    /// Of Curator, with ids and leases.
    Id(DistributedIdQueue),
    /// Of Curator, with priorities and leases.
    Priority(DistributedPriorityQueue),
    /// Of Curator, with times and leases.
    Delay(DistributedDelayQueue),
    /// Of kazoo.
    Kazoo(KazooQueue),
    /// Of kazoo, with leases.
    KazooLocking(KazooLockingQueue),
}

impl AnyQueue {
    /// The queue of a recipe.
    ///
    /// # Errors
    ///
    /// If the path or the recipe is not valid.
    pub fn new(client: &Client, recipe: &str, path: &str) -> Outcome<Self> {
        let leases = format!("{path}-locks");
        Ok(match recipe {
            "queue" => Self::Curator(DistributedQueue::new(client, path)?),
            "leased-queue" => {
                Self::Curator(DistributedQueue::new(client, path)?.with_lock_path(&leases)?)
            }
            "id-queue" => Self::Id(DistributedIdQueue::new(client, path)?.with_lock_path(&leases)?),
            "priority-queue" => {
                let queue = DistributedPriorityQueue::new(client, path)?;
                Self::Priority(queue.with_lock_path(&leases)?)
            }
            "delay-queue" => {
                Self::Delay(DistributedDelayQueue::new(client, path)?.with_lock_path(&leases)?)
            }
            "kazoo-queue" => Self::Kazoo(KazooQueue::new(client, path)?),
            "kazoo-locking-queue" => Self::KazooLocking(KazooLockingQueue::new(client, path)?),
            other => return Err(format!("unknown queue {other:?}").into()),
        })
    }

    /// Puts a number.
    ///
    /// # Errors
    ///
    /// Those of the queue.
    pub async fn put(&self, number: i64) -> Result<(), QueueError> {
        let item = number.to_string();
        match self {
            Self::Curator(queue) => queue.put(item).await,
            Self::Id(queue) => queue.put(item, &format!("id/{}", number % IDS)).await,
            Self::Priority(queue) => queue.put(item, priority(number)).await,
            Self::Delay(queue) => {
                let delay = Duration::from_millis(number.unsigned_abs() % DELAY_MS_MAX);
                queue.put_after(item, delay).await
            }
            Self::Kazoo(queue) => queue.put(item).await,
            Self::KazooLocking(queue) => queue.put(item).await,
        }
    }

    /// Takes a number and ends its delivery, if there is one within this time.
    ///
    /// # Errors
    ///
    /// Those of the queue, and what is no number.
    pub async fn take_within(&self, time: Duration) -> Outcome<Option<i64>> {
        let delivery = match self {
            Self::Curator(queue) => queue.take_within(time).await?,
            Self::Id(queue) => queue.take_within(time).await?,
            Self::Priority(queue) => queue.take_within(time).await?,
            Self::Delay(queue) => queue.take_within(time).await?,
            Self::Kazoo(queue) => queue.take_within(time).await?,
            Self::KazooLocking(queue) => queue.take_within(time).await?,
        };
        let Some(delivery) = delivery else { return Ok(None) };
        let item = self.number(&delivery)?;
        delivery.done().await?;
        Ok(Some(item))
    }

    /// Waits until an item is back that a `take_within` took too late.
    pub async fn settled(&self) {
        match self {
            Self::Curator(queue) => queue.settled().await,
            Self::Id(queue) => queue.settled().await,
            Self::Priority(queue) => queue.settled().await,
            Self::Delay(queue) => queue.settled().await,
            Self::Kazoo(queue) => queue.settled().await,
            Self::KazooLocking(queue) => queue.settled().await,
        }
    }

    /// How many items there are.
    ///
    /// # Errors
    ///
    /// Those of the queue.
    pub async fn count(&self) -> Result<usize, QueueError> {
        match self {
            Self::Curator(queue) => queue.count().await,
            Self::Id(queue) => queue.count().await,
            Self::Priority(queue) => queue.count().await,
            Self::Delay(queue) => queue.count().await,
            Self::Kazoo(queue) => queue.count().await,
            Self::KazooLocking(queue) => queue.count().await,
        }
    }

    fn number(&self, delivery: &Delivery) -> Outcome<i64> {
        let item = match self {
            Self::Kazoo(_) | Self::KazooLocking(_) => delivery.data().clone(),
            _ => delivery.items()?.pop().ok_or("there is no item")?,
        };
        Ok(std::str::from_utf8(&item)?.parse()?)
    }
}

/// A priority from -2 to 2.
fn priority(number: i64) -> i32 {
    i32::try_from(number % PRIORITIES).unwrap_or(0) - 2
}
