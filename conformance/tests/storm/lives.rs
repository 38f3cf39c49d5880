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

use crate::judge::{Claim, IsHeld, Judge, Stay, pause};
use crate::{Outcome, World, now};

pub(crate) const MUTEX: &str = "/storm/mutex";
pub(crate) const OTHER: &str = "/storm/other";
pub(crate) const READ_WRITE: &str = "/storm/rw";
pub(crate) const ONE: &str = "/storm/one";
pub(crate) const PERMITS: &str = "/storm/permits";
pub(crate) const LATCH: &str = "/storm/latch";
pub(crate) const SELECTOR: &str = "/storm/selector";
pub(crate) const VALUE: &str = "/storm/value";

const PERMITS_MAX: usize = 3;
/// More than there are readers.
const READERS_MAX: usize = 1_000;

/// Longer than anybody waits for anything, elections and expired sessions included.
const PATIENCE: Duration = Duration::from_secs(150);

/// What somebody did.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) held: AtomicUsize,
    pub(crate) given_up: AtomicUsize,
    pub(crate) lost: AtomicUsize,
}

/// A lock, and what of which thing it gives.
struct Kind {
    lock: Box<dyn InterProcessLock>,
    things: Vec<(&'static str, usize, usize)>,
    /// Whether the value is read and written under it.
    protects_value: bool,
}

fn kinds(client: &Client) -> Result<Vec<Kind>, LockError> {
    let kind = |lock: Box<dyn InterProcessLock>, things: &[(&'static str, usize, usize)]| Kind {
        lock,
        things: things.to_vec(),
        protects_value: things[0].0 == MUTEX,
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

/// The error of one who does not wait any longer.
fn given_up() -> LockError {
    LockError::TimedOut("given up".to_owned())
}

/// What somebody holds, to be looked at by others and taken back.
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

/// One who contends, with a client of its own.
pub(crate) struct Life {
    pub(crate) name: String,
    pub(crate) world: Arc<World>,
    pub(crate) client: Client,
    pub(crate) done: Arc<Done>,
}

impl Life {
    pub(crate) async fn live(self) -> Outcome {
        let kinds = kinds(&self.client)?;
        let semaphore = InterProcessSemaphoreV2::new(&self.client, PERMITS, PERMITS_MAX)?;
        while !self.world.is_over() {
            let what = fastrand::usize(..kinds.len() + 4);
            let turn = async {
                match what.checked_sub(kinds.len()) {
                    None => self.take(&kinds[what]).await,
                    Some(0) => self.lead().await,
                    Some(1) => self.be_selected().await,
                    Some(_) => self.take_permits(&semaphore).await,
                }
            };
            match tokio::time::timeout(PATIENCE, turn).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.note(&error),
                Err(_) => self.violate(format!("turn {what} takes longer than {PATIENCE:?}")),
            }
        }
        Ok(())
    }

    fn violate(&self, violation: String) {
        self.world.judge.violate(format!("{}: {violation}", self.name));
    }

    /// What may go wrong in a storm.
    fn note(&self, error: &LockError) {
        let is_usual = match error {
            LockError::TimedOut(_) => true,
            LockError::Lost(_) | LockError::PlaceLost(_) => {
                self.done.lost.fetch_add(1, Ordering::SeqCst);
                true
            }
            LockError::Client(error) => {
                error.is_retryable() || *error == client::Error::SessionExpired
            }
            _ => false,
        };
        self.done.given_up.fetch_add(1, Ordering::SeqCst);
        if !is_usual {
            self.violate(format!("an error that is not expected: {error:?}"));
        }
    }

    /// Waits for a lock, in one of the ways in which one may.
    async fn acquire<T>(
        &self,
        acquiring: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        match fastrand::u8(..4) {
            0 => {
                // Given up at a random moment.
                let time = Duration::from_millis(fastrand::u64(0..400));
                tokio::time::timeout(time, acquiring).await.unwrap_or(Err(given_up()))
            }
            1 => {
                let time = Duration::from_millis(fastrand::u64(300..9_000));
                tokio::time::timeout(time, acquiring).await.unwrap_or(Err(given_up()))
            }
            _ => acquiring.await,
        }
    }

    async fn take(&self, kind: &Kind) -> Result<(), LockError> {
        let acquiring = async {
            if fastrand::u8(..5) == 0 {
                kind.lock.try_acquire().await?.ok_or_else(given_up)
            } else {
                kind.lock.acquire().await
            }
        };
        let guard = self.acquire(acquiring).await?;
        let token = guard.fencing_token();
        let slot = Slot::new(guard);
        let stays: Vec<_> = kind
            .things
            .iter()
            .map(|&(thing, capacity, weight)| {
                let is_held = slot.is_held(|guard| guard.state() == LockState::Held);
                self.enter(thing, capacity, weight, token, is_held)
            })
            .collect();
        let worked = if kind.protects_value && fastrand::bool() {
            self.count(&slot).await
        } else {
            self.dwell().await;
            Ok(())
        };
        let guard = slot.take();
        drop(stays);
        self.release(guard).await?;
        worked
    }

    fn enter(
        &self,
        thing: &'static str,
        capacity: usize,
        weight: usize,
        token: Zxid,
        is_held: IsHeld,
    ) -> Stay {
        self.done.held.fetch_add(1, Ordering::SeqCst);
        let claim = Claim { name: self.name.clone(), weight, token, is_held };
        self.world.judge.enter(thing, capacity, claim)
    }

    /// Stays for a while, mostly a short one.
    async fn dwell(&self) {
        let longest = if fastrand::u8(..12) == 0 { 6_000 } else { 120 };
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..longest))).await;
    }

    /// Reads and writes the value that a lock protects.
    async fn count(&self, slot: &Slot<Box<dyn LockGuard>>) -> Result<(), LockError> {
        let version = &self.world.judge.version;
        let known = version.load(Ordering::SeqCst);
        let (_, stat) = self.client.get(VALUE).await?;
        if stat.version < known {
            self.violate(format!("version {} is read after {known} was written", stat.version));
        }
        let is_held = || slot.with(|guard| guard.state()) == Some(LockState::Held);
        let was_held = is_held();
        // Asked once: a write that was carried out twice would look like another's.
        let set = self.client.set(VALUE, "x").version(stat.version).send().await;
        match set {
            Ok(stat) => {
                version.fetch_max(stat.version, Ordering::SeqCst);
                Ok(())
            }
            Err(error) if error.is(ErrorCode::BAD_VERSION) => {
                if was_held && is_held() {
                    self.violate("somebody wrote while it was held".to_owned());
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
                semaphore.try_acquire(count).await?.ok_or_else(given_up)
            } else {
                semaphore.acquire(count).await
            }
        };
        let permits = self.acquire(acquiring).await?;
        let (token, slot) = (permits.fencing_token(), Slot::new(permits));
        let is_held = slot.is_held(|permits| permits.state() == LockState::Held);
        let stay = self.enter(PERMITS, PERMITS_MAX, count, token, is_held);
        self.dwell().await;
        let permits = slot.take();
        drop(stay);
        self.release(permits.map(|permits| Box::new(permits) as Box<dyn LockGuard>)).await
    }

    async fn lead(&self) -> Result<(), LockError> {
        let latch = LeaderLatch::start(&self.client, LATCH, &self.name)?;
        let wait = Duration::from_millis(fastrand::u64(0..4_000));
        let term = latch.await_leadership_within(wait).await;
        let slot = Slot::new(latch);
        if let Ok(term) = &term {
            let is_held = slot.is_held(LeaderLatch::is_leader);
            let stay = self.enter(LATCH, 1, 1, term.fencing_token(), is_held);
            self.dwell().await;
            drop(stay);
        }
        match slot.take() {
            Some(latch) if fastrand::bool() => latch.close().await,
            _ => Ok(()),
        }?;
        term.map(drop)
    }

    async fn be_selected(&self) -> Result<(), LockError> {
        let (judge, name, done) =
            (Arc::clone(&self.world.judge), self.name.clone(), Arc::clone(&self.done));
        let lead = move |term: zoolet_recipes::Term| {
            let (judge, name, done) = (Arc::clone(&judge), name.clone(), Arc::clone(&done));
            async move {
                // It runs while this was not dropped.
                let running = Slot::new(());
                done.held.fetch_add(1, Ordering::SeqCst);
                let claim = Claim {
                    name,
                    weight: 1,
                    token: term.fencing_token(),
                    is_held: running.is_held(|()| true),
                };
                let _ends = Ends(running, Some(judge.enter(SELECTOR, 1, claim)));
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
            }
        };
        let selector =
            LeaderSelector::start(&self.client, SELECTOR, &self.name, Requeue::Always, lead)?;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3_000))).await;
        selector.close().await
    }
}

/// Ends what runs before the judge forgets about it.
struct Ends(Slot<()>, Option<Stay>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.take();
        self.1.take();
    }
}

/// One who contends on a thread, by calls that block.
pub(crate) fn live_blocking(
    name: &str,
    world: &Arc<World>,
    done: &Arc<Done>,
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
        let begun = now();
        let count = fastrand::usize(1..=PERMITS_MAX);
        let (thing, capacity, weight) = match fastrand::u8(..4) {
            0 => (MUTEX, 1, 1),
            1 => (READ_WRITE, READERS_MAX, 1),
            2 => (READ_WRITE, READERS_MAX, READERS_MAX),
            _ => (PERMITS, PERMITS_MAX, count),
        };
        let judge = &world.judge;
        let result = match (thing, weight) {
            (PERMITS, count) => semaphore
                .acquire_within(count, time)
                .and_then(|permits| hold(name, done, judge, (thing, capacity, weight), permits)),
            (MUTEX, _) => mutex
                .acquire_within(time)
                .and_then(|guard| hold(name, done, judge, (thing, capacity, weight), guard)),
            (_, 1) => read
                .acquire_within(time)
                .and_then(|guard| hold(name, done, judge, (thing, capacity, weight), guard)),
            _ => write
                .acquire_within(time)
                .and_then(|guard| hold(name, done, judge, (thing, capacity, weight), guard)),
        };
        if result.is_err() {
            done.given_up.fetch_add(1, Ordering::SeqCst);
        }
        if now() - begun > PATIENCE {
            judge.violate(format!("{name}: {thing} took {:?}", now() - begun));
        }
    }
    Ok(())
}

fn hold<G: LockGuard + 'static>(
    name: &str,
    done: &Done,
    judge: &Arc<Judge>,
    (thing, capacity, weight): (&'static str, usize, usize),
    guard: blocking::BlockingGuard<G>,
) -> Result<(), LockError> {
    done.held.fetch_add(1, Ordering::SeqCst);
    let (token, slot) = (guard.fencing_token(), Slot::new(guard));
    let is_held = slot.is_held(|guard| guard.state() == LockState::Held);
    let claim = Claim { name: name.to_owned(), weight, token, is_held };
    let stay = judge.enter(thing, capacity, claim);
    pause(Duration::from_millis(fastrand::u64(0..150)));
    let guard = slot.take();
    drop(stay);
    match guard {
        Some(guard) if fastrand::bool() => guard.release(),
        _ => Ok(()),
    }
}

/// Creates the value that locks protect.
pub(crate) async fn create_value(client: &Client) -> Outcome {
    client.create(VALUE).data("0").parents(Parents::Persistent).await?;
    Ok(())
}

/// Takes everything once: nobody has left a znode in a line.
pub(crate) async fn take_everything(client: &Client) -> Outcome {
    let mut blocked = String::new();
    let one = |lock: Box<dyn InterProcessLock>| async move {
        lock.acquire_within(PATIENCE).await?.release().await
    };
    for kind in kinds(client)? {
        if let Err(error) = one(kind.lock).await {
            write!(blocked, "{}: {error}; ", kind.things[0].0)?;
        }
    }
    for path in [LATCH, SELECTOR] {
        if let Err(error) = one(Box::new(InterProcessMutex::new(client, path)?)).await {
            write!(blocked, "{path}: {error}; ")?;
        }
    }
    let semaphore = InterProcessSemaphoreV2::new(client, PERMITS, PERMITS_MAX)?;
    match semaphore.acquire_within(PERMITS_MAX, PATIENCE).await {
        Ok(permits) => permits.release().await?,
        Err(error) => write!(blocked, "{PERMITS}: {error}")?,
    }
    if blocked.is_empty() { Ok(()) } else { Err(blocked.into()) }
}
