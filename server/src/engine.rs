//! The state machine behind its lock, and everything that stands between the lock and a transport.
//!
//! - `lock` holds the lock around [`zoolet_core::Core`], carries requests out and delivers their
//!   replies and events; `state` is what the lock guards.
//! - `sessions` creates sessions, re-attaches clients to them and expires them; `session_ids` tells
//!   where their numbers begin.
//! - `throttle` slows clients down, or turns them away.
//! - `replace` puts another state in place of the whole.
//! - `connection` is one client's conversation: the handshake, then requests in their order.
//! - `outbox` is the queue of the `message`s for one client.
//! - `registry` knows the open connections and the live sessions; a `merge_block` keeps their end from stalling
//!   the allocator.
//! - `journal` appends each transaction to the log before it is applied.
//! - `ticker` is the only task that acts by the clock; `clock` is the server's clock.
//! - `audit` writes down who has changed what.
//! - `stats` counts; `metrics` is what administrators see of it.
//! - `warnings` keeps what any client can cause from filling the log.
//! - [`hooks`] are called where frames and messages pass; `hooked` is what the engine lets them do.

pub(crate) mod audit;
pub(crate) mod clock;
pub(crate) mod connection;
pub mod hooks;
pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod outbox;
pub(crate) mod registry;
pub(crate) mod stats;
pub(crate) mod throttle;
pub(crate) mod ticker;
pub(crate) mod warnings;

pub(crate) mod replace;

mod commit;
mod expiries;
mod hooked;
mod merge_block;
pub(crate) mod plain_reads;
pub(crate) mod plain_writes;
mod precedence;
mod session_ids;
mod sessions;
mod state;
mod sweep;
mod turn;
