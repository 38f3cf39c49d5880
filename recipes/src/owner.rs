//! Who holds a lock, as far as re-entrancy is concerned.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

use parking_lot::Mutex;

use crate::client::Client;
use crate::error::LockError;

/// One who may hold a lock, and acquire it again while it does: the tokio task that asks, outside
/// of a task the thread, or an owner of one's own.
///
/// ```
/// use zoolet_recipes::Owner;
///
/// let owner = Owner::new();
/// assert_eq!(owner, owner.clone());
/// assert_ne!(owner, Owner::new());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(Who);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Who {
    Task(tokio::task::Id),
    Thread(ThreadId),
    Named(u64),
}

impl Owner {
    /// An owner unlike any other.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is unlike the others")]
    pub fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(Who::Named(LAST.fetch_add(1, Ordering::Relaxed)))
    }

    /// The task that runs this, or the thread if no task does.
    #[must_use]
    pub fn current() -> Self {
        Self(match tokio::task::try_id() {
            Some(task) => Who::Task(task),
            None => Who::Thread(std::thread::current().id()),
        })
    }
}

/// A line of a session, and who stands in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Standing {
    client: usize,
    line: String,
    owner: Owner,
}

/// Who stands in or heads which line in this process, however many objects stand for the line.
static STANDING: LazyLock<Mutex<HashSet<Standing>>> = LazyLock::new(Mutex::default);

/// That an owner stands in a line; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Stand(Standing);

impl Stand {
    /// Joins a line, unless the owner stands in it already and would wait for itself.
    pub(crate) fn join(client: &Client, line: &str, owner: Owner) -> Result<Self, LockError> {
        let line = line.to_owned();
        let standing = Standing { client: client.identity(), line, owner };
        if !STANDING.lock().insert(standing.clone()) {
            return Err(LockError::WouldDeadlock(standing.line));
        }
        Ok(Self(standing))
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        STANDING.lock().remove(&self.0);
    }
}
