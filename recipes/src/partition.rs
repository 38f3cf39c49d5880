//! Items that are shared out among clients: kazoo's `SetPartitioner`.
//!
//! - `set_partitioner`: joins a party, waits until it is quiet, and acquires its share.
//! - `share`: the items that a client has, each by a lock.
//! - `error`: why a client has no share.

pub(crate) mod error;
pub(crate) mod set_partitioner;
pub(crate) mod share;

pub use self::error::PartitionError;
pub use self::set_partitioner::{SetPartitioner, SetPartitionerBuilder};
pub use self::share::Share;
