//! One client of the run: what it does, drawn from a seed.

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

use super::counter::Counter;
use super::ensemble::Ensemble;
use super::exclusion::Exclusion;
use super::network::Way;
use super::options::{Options, Part};
use super::oracle::Oracle;
use super::registers::Registers;

/// What all clients of a run share.
pub(crate) struct Common {
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) options: Options,
    /// The servers, if they are several.
    pub(crate) ensemble: Option<Ensemble>,
    /// What is done more often than the rest in this run, so that clients get in each other's way.
    pub(crate) focus: Option<Part>,
    pub(crate) registers: Registers,
    pub(crate) exclusion: Exclusion,
    pub(crate) counter: Counter,
    /// Nothing goes wrong any more.
    pub(crate) is_calm: AtomicBool,
    /// The clients that are done.
    pub(crate) done: AtomicUsize,
    /// What each client does at the moment.
    pub(crate) doing: Mutex<BTreeMap<usize, &'static str>>,
}

/// The locks of one client. A second object for the same line would not know of the first.
pub(crate) struct Locks {
    pub(crate) mutexes: [InterProcessMutex; 2],
    pub(crate) read_write: InterProcessReadWriteLock,
    pub(crate) multi: InterProcessMultiLock,
}

pub(crate) const MUTEXES: [&str; 2] = ["/locks/a", "/locks/b"];
pub(crate) const READ_WRITE: &str = "/locks/read-write";

/// A client and what it has.
pub(crate) struct Worker {
    pub(crate) name: usize,
    pub(crate) rng: Rng,
    pub(crate) common: Arc<Common>,
    pub(crate) way: Way,
    pub(crate) client: Client,
    pub(crate) locks: Locks,
    /// Watches of registers, which all change at the end.
    pub(crate) register_watchers: Vec<Watcher>,
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) persistent: Vec<PersistentWatcher>,
    /// How many values it has written.
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
            is_calm: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            doing: Mutex::new(BTreeMap::new()),
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// Notes what is wrong, if something is.
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
async fn connect(rng: &mut Rng, way: &Way) -> (Client, Locks) {
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
            // The clocks of the machine have no part in a run.
            .suspended_time(|| Duration::ZERO);
        if let Ok(client) = builder.connect(way.clone()).await {
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
    pub(crate) async fn connect(name: usize, seed: u64, way: &Way, common: Arc<Common>) -> Self {
        let mut rng = Rng::with_seed(seed);
        common.note(name, "connect");
        let (client, locks) = connect(&mut rng, way).await;
        Self {
            name,
            rng,
            common,
            way: way.clone(),
            client,
            locks,
            register_watchers: Vec::new(),
            watchers: Vec::new(),
            persistent: Vec::new(),
            values: 0,
        }
    }

    /// Does what it is to do, and comes back with what it still has.
    pub(crate) async fn work(mut self) -> Self {
        let pace_ms = self.common.options.seconds * 2_000
            / u64::try_from(self.common.options.operations.max(1)).unwrap_or(u64::MAX);
        for _ in 0..self.common.options.operations {
            // When all is well it hurries.
            let pause_ms = if self.common.is_calm() { 20 } else { pace_ms };
            let pause_ms = self.rng.u64(..=pause_ms);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            self.do_something().await;
            self.look_at_watches();
        }
        // With this it is connected, and sees all that was.
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
        // What is done is drawn anyway, so that what is switched off changes nothing else.
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
            _ => self.begin_anew().await,
        }
        self.rng = kept;
    }

    /// Ends the session, and begins another. Nothing is held at this moment.
    async fn begin_anew(&mut self) {
        self.common.note(self.name, "close and connect");
        self.register_watchers.clear();
        self.watchers.clear();
        self.persistent.clear();
        let (client, locks) = connect(&mut self.rng, &self.way).await;
        self.locks = locks;
        let before = std::mem::replace(&mut self.client, client);
        self.common.oracle.count("clients closed and connected anew");
        if self.rng.bool() {
            // Without a connection it ends when the server finds out.
            let _ = before.close().await;
        }
    }

    /// Takes what the watches have heard.
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
        // Some are forgotten before they have heard anything.
        if self.watchers.len() > 6 {
            drop(self.watchers.remove(self.rng.usize(..6)));
        }
        if self.persistent.len() > 2 {
            drop(self.persistent.remove(0));
        }
    }

    /// An answer that tells of no fault.
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

    /// A value that nobody else writes.
    pub(crate) fn value(&mut self) -> String {
        self.values += 1;
        format!("{}-{}", self.name, self.values)
    }
}

fn kind_of(error: &Error) -> &'static str {
    match error {
        Error::Refused { .. } => "requests refused",
        Error::ConnectionLoss { .. } => "answers lost",
        Error::NotSent { .. } => "requests not sent",
        _ => "requests in a lost session",
    }
}
