//! Who holds a lock, as far as re-entrancy is concerned.

use std::collections::HashMap;
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

impl Standing {
    /// By the path as the server names it: a line is one in whatever namespace.
    fn of(client: &Client, line: &str, owner: Owner) -> Self {
        Self { client: client.identity(), line: client.server_path(line), owner }
    }
}

/// How an owner stands in a line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Places {
    /// How many places it shares with others.
    shared: usize,
    /// Whether it has, or waits for, one that it shares with nobody.
    is_exclusive: bool,
}

/// Who stands in which line in this process, however many objects stand for the line.
static STANDING: LazyLock<Mutex<HashMap<Standing, Places>>> = LazyLock::new(Mutex::default);

/// That an owner stands in a line; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Stand {
    standing: Standing,
    is_exclusive: bool,
}

impl Stand {
    /// Joins a line, unless the owner would wait for itself: who shares waits for who does not,
    /// and who does not share waits for everybody.
    pub(crate) fn join(
        client: &Client,
        line: &str,
        owner: Owner,
        is_exclusive: bool,
    ) -> Result<Self, LockError> {
        let standing = Standing::of(client, line, owner);
        let mut all = STANDING.lock();
        let places = all.entry(standing.clone()).or_default();
        if places.is_exclusive || (is_exclusive && places.shared > 0) {
            return Err(LockError::WouldDeadlock(standing.line));
        }
        if is_exclusive {
            places.is_exclusive = true;
        } else {
            places.shared += 1;
        }
        Ok(Self { standing, is_exclusive })
    }

    /// Who stands in the line.
    pub(crate) fn owner(&self) -> Owner {
        self.standing.owner
    }

    /// Joins a line in which the owner stands alone already, to share its place.
    pub(crate) fn join_own(client: &Client, line: &str, owner: Owner) -> Self {
        let standing = Standing::of(client, line, owner);
        STANDING.lock().entry(standing.clone()).or_default().shared += 1;
        Self { standing, is_exclusive: false }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let mut all = STANDING.lock();
        let Some(places) = all.get_mut(&self.standing) else { return };
        if self.is_exclusive {
            places.is_exclusive = false;
        } else {
            places.shared -= 1;
        }
        if *places == Places::default() {
            all.remove(&self.standing);
        }
    }
}
