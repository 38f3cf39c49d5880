//! What the hand-over of a lock costs in process: its CPU time, and under callgrind its instructions,
//! cache misses and allocations. Nothing but the hand-over is in [`hand_over_measured`]: not the entry of
//! the last holder, which waits again.
//!
//! ```text
//! cargo build --release -p zoolet-benches --example hand_over
//! target/release/examples/hand_over 1000 200
//! valgrind --tool=callgrind --cache-sim=yes --collect-atstart=no \
//!     --toggle-collect='hand_over::hand_over_measured' target/release/examples/hand_over 1000 200
//! ```
//!
//! The arguments are the number of waiters and the number of hand-overs. Each waiter has a client of its
//! own. `callgrind_annotate` shows the instructions by function, and `--tree=caller` the calls of `malloc`.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use zoolet::recipes::{Guard, InterProcessMutex};
use zoolet::server::Server;
use zoolet_benches::contest::PATH;
use zoolet_benches::{TransportKind, connect, runtime, server};

/// A member that holds the lock.
struct Held {
    member: usize,
    guard: Guard,
}

struct Line {
    runtime: Runtime,
    server: Server,
    /// Lets a member enter the line again.
    members: Vec<mpsc::UnboundedSender<()>>,
    holders: mpsc::UnboundedReceiver<Held>,
    /// The number of watches while all but the holder wait.
    watches: usize,
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let waiters = arguments.next().unwrap_or(10);
    let turns: usize = arguments.next().unwrap_or(10);
    let mut line = Line::new(waiters);
    let mut held = line.runtime.block_on(line.holders.recv()).expect("one holds it");
    line.settle();
    // The first holders have not waited, or have entered while others entered.
    for _ in 0..2 {
        held = line.turn(held).0;
    }
    let mut times = Vec::with_capacity(turns);
    for _ in 0..turns {
        let (next, time) = line.turn(held);
        times.push(time);
        held = next;
    }
    times.sort_unstable();
    let median = times.get(turns / 2).copied().unwrap_or_default();
    println!("{waiters} waiters: {median:?} for a hand-over, the median of {turns}");
    drop(held);
}

/// Releases the lock, and waits until the next member has it.
#[inline(never)]
fn hand_over_measured(line: &mut Line, guard: Guard) -> Held {
    line.runtime.block_on(async {
        drop(guard);
        line.holders.recv().await.expect("the next holds it")
    })
}

impl Line {
    fn new(waiters: usize) -> Self {
        let runtime = runtime();
        let (held, holders) = mpsc::unbounded_channel();
        let (server, members) = runtime.block_on(async {
            let server = server().await;
            let mut members = Vec::new();
            for member in 0..=waiters {
                let client = connect(&server, TransportKind::InProcess).await;
                let mutex = InterProcessMutex::new(&client, PATH).expect("a path");
                let (go_on, mut may_go_on) = mpsc::unbounded_channel();
                let held = held.clone();
                members.push(go_on);
                tokio::spawn(async move {
                    while let Ok(guard) = mutex.acquire().await {
                        if held.send(Held { member, guard }).is_err()
                            || may_go_on.recv().await.is_none()
                        {
                            return;
                        }
                    }
                });
            }
            (server, members)
        });
        Self { runtime, server, members, holders, watches: 0 }
    }

    /// Waits until the number of watches is stable.
    fn settle(&mut self) {
        let mut same = 0;
        while same < 3 {
            self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
            let watches = self.server.totals().watches;
            same = if watches == self.watches { same + 1 } else { 0 };
            self.watches = watches;
        }
    }

    /// A hand-over with its time, after which the last holder enters the line again.
    fn turn(&mut self, held: Held) -> (Held, Duration) {
        let Held { member, guard } = held;
        let start = Instant::now();
        let next = hand_over_measured(self, guard);
        let time = start.elapsed();
        self.members[member].send(()).expect("it contends");
        self.runtime.block_on(async {
            while self.server.totals().watches < self.watches {
                tokio::task::yield_now().await;
            }
        });
        (next, time)
    }
}
