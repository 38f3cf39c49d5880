//! A single-node ZooKeeper server: inside a test, or behind a TCP port.
//!
//! [`Server::builder`] starts one. Clients reach it over TCP, or in the same process through
//! [`Server::dialer`], with no socket, no pipe and no task between them and it: a request is
//! handled on the caller's own thread.
//!
//! The folders, from the wire inwards:
//!
//! - `transport` carries frames, over TCP, TLS or in the same process, and answers four-letter words.
//! - `engine` holds the lock around [`zoolet_core::Core`], the connections with their outboxes, and
//!   the sessions.
//! - `backup` takes snapshots on request, and replaces the state by one.
//! - `reports` are what the server tells about itself, as values.
//! - `measure` has counters and summaries, and `clock` reads the clock.
//! - [`storage`] reads and writes ZooKeeper's log and snapshot files.
//!
//! Nothing here is for tests but [`hooks`], which are unset unless a builder sets them; the package
//! `zoolet-testkit` implements them.
//!
//! Invariants that this crate upholds:
//!
//! - **The lock is the order.** A reply or event enters its outbox before the lock is released
//!   under which it was produced (`engine/lock`).
//! - **Nothing leaves before it is durable.** Every message carries the zxid that it depends on,
//!   and the outbox gives it out when that is durable (`engine/outbox`,
//!   `storage/durable`).
//! - **Everything has a limit** ([`limits`]).

mod backup;
mod clock;
mod config;
mod engine;
mod measure;
mod probe;
mod random;
mod reports;
mod server;
mod session_key;
mod transport;

#[cfg(feature = "admin")]
pub mod admin;
pub mod blocking;
pub mod limits;
pub mod sasl;
pub mod storage;

pub use zoolet_core::{DigestAlgorithm, Disagreements, Settings, SuperDigest, Totals};

pub use self::backup::{BackupError, Snapshot};
pub use self::config::{
    Config, ConfigError, ConnectionThrottling, EnforceAuth, FourLetterWhitelist, SessionWeights,
    Throttling,
};
pub use self::engine::audit::{AuditError, AuditLog};
pub use self::engine::clock::WallTime;
pub use self::engine::hooks;
pub use self::engine::metrics::{Dialect, Metrics, MetricsProvider, ProcessMetrics};
pub use self::probe::Probe;
#[doc(hidden)]
pub use self::reports::VERSION;
pub use self::server::{Builder, Server, StartError};
pub use self::session_key::SessionKey;
pub use self::transport::descriptors::raise_descriptor_limit;
pub use self::transport::in_process::Dialer;
#[cfg(feature = "tls")]
pub use self::transport::tls::TlsConfig;
#[cfg(feature = "tls")]
#[doc(inline)]
pub use zoolet_tls as tls;
