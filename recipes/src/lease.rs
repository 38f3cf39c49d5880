//! Leases by a clock: kazoo's `NonBlockingLease`.
//!
//! - `non_blocking_lease`: who has a lease, and until when.
//! - `holder`: the data of the znode that says so.

pub(crate) mod error;
mod holder;
pub(crate) mod non_blocking_lease;

pub use self::error::LeaseError;
pub use self::holder::LeaseHolder;
pub use self::non_blocking_lease::{Lease, MultiNonBlockingLease, NonBlockingLease};
