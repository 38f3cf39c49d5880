//! Curator's shared values and counters.

pub(crate) mod distributed_atomic_long;
pub(crate) mod error;
pub(crate) mod shared_count;
pub(crate) mod shared_value;

pub use self::distributed_atomic_long::{Change, DistributedAtomicLong};
pub use self::error::ValueError;
pub use self::shared_count::{SharedCount, VersionedCount};
pub use self::shared_value::{SharedValue, VersionedValue};
