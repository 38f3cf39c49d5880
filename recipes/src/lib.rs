//! A ZooKeeper client, and the lock recipes of Curator without their holes.
//!
//! The recipes are in the making; the [`client`] can be used.

pub mod client;

#[doc(inline)]
pub use zoolet_protocol as protocol;
