//! Curator's `QueueSharder`, with its znodes: several queues in place of one that would be too long.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zoolet_protocol::{Acl, ZPath};

use super::error::QueueError;
use super::put::create_directory;
use super::retries::answered;
use super::znodes::{belongs_to_shard, child, is_at_or_below};
use crate::client::recipe::Publisher;
use crate::client::{Client, Error, Subscription};
use crate::leader::election::{Closing, Task};
use crate::leader::latch::LeaderLatch;

/// When a [`QueueSharder`] adds a queue.
///
/// ```
/// use zoolet_recipes::queue::QueueSharderPolicies;
///
/// assert_eq!(QueueSharderPolicies::default().new_queue_threshold, 10_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSharderPolicies {
    /// A queue is added when one has this many items: 10,000 by default, as in Curator.
    pub new_queue_threshold: usize,
    /// After what time the queues are counted again: thirty seconds by default. Each time costs a request,
    /// and another one for each queue.
    pub threshold_check: Duration,
    /// How many queues there are at most: 10 by default. Several clients that begin at the same
    /// moment with an empty directory may exceed it by their number.
    pub max_queues: usize,
}

impl Default for QueueSharderPolicies {
    fn default() -> Self {
        let threshold_check = Duration::from_secs(30);
        Self { new_queue_threshold: 10_000, threshold_check, max_queues: 10 }
    }
}

/// Several queues below one path, of which each client puts items into one or another. When one of
/// them has too many items, the leader of the clients adds a queue. Queues are never removed, because
/// another client may put an item into one at any moment.
///
/// Items of one queue are in order, and those of several are not. A consumer takes from all of them:
/// [`QueueSharder::queues`] and [`QueueSharder::changed`].
///
/// The znodes are those of Curator's `QueueSharder`: `queue-<uuid>` for each queue. Curator takes
/// every child of the path for a queue. So the side directories of these queues are below the path
/// with `-side` appended, and not beside the queues, and `make` should put the leases of a queue
/// elsewhere too. Of a queue with another name, which somebody else has created, the side directory is
/// beside it: give it another one if clients of Curator take part.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::queue::{DistributedQueue, QueueSharder, QueueSharderPolicies};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let policies = QueueSharderPolicies::default();
/// let sharder =
///     QueueSharder::start(&client, "/jobs", "/jobs-leader", policies, DistributedQueue::new).await?;
/// sharder.queue().put("a job").await?;
/// sharder.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct QueueSharder<Q> {
    path: Arc<str>,
    client: Client,
    shards: Subscription<Shards<Q>>,
    task: Task,
}

/// The queues by their paths.
type Shards<Q> = BTreeMap<String, Shard<Q>>;

#[derive(Debug, Clone)]
struct Shard<Q> {
    queue: Q,
    /// Whether items are put into it: it has not too many.
    is_preferred: bool,
}

impl<Q: Clone + Send + Sync + 'static> QueueSharder<Q> {
    /// Takes part in the queues below a path. `make` makes the queue of each path, in the same way in
    /// all clients. The leader is elected below `leader_path`, which must not be below `path`.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if a path is not valid; [`QueueError::LeaderPath`]; the errors of `make` and of
    /// requests.
    pub async fn start<F>(
        client: &Client,
        path: &str,
        leader_path: &str,
        policies: QueueSharderPolicies,
        make: F,
    ) -> Result<Self, QueueError>
    where
        F: Fn(&Client, &str) -> Result<Q, QueueError> + Send + Sync + 'static,
    {
        Self::start_as(client, path, leader_path, policies, None, make).await
    }

    /// As [`QueueSharder::start`], with an access control list for the directories of the queues, for
    /// the znodes of the leader, and for the directories that are created for them. What the queues
    /// create themselves has the list that `make` gives them.
    ///
    /// # Errors
    ///
    /// As [`QueueSharder::start`].
    pub async fn start_with_acl<F>(
        client: &Client,
        path: &str,
        leader_path: &str,
        policies: QueueSharderPolicies,
        acl: Vec<Acl>,
        make: F,
    ) -> Result<Self, QueueError>
    where
        F: Fn(&Client, &str) -> Result<Q, QueueError> + Send + Sync + 'static,
    {
        Self::start_as(client, path, leader_path, policies, Some(acl), make).await
    }

    async fn start_as<F>(
        client: &Client,
        path: &str,
        leader_path: &str,
        policies: QueueSharderPolicies,
        acl: Option<Vec<Acl>>,
        make: F,
    ) -> Result<Self, QueueError>
    where
        F: Fn(&Client, &str) -> Result<Q, QueueError> + Send + Sync + 'static,
    {
        ZPath::check(path).map_err(Error::from)?;
        if is_at_or_below(leader_path, path) {
            return Err(QueueError::LeaderPath(leader_path.to_owned()));
        }
        let latch = match &acl {
            Some(acl) => LeaderLatch::start_with_acl(client, leader_path, "", acl.clone())?,
            None => LeaderLatch::start(client, leader_path, "")?,
        };
        let sender = Publisher::new(Shards::new());
        let shards = sender.subscribe();
        let path: Arc<str> = path.into();
        let (client, keeper_path) = (client.clone(), Arc::clone(&path));
        let keeper =
            Keeper { client: client.clone(), path: keeper_path, policies, acl, make, sender };
        keeper.add_listed().await?;
        if keeper.sender.borrow().is_empty() {
            keeper.add_new().await?;
        }
        let task = Task::spawn(&client, |closing| keeper.run(latch, closing));
        Ok(Self { path, client, shards, task })
    }

    /// A queue into which items should be put now, chosen at random.
    #[must_use]
    pub fn queue(&self) -> Q {
        let shards = self.shards.borrow();
        let preferred: Vec<_> = shards.values().filter(|shard| shard.is_preferred).collect();
        let all: Vec<_> = shards.values().collect();
        let among = if preferred.is_empty() { all } else { preferred };
        let name = self.client.unique_name();
        let random = name.get(..8).and_then(|digits| usize::from_str_radix(digits, 16).ok());
        match among.get(random.unwrap_or(0) % among.len().max(1)) {
            Some(shard) => shard.queue.clone(),
            None => unreachable!("there is a queue from the start, and none is removed"),
        }
    }

    /// All queues that are known now.
    #[must_use]
    pub fn queues(&self) -> Vec<Q> {
        self.shards.borrow().values().map(|shard| shard.queue.clone()).collect()
    }

    /// The paths of all queues that are known now.
    #[must_use]
    pub fn shard_paths(&self) -> Vec<String> {
        self.shards.borrow().keys().cloned().collect()
    }

    /// Waits until more than `known` queues are known, and returns all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the client is closed.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn changed(&self, known: usize) -> Result<Vec<Q>, QueueError> {
        let mut shards = self.shards.clone();
        let shards = shards.wait_for(|shards| shards.len() > known).await;
        let shards = shards.map_err(|_| Error::Closed)?;
        Ok(shards.values().map(|shard| shard.queue.clone()).collect())
    }

    /// Leaves the election of the leader. The queues can be used as before.
    ///
    /// # Errors
    ///
    /// Those of [`LeaderLatch::close`].
    ///
    /// # Cancellation
    ///
    /// Safe: the place in the election is given up in the background.
    pub async fn close(self) -> Result<(), QueueError> {
        Ok(self.task.close().await?)
    }
}

impl<Q> fmt::Debug for QueueSharder<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueSharder").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Counts the queues, and adds some.
struct Keeper<Q, F> {
    client: Client,
    path: Arc<str>,
    policies: QueueSharderPolicies,
    acl: Option<Vec<Acl>>,
    make: F,
    sender: Publisher<Shards<Q>>,
}

impl<Q, F> Keeper<Q, F>
where
    Q: Clone + Send + Sync + 'static,
    F: Fn(&Client, &str) -> Result<Q, QueueError> + Send + Sync,
{
    async fn run(
        self,
        latch: LeaderLatch,
        mut closing: Closing,
    ) -> Result<(), crate::error::LockError> {
        while !closing.within(self.policies.threshold_check).await {
            // Without a connection the check waits.
            let checked = tokio::select! {
                biased;
                () = closing.closed() => break,
                checked = self.check(&latch) => checked,
            };
            match checked {
                Ok(()) => {}
                Err(QueueError::Client(Error::Closed)) => return Ok(()),
                Err(error) => tracing::warn!("{}: cannot count the queues: {error}", self.path),
            }
        }
        latch.close().await
    }

    /// Counts the items of all queues. The leader adds a queue if one has too many.
    async fn check(&self, latch: &LeaderLatch) -> Result<(), QueueError> {
        self.add_listed().await?;
        let paths: Vec<String> = self.sender.borrow().keys().cloned().collect();
        let mut is_one_full = false;
        for path in &paths {
            let Some(stat) = answered(|| self.client.exists(path)).await?.flatten() else {
                continue;
            };
            let count = usize::try_from(stat.num_children).unwrap_or(0);
            is_one_full |= count >= self.policies.new_queue_threshold;
            if count >= self.policies.new_queue_threshold {
                self.set_preferred(path, false);
            } else if count <= self.policies.new_queue_threshold / 2 {
                self.set_preferred(path, true);
            }
        }
        if is_one_full && latch.is_leader() {
            if paths.len() < self.policies.max_queues {
                self.add_new().await?;
            } else {
                let max = self.policies.max_queues;
                tracing::warn!("{}: a queue is full, and there may be {max} queues", self.path);
            }
        }
        Ok(())
    }

    fn set_preferred(&self, path: &str, is_preferred: bool) {
        self.sender.send_if_modified(|shards| match shards.get_mut(path) {
            Some(shard) => std::mem::replace(&mut shard.is_preferred, is_preferred) != is_preferred,
            None => false,
        });
    }

    /// Adds the queues that other clients have created.
    async fn add_listed(&self) -> Result<(), QueueError> {
        let Some(names) = answered(|| self.client.children(&self.path)).await? else {
            return Ok(());
        };
        // What belongs to a queue must not become one: it would have such a znode in its turn.
        for name in names.iter().filter(|name| !belongs_to_shard(name, &names)) {
            self.add(child(&self.path, name))?;
        }
        Ok(())
    }

    /// Creates a queue.
    async fn add_new(&self) -> Result<(), QueueError> {
        let path = child(&self.path, &format!("queue-{}", self.client.unique_name()));
        create_directory(&self.client, &path, self.acl.as_deref()).await?;
        self.add(path)
    }

    fn add(&self, path: String) -> Result<(), QueueError> {
        if self.sender.borrow().contains_key(&path) {
            return Ok(());
        }
        let queue = (self.make)(&self.client, &path)?;
        self.sender.send_modify(|shards| {
            shards.insert(path, Shard { queue, is_preferred: true });
        });
        Ok(())
    }
}
