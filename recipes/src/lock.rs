//! Curator's locks, their guards and their owners.

pub(crate) mod guard;
pub(crate) mod held;
pub(crate) mod herd_lock;
pub(crate) mod inter_process_lock;
pub(crate) mod line_lock;
pub(crate) mod multi_lock;
pub(crate) mod mutex;
pub(crate) mod owner;
pub(crate) mod permits;
pub(crate) mod read_write_lock;
pub(crate) mod revocation;
pub(crate) mod semaphore;
pub(crate) mod semaphore_mutex;
pub(crate) mod sequential_multi_lock;

pub use self::guard::{Guard, LockState};
pub use self::herd_lock::HerdLock;
pub use self::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
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
