//! Members that contend for one lock. Each enters the line again after it held the lock, so that their
//! number stays the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use zoolet::client::Client;
use zoolet::recipes::{InterProcessLock, LockGuard};
use zoolet::server::Server;

use crate::{TransportKind, connect, runtime, server};

/// The path of the lock.
pub const PATH: &str = "/locks/a";

/// How long the members may take until all wait again.
const TURN_MAX: Duration = Duration::from_secs(30);

/// Makes the lock of a member, by the member's number.
pub type Make = fn(&Client, usize) -> Arc<dyn InterProcessLock>;

/// The parameters of a contest.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// How the clients reach the server.
    pub transport: TransportKind,
    /// How many members wait beside the holder.
    pub waiters: usize,
    /// The most clients. More members share them.
    pub clients_max: usize,
    /// Makes the lock of each member.
    pub make: Make,
    /// Whether the members enter the line in the order of their numbers.
    pub is_in_order: bool,
}

/// The times of a turn, from the beginning of the release.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Until the next member knew that it holds the lock.
    pub next: Duration,
    /// Until all other members, the last holder among them, waited again.
    pub all: Duration,
    /// What the wake-up of a task took afterwards. There are as many such tasks as members, and each is woken as
    /// seldom as a member gets the lock.
    pub wake_up: Duration,
}

struct Held {
    member: usize,
    at: Instant,
    guard: Box<dyn LockGuard>,
}

/// A contest on a runtime of its own.
pub struct Contest {
    runtime: Option<Runtime>,
    line: Option<Line>,
}

impl Contest {
    /// Starts the contest: on return one member holds the lock, and the others wait.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let runtime = runtime();
        let line = runtime.block_on(async {
            let mut line = Line::new(setting).await;
            line.settle().await;
            // The first holder has not waited, so its turn leaves fewer watches than the others.
            line.turn().await;
            line.settle().await;
            line
        });
        Self { runtime: Some(runtime), line: Some(line) }
    }

    /// The time of `count` turns, extrapolated from at most `most` of them.
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
        // The server ends first, so that it sends no events about the members that end one by one.
        let Line { server, .. } = line;
        runtime.block_on(server.shutdown());
        runtime.shutdown_background();
    }
}

struct Line {
    server: Server,
    /// The clients, if several members share each.
    shared: Vec<Client>,
    members: Vec<mpsc::UnboundedSender<()>>,
    holders: mpsc::UnboundedReceiver<Held>,
    held: Option<Held>,
    sleepers: Sleepers,
    /// The number of watches when all members wait.
    watches: usize,
}

impl Line {
    async fn new(setting: Setting) -> Self {
        let Setting { transport, waiters, clients_max, make, is_in_order } = setting;
        let server = server().await;
        let mut clients = Vec::new();
        while clients.len() < clients_max.min(waiters + 1) {
            clients.push(connect(&server, transport).await);
        }
        let (held, mut holders) = mpsc::unbounded_channel();
        let mut members = Vec::new();
        // All enter at once: each entry would wake a herd.
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
            // A member in the line has an ephemeral znode.
            while is_in_order && server.totals().ephemerals <= member {
                tokio::task::yield_now().await;
            }
        }
        let first = holders.recv().await;
        let shared = if clients.len() < members.len() { clients } else { Vec::new() };
        let sleepers = Sleepers::new(members.len());
        Self { server, shared, members, holders, held: first, sleepers, watches: 0 }
    }

    /// The number of watches: by the server's count, or by the clients' count where members share clients,
    /// since the server may count the watches of one client on a znode as one.
    fn watches(&self) -> usize {
        match &self.shared[..] {
            [] => self.server.totals().watches,
            shared => shared.iter().map(Client::watcher_count).sum(),
        }
    }

    /// Waits until the number of watches is stable, and takes it for the number when all wait.
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
            // The requests of the client may still be in flight to the server.
            client.sync("/").await.expect("the server is there");
        }
        let next_member = self.held.as_ref().map_or(0, |held| held.member);
        Turn { next, all, wake_up: self.sleepers.wake(next_member).await }
    }
}

/// A task for each member that does nothing but wake: the floor of a hand-over. It is woken as seldom as the
/// member gets the lock, after the same work of all others.
struct Sleepers {
    tasks: Vec<mpsc::UnboundedSender<()>>,
    woken: mpsc::UnboundedReceiver<Instant>,
}

impl Sleepers {
    fn new(count: usize) -> Self {
        let (told, woken) = mpsc::unbounded_channel();
        let sleeper = |_| {
            let ((wake, mut awake), told) = (mpsc::unbounded_channel(), told.clone());
            tokio::spawn(async move {
                while awake.recv().await.is_some() && told.send(Instant::now()).is_ok() {}
            });
            wake
        };
        Self { tasks: (0..count).map(sleeper).collect(), woken }
    }

    async fn wake(&mut self, member: usize) -> Duration {
        let start = Instant::now();
        self.tasks[member].send(()).expect("it sleeps");
        self.woken.recv().await.expect("it wakes") - start
    }
}
