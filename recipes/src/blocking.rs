//! The recipes for code without async: each call returns when it is finished.
//!
//! They are made of a blocking [`Client`]. The thread that calls `acquire` is the owner of the lock.
//! Within async code every call panics, because it would block a thread of the runtime: use the async
//! recipes there.

use zoolet_client::blocking::Client;

mod caches;
#[cfg(feature = "discovery")]
mod discovery;
mod leaders;
mod locks;
#[cfg(feature = "migrations")]
mod migrations;
mod nodes;
mod queues;
mod values;

pub use self::caches::CuratorCache;
#[cfg(feature = "discovery")]
pub use self::discovery::{Registration, ServiceCache, ServiceDiscovery, ServiceProvider};
pub use self::leaders::{LeaderLatch, LeaderSelector, Leadership};
pub use self::locks::{
    BlockingGuard, Guard, InterProcessMultiLock, InterProcessMutex, InterProcessReadLock,
    InterProcessReadWriteLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2,
    InterProcessWriteLock, MultiGuard, Permits, SequentialMultiGuard, SequentialMultiLock,
};
#[cfg(feature = "migrations")]
pub use self::migrations::MigrationManager;
pub use self::nodes::{
    GroupMember, GroupMembers, MultiNonBlockingLease, NonBlockingLease, Party, PartyMember,
    PersistentNode, PersistentTtlNode, SetPartitioner, ShallowParty, Share,
};
pub use self::queues::{
    Delivery, DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue,
    DistributedQueue, KazooLockingQueue, KazooQueue, QueueSharder, SimpleDistributedQueue,
};
pub use self::values::{
    CachedAtomicInteger, CachedAtomicLong, DistributedAtomicInteger, DistributedAtomicLong,
    DistributedAtomicValue, DistributedBarrier, DistributedDoubleBarrier, SharedCount, SharedValue,
};

/// A recipe whose calls return when they are finished. It calls an async recipe; where a method is
/// missing here, `client.wait(recipe.get().method())` does the same.
///
/// ```no_run
/// use zoolet_client::blocking::Client;
/// use zoolet_recipes::blocking::InterProcessMutex;
///
/// # fn example() -> Result<(), zoolet_recipes::LockError> {
/// let client = Client::connect("localhost:2181")?;
/// let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
/// println!("in line: {:?}", client.wait(mutex.get().participants())?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Recipe<T> {
    // Dropped before the client, whose session it uses.
    recipe: T,
    client: Client,
}

impl<T> Recipe<T> {
    /// The blocking form of a recipe that was made with [`Client::ask`].
    pub fn of(client: &Client, recipe: T) -> Self {
        Self { recipe, client: client.clone() }
    }

    /// The async recipe.
    pub fn get(&self) -> &T {
        &self.recipe
    }
}
