//! Queues.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_protocol::{Acl, MultiOp};

use super::{Client, Recipe};
use crate::lock::state::LockState;
use crate::queue::{self, ErrorMode, ItemError, QueueError, QueueSharderPolicies};

/// The async [`Delivery`](crate::queue::Delivery), for threads.
///
/// ```no_run
/// use zoolet_client::blocking::Client;
/// use zoolet_recipes::blocking::DistributedQueue;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181")?;
/// let queue = DistributedQueue::new(&client, "/jobs")?;
/// let delivery = queue.take()?;
/// println!("{:?}", delivery.items()?);
/// delivery.done()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a leased item that is dropped is delivered again, and any other is gone"]
pub struct Delivery {
    // Dropped before the client, whose session it uses.
    delivery: queue::Delivery,
    client: Client,
}

impl Delivery {
    /// The data of the item's znode.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        self.delivery.data()
    }

    /// The items in the data, as Curator's queues write them.
    ///
    /// # Errors
    ///
    /// As the async [`items`](crate::queue::Delivery::items).
    pub fn items(&self) -> Result<Vec<Bytes>, ItemError> {
        self.delivery.items()
    }

    /// Whether the item is still this consumer's, as far as is known without a request.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.delivery.state()
    }

    /// The async delivery.
    pub fn get(&self) -> &queue::Delivery {
        &self.delivery
    }

    /// Deletes a leased item and its lease. Without a lease this does nothing.
    ///
    /// # Errors
    ///
    /// As the async [`done`](crate::queue::Delivery::done).
    pub fn done(self) -> Result<(), QueueError> {
        self.client.wait(self.delivery.done())
    }

    /// As [`Delivery::done`], together with other writes, all or none.
    ///
    /// # Errors
    ///
    /// As the async [`done_with`](crate::queue::Delivery::done_with).
    pub fn done_with(self, ops: Vec<MultiOp>) -> Result<(), QueueError> {
        self.client.wait(self.delivery.done_with(ops))
    }

    /// Puts the item behind the others.
    ///
    /// # Errors
    ///
    /// As the async [`requeue`](crate::queue::Delivery::requeue).
    pub fn requeue(self) -> Result<(), QueueError> {
        self.client.wait(self.delivery.requeue())
    }

    /// Ends the lease, so that the item is delivered again.
    ///
    /// # Errors
    ///
    /// As the async [`release`](crate::queue::Delivery::release).
    pub fn release(self) -> Result<(), QueueError> {
        self.client.wait(self.delivery.release())
    }
}

/// The queues that a path alone makes, and what consumers do with them.
macro_rules! consumers {
    ($($(#[$docs:meta])* $queue:ident),*) => {$(
        $(#[$docs])*
        pub type $queue = Recipe<queue::$queue>;

        impl $queue {
            /// The queue of a path. Nothing is created before an item is put.
            ///
            /// # Errors
            ///
            /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
            pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
                Ok(Self::of(client, queue::$queue::new(client.ask(), path)?))
            }

            /// The same queue with this access control list.
            #[must_use]
            pub fn with_acl(self, acl: Vec<Acl>) -> Self {
                Self { recipe: self.recipe.with_acl(acl), client: self.client }
            }

            /// Takes the first item, and waits for one if there is none.
            ///
            /// # Errors
            ///
            /// As the async recipe; so of all that follow.
            pub fn take(&self) -> Result<Delivery, QueueError> {
                let delivery = self.client.wait(self.recipe.take())?;
                Ok(Delivery { delivery, client: self.client.clone() })
            }

            /// Takes the first item, if there is one that is not leased.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn try_take(&self) -> Result<Option<Delivery>, QueueError> {
                let delivery = self.client.wait(self.recipe.try_take())?;
                let client = || self.client.clone();
                Ok(delivery.map(|delivery| Delivery { delivery, client: client() }))
            }

            /// Waits until nothing goes on in the background. After a call that has timed out, an item
            /// without a lease may be lost if the last [`Client`] is closed or dropped before.
            pub fn settled(&self) {
                self.client.wait(self.recipe.settled());
            }

            /// Takes the first item, within a time limit; `None` when it has passed.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn take_within(&self, time: Duration) -> Result<Option<Delivery>, QueueError> {
                let delivery = self.client.wait(self.recipe.take_within(time))?;
                let client = || self.client.clone();
                Ok(delivery.map(|delivery| Delivery { delivery, client: client() }))
            }
        }
    )*};
}

consumers! {
    /// The async [`DistributedQueue`](crate::queue::DistributedQueue), for threads.
    DistributedQueue,
    /// The async [`DistributedIdQueue`](crate::queue::DistributedIdQueue), for threads.
    DistributedIdQueue,
    /// The async [`DistributedPriorityQueue`](crate::queue::DistributedPriorityQueue), for threads.
    DistributedPriorityQueue,
    /// The async [`DistributedDelayQueue`](crate::queue::DistributedDelayQueue), for threads.
    DistributedDelayQueue,
    /// The async [`KazooQueue`](crate::queue::KazooQueue), for threads.
    KazooQueue,
    /// The async [`KazooLockingQueue`](crate::queue::KazooLockingQueue), for threads.
    KazooLockingQueue
}

/// Queues of Curator's layout.
macro_rules! of_curator {
    ($($queue:ident),*) => {$(
        impl $queue {
            /// The same queue with leases in this directory.
            ///
            /// # Errors
            ///
            /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
            pub fn with_lock_path(self, path: &str) -> Result<Self, QueueError> {
                Ok(Self { recipe: self.recipe.with_lock_path(path)?, client: self.client })
            }

            /// Calls `handle` with each item on a thread of its own, one after the other.
            ///
            /// A thread cannot be stopped: when the lease of an item is lost, `handle` goes on, and is
            /// not called again before it has returned.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn consume<F, E>(
                &self,
                on_error: ErrorMode,
                handle: F,
            ) -> Result<Infallible, QueueError>
            where
                F: FnMut(Bytes) -> Result<(), E> + Send + 'static,
                E: Display + Send + 'static,
            {
                let handle = Arc::new(Mutex::new(handle));
                let on_a_thread = |item: Bytes| {
                    let handle = Arc::clone(&handle);
                    async move {
                        let handled = tokio::task::spawn_blocking(move || handle.lock()(item));
                        match handled.await {
                            Ok(handled) => handled.map_err(|error| error.to_string()),
                            Err(error) => Err(error.to_string()),
                        }
                    }
                };
                self.client.wait(self.recipe.consume(on_error, on_a_thread))
            }
        }
    )*};
}

of_curator!(DistributedQueue, DistributedIdQueue, DistributedPriorityQueue, DistributedDelayQueue);

impl DistributedQueue {
    /// Puts an item at the end of the queue.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn put(&self, item: impl Into<Bytes>) -> Result<(), QueueError> {
        self.client.wait(self.recipe.put(item))
    }

    /// Puts an item at the end of the queue, within a time limit.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn put_within(&self, time: Duration, item: impl Into<Bytes>) -> Result<(), QueueError> {
        self.client.wait(self.recipe.put_within(time, item))
    }
}

impl DistributedIdQueue {
    /// Puts an item with an id at the end of the queue.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn put(&self, item: impl Into<Bytes>, id: &str) -> Result<(), QueueError> {
        self.client.wait(self.recipe.put(item, id))
    }

    /// Removes the items with an id, and returns how many this call has removed.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn remove(&self, id: &str) -> Result<usize, QueueError> {
        self.client.wait(self.recipe.remove(id))
    }
}

impl DistributedPriorityQueue {
    /// Puts an item with a priority, the least first.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn put(&self, item: impl Into<Bytes>, priority: i32) -> Result<(), QueueError> {
        self.client.wait(self.recipe.put(item, priority))
    }
}

impl DistributedDelayQueue {
    /// Puts an item that is taken when the server's clock shows this time.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn put(&self, item: impl Into<Bytes>, due: SystemTime) -> Result<(), QueueError> {
        self.client.wait(self.recipe.put(item, due))
    }

    /// Puts an item that is taken when this much time has passed on the server's clock.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn put_after(&self, item: impl Into<Bytes>, delay: Duration) -> Result<(), QueueError> {
        self.client.wait(self.recipe.put_after(item, delay))
    }
}

/// The queues of kazoo.
macro_rules! of_kazoo {
    ($($queue:ident),*) => {$(
        impl $queue {
            /// Puts an item with kazoo's default priority, 100.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn put(&self, item: impl Into<Bytes>) -> Result<(), QueueError> {
                self.client.wait(self.recipe.put(item))
            }

            /// Puts an item with a priority between 0 and 999, the least first.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn put_with_priority(
                &self,
                item: impl Into<Bytes>,
                priority: u16,
            ) -> Result<(), QueueError> {
                self.client.wait(self.recipe.put_with_priority(item, priority))
            }
        }
    )*};
}

of_kazoo!(KazooQueue, KazooLockingQueue);

/// The async [`SimpleDistributedQueue`](crate::queue::SimpleDistributedQueue), for threads.
pub type SimpleDistributedQueue = Recipe<queue::SimpleDistributedQueue>;

impl SimpleDistributedQueue {
    /// The queue of a path. Nothing is created before an item is put.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, QueueError> {
        Ok(Self::of(client, queue::SimpleDistributedQueue::new(client.ask(), path)?))
    }

    /// Puts an item at the end of the queue.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn offer(&self, item: impl Into<Bytes>) -> Result<(), QueueError> {
        self.client.wait(self.recipe.offer(item))
    }

    /// The first item, which stays in the queue.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn peek(&self) -> Result<Option<Bytes>, QueueError> {
        self.client.wait(self.recipe.peek())
    }

    /// Takes the first item, if there is one.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn poll(&self) -> Result<Option<Bytes>, QueueError> {
        self.client.wait(self.recipe.poll())
    }

    /// Takes the first item, within a time limit; `None` when it has passed.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn poll_within(&self, time: Duration) -> Result<Option<Bytes>, QueueError> {
        self.client.wait(self.recipe.poll_within(time))
    }

    /// Takes the first item, and waits for one if there is none.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn take(&self) -> Result<Bytes, QueueError> {
        self.client.wait(self.recipe.take())
    }

    /// Waits until nothing goes on in the background. After a call that has timed out, an item may be
    /// lost if the last [`Client`] is closed or dropped before.
    pub fn settled(&self) {
        self.client.wait(self.recipe.settled());
    }
}

/// The async [`QueueSharder`](crate::queue::QueueSharder), for threads.
///
/// ```no_run
/// use zoolet_client::blocking::Client;
/// use zoolet_recipes::blocking::QueueSharder;
/// use zoolet_recipes::queue::{DistributedQueue, QueueSharderPolicies};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181")?;
/// let policies = QueueSharderPolicies::default();
/// let sharder =
///     QueueSharder::start(&client, "/jobs", "/jobs-leader", policies, DistributedQueue::new)?;
/// sharder.queue().put("a job")?;
/// sharder.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct QueueSharder<Q> {
    // Dropped before the client, whose session it uses.
    sharder: queue::QueueSharder<Q>,
    client: Client,
}

impl<Q: Clone + Send + Sync + 'static> QueueSharder<Q> {
    /// Takes part in the queues below a path. `make` makes the async queue of each path.
    ///
    /// # Errors
    ///
    /// As the async [`start`](crate::queue::QueueSharder::start).
    pub fn start<F>(
        client: &Client,
        path: &str,
        leader_path: &str,
        policies: QueueSharderPolicies,
        make: F,
    ) -> Result<Self, QueueError>
    where
        F: Fn(&crate::client::Client, &str) -> Result<Q, QueueError> + Send + Sync + 'static,
    {
        let start = queue::QueueSharder::start(client.ask(), path, leader_path, policies, make);
        Ok(Self { sharder: client.wait(start)?, client: client.clone() })
    }

    /// As [`QueueSharder::start`], with an access control list.
    ///
    /// # Errors
    ///
    /// As the async [`start_with_acl`](crate::queue::QueueSharder::start_with_acl).
    pub fn start_with_acl<F>(
        client: &Client,
        path: &str,
        leader_path: &str,
        policies: QueueSharderPolicies,
        acl: Vec<Acl>,
        make: F,
    ) -> Result<Self, QueueError>
    where
        F: Fn(&crate::client::Client, &str) -> Result<Q, QueueError> + Send + Sync + 'static,
    {
        let start = queue::QueueSharder::start_with_acl(
            client.ask(),
            path,
            leader_path,
            policies,
            acl,
            make,
        );
        Ok(Self { sharder: client.wait(start)?, client: client.clone() })
    }

    /// A queue into which items should be put now, chosen at random.
    #[must_use]
    pub fn queue(&self) -> Recipe<Q> {
        Recipe::of(&self.client, self.sharder.queue())
    }

    /// All queues that are known now.
    #[must_use]
    pub fn queues(&self) -> Vec<Recipe<Q>> {
        self.of_client(self.sharder.queues())
    }

    /// The paths of all queues that are known now.
    #[must_use]
    pub fn shard_paths(&self) -> Vec<String> {
        self.sharder.shard_paths()
    }

    /// Waits until more than `known` queues are known, and returns all of them.
    ///
    /// # Errors
    ///
    /// As the async [`changed`](crate::queue::QueueSharder::changed).
    pub fn changed(&self, known: usize) -> Result<Vec<Recipe<Q>>, QueueError> {
        Ok(self.of_client(self.client.wait(self.sharder.changed(known))?))
    }

    /// Leaves the election of the leader. The queues can be used as before.
    ///
    /// # Errors
    ///
    /// As the async [`close`](crate::queue::QueueSharder::close).
    pub fn close(self) -> Result<(), QueueError> {
        self.client.wait(self.sharder.close())
    }

    fn of_client(&self, queues: Vec<Q>) -> Vec<Recipe<Q>> {
        queues.into_iter().map(|queue| Recipe::of(&self.client, queue)).collect()
    }
}
