//! Queues: those of Curator, of ZooKeeper's own recipe and of kazoo, with their znodes.
//!
//! | here | Curator, kazoo | items |
//! |---|---|---|
//! | [`SimpleDistributedQueue`] | `SimpleDistributedQueue`, ZooKeeper's `DistributedQueue` | in the order of puts |
//! | [`DistributedQueue`] | `DistributedQueue`, bounded with `maxItems` | in the order of puts |
//! | [`DistributedIdQueue`] | `DistributedIdQueue` | can be removed by an id |
//! | [`DistributedPriorityQueue`] | `DistributedPriorityQueue` | the least number first |
//! | [`DistributedDelayQueue`] | `DistributedDelayQueue` | when their time has come |
//! | [`QueueSharder`] | `QueueSharder` | in several queues |
//! | [`KazooQueue`], [`KazooLockingQueue`] | kazoo's `Queue`, `LockingQueue` | the least number first |
//!
//! # When not to use one
//!
//! ZooKeeper keeps all znodes in memory and writes each change to a log on a majority of its servers.
//! A queue on it is for some hundred items a second at most, and some thousand items that wait: jobs
//! of a coordinator, work that must not be lost with a machine and needs nothing else to be operated.
//! For more, for items of more than some kilobytes, and for items that several consumers all receive,
//! use a message broker. A list of 10,000 names is some 200 kB, and whoever waits for a
//! [`DistributedPriorityQueue`] reads it for each item.
//!
//! # Delivery
//!
//! - **A put** puts its items once. If the answer is lost, it is sent again until an answer comes, in
//!   the next session if need be, and the server refuses it if it was carried out before.
//! - **At most once**: without leases an item is deleted when it is taken. An item is never delivered
//!   twice. It is lost only if the process of its consumer ends, or its client is closed, between the
//!   deletion and the end of its work. A lost answer loses no item. Nor does a future that is dropped, if
//!   [`DistributedQueue::settled`] is awaited before the client is closed.
//! - **At least once**: with leases ([`DistributedQueue::with_lock_path`], [`KazooLockingQueue`]) an
//!   item is deleted when its consumer says that it is done. No item is lost. It is delivered again if
//!   the session of its consumer ends before, also while that consumer works on it; a
//!   [`Delivery`] says how to notice that, and how to have effects once all the same.
//! - **Order**: a consumer that is alone gets the items in their order, unless other clients remove
//!   items. Several consumers that take at
//!   the same time get the first items in any order. An item that is put back or requeued comes after
//!   the others. An item whose lease has ended keeps its place; other processes take it when they list
//!   the queue again, after at most a thousand items.
//!
//! Consumers of Curator and kazoo on the same znodes keep the promises of their libraries, not these:
//! their puts may put an item twice, and a lost answer may lose an item that they take.
//!
//! # Waiting
//!
//! One consumer of those that wait watches the queue, and the others watch each other in a line: a
//! new item wakes one of them. A consumer that waits must be polled, as every future; the others
//! list the queue themselves after thirty seconds if the first one is not.
//!
//! What a queue needs besides its items is in a *side directory*, since other libraries count
//! and deliver every child of the queue: a znode with the number of writes for each client
//! (`receipts`), and the lines of those that wait (`consumers`, `producers`).

mod background;
pub(crate) mod consume;
pub(crate) mod delay;
pub(crate) mod delivery;
pub(crate) mod distributed;
pub(crate) mod error;
pub(crate) mod id;
mod in_line;
pub(crate) mod items;
pub(crate) mod kazoo;
mod layout;
mod lease;
mod leasing;
mod limits;
mod listing;
mod methods;
pub(crate) mod priority;
mod put;
mod put_back;
mod random;
mod receipts;
mod retries;
pub(crate) mod sharder;
pub(crate) mod simple;
mod take;
mod taken_item;
mod waiting;
mod znodes;

pub use self::consume::ErrorMode;
pub use self::delay::DistributedDelayQueue;
pub use self::delivery::Delivery;
pub use self::distributed::DistributedQueue;
pub use self::error::QueueError;
pub use self::id::DistributedIdQueue;
pub use self::items::{ItemError, decode_items, encode_items};
pub use self::kazoo::{KazooLockingQueue, KazooQueue};
pub use self::priority::DistributedPriorityQueue;
pub use self::sharder::{QueueSharder, QueueSharderPolicies};
pub use self::simple::SimpleDistributedQueue;
