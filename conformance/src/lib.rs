//! Conformance: our server against what Apache ZooKeeper does.
//!
//! - [`script`]: golden scripts, each about one thing, with the exact trace that ZooKeeper gave.
//! - [`differential`]: random operations from a seed, sent to two servers side by side.
//! - [`target`]: what both run against: the core in process, or any server over TCP.
//! - [`process`]: servers on a data directory that outlives them.
//! - [`peers`]: where the foreign servers and clients are, and what happens when they are not.
//!
//! What is deliberately not here: a client for others to use. [`client`] sends what no good client
//! would, and hides nothing of what comes back.

pub mod apache;
pub mod client;
pub mod core_target;
pub mod differential;
pub mod ensemble;
pub mod fleet;
pub mod four_letter;
pub mod harness;
pub mod peers;
pub mod process;
pub mod proxy;
pub mod quorum_network;
mod quorum_packets;
pub mod script;
pub mod servers;
pub mod target;
pub mod wire;
