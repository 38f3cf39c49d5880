//! Those who contend for one lock. Each goes to the end of the line when it has had it, so that
//! their number stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use zoolet::{Client, InterProcessLock, LockGuard, Server};

use crate::{Way, connect, runtime, server};

/// The directory of the lock.
pub const PATH: &str = "/locks/a";

/// How long everybody may take to wait again.
const TURN_MAX: Duration = Duration::from_secs(30);

/// The lock of one who contends, by its number.
pub type Make = fn(&Client, usize) -> Arc<dyn InterProcessLock>;

/// Who contends, and how.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// How the clients reach the server.
    pub way: Way,
    /// How many wait beside the one who holds the lock.
    pub waiters: usize,
    /// How many clients they have at most; beyond that they share them.
    pub clients_max: usize,
    /// Makes the lock of one who contends.
    pub make: Make,
    /// Whether they stand in the line in the order of their numbers, whoever shares a client.
    pub is_in_order: bool,
}

/// How long a turn took, from the beginning of the release.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Until the next one knew that it holds the lock.
    pub next: Duration,
    /// Until all others, the last holder among them, waited again.
    pub all: Duration,
}

struct Held {
    member: usize,
    at: Instant,
    guard: Box<dyn LockGuard>,
}

/// A lock with all who contend for it, on a runtime of its own.
pub struct Contest {
    runtime: Option<Runtime>,
    line: Option<Line>,
}

impl Contest {
    /// Lets all come.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let runtime = runtime();
        let line = runtime.block_on(async {
            let mut line = Line::new(setting).await;
            line.settle().await;
            // Who came first has not waited, and leaves fewer watches.
            line.turn().await;
            line.settle().await;
            line
        });
        Self { runtime: Some(runtime), line: Some(line) }
    }

    /// The time of `count` turns, from no more than `most` of them.
    pub fn time(&mut self, count: u64, most: u64, part: impl Fn(Turn) -> Duration) -> Duration {
        let (Some(runtime), Some(line)) = (&self.runtime, &mut self.line) else {
            unreachable!("both are there until it is dropped")
        };
        runtime.block_on(crate::extrapolated(count, most, async || part(line.turn().await)))
    }
}

impl Drop for Contest {
    fn drop(&mut self) {
        let (Some(runtime), Some(line)) = (self.runtime.take(), self.line.take()) else { return };
        // Without a server nobody hears of those who go, one after the other.
        let Line { server, .. } = line;
        runtime.block_on(server.shutdown());
        runtime.shutdown_background();
    }
}

struct Line {
    server: Server,
    /// Those that several share.
    shared: Vec<Client>,
    members: Vec<mpsc::UnboundedSender<()>>,
    holders: mpsc::UnboundedReceiver<Held>,
    held: Option<Held>,
    /// How many watches there are when all wait.
    watches: usize,
}

impl Line {
    async fn new(setting: Setting) -> Self {
        let Setting { way, waiters, clients_max, make, is_in_order } = setting;
        let server = server().await;
        let mut clients = Vec::new();
        while clients.len() < clients_max.min(waiters + 1) {
            clients.push(connect(&server, way).await);
        }
        let (held, mut holders) = mpsc::unbounded_channel();
        let mut members = Vec::new();
        // All at once: one after the other, a herd would be woken by each who comes.
        for member in 0..=waiters {
            let (go_on, mut may_go_on) = mpsc::unbounded_channel();
            members.push(go_on);
            let (lock, held) = (make(&clients[member % clients.len()], member), held.clone());
            tokio::spawn(async move {
                while let Ok(guard) = lock.acquire().await {
                    let now_held = Held { member, at: Instant::now(), guard };
                    if held.send(now_held).is_err() || may_go_on.recv().await.is_none() {
                        return;
                    }
                }
            });
            // Each has an ephemeral znode once it stands in the line.
            while is_in_order && server.totals().ephemerals <= member {
                tokio::task::yield_now().await;
            }
        }
        let first = holders.recv().await;
        let shared = if clients.len() < members.len() { clients } else { Vec::new() };
        Self { server, shared, members, holders, held: first, watches: 0 }
    }

    /// How many watches those who wait have: as the server knows, or, where they share clients, for
    /// whom the server may take several for one, as these know.
    fn watches(&self) -> usize {
        match &self.shared[..] {
            [] => self.server.totals().watches,
            shared => shared.iter().map(Client::watcher_count).sum(),
        }
    }

    /// Waits until nothing more happens, and takes that for the state in which all wait.
    async fn settle(&mut self) {
        const LOOKS: u32 = 3;
        let mut same = 0;
        while same < LOOKS {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let watches = self.watches();
            same = if watches == self.watches { same + 1 } else { 0 };
            self.watches = watches;
        }
    }

    async fn turn(&mut self) -> Turn {
        let Some(Held { member, guard, .. }) = self.held.take() else {
            unreachable!("somebody holds it between turns")
        };
        let start = Instant::now();
        drop(guard);
        let held = self.holders.recv().await.expect("the next holds it");
        let next = held.at - start;
        self.held = Some(held);
        self.members[member].send(()).expect("it contends");
        let all_wait = async {
            while self.watches() < self.watches {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(TURN_MAX, all_wait).await.is_err() {
            let (watches, before) = (self.watches(), self.watches);
            panic!("{watches} watches where all who wait had {before} {TURN_MAX:?} after a turn");
        }
        let all = start.elapsed();
        if let Some(client) = self.shared.get(member % self.shared.len().max(1)) {
            // What a client knows may be under way to the server.
            client.sync("/").await.expect("the server is there");
        }
        Turn { next, all }
    }
}
