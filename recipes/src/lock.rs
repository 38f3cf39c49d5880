//! Curator's locks, their guards and their owners.
//!
//! - `inter_process_lock`: the traits of all locks and guards. `methods` gives them to a lock.
//! - `state`: when a lock counts as held.
//! - `held_lock`: a lock that is held. `guard` and `permits` refer to it.
//! - `registry`: which owners wait and hold in this process.
//! - `line_lock`: a lock by one line. `mutex` and `read_write_lock` are such locks.
//! - `semaphore`, `semaphore_mutex`, `multi_lock`, `sequential_multi_lock`, `herd_lock`: the other
//!   locks.
//! - `revocation`: asks a holder to release its lock.

pub(crate) mod guard;
pub(crate) mod held_lock;
pub(crate) mod herd_lock;
pub(crate) mod inter_process_lock;
pub(crate) mod line_lock;
mod methods;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub(crate) mod owner;
pub(crate) mod permits;
pub(crate) mod read_write_lock;
pub(crate) mod registry;
pub(crate) mod revocation;
pub(crate) mod semaphore;
pub(crate) mod semaphore_mutex;
pub(crate) mod sequential_multi_lock;
pub(crate) mod state;

pub use self::guard::Guard;
pub use self::herd_lock::HerdLock;
pub use self::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
pub use self::multi_lock::{InterProcessMultiLock, MultiGuard};
pub use self::mutex::{InterProcessMutex, KazooLine};
pub use self::owner::Owner;
pub use self::permits::Permits;
pub use self::read_write_lock::{
    InterProcessReadLock, InterProcessReadWriteLock, InterProcessWriteLock,
};
pub use self::revocation::Revoker;
pub use self::semaphore::InterProcessSemaphoreV2;
pub use self::semaphore_mutex::InterProcessSemaphoreMutex;
pub use self::sequential_multi_lock::{SequentialMultiGuard, SequentialMultiLock};
pub use self::state::LockState;
