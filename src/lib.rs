//! A ZooKeeper-compatible coordination server to embed in tests and programs, an async client, and the
//! recipes of Apache Curator: locks, leaders, barriers and counters.
//!
//! | what you want to do | where to look |
//! |---|---|
//! | test code that takes locks or elects leaders | [`testing`], which begins with [a lock tested in ten lines](testing#testing-a-lock-in-ten-lines) |
//! | run many machines in a world where everything goes wrong, from a seed | [`sim`] |
//! | hold a lock, lead, count, wait for others | [`recipes`]: [`InterProcessMutex`](recipes::InterProcessMutex) and its like |
//! | read, write and watch znodes | [`client::Client`], for zoolet and for Apache ZooKeeper |
//! | run a server in your program | [`server::Server`], in memory or with a data directory |
//! | do so without async | [`client::blocking`], [`recipes::blocking`] and [`server::blocking`] |
//! | read or write ZooKeeper's wire format | [`protocol`] |
//!
//! A server in the same process needs no port: a client reaches it through
//! [`Server::dialer`](server::Server::dialer), and under tokio's paused clock a session of thirty seconds
//! expires at once.
//!
//! ```
//! use zoolet::client::Client;
//! use zoolet::recipes::InterProcessMutex;
//! use zoolet::server::Server;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().start().await?;
//! let (one, other) =
//!     (Client::connect(server.dialer()).await?, Client::connect(server.dialer()).await?);
//! let guard = InterProcessMutex::new(&one, "/locks/stock")?.acquire().await?;
//! let mutex = InterProcessMutex::new(&other, "/locks/stock")?;
//! assert!(mutex.try_acquire().await?.is_none());
//! guard.release().await?;
//! assert!(mutex.try_acquire().await?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | default | module |
//! |---|---|---|
//! | `server` | yes | [`server`] |
//! | `admin` | no | [`server::admin`] |
//! | `client` | with `recipes` | [`client`] |
//! | `recipes` | yes | [`recipes`] |
//! | `compression` | no | [`client::compression`] |
//! | `discovery` | no | [`recipes::discovery`] |
//! | `migrations` | no | [`recipes::migration`] |
//! | `tls` | no | [`server::tls`] and [`client::tls`] |
//! | `sasl` | no | DIGEST-MD5 in [`server::sasl`] and [`client::sasl`] |
//! | `testing` | no | [`testing`] and [`sim`]: ask for it as a dev-dependency |
//!
//! Each module is a crate that can be had by itself: `zoolet-server`, `zoolet-client`, `zoolet-recipes`,
//! `zoolet-testkit` and `zoolet-protocol`. The `zoolet` command is the package `zoolet-cli`.

// The text above names the modules of all features, with links where they are all there, as on docs.rs.
#![cfg_attr(
    not(all(
        feature = "admin",
        feature = "compression",
        feature = "discovery",
        feature = "migrations",
        feature = "sasl",
        feature = "testing",
        feature = "tls"
    )),
    allow(rustdoc::broken_intra_doc_links)
)]

#[doc(inline)]
pub use zoolet_protocol as protocol;

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "testing")]
pub mod sim;

#[cfg(feature = "testing")]
pub use zoolet_testkit::sim_test;

#[cfg(feature = "server")]
pub mod server {
    //! The server: one ZooKeeper node, in memory or with a data directory.
    //!
    //! [`Server::builder`] starts it. Clients reach it over TCP, or in the same process through
    //! [`Server::dialer`]. [`storage`] reads and writes ZooKeeper's own files, [`limits`] are the limits on
    //! what clients send, and [`hooks`] is where a test kit sees and changes what passes through the server.
    //! [`blocking`] is a server for code without async. [`sasl`] lets users authenticate.

    pub use zoolet_server::{
        BackupError, Builder, Config, ConfigError, ConnectionThrottling, Dialer, DigestAlgorithm,
        Disagreements, EnforceAuth, FourLetterWhitelist, Server, SessionKey, SessionWeights,
        Settings, Snapshot, StartError, SuperDigest, Throttling, Totals, WallTime, blocking, hooks,
        limits, raise_descriptor_limit, sasl, storage,
    };

    #[cfg(feature = "admin")]
    pub use zoolet_server::admin;
    #[cfg(feature = "tls")]
    pub use zoolet_server::{TlsConfig, tls};
}

#[cfg(feature = "client")]
pub mod client {
    //! The async client, for zoolet and for Apache ZooKeeper.
    //!
    //! [`Client::connect`] opens a session. Requests are builders that are awaited; [`Watcher`] and
    //! [`PersistentWatcher`] are watches as values; [`Transaction`] is a `multi`. [`recipe`] has what one
    //! needs to write a recipe of one's own. [`StreamDialer`] connects over streams that are not TCP.
    //! [`sasl`] is how the client proves who it is.

    #[cfg(feature = "compression")]
    pub use zoolet_client::compression;
    #[cfg(feature = "tls")]
    pub use zoolet_client::tls;
    pub use zoolet_client::{
        Builder, Client, ConnectError, ConnectionState, Create, Created, Delete, Error, Event,
        FourLetterWord, Hosts, Operation, Parents, PersistentWatcher, RetryPolicy, SavedSession,
        Sent, SetAcl, SetData, StreamDialer, Subscription, SubscriptionEnded, Transaction,
        ValueRef, Watched, Watcher, WordAnswer, blocking, recipe, sasl,
    };
}

#[cfg(feature = "recipes")]
pub mod recipes {
    //! The recipes of Apache Curator, with its znodes: Rust, Java and Python programs contend for one lock.
    //!
    //! - Locks: [`InterProcessMutex`], [`InterProcessReadWriteLock`], [`InterProcessSemaphoreV2`],
    //!   [`InterProcessSemaphoreMutex`], [`InterProcessMultiLock`] and [`SequentialMultiLock`]. All of them
    //!   are an [`InterProcessLock`]. A [`Revoker`] asks a holder to release.
    //! - Leaders: [`LeaderLatch`] and [`LeaderSelector`].
    //! - Values: [`SharedValue`], [`SharedCount`] and [`DistributedAtomicLong`].
    //! - Barriers: [`DistributedBarrier`] and [`DistributedDoubleBarrier`].
    //! - Nodes and memberships: [`PersistentNode`], [`PersistentTtlNode`], [`GroupMember`], [`Party`] and
    //!   [`ShallowParty`].
    //! - Partitions and leases: [`SetPartitioner`] and [`NonBlockingLease`].
    //! - Caches: [`CuratorCache`], [`TreeCache`], [`PathChildrenCache`], [`NodeCache`], and
    //!   [`PersistentWatcher`]. [`DataWatch`] and [`ChildrenWatch`] are kazoo's.
    //! - Queues: [`queue`] has Curator's, ZooKeeper's own and kazoo's.
    //! - [`blocking`] has all of them for code without async, with threads as the owners of locks.
    //! - [`HerdLock`] is the lock not to use: it has the herd effect, to be measured.

    #[cfg(feature = "discovery")]
    pub use zoolet_recipes::discovery;
    #[cfg(feature = "migrations")]
    pub use zoolet_recipes::migration;
    pub use zoolet_recipes::{
        AtClose, AtomicStats, BoxFuture, CacheError, CacheEvent, CacheEvents, CacheProgress,
        CacheState, CachedAtomicInteger, CachedAtomicLong, CachedZnode, Change, ChildrenWatch,
        CuratorCache, CuratorCacheBuilder, DataWatch, DistributedAtomicInteger,
        DistributedAtomicLong, DistributedAtomicValue, DistributedBarrier,
        DistributedDoubleBarrier, ErrorPolicy, EventPosition, GroupMember, GroupMemberBuilder,
        GroupMembers, Guard, HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
        InterProcessReadLock, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
        InterProcessSemaphoreV2, InterProcessWriteLock, KazooLine, LeaderLatch, LeaderLatchBuilder,
        LeaderSelector, LeaderSelectorBuilder, Lease, LeaseError, LeaseHolder, Listening,
        LockError, LockGuard, LockState, Membership, MultiGuard, MultiNonBlockingLease, NodeCache,
        NodeError, NodeEvent, NodeEvents, NodeState, NonBlockingLease, Observed, Origin, Owner,
        Participant, PartitionError, Party, PartyMember, PathChildrenCache, Permits,
        PersistentNode, PersistentNodeBuilder, PersistentTtlNode, PersistentTtlNodeBuilder,
        PersistentWatcher, Registered, Requeue, Revoker, Select, SequentialMultiGuard,
        SequentialMultiLock, SetPartitioner, SetPartitionerBuilder, ShallowParty, Share,
        SharedCount, SharedValue, TakeOver, Term, TreeCache, TreeCacheEvent, ValueError,
        VersionedCount, VersionedValue, Watching, blocking, queue,
    };
}
