//! Owners of locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

/// A holder of locks that may acquire a lock again while it holds it.
///
/// An `acquire` without an owner enters the line by itself, also beside other calls of the same
/// task. Calls that name the same owner share one held lock: the second `acquire_as` of an owner
/// that holds the lock returns another guard of it, without a request, and the lock is released
/// with the last guard. An owner does one thing at a time: while it waits in a line, another
/// `acquire_as` in that line fails ([`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock)),
/// unless both only read. An owner counts within one client.
///
/// In [`blocking`](crate::blocking) each thread is an owner, as in Curator.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::{InterProcessMutex, Owner};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
/// let order = Owner::new();
/// let guard = mutex.acquire_as(order).await?;
/// let again = mutex.acquire_as(order).await?; // another guard of the same held lock
/// assert_eq!(guard.path(), again.path());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(Identity);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Identity {
    Thread(ThreadId),
    Number(u64),
}

impl Owner {
    /// A new owner, unequal to all others.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each new owner is another")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Identity::Number(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The current thread, as the owner of what blocking calls acquire.
    pub(crate) fn current_thread() -> Self {
        Self(Identity::Thread(std::thread::current().id()))
    }
}
