//! The clients. Each acquires locks of all kinds in random order, holds them for a while, and
//! releases them in one of several ways.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_client::{self as client, Builder, Client, Parents};
use zoolet_protocol::{ErrorCode, Zxid};
use zoolet_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LeaderLatch, LeaderSelector, LockError,
    LockGuard, LockState, Requeue, blocking,
};

use super::checker::{Checker, Claim, Hold, IsHeld, pause};
use super::{Outcome, World, now};

pub(crate) const MUTEX: &str = "/faults/mutex";
pub(crate) const OTHER: &str = "/faults/other";
pub(crate) const READ_WRITE: &str = "/faults/rw";
pub(crate) const ONE: &str = "/faults/one";
pub(crate) const PERMITS: &str = "/faults/permits";
pub(crate) const LATCH: &str = "/faults/latch";
pub(crate) const SELECTOR: &str = "/faults/selector";
pub(crate) const VALUE: &str = "/faults/value";

const PERMITS_MAX: usize = 3;
/// More than the number of readers.
const READERS_MAX: usize = 1_000;

/// Longer than any wait, including elections and expired sessions.
const WAIT_MAX: Duration = Duration::from_secs(150);

/// What the clients did.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) held: AtomicUsize,
    pub(crate) abandoned: AtomicUsize,
    pub(crate) lost: AtomicUsize,
}

/// A lock, and for each resource its capacity and the weight of the lock.
struct Kind {
    lock: Box<dyn InterProcessLock>,
    resources: Vec<(&'static str, usize, usize)>,
    /// Whether the holder reads and writes the value.
    protects_value: bool,
}

fn kinds(client: &Client) -> Result<Vec<Kind>, LockError> {
    let kind = |lock: Box<dyn InterProcessLock>, resources: &[(&'static str, usize, usize)]| Kind {
        lock,
        resources: resources.to_vec(),
        protects_value: resources[0].0 == MUTEX,
    };
    let read_write = InterProcessReadWriteLock::new(client, READ_WRITE)?;
    Ok(vec![
        kind(Box::new(InterProcessMutex::new(client, MUTEX)?), &[(MUTEX, 1, 1)]),
        kind(Box::new(InterProcessMutex::new(client, MUTEX)?), &[(MUTEX, 1, 1)]),
        kind(Box::new(InterProcessMutex::new(client, OTHER)?), &[(OTHER, 1, 1)]),
        kind(
            Box::new(InterProcessMultiLock::new(client, &[MUTEX, OTHER])?),
            &[(MUTEX, 1, 1), (OTHER, 1, 1)],
        ),
        kind(Box::new(read_write.write_lock()), &[(READ_WRITE, READERS_MAX, READERS_MAX)]),
        kind(Box::new(read_write.read_lock()), &[(READ_WRITE, READERS_MAX, 1)]),
        kind(Box::new(read_write.read_lock()), &[(READ_WRITE, READERS_MAX, 1)]),
        kind(Box::new(InterProcessSemaphoreMutex::new(client, ONE)?), &[(ONE, 1, 1)]),
    ])
}

/// The error of a client that stops waiting.
fn abandoned() -> LockError {
    LockError::TimedOut("abandoned".to_owned())
}

/// A held guard, which other threads inspect and the holder takes back.
struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Slot<T> {
    fn new(held: T) -> Self {
        Self(Arc::new(Mutex::new(Some(held))))
    }

    fn with<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(look)
    }

    fn is_held(&self, look: impl Fn(&T) -> bool + Send + Sync + 'static) -> IsHeld {
        let slot = Self(Arc::clone(&self.0));
        Box::new(move || slot.with(|held| look(held)).unwrap_or(false))
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A client that acquires locks, with a connection of its own.
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) world: Arc<World>,
    pub(crate) client: Client,
    pub(crate) tally: Arc<Tally>,
}

impl Contender {
    pub(crate) async fn run(self) -> Outcome {
        let kinds = kinds(&self.client)?;
        let semaphore = InterProcessSemaphoreV2::new(&self.client, PERMITS, PERMITS_MAX)?;
        while !self.world.is_over() {
            let what = fastrand::usize(..kinds.len() + 4);
            let turn = async {
                match what.checked_sub(kinds.len()) {
                    None => self.take(&kinds[what]).await,
                    Some(0) => self.lead_by_latch().await,
                    Some(1) => self.lead_by_selector().await,
                    Some(_) => self.take_permits(&semaphore).await,
                }
            };
            match tokio::time::timeout(WAIT_MAX, turn).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.note(&error),
                Err(_) => self.report(format!("turn {what} takes longer than {WAIT_MAX:?}")),
            }
        }
        Ok(())
    }

    fn report(&self, violation: String) {
        self.world.checker.report(format!("{}: {violation}", self.name));
    }

    /// Counts an expected error, and reports any other.
    fn note(&self, error: &LockError) {
        let is_usual = match error {
            LockError::TimedOut(_) => true,
            LockError::Lost(_) | LockError::PlaceLost(_) => {
                self.tally.lost.fetch_add(1, Ordering::SeqCst);
                true
            }
            LockError::Client(error) => {
                error.is_retryable() || *error == client::Error::SessionExpired
            }
            _ => false,
        };
        self.tally.abandoned.fetch_add(1, Ordering::SeqCst);
        if !is_usual {
            self.report(format!("an unexpected error: {error:?}"));
        }
    }

    /// Waits for a lock, sometimes with a timeout.
    async fn acquire<T>(
        &self,
        acquiring: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        match fastrand::u8(..4) {
            0 => {
                // The wait ends at a random moment.
                let time = Duration::from_millis(fastrand::u64(0..400));
                tokio::time::timeout(time, acquiring).await.unwrap_or(Err(abandoned()))
            }
            1 => {
                let time = Duration::from_millis(fastrand::u64(300..9_000));
                tokio::time::timeout(time, acquiring).await.unwrap_or(Err(abandoned()))
            }
            _ => acquiring.await,
        }
    }

    async fn take(&self, kind: &Kind) -> Result<(), LockError> {
        let acquiring = async {
            if fastrand::u8(..5) == 0 {
                kind.lock.try_acquire().await?.ok_or_else(abandoned)
            } else {
                kind.lock.acquire().await
            }
        };
        let guard = self.acquire(acquiring).await?;
        let token = guard.fencing_token();
        let slot = Slot::new(guard);
        let holds: Vec<_> = kind
            .resources
            .iter()
            .map(|&(resource, capacity, weight)| {
                let is_held = slot.is_held(|guard| guard.state() == LockState::Held);
                self.enter(resource, capacity, weight, token, is_held)
            })
            .collect();
        let worked = if kind.protects_value && fastrand::bool() {
            self.count(&slot).await
        } else {
            self.wait_a_while().await;
            Ok(())
        };
        let guard = slot.take();
        drop(holds);
        self.release(guard).await?;
        worked
    }

    fn enter(
        &self,
        resource: &'static str,
        capacity: usize,
        weight: usize,
        token: Zxid,
        is_held: IsHeld,
    ) -> Hold {
        self.tally.held.fetch_add(1, Ordering::SeqCst);
        let claim = Claim { name: self.name.clone(), weight, token, is_held };
        self.world.checker.enter(resource, capacity, claim)
    }

    /// Waits for a random time, which is mostly short.
    async fn wait_a_while(&self) {
        let longest = if fastrand::u8(..12) == 0 { 6_000 } else { 120 };
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..longest))).await;
    }

    /// Reads and writes the value that the lock protects.
    async fn count(&self, slot: &Slot<Box<dyn LockGuard>>) -> Result<(), LockError> {
        let version = &self.world.checker.version;
        let known = version.load(Ordering::SeqCst);
        let (_, stat) = self.client.get(VALUE).await?;
        if stat.version < known {
            self.report(format!("version {} is read after {known} was written", stat.version));
        }
        let is_held = || slot.with(|guard| guard.state()) == Some(LockState::Held);
        let was_held = is_held();
        // The request is sent once: carried out twice, it would look like the write of another
        // client.
        let set = self.client.set(VALUE, "x").version(stat.version).send().await;
        match set {
            Ok(stat) => {
                version.fetch_max(stat.version, Ordering::SeqCst);
                Ok(())
            }
            Err(error) if error.is(ErrorCode::BAD_VERSION) => {
                if was_held && is_held() {
                    self.report("another client wrote while this one held the lock".to_owned());
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, guard: Option<Box<dyn LockGuard>>) -> Result<(), LockError> {
        let Some(guard) = guard else { return Ok(()) };
        match fastrand::u8(..4) {
            0 => {
                drop(guard);
                Ok(())
            }
            1 => guard.release_within(Duration::from_millis(fastrand::u64(0..200))).await,
            _ => guard.release().await,
        }
    }

    async fn take_permits(&self, semaphore: &InterProcessSemaphoreV2) -> Result<(), LockError> {
        let count = fastrand::usize(1..=PERMITS_MAX);
        let acquiring = async {
            if fastrand::u8(..5) == 0 {
                semaphore.try_acquire(count).await?.ok_or_else(abandoned)
            } else {
                semaphore.acquire(count).await
            }
        };
        let permits = self.acquire(acquiring).await?;
        let (token, slot) = (permits.fencing_token(), Slot::new(permits));
        let is_held = slot.is_held(|permits| permits.state() == LockState::Held);
        let hold_record = self.enter(PERMITS, PERMITS_MAX, count, token, is_held);
        self.wait_a_while().await;
        let permits = slot.take();
        drop(hold_record);
        self.release(permits.map(|permits| Box::new(permits) as Box<dyn LockGuard>)).await
    }

    async fn lead_by_latch(&self) -> Result<(), LockError> {
        let latch = LeaderLatch::start(&self.client, LATCH, &self.name)?;
        let wait = Duration::from_millis(fastrand::u64(0..4_000));
        let term = latch.await_leadership_within(wait).await;
        let slot = Slot::new(latch);
        if let Ok(term) = &term {
            let is_held = slot.is_held(LeaderLatch::is_leader);
            let hold_record = self.enter(LATCH, 1, 1, term.fencing_token(), is_held);
            self.wait_a_while().await;
            drop(hold_record);
        }
        match slot.take() {
            Some(latch) if fastrand::bool() => latch.close().await,
            _ => Ok(()),
        }?;
        term.map(drop)
    }

    async fn lead_by_selector(&self) -> Result<(), LockError> {
        let (checker, name, tally) =
            (Arc::clone(&self.world.checker), self.name.clone(), Arc::clone(&self.tally));
        let lead = move |term: zoolet_recipes::Term| {
            let (checker, name, tally) = (Arc::clone(&checker), name.clone(), Arc::clone(&tally));
            async move {
                // The function runs until this is dropped.
                let running = Slot::new(());
                tally.held.fetch_add(1, Ordering::SeqCst);
                let claim = Claim {
                    name,
                    weight: 1,
                    token: term.fencing_token(),
                    is_held: running.is_held(|()| true),
                };
                let _ends = Ends(running, Some(checker.enter(SELECTOR, 1, claim)));
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
            }
        };
        let selector =
            LeaderSelector::start(&self.client, SELECTOR, &self.name, Requeue::Always, lead)?;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3_000))).await;
        selector.close().await
    }
}

/// Ends the function before the checker removes the holder.
struct Ends(Slot<()>, Option<Hold>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.take();
        self.1.take();
    }
}

/// A client that acquires locks by blocking calls on a thread.
pub(crate) fn contend_on_thread(
    name: &str,
    world: &Arc<World>,
    tally: &Arc<Tally>,
    builder: Builder,
    hosts: &str,
) -> Result<(), Failed> {
    let client = client::blocking::Client::connect_with(builder, hosts)?;
    let mutex = blocking::InterProcessMutex::new(&client, MUTEX)?;
    let read_write = blocking::InterProcessReadWriteLock::new(&client, READ_WRITE)?;
    let (read, write) = (read_write.read_lock(), read_write.write_lock());
    let semaphore = blocking::InterProcessSemaphoreV2::new(&client, PERMITS, PERMITS_MAX)?;
    while !world.is_over() {
        let time = Duration::from_millis(fastrand::u64(0..8_000));
        let start = now();
        let count = fastrand::usize(1..=PERMITS_MAX);
        let (resource, capacity, weight) = match fastrand::u8(..4) {
            0 => (MUTEX, 1, 1),
            1 => (READ_WRITE, READERS_MAX, 1),
            2 => (READ_WRITE, READERS_MAX, READERS_MAX),
            _ => (PERMITS, PERMITS_MAX, count),
        };
        let checker = &world.checker;
        let result = match (resource, weight) {
            (PERMITS, count) => semaphore.acquire_within(count, time).and_then(|permits| {
                hold(name, tally, checker, (resource, capacity, weight), permits)
            }),
            (MUTEX, _) => mutex
                .acquire_within(time)
                .and_then(|guard| hold(name, tally, checker, (resource, capacity, weight), guard)),
            (_, 1) => read
                .acquire_within(time)
                .and_then(|guard| hold(name, tally, checker, (resource, capacity, weight), guard)),
            _ => write
                .acquire_within(time)
                .and_then(|guard| hold(name, tally, checker, (resource, capacity, weight), guard)),
        };
        if result.is_err() {
            tally.abandoned.fetch_add(1, Ordering::SeqCst);
        }
        if now() - start > WAIT_MAX {
            checker.report(format!("{name}: {resource} took {:?}", now() - start));
        }
    }
    Ok(())
}

fn hold<G: LockGuard + 'static>(
    name: &str,
    tally: &Tally,
    checker: &Arc<Checker>,
    (resource, capacity, weight): (&'static str, usize, usize),
    guard: blocking::BlockingGuard<G>,
) -> Result<(), LockError> {
    tally.held.fetch_add(1, Ordering::SeqCst);
    let (token, slot) = (guard.fencing_token(), Slot::new(guard));
    let is_held = slot.is_held(|guard| guard.state() == LockState::Held);
    let claim = Claim { name: name.to_owned(), weight, token, is_held };
    let hold_record = checker.enter(resource, capacity, claim);
    pause(Duration::from_millis(fastrand::u64(0..150)));
    let guard = slot.take();
    drop(hold_record);
    match guard {
        Some(guard) if fastrand::bool() => guard.release(),
        _ => Ok(()),
    }
}

/// Creates the value that the locks protect.
pub(crate) async fn create_value(client: &Client) -> Outcome {
    client.create(VALUE).data("0").parents(Parents::Persistent).await?;
    Ok(())
}

/// Acquires everything once, which fails if a client has left a znode in a line.
pub(crate) async fn acquire_everything(client: &Client) -> Outcome {
    let mut blocked = String::new();
    let one = |lock: Box<dyn InterProcessLock>| async move {
        lock.acquire_within(WAIT_MAX).await?.release().await
    };
    for kind in kinds(client)? {
        if let Err(error) = one(kind.lock).await {
            write!(blocked, "{}: {error}; ", kind.resources[0].0)?;
        }
    }
    for path in [LATCH, SELECTOR] {
        if let Err(error) = one(Box::new(InterProcessMutex::new(client, path)?)).await {
            write!(blocked, "{path}: {error}; ")?;
        }
    }
    let semaphore = InterProcessSemaphoreV2::new(client, PERMITS, PERMITS_MAX)?;
    match semaphore.acquire_within(PERMITS_MAX, WAIT_MAX).await {
        Ok(permits) => permits.release().await?,
        Err(error) => write!(blocked, "{PERMITS}: {error}")?,
    }
    if blocked.is_empty() { Ok(()) } else { Err(blocked.into()) }
}
