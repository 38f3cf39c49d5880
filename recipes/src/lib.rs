//! The recipes of Apache Curator in Rust, on Curator's znodes: Rust, Java and Python programs contend
//! for one lock.
//!
//! - Locks: [`InterProcessMutex`], [`InterProcessReadWriteLock`], [`InterProcessSemaphoreV2`],
//!   [`InterProcessSemaphoreMutex`], [`InterProcessMultiLock`] and [`SequentialMultiLock`], all of them
//!   an [`InterProcessLock`]. A [`Revoker`] asks a holder to release.
//! - Leaders: [`LeaderLatch`] and [`LeaderSelector`].
//! - Values: [`SharedValue`], [`SharedCount`], [`DistributedAtomicLong`], [`DistributedAtomicInteger`],
//!   [`DistributedAtomicValue`] and [`CachedAtomicLong`].
//! - Barriers: [`DistributedBarrier`] and [`DistributedDoubleBarrier`].
//! - Nodes and memberships: [`PersistentNode`], [`PersistentTtlNode`], [`GroupMember`], and kazoo's
//!   [`Party`] and [`ShallowParty`].
//! - Partitions and leases: kazoo's [`SetPartitioner`] and [`NonBlockingLease`].
//! - Caches: [`CuratorCache`], [`TreeCache`], [`PathChildrenCache`], [`NodeCache`], and
//!   [`PersistentWatcher`]. [`DataWatch`] and [`ChildrenWatch`] are kazoo's.
//! - Queues: [`queue`] has Curator's, ZooKeeper's own and kazoo's.
//! - Discovery: with the feature `discovery`, the module `discovery`, Curator's `ServiceDiscovery`.
//! - Migrations: with the feature `migrations`, the module `migration`, Curator's `MigrationManager`.
//! - [`blocking`] has all of them for code without async.
//! - [`HerdLock`] is the lock not to use: it has the herd effect, to be measured.
//!
//! A recipe is made of a `Client` of the crate `zoolet-client`, and uses only its public items:
//! another recipe can be written with its module `recipe` in the same way.

pub mod blocking;
#[cfg(feature = "discovery")]
pub mod discovery;
#[cfg(feature = "migrations")]
pub mod migration;
pub mod queue;

mod attempts;
mod barrier;
mod cache;
mod defaults;
mod error;
mod kazoo_line;
mod leader;
mod lease;
mod line;
mod local_address;
mod lock;
mod node;
mod partition;
mod value;

use zoolet_client as client;
#[doc(inline)]
pub use zoolet_protocol as protocol;

pub use self::barrier::{DistributedBarrier, DistributedDoubleBarrier, Membership};
pub use self::cache::{
    CacheError, CacheEvent, CacheEvents, CacheProgress, CacheState, CachedZnode, ChildrenWatch,
    CuratorCache, CuratorCacheBuilder, DataWatch, EventPosition, Listening, NodeCache, Observed,
    PathChildrenCache, PersistentWatcher, Select, TreeCache, TreeCacheEvent, Watching,
};
pub use self::error::LockError;
pub use self::leader::{
    ErrorPolicy, LeaderLatch, LeaderLatchBuilder, LeaderSelector, LeaderSelectorBuilder,
    Participant, Requeue, Term,
};
pub use self::lease::{Lease, LeaseError, LeaseHolder, MultiNonBlockingLease, NonBlockingLease};
pub use self::lock::{
    BoxFuture, Guard, HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadLock, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, InterProcessWriteLock, KazooLine, LockGuard, LockState, MultiGuard,
    Owner, Permits, Revoker, SequentialMultiGuard, SequentialMultiLock,
};
pub use self::node::{
    AtClose, GroupMember, GroupMemberBuilder, GroupMembers, NodeError, NodeEvent, NodeEvents,
    NodeState, Origin, Party, PartyMember, PersistentNode, PersistentNodeBuilder,
    PersistentTtlNode, PersistentTtlNodeBuilder, Registered, ShallowParty, TakeOver,
};
pub use self::partition::{PartitionError, SetPartitioner, SetPartitionerBuilder, Share};
pub use self::value::{
    AtomicStats, CachedAtomicInteger, CachedAtomicLong, Change, DistributedAtomicInteger,
    DistributedAtomicLong, DistributedAtomicValue, SharedCount, SharedValue, ValueError,
    VersionedCount, VersionedValue,
};
