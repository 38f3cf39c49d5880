//! The registry of this process: which owners wait in which line, and who holds which lock.
//!
//! It answers four questions. Does this owner hold the lock by this lock object, so that it gets
//! another guard? Would this owner wait for itself? Does anyone hold a lock by this lock object?
//! Does the task that waits hold the lock itself?
//!
//! A [`HeldLock`] keeps its registrations and drops them when it is released; the registry refers
//! to the held lock only weakly.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tracing::subscriber::NoSubscriber;

use super::held_lock::{HeldLock, LockHandle};
use super::owner::Owner;
use crate::error::LockError;
use crate::line::order::PlaceKind;
use crate::line::{LineId, LineKey};

/// How long a task waits for a lock that it holds itself before a warning is logged: longer than
/// most locks are held, and short enough for a developer whose test hangs.
const SELF_WAIT_WARNED_AFTER: Duration = Duration::from_secs(1);

/// Identifies a lock object. Its clones have the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockId(u64);

impl LockId {
    pub(crate) fn new() -> Self {
        Self(next_id())
    }
}

/// A number that is given once in this process.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What runs a future: a task, or a thread outside of any task. While it waits for a lock it cannot
/// release another guard, unless it polls more than one future.
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

/// One owner that waits in a line, or holds a lock by it.
#[derive(Debug)]
struct Entry {
    id: u64,
    /// Another line may have the same key.
    line: LineId,
    lock: LockId,
    is_exclusive: bool,
    /// The lock, once it is held.
    held: Weak<HeldLock>,
}

/// Hashes keys that are numbers which this process gives and hashes of paths: nobody else can choose them
/// so that they collide. Each acquire looks several of them up.
#[derive(Debug, Default)]
struct Mixing(u64);

impl Hasher for Mixing {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        // An odd factor whose bits are in no order: the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        // A product's high bits depend on all bits of the factors, its low bits do not.
        self.0 ^ self.0.rotate_right(32)
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixing>>;

/// The owners and ids of entries. Mostly it is one, which needs no memory of its own.
type EntryKeys = SmallVec<[(Owner, u64); 1]>;

#[derive(Debug, Default)]
struct Registry {
    entries: Map<(LineKey, Owner), SmallVec<[Entry; 1]>>,
    /// The entries of the locks that a task or thread has acquired and not released: an index.
    by_runner: Map<(LineKey, Runner), EntryKeys>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

impl Registry {
    fn add(&mut self, line: &LineId, kind: &PlaceKind, lock: LockId, owner: Owner) -> Registration {
        let (id, is_exclusive) = (next_id(), kind.is_exclusive);
        let entry = Entry { id, line: line.clone(), lock, is_exclusive, held: Weak::new() };
        self.entries.entry((line.key(), owner)).or_default().push(entry);
        let held_by_runner = self.held_by_runner(line);
        Registration { line: line.clone(), owner, id, held_by_runner, runner: None }
    }

    /// Removes a registration from the index of what its task or thread has acquired.
    fn remove_from_runner(&mut self, registration: &Registration) {
        let Some(runner) = registration.runner else { return };
        let key = (registration.line.key(), runner);
        if let MapEntry::Occupied(mut ids) = self.by_runner.entry(key) {
            ids.get_mut().retain(|(_, id)| *id != registration.id);
            if ids.get().is_empty() {
                ids.remove();
            }
        }
    }

    /// The locks of this line that the current task or thread has acquired and not released.
    fn held_by_runner(&self, line: &LineId) -> Vec<Weak<HeldLock>> {
        if self.by_runner.is_empty() {
            return Vec::new();
        }
        let ids = self.by_runner.get(&(line.key(), Runner::current()));
        let entry = |(owner, id): &(Owner, u64)| {
            let entries = self.entries.get(&(line.key(), *owner))?;
            entries.iter().find(|entry| entry.id == *id && entry.line == *line)
        };
        let held = ids.into_iter().flatten().filter_map(entry);
        held.map(|entry| Weak::clone(&entry.held)).collect()
    }
}

/// What comes of registering an owner.
pub(crate) enum Registered<T> {
    /// The owner holds the lock by the same lock object: the handle of another guard.
    Held(LockHandle),
    /// The owner is registered, and enters the line.
    New(T),
}

/// The registration of one owner in one line, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    line: LineId,
    owner: Owner,
    id: u64,
    /// The locks of this line that the same task held when it registered.
    held_by_runner: Vec<Weak<HeldLock>>,
    /// The task that acquired the lock. The guard may be elsewhere by now.
    runner: Option<Runner>,
}

impl Registration {
    /// Registers an owner that acquires the lock `lock` in a line.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if the owner would wait for itself: a shared place waits for
    /// exclusive ones, and an exclusive place waits for all. No place waits for a lost lock, even
    /// while its guard is alive.
    pub(crate) fn new(
        line: &LineId,
        kind: &PlaceKind,
        lock: LockId,
        owner: Owner,
    ) -> Result<Registered<Self>, LockError> {
        // The entries for which the owner need not wait: of lost locks, and of reads beside a read.
        let mut passed: Vec<u64> = Vec::new();
        loop {
            let mut registry = REGISTRY.lock();
            let entries = registry.entries.get(&(line.key(), owner));
            let conflicts: Vec<_> = entries
                .into_iter()
                .flatten()
                .filter(|entry| entry.line == *line)
                .filter(|entry| entry.lock == lock || entry.is_exclusive || kind.is_exclusive)
                .filter(|entry| !passed.contains(&entry.id))
                .map(|entry| (entry.id, entry.lock, entry.is_exclusive, Weak::clone(&entry.held)))
                .collect();
            if conflicts.is_empty() {
                return Ok(Registered::New(registry.add(line, kind, lock, owner)));
            }
            // A held lock has locks of its own, which are not taken under this one.
            drop(registry);
            for (id, of_lock, is_exclusive, held) in conflicts {
                let held = held.upgrade();
                if of_lock == lock
                    && let Some(handle) = held.as_ref().and_then(LockHandle::another_of)
                {
                    return Ok(Registered::Held(handle));
                }
                let is_lost = held.is_some_and(|held| held.is_lost());
                if !is_lost && (is_exclusive || kind.is_exclusive) {
                    return Err(LockError::WouldDeadlock(line.path().to_owned()));
                }
                passed.push(id);
            }
        }
    }

    /// Registers an owner a second time in a line in which it holds the lock.
    pub(crate) fn beside(line: &LineId, kind: &PlaceKind, lock: LockId, owner: Owner) -> Self {
        REGISTRY.lock().add(line, kind, lock, owner)
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Notes that the owner holds the lock.
    pub(crate) fn set_held(&mut self, held: &Arc<HeldLock>) {
        let runner = Runner::current();
        let mut registry = REGISTRY.lock();
        registry.remove_from_runner(self);
        let entries = registry.entries.get_mut(&(self.line.key(), self.owner));
        if let Some(entry) = entries.into_iter().flatten().find(|entry| entry.id == self.id) {
            entry.held = Arc::downgrade(held);
        }
        let of_runner = registry.by_runner.entry((self.line.key(), runner)).or_default();
        of_runner.push((self.owner, self.id));
        self.runner = Some(runner);
    }

    /// Warns if the task that waits holds the lock itself: in the log, and without a subscriber on
    /// the standard error of a debug build, since nothing else explains why a test hangs.
    fn warn_of_self_wait(&self) {
        let is_held = |held: &Weak<HeldLock>| held.upgrade().is_some_and(|held| !held.is_lost());
        if !self.held_by_runner.iter().any(is_held) {
            return;
        }
        let warning = format!(
            "{}: this task has waited {} s for a lock that it acquired itself and that is not \
             released yet. Each acquire enters the line by itself, so it may wait for ever. \
             Release the lock first, or, to hold it twice, call reenter() on its guard, or \
             acquire_as() with one Owner both times, where the lock has them",
            self.line.path(),
            SELF_WAIT_WARNED_AFTER.as_secs(),
        );
        tracing::warn!("{warning}");
        let is_logged = tracing::dispatcher::get_default(|log| !log.is::<NoSubscriber>());
        if cfg!(debug_assertions) && !is_logged {
            // A test keeps what `eprintln!` prints until it ends. If this fails, nothing is lost.
            let _ = writeln!(std::io::stderr(), "warning: {warning}");
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut registry = REGISTRY.lock();
        let key = (self.line.key(), self.owner);
        if let MapEntry::Occupied(mut entries) = registry.entries.entry(key) {
            entries.get_mut().retain(|entry| entry.id != self.id);
            if entries.get().is_empty() {
                entries.remove();
            }
        }
        registry.remove_from_runner(self);
    }
}

/// Another guard of the lock that an owner holds by a lock object. A lost lock is not held, and may
/// be acquired again.
pub(crate) fn held_by(line: &LineId, lock: LockId, owner: Owner) -> Option<LockHandle> {
    let registry = REGISTRY.lock();
    let entries = registry.entries.get(&(line.key(), owner))?;
    let of_lock = entries.iter().filter(|entry| entry.lock == lock && entry.line == *line);
    let held: Vec<_> = of_lock.map(|entry| Weak::clone(&entry.held)).collect();
    drop(registry);
    held.iter().find_map(|held| LockHandle::another_of(&held.upgrade()?))
}

/// Whether anyone holds a lock by a lock object.
pub(crate) fn is_held(line: &LineId, lock: LockId) -> bool {
    let registry = REGISTRY.lock();
    let all = registry.entries.values().flatten();
    let of_lock = all.filter(|entry| entry.lock == lock && entry.line == *line);
    let held: Vec<_> = of_lock.map(|entry| Weak::clone(&entry.held)).collect();
    drop(registry);
    held.iter().filter_map(Weak::upgrade).any(|held| !held.is_lost())
}

/// Waits for locks. If the task that waits holds one of them itself, this logs a warning after a
/// second: perhaps no other task can release it.
/// The caller pins the future, for the same reason as in [`within`](crate::error::within).
pub(crate) async fn with_self_wait_warning<F: Future + Unpin>(
    registrations: &[Registration],
    mut acquiring: F,
) -> F::Output {
    if registrations.iter().all(|registration| registration.held_by_runner.is_empty()) {
        return acquiring.await;
    }
    match tokio::time::timeout(SELF_WAIT_WARNED_AFTER, &mut acquiring).await {
        Ok(acquired) => acquired,
        Err(_) => {
            registrations.iter().for_each(Registration::warn_of_self_wait);
            acquiring.await
        }
    }
}
