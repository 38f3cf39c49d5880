//! A ZooKeeper client, and the lock recipes of Curator without their holes.
//!
//! The [`client`] stands on its own. Of the recipes there are the locks ([`InterProcessMutex`],
//! [`InterProcessReadWriteLock`], [`InterProcessSemaphoreV2`], [`InterProcessMultiLock`] and
//! [`SequentialMultiLock`], all of them an [`InterProcessLock`]), the [`Revoker`] of locks,
//! [`LeaderLatch`], [`LeaderSelector`], [`DistributedBarrier`], [`DistributedDoubleBarrier`],
//! [`SharedValue`], [`SharedCount`] and [`DistributedAtomicLong`] so far; and the [`HerdLock`], to
//! be measured beside them.

pub mod blocking;

mod attempts;
mod barrier;
mod error;
mod leader;
mod line;
mod local_address;
mod lock;
mod value;

#[doc(inline)]
pub use zoolet_client as client;
#[doc(inline)]
pub use zoolet_protocol as protocol;

pub use self::barrier::{DistributedBarrier, DistributedDoubleBarrier, Membership};
pub use self::error::LockError;
pub use self::leader::{LeaderLatch, LeaderSelector, Participant, Requeue, Term};
pub use self::lock::{
    BoxFuture, Guard, HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadLock, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, InterProcessWriteLock, LockGuard, LockState, MultiGuard, Owner,
    Permits, Revoker, SequentialMultiGuard, SequentialMultiLock,
};
pub use self::value::{
    Change, DistributedAtomicLong, SharedCount, SharedValue, ValueError, VersionedCount,
    VersionedValue,
};
