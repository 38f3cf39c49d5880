//! The processes that are this program again: the server, and the clients in Rust.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use zoolet_benches::process::until_stdin_ends;

use crate::foreign::ZookeeperClient;
use crate::ours::Zoolet;
use crate::{Operation, Shape, ShapeKind};

/// The variables that make this program one of them.
pub(crate) const ROLE: &str = "ZOOLET_BENCH_CLIENT";
pub(crate) const ADDRESS: &str = "ZOOLET_BENCH_ADDRESS";

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Zoolet(Threads),
    ZookeeperClient(Threads),
}

/// The runtime of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    One,
    /// One for each core, as tokio has it by default.
    Cores,
}

impl Role {
    const ALL: [Self; 5] = [
        Self::Server,
        Self::Zoolet(Threads::One),
        Self::Zoolet(Threads::Cores),
        Self::ZookeeperClient(Threads::One),
        Self::ZookeeperClient(Threads::Cores),
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Zoolet(Threads::One) => "zoolet",
            Self::Zoolet(Threads::Cores) => "zoolet-cores",
            Self::ZookeeperClient(Threads::One) => "zookeeper-client",
            Self::ZookeeperClient(Threads::Cores) => "zookeeper-client-cores",
        }
    }

    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(ROLE).ok()?;
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A client that can be measured. Each number has paths of its own.
pub(crate) trait Worker: Sized + Send + Sync + 'static {
    fn connect(address: &str) -> impl Future<Output = io::Result<Self>> + Send;

    /// Carries out an operation, and returns how many requests that were.
    fn once(
        &self,
        operation: Operation,
        lane: usize,
    ) -> impl Future<Output = io::Result<u64>> + Send;

    /// Sends `depth` requests, waits for their replies, and returns how many requests that were.
    fn together(
        &self,
        operation: Operation,
        depth: usize,
    ) -> impl Future<Output = io::Result<u64>> + Send;
}

/// Does what the role says until stdin ends.
pub(crate) fn run(role: Role) -> io::Result<()> {
    let runtime = match role {
        Role::Zoolet(Threads::One) | Role::ZookeeperClient(Threads::One) => {
            Builder::new_current_thread().enable_all().build()?
        }
        // As `zoolet serve` has it.
        _ => Builder::new_multi_thread().enable_all().build()?,
    };
    match role {
        Role::Server => runtime.block_on(async {
            let server = zoolet_benches::server().await;
            println!("{}", server.local_addr().unwrap_or_else(|| unreachable!("it listens")));
            until_stdin_ends().await
        }),
        Role::Zoolet(_) => runtime.block_on(answer::<Zoolet>()),
        Role::ZookeeperClient(_) => runtime.block_on(answer::<ZookeeperClient>()),
    }
}

/// Answers lines of an operation, a depth, a shape and a time in milliseconds, with how many requests
/// were answered and how many allocations were made.
async fn answer<W: Worker>() -> io::Result<()> {
    let address = std::env::var(ADDRESS).map_err(io::Error::other)?;
    let worker = Arc::new(W::connect(&address).await?);
    println!("ready");
    // The runtime runs meanwhile, so that the client pings.
    while let Some(line) = tokio::task::spawn_blocking(|| io::stdin().lines().next()).await? {
        let (operation, shape, time) = parsed(&line?).ok_or(io::ErrorKind::InvalidInput)?;
        let counted = Region::new(&INSTRUMENTED_SYSTEM);
        let count = measure(Arc::clone(&worker), operation, shape, time).await?;
        let allocated = counted.change();
        println!("{count} {}", allocated.allocations + allocated.reallocations);
    }
    Ok(())
}

fn parsed(line: &str) -> Option<(Operation, Shape, Duration)> {
    let mut words = line.split_whitespace();
    let key = words.next()?;
    let operation = Operation::ALL.into_iter().find(|operation| operation.key() == key)?;
    let depth = words.next()?.parse().ok()?;
    let kind = match words.next()? {
        "lanes" => ShapeKind::Lanes,
        "burst" => ShapeKind::Burst,
        _ => return None,
    };
    let time = Duration::from_millis(words.next()?.parse().ok()?);
    Some((operation, Shape { depth, kind }, time))
}

async fn measure<W: Worker>(
    worker: Arc<W>,
    operation: Operation,
    shape: Shape,
    time: Duration,
) -> io::Result<u64> {
    let end = Instant::now() + time;
    let mut running = JoinSet::new();
    match shape.kind {
        ShapeKind::Burst => {
            running.spawn(async move {
                let mut count = 0;
                while Instant::now() < end {
                    count += worker.together(operation, shape.depth).await?;
                }
                io::Result::Ok(count)
            });
        }
        ShapeKind::Lanes => {
            for lane in 0..shape.depth {
                let worker = Arc::clone(&worker);
                running.spawn(async move {
                    let mut count = 0;
                    while Instant::now() < end {
                        count += worker.once(operation, lane).await?;
                    }
                    io::Result::Ok(count)
                });
            }
        }
    }
    let mut total = 0;
    while let Some(done) = running.join_next().await {
        total += done??;
    }
    Ok(total)
}
