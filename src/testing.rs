//! Servers for tests, and what may go wrong with them.
//!
//! [`TestServer::start`] starts a server in this process in less than a millisecond, with ZooKeeper's
//! behaviour and a disk in memory. It needs no port and no Java, and hundreds of them run beside each
//! other. [`TestServer::connect`] gives a client of it.
//!
//! # Testing a lock in ten lines
//!
//! ```
//! use zoolet::InterProcessMutex;
//! use zoolet::testing::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let (one, other) = (server.connect().await?, server.connect().await?);
//! let guard = InterProcessMutex::new(&one, "/locks/stock")?.acquire().await?;
//! let mutex = InterProcessMutex::new(&other, "/locks/stock")?;
//! assert!(mutex.try_acquire().await?.is_none(), "the other has it");
//! guard.release().await?;
//! assert!(mutex.try_acquire().await?.is_some());
//! # Ok(())
//! # }
//! ```

mod builder;
mod dialer;
mod error;
mod observation;
mod port;
mod server;

pub use zoolet_core::ConnectionId;
pub use zoolet_server::faults::{
    Aim, ConnectionInfo, Fault, FaultError, Faults, RequestFilter, Scope,
};
pub use zoolet_server::observe::{
    Observer, PathStats, Place, Recorder, Requests, SessionStats, Stats, WatchGraph, WatchedPath,
    Watcher,
};

pub use self::builder::TestServerBuilder;
pub use self::dialer::TestDialer;
pub use self::error::TestServerError;
pub use self::server::TestServer;
