//! zoolet: a ZooKeeper-compatible coordination server inside a test or behind a TCP port.
//!
//! [`Server`] is one node that ZooKeeper clients take for the original. In a test it needs no
//! port, no Java and no time: a [`Client`] reaches it through [`Server::dialer`], and under tokio's
//! paused clock a session of thirty seconds expires at once.
//!
//! ```
//! use zoolet::{Client, InterProcessMutex, Server};
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
//! The parts can be had on their own: [`protocol`] is the wire format, [`state_machine`] the server's
//! without clock and I/O. The `zoolet` command comes with the default feature `cli`.

#[doc(inline)]
pub use zoolet_client as client;
pub use zoolet_client::{Client, CreateMode};
#[doc(inline)]
pub use zoolet_core as state_machine;
#[doc(inline)]
pub use zoolet_protocol as protocol;
pub use zoolet_recipes::{
    BoxFuture, Change, DistributedAtomicLong, DistributedBarrier, DistributedDoubleBarrier, Guard,
    HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadLock,
    InterProcessReadWriteLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2,
    InterProcessWriteLock, LeaderLatch, LeaderSelector, LockError, LockGuard, LockState,
    Membership, MultiGuard, Owner, Participant, Permits, Requeue, Revoker, SequentialMultiGuard,
    SequentialMultiLock, SharedCount, SharedValue, Term, ValueError, VersionedCount,
    VersionedValue,
};
pub use zoolet_server::{
    Builder, Config, ConfigError, Dialer, DigestAlgorithm, EnforceAuth, FourLetterWhitelist,
    Server, Settings, StartError, WallTime, limits, storage,
};

#[cfg(feature = "testing")]
pub mod testing;

pub mod blocking {
    //! The server, the client and the recipes for code without async: each call returns when it is
    //! done. Within async code the calls panic.
    //!
    //! ```
    //! use zoolet::blocking::{Client, InterProcessMutex, Server};
    //!
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let server = Server::start(zoolet::Server::builder())?;
    //! let client = Client::connect(server.dialer())?;
    //! let guard = InterProcessMutex::new(&client, "/locks/stock")?.acquire()?;
    //! guard.release()?;
    //! # Ok(())
    //! # }
    //! ```

    pub use zoolet_recipes::blocking::*;
    pub use zoolet_server::blocking::Server;
}
