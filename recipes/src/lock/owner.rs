//! Owners of locks, and who stands in which line of this process.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;

use crate::client::Client;
use crate::client::recipe::ClientId;
use crate::error::LockError;
use crate::line::order::Kind;
use crate::lock::held::Held;

/// How long a task waits for what it holds itself before a warning says so: longer than most
/// locks are held, and short enough for somebody who looks at a test that hangs.
const SELF_WAIT_WARNED_AFTER: Duration = Duration::from_secs(1);

/// One who may hold a lock, and acquire it again while it does.
///
/// An `acquire` without an owner stands in line by itself, also beside others of the same task.
/// Calls that name the same owner share one hold: the second `acquire_as` of an owner that holds the
/// lock returns another guard of it, without a request, and the lock is free when the last guard is
/// gone. An owner does one thing at a time: while it waits in a line, it is not let into that line
/// again ([`LockError::WouldDeadlock`]). It counts within one client's session.
///
/// In [`blocking`](crate::blocking) each thread is an owner.
///
/// ```no_run
/// use zoolet_recipes::client::Client;
/// use zoolet_recipes::{InterProcessMutex, Owner};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
/// let order = Owner::new();
/// let guard = mutex.acquire_as(order).await?;
/// let again = mutex.acquire_as(order).await?; // the same hold
/// assert_eq!(guard.path(), again.path());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(Who);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Who {
    Thread(ThreadId),
    Named(u64),
}

impl Owner {
    /// An owner unlike any other.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is unlike the others")]
    pub fn new() -> Self {
        Self(Who::Named(next_id()))
    }

    /// The thread that runs this, for calls that block it.
    pub(crate) fn current_thread() -> Self {
        Self(Who::Thread(std::thread::current().id()))
    }
}

/// A number that no other has in this process.
fn next_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// What runs a future: a task, or outside of a task the thread. One that waits for a lock cannot
/// release another guard meanwhile, unless it polls more than one future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Runner {
    Task(tokio::task::Id),
    Thread(ThreadId),
}

impl Runner {
    fn current() -> Self {
        match tokio::task::try_id() {
            Some(task) => Self::Task(task),
            None => Self::Thread(std::thread::current().id()),
        }
    }
}

/// A line of a session, however many objects stand for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineId {
    client: ClientId,
    /// As the server names it, whatever the namespace.
    path: Arc<str>,
    /// Of the path: each acquire looks for it several times.
    hash: u64,
}

impl LineId {
    pub(crate) fn new(client: &Client, directory: &str) -> Self {
        let path: Arc<str> = client.server_path(directory).into();
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        Self { client: client.id(), path, hash: hasher.finish() }
    }
}

impl Hash for LineId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.client, self.hash).hash(state);
    }
}

/// One place of an owner in a line.
#[derive(Debug)]
struct Standee {
    id: u64,
    is_exclusive: bool,
    /// By what the lock is held, once it is.
    held: Weak<Held>,
}

/// What one task holds of a line, by the ids of its [`Holding`]s.
type Holdings = Vec<(u64, Weak<Held>)>;

/// Who stands in which line, and which tasks hold what.
#[derive(Debug, Default)]
struct Lines {
    standees: HashMap<(LineId, Owner), Vec<Standee>>,
    holdings: HashMap<(LineId, Runner), Holdings>,
}

static LINES: LazyLock<Mutex<Lines>> = LazyLock::new(Mutex::default);

/// That an owner stands in a line; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Stand {
    line: LineId,
    owner: Owner,
    id: u64,
    /// What the same task held in this line when it joined.
    behind: Option<Behind>,
    holding: Option<Holding>,
}

impl Stand {
    /// Joins a line, unless the owner would wait for itself: a shared place waits for exclusive
    /// ones, and an exclusive place waits for all. A place whose lock is lost is not waited for,
    /// also while its guard is alive.
    pub(crate) fn join(line: &LineId, kind: &Kind, owner: Owner) -> Result<Self, LockError> {
        let mut lost: Vec<u64> = Vec::new();
        loop {
            let mut lines = LINES.lock();
            let standees = lines.standees.entry((line.clone(), owner)).or_default();
            let conflicts: Vec<_> = standees
                .iter()
                .filter(|standee| standee.is_exclusive || kind.is_exclusive)
                .filter(|standee| !lost.contains(&standee.id))
                .map(|standee| (standee.id, Weak::clone(&standee.held)))
                .collect();
            if conflicts.is_empty() {
                return Ok(lines.add(line, kind, owner));
            }
            // What is held has locks of its own, which are not taken under this one.
            drop(lines);
            let is_lost = |held: &Weak<Held>| held.upgrade().is_some_and(|held| held.is_lost());
            if !conflicts.iter().all(|(_, held)| is_lost(held)) {
                return Err(LockError::WouldDeadlock(line.path.to_string()));
            }
            lost.extend(conflicts.iter().map(|(id, _)| id));
        }
    }

    /// Joins a line in which the owner has a place already, to take another beside it.
    pub(crate) fn join_beside(line: &LineId, kind: &Kind, owner: Owner) -> Self {
        LINES.lock().add(line, kind, owner)
    }

    /// Who stands there.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// What the task that joined held in this line already.
    pub(crate) fn behind(&self) -> Option<&Behind> {
        self.behind.as_ref()
    }

    /// Notes by what the lock is held from now on.
    pub(crate) fn holds(&mut self, held: &Arc<Held>) {
        let mut lines = LINES.lock();
        let standees = lines.standees.get_mut(&(self.line.clone(), self.owner));
        let own = |standee: &&mut Standee| standee.id == self.id;
        if let Some(standee) = standees.into_iter().flatten().find(own) {
            standee.held = Arc::downgrade(held);
        }
        self.holding = Some(lines.hold(&self.line, held));
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // Before the lock is taken: it takes the same.
        self.holding = None;
        let key = (self.line.clone(), self.owner);
        let mut lines = LINES.lock();
        let Some(standees) = lines.standees.get_mut(&key) else { return };
        standees.retain(|standee| standee.id != self.id);
        if standees.is_empty() {
            lines.standees.remove(&key);
        }
    }
}

/// That a task holds something of a line, until this is dropped. The guard may be elsewhere by then.
#[derive(Debug)]
pub(crate) struct Holding {
    line: LineId,
    runner: Runner,
    id: u64,
}

impl Holding {
    /// The task that runs this holds something of a line from now on.
    pub(crate) fn begin(line: &LineId, held: &Arc<Held>) -> Self {
        LINES.lock().hold(line, held)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let key = (self.line.clone(), self.runner);
        let mut lines = LINES.lock();
        let Some(holdings) = lines.holdings.get_mut(&key) else { return };
        holdings.retain(|(id, _)| *id != self.id);
        if holdings.is_empty() {
            lines.holdings.remove(&key);
        }
    }
}

impl Lines {
    fn add(&mut self, line: &LineId, kind: &Kind, owner: Owner) -> Stand {
        let id = next_id();
        let standee = Standee { id, is_exclusive: kind.is_exclusive, held: Weak::new() };
        self.standees.entry((line.clone(), owner)).or_default().push(standee);
        Stand { line: line.clone(), owner, id, behind: self.behind(line), holding: None }
    }

    /// What the task that runs this holds of a line, if it does.
    fn behind(&self, line: &LineId) -> Option<Behind> {
        let holdings = self.holdings.get(&(line.clone(), Runner::current()))?;
        let held = holdings.iter().map(|(_, held)| Weak::clone(held)).collect();
        Some(Behind { line: line.clone(), held })
    }

    fn hold(&mut self, line: &LineId, held: &Arc<Held>) -> Holding {
        let (line, runner, id) = (line.clone(), Runner::current(), next_id());
        let holdings = self.holdings.entry((line.clone(), runner)).or_default();
        holdings.push((id, Arc::downgrade(held)));
        Holding { line, runner, id }
    }
}

/// What a task holds itself of the line in which it waits.
#[derive(Debug)]
pub(crate) struct Behind {
    line: LineId,
    held: Vec<Weak<Held>>,
}

impl Behind {
    /// What the task that runs this holds of a line, if it does.
    pub(crate) fn own(line: &LineId) -> Option<Self> {
        LINES.lock().behind(line)
    }

    /// Says that a task waits for a lock that it holds, if it still does.
    fn warn(&self) {
        let is_held = |held: &Weak<Held>| held.upgrade().is_some_and(|held| !held.is_lost());
        if self.held.iter().any(is_held) {
            tracing::warn!(
                "{}: this task has waited {} s for a lock that it acquired itself and that is not \
                 released yet. Each acquire stands in line by itself, so it may wait for ever. \
                 Release the lock first, or, to hold it twice, call reenter() on its guard, or \
                 acquire_as() with one Owner both times, where the lock has them",
                self.line.path,
                SELF_WAIT_WARNED_AFTER.as_secs(),
            );
        }
    }
}

/// Waits for locks. If the task that waits holds one of them already, a warning says so after a
/// second: nobody else may be there to release it.
pub(crate) async fn acquire_behind<'a, F: Future>(
    behind: impl IntoIterator<Item = &'a Behind>,
    acquire: F,
) -> F::Output {
    let mut acquire = pin!(acquire);
    let behind: Vec<_> = behind.into_iter().collect();
    if behind.is_empty() {
        return acquire.await;
    }
    match tokio::time::timeout(SELF_WAIT_WARNED_AFTER, &mut acquire).await {
        Ok(acquired) => acquired,
        Err(_) => {
            behind.into_iter().for_each(Behind::warn);
            acquire.await
        }
    }
}
