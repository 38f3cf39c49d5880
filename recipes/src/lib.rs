//! A ZooKeeper client, and the lock recipes of Curator without their holes.
//!
//! The [`client`] stands on its own. Of the recipes there are the locks ([`InterProcessMutex`],
//! [`InterProcessReadWriteLock`], [`InterProcessSemaphoreV2`], [`InterProcessMultiLock`] and
//! [`SequentialMultiLock`], all of them an [`InterProcessLock`]), the [`Revoker`] of locks,
//! [`LeaderLatch`], [`LeaderSelector`], [`DistributedBarrier`], [`DistributedDoubleBarrier`],
//! [`SharedValue`], [`SharedCount`] and [`DistributedAtomicLong`] so far; and the [`HerdLock`], to be
//! measured beside them.

pub mod blocking;

mod barrier;
mod distributed_atomic_long;
mod double_barrier;
mod double_barrier_member;
mod entering;
mod error;
mod guard;
mod held;
mod herd_lock;
mod leader_latch;
mod leader_selector;
mod leadership;
mod leave;
mod line;
mod line_lock;
mod local_address;
mod lock;
mod multi_lock;
mod mutex;
mod owner;
mod permits;
mod place;
mod read_write_lock;
mod revocation;
mod semaphore;
mod semaphore_mutex;
mod sequential_multi_lock;
mod shared_count;
mod shared_value;
mod tries;
mod unreadable;
mod value_error;
mod wait_all;

#[doc(inline)]
pub use zoolet_client as client;
#[doc(inline)]
pub use zoolet_protocol as protocol;

pub use self::barrier::DistributedBarrier;
pub use self::distributed_atomic_long::{Change, DistributedAtomicLong};
pub use self::double_barrier::DistributedDoubleBarrier;
pub use self::double_barrier_member::Membership;
pub use self::error::LockError;
pub use self::guard::{Guard, LockState};
pub use self::herd_lock::HerdLock;
pub use self::leader_latch::LeaderLatch;
pub use self::leader_selector::{LeaderSelector, Requeue};
pub use self::leadership::{Participant, Term};
pub use self::lock::{BoxFuture, InterProcessLock, LockGuard};
pub use self::multi_lock::{InterProcessMultiLock, MultiGuard};
pub use self::mutex::InterProcessMutex;
pub use self::owner::Owner;
pub use self::permits::Permits;
pub use self::read_write_lock::{
    InterProcessReadLock, InterProcessReadWriteLock, InterProcessWriteLock,
};
pub use self::revocation::Revoker;
pub use self::semaphore::InterProcessSemaphoreV2;
pub use self::semaphore_mutex::InterProcessSemaphoreMutex;
pub use self::sequential_multi_lock::{SequentialMultiGuard, SequentialMultiLock};
pub use self::shared_count::{SharedCount, VersionedCount};
pub use self::shared_value::{SharedValue, VersionedValue};
pub use self::value_error::ValueError;
