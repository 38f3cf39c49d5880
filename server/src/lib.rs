//! A single-node ZooKeeper server: inside a test, or behind a TCP port.
//!
//! [`Server::builder`] starts one. Clients reach it over TCP, or in the same process through
//! [`Server::dialer`], with no socket, no pipe and no task between them and it: a request is
//! handled on the caller's own thread.
//!
//! The rooms, from the wire inwards:
//!
//! - `tcp` and `local` carry frames; both drive the same `connection`.
//! - `connection` is one client's conversation: handshake, requests, and the `outbox` in which
//!   everything for that client stands in order.
//! - `engine` holds the lock around [`zoolet_core::Core`] and delivers what comes of a request.
//! - `registry` knows who is connected and which sessions live; `ticker` ends those that do not.
//! - `journal` keeps what was decided, by [`storage`], ZooKeeper's own files; `durable` tells how far.
//! - `faults`, with the feature `testing`, is what a test does to all of them.
//! - `four_letter` answers the administrator's words.
//!
//! Invariants that this crate upholds:
//!
//! - **The lock is the order.** A reply or event enters its outbox before the lock is released
//!   under which it was produced (`engine`).
//! - **Nothing leaves before it is durable.** Every message carries the zxid that it depends on,
//!   and the outbox gives it out when that is durable (`outbox`, `durable`).
//! - **Everything has a limit** ([`limits`]).

mod clock;
mod config;
mod connection;
mod descriptors;
mod durable;
mod engine;
mod four_letter;
mod journal;
mod local;
#[cfg(feature = "testing")]
pub mod observe;
mod outbox;
mod output;
mod registry;
mod server;
mod stats;
mod tcp;
mod ticker;

pub mod blocking;
#[cfg(feature = "testing")]
pub mod faults;
#[cfg(not(feature = "testing"))]
#[path = "no_faults.rs"]
mod faults;
pub mod limits;
pub mod storage;

pub use zoolet_core::{DigestAlgorithm, Settings, Totals};

pub use self::clock::WallTime;
pub use self::config::{Config, ConfigError, EnforceAuth, FourLetterWhitelist};
pub use self::local::Dialer;
pub use self::server::{Builder, Server, StartError};
