//! Conformance: compares our server with Apache ZooKeeper.
//!
//! - [`script`]: golden scripts, each about one thing, with the exact trace of Apache ZooKeeper.
//! - [`ensemble_scripts`]: the same with several servers, played by the test kit's `TestEnsemble`.
//! - [`differential`]: random operations from a seed, sent to two servers side by side.
//! - [`target`]: what both run against: the state machine in this process, or any server over TCP.
//! - [`servers`], [`apache`], [`ensemble`], [`wire`], [`process`]: start those servers.
//! - [`proxy`], [`quorum_network`]: networks that fail and count.
//! - [`fleet`]: processes of several libraries that contend for one lock.
//! - [`peers`]: finds the foreign servers and clients.
//!
//! [`client`] is for tests only: it sends what no good client would send, and hides nothing.

pub mod apache;
pub mod client;
pub mod core_target;
pub mod differential;
pub mod ensemble;
pub mod ensemble_scripts;
pub mod fleet;
pub mod fleet_queue;
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
