//! One client of a run: its actions are drawn from a seed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use zoolet_client::{Client, Error, PersistentWatcher, RetryPolicy, Watcher};
use zoolet_protocol::Zxid;
use zoolet_recipes::{InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock};
use zoolet_testkit::ensemble::Ensemble;
use zoolet_testkit::sim::parts::Link;

use super::counter::Counter;
use super::exclusion::Exclusion;
use super::options::{Options, Part};
use super::oracle::Oracle;
use super::registers::Registers;

/// What all clients of a run share.
pub(crate) struct Common {
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) options: Options,
    /// The servers of an ensemble.
    pub(crate) ensemble: Option<Ensemble>,
    /// The part that happens more often in this run, so that clients compete for the same locks.
    pub(crate) focus: Option<Part>,
    pub(crate) registers: Registers,
    pub(crate) exclusion: Exclusion,
    pub(crate) counter: Counter,
    /// Whether the faults have ended.
    pub(crate) are_faults_over: AtomicBool,
    /// The number of clients that have finished.
    pub(crate) done: AtomicUsize,
    /// The present action of each client.
    pub(crate) doing: Mutex<BTreeMap<usize, &'static str>>,
}

/// The locks of one client. A second object for the same line would not share its state.
pub(crate) struct Locks {
    pub(crate) mutexes: [InterProcessMutex; 2],
    pub(crate) read_write: InterProcessReadWriteLock,
    pub(crate) multi: InterProcessMultiLock,
}

pub(crate) const MUTEXES: [&str; 2] = ["/locks/a", "/locks/b"];
pub(crate) const READ_WRITE: &str = "/locks/read-write";

/// A client with its locks and watches.
pub(crate) struct Worker {
    pub(crate) name: usize,
    pub(crate) rng: Rng,
    pub(crate) common: Arc<Common>,
    pub(crate) link: Link,
    pub(crate) client: Client,
    pub(crate) locks: Locks,
    /// Watches of registers. Each register changes once more at the end.
    pub(crate) register_watchers: Vec<Watcher>,
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) persistent: Vec<PersistentWatcher>,
    /// The number of values that it has written.
    pub(crate) values: u32,
}

impl Common {
    pub(crate) fn new(
        oracle: Arc<Oracle>,
        focus: Option<Part>,
        options: &Options,
        ensemble: Option<Ensemble>,
    ) -> Self {
        Self {
            oracle,
            options: options.clone(),
            ensemble,
            focus,
            registers: Registers::default(),
            exclusion: Exclusion::default(),
            counter: Counter::default(),
            are_faults_over: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            doing: Mutex::new(BTreeMap::new()),
        }
    }

    pub(crate) fn are_faults_over(&self) -> bool {
        self.are_faults_over.load(Ordering::Relaxed)
    }

    /// Records a violation, if there is one.
    pub(crate) fn check(&self, checked: Result<(), String>) {
        if let Err(violation) = checked {
            self.oracle.violation(violation);
        }
    }

    pub(crate) fn note(&self, name: usize, doing: &'static str) {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).insert(name, doing);
        self.oracle.remark(|| format!("client {name}: {doing}"));
    }
}

/// Connects, however long that takes.
async fn connect(rng: &mut Rng, link: &Link) -> (Client, Locks) {
    let session_timeout = Duration::from_millis(rng.u64(1_500..6_000));
    let connection_timeout = Duration::from_millis(rng.u64(500..4_000));
    let retry = match rng.u8(..3) {
        0 => RetryPolicy::never(),
        1 => RetryPolicy::n_times(3, Duration::from_millis(100)),
        _ => RetryPolicy::exponential_backoff(Duration::from_millis(50), 4),
    };
    loop {
        let builder = Client::builder()
            .session_timeout(session_timeout)
            .connection_timeout(connection_timeout)
            .retry_policy(retry.clone())
            // The clocks of the machine must not influence a run.
            .suspended_time(|| Duration::ZERO);
        if let Ok(client) = builder.connect(link.clone()).await {
            let locks = Locks {
                mutexes: MUTEXES.map(|path| InterProcessMutex::new(&client, path).expect("a path")),
                read_write: InterProcessReadWriteLock::new(&client, READ_WRITE).expect("a path"),
                multi: InterProcessMultiLock::new(&client, &MUTEXES).expect("two paths"),
            };
            return (client, locks);
        }
    }
}

impl Worker {
    pub(crate) async fn connect(name: usize, seed: u64, link: &Link, common: Arc<Common>) -> Self {
        let mut rng = Rng::with_seed(seed);
        common.note(name, "connect");
        let (client, locks) = connect(&mut rng, link).await;
        Self {
            name,
            rng,
            common,
            link: link.clone(),
            client,
            locks,
            register_watchers: Vec::new(),
            watchers: Vec::new(),
            persistent: Vec::new(),
            values: 0,
        }
    }

    /// Performs all actions of the client, and returns it with its watches.
    pub(crate) async fn work(mut self) -> Self {
        let pace_ms = self.common.options.seconds * 2_000
            / u64::try_from(self.common.options.operations.max(1)).unwrap_or(u64::MAX);
        for _ in 0..self.common.options.operations {
            // Without faults it hurries.
            let pause_ms = if self.common.are_faults_over() { 20 } else { pace_ms };
            let pause_ms = self.rng.u64(..=pause_ms);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            self.do_something().await;
            self.look_at_watches();
        }
        // With the reply it is connected, and up to date.
        self.common.note(self.name, "sync");
        while self.client.sync("/data").await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.common.note(self.name, "done");
        self.common.done.fetch_add(1, Ordering::Relaxed);
        self
    }

    async fn do_something(&mut self) {
        let kinds = [
            Part::Plain,
            Part::Plain,
            Part::Mutexes,
            Part::Mutexes,
            Part::ReadWriteLocks,
            Part::Semaphores,
            Part::MultiLocks,
            Part::Latches,
            Part::Counters,
            Part::NewClients,
        ];
        let drawn = kinds[self.rng.usize(..kinds.len())];
        let is_focus = self.rng.u8(..10) < 7;
        let kind = self.common.focus.filter(|_| is_focus).unwrap_or(drawn);
        // The action is drawn in any case, so that a part that is switched off changes nothing
        // else.
        let rng = self.rng.fork();
        if !self.common.options.has(kind) {
            return;
        }
        let kept = std::mem::replace(&mut self.rng, rng);
        match kind {
            Part::Plain => {
                for _ in 0..self.rng.u32(1..8) {
                    self.plain().await;
                }
            }
            Part::Mutexes => self.mutex().await,
            Part::ReadWriteLocks => self.read_write().await,
            Part::Semaphores => self.semaphore().await,
            Part::MultiLocks => self.multi_lock().await,
            Part::Latches => self.latch().await,
            Part::Counters => self.count().await,
            _ => self.replace_client().await,
        }
        self.rng = kept;
    }

    /// Closes the session, and opens another. The client holds no lock here.
    async fn replace_client(&mut self) {
        self.common.note(self.name, "close and connect");
        self.register_watchers.clear();
        self.watchers.clear();
        self.persistent.clear();
        let (client, locks) = connect(&mut self.rng, &self.link).await;
        self.locks = locks;
        let before = std::mem::replace(&mut self.client, client);
        self.common.oracle.count("clients closed and replaced");
        if self.rng.bool() {
            // Without a connection the session ends when it expires.
            let _ = before.close().await;
        }
    }

    /// Takes the events of all watches.
    pub(crate) fn look_at_watches(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for watchers in [&mut self.watchers, &mut self.register_watchers] {
            watchers.retain_mut(|watcher| match Pin::new(watcher).poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(heard) => {
                    self.common.oracle.count(match heard {
                        Ok(event) if event.zxid == Zxid::NONE => "watches fired after a reconnect",
                        Ok(_) => "watches fired",
                        Err(_) => "watches lost with their session",
                    });
                    false
                }
            });
        }
        for watcher in &mut self.persistent {
            while let Poll::Ready(Ok(_)) = std::pin::pin!(watcher.next()).poll(&mut context) {}
        }
        // Drops some watchers before they fire.
        if self.watchers.len() > 6 {
            drop(self.watchers.remove(self.rng.usize(..6)));
        }
        if self.persistent.len() > 2 {
            drop(self.persistent.remove(0));
        }
    }

    /// Returns the value of a reply, and reports an unexpected error.
    pub(crate) fn take<T>(&self, answer: Result<T, Error>) -> Option<T> {
        if let Err(error) = &answer {
            self.common.oracle.count(kind_of(error));
        }
        match answer {
            Ok(answer) => Some(answer),
            Err(
                Error::Refused { .. }
                | Error::ConnectionLoss { .. }
                | Error::NotSent { .. }
                | Error::SessionExpired,
            ) => None,
            Err(error) => {
                self.common.oracle.violation(format!("client {}: {error}", self.name));
                None
            }
        }
    }

    /// A value that no other client writes.
    pub(crate) fn value(&mut self) -> String {
        self.values += 1;
        format!("{}-{}", self.name, self.values)
    }
}

fn kind_of(error: &Error) -> &'static str {
    match error {
        Error::Refused { .. } => "requests refused",
        Error::ConnectionLoss { .. } => "replies lost",
        Error::NotSent { .. } => "requests not sent",
        _ => "requests in a lost session",
    }
}
