//! Curator's shared values and counters.

pub(crate) mod atomic_number;
mod cached_atomic;
pub(crate) mod distributed_atomic_value;
pub(crate) mod error;
pub(crate) mod shared_count;
pub(crate) mod shared_value;

pub use self::atomic_number::{DistributedAtomicInteger, DistributedAtomicLong};
pub use self::cached_atomic::{CachedAtomicInteger, CachedAtomicLong};
pub use self::distributed_atomic_value::{AtomicStats, Change, DistributedAtomicValue};
pub use self::error::ValueError;
pub use self::shared_count::{SharedCount, VersionedCount};
pub use self::shared_value::{SharedValue, VersionedValue};
