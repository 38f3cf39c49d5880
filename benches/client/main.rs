//! What an operation costs a client, with 1, 16 and 256 requests under way: CPU time, context switches and
//! allocations, beside other clients of the same server.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench client
//! cargo bench -p zoolet-benches --bench client -- --only zoolet --operation get
//! ```
//!
//! The server and each client are processes of their own. The clients take turns; the first round only
//! warms them up. CPU time depends less on what else the machine does than the time of an operation.
//! kazoo and Java's client are measured where `conformance/install-peers` has installed them.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod foreign;
mod ours;
mod peers;
mod worker;

use std::alloc::System;
use std::fmt;
use std::io;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use zoolet_benches::process::{self, Process};
use zoolet_benches::{is_measured, tell_cell};

use self::peers::Peer;
use self::worker::Role;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Rounds that count, after the one that warms up.
const ROUNDS: usize = 3;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Set,
    /// An ephemeral is created and deleted again. Both are counted.
    Create,
}

impl Operation {
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::Set, Self::Create];

    /// The name in the lines that processes are asked with.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Create => "create",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Get => "getData",
            Self::Set => "setData",
            Self::Create => "create or delete",
        }
    }
}

/// How many requests are under way, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) depth: usize,
    pub(crate) kind: ShapeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShapeKind {
    /// As many tasks (or chains of callbacks), of which each has one request under way.
    Lanes,
    /// One task, which sends all and then waits for all.
    Burst,
}

impl ShapeKind {
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Lanes => "lanes",
            Self::Burst => "burst",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ShapeKind::Lanes if self.depth == 1 => f.write_str("one after the other"),
            ShapeKind::Lanes => write!(f, "{} tasks", self.depth),
            ShapeKind::Burst => write!(f, "{} sent together", self.depth),
        }
    }
}

/// What an operation cost a client.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu: Duration,
    switches: f64,
    /// Where they are counted.
    allocations: Option<f64>,
    per_second: f64,
}

fn main() -> io::Result<()> {
    if let Some(role) = Role::of_this_process() {
        return worker::run(role);
    }
    let lanes = |depth| Shape { depth, kind: ShapeKind::Lanes };
    let burst = |depth| Shape { depth, kind: ShapeKind::Burst };
    let (rounds, time, shapes) = match is_measured() {
        true => {
            let shapes = vec![lanes(1), lanes(16), lanes(256), burst(16), burst(256)];
            (ROUNDS, Duration::from_millis(700), shapes)
        }
        false => (1, Duration::from_millis(20), vec![lanes(1), burst(16)]),
    };
    let mut server = Process::start_this(worker::ROLE, Role::Server.name())?;
    let address = server.line()?;
    let mut clients = started(&address)?;
    let only = argument("--operation");
    let operations = Operation::ALL.into_iter().filter(|operation| match &only {
        Some(key) => operation.key() == key,
        None => true,
    });
    for operation in operations {
        for shape in &shapes {
            compare(&mut clients, operation, *shape, rounds, time)?;
        }
    }
    Ok(())
}

/// Starts the clients that are installed and asked for.
fn started(address: &str) -> io::Result<Vec<(Peer, Process)>> {
    let only = argument("--only");
    let mut clients = Vec::new();
    for peer in Peer::ALL {
        // Nobody waits for a virtual machine under `cargo test`.
        let is_wanted = match &only {
            Some(name) => peer.name().starts_with(name.as_str()),
            None => is_measured() || !peer.is_foreign_program(),
        };
        if !is_wanted {
            continue;
        }
        match peer.command(address)? {
            Ok(command) => {
                let mut client = Process::start(command)?;
                client.line()?;
                clients.push((peer, client));
            }
            Err(reason) => println!("{} (ignored: {reason})", peer.name()),
        }
    }
    Ok(clients)
}

fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == name)?;
    arguments.next()
}

/// Lets the clients take turns, and tells the medians.
fn compare(
    clients: &mut [(Peer, Process)],
    operation: Operation,
    shape: Shape,
    rounds: usize,
    time: Duration,
) -> io::Result<()> {
    let mut costs = vec![Vec::new(); clients.len()];
    for round in 0..=rounds {
        for ((_, client), costs) in clients.iter_mut().zip(&mut costs) {
            let cost = cost(client, operation, shape, time)?;
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    for ((peer, _), costs) in clients.iter().zip(&costs) {
        let cpu = median(costs, |cost| cost.cpu.as_secs_f64()) * 1e6;
        let allocations = costs[0].allocations.map_or(String::new(), |_| {
            let count = median(costs, |cost| cost.allocations.unwrap_or_default());
            format!(", {count:.1} allocations")
        });
        println!(
            "{}, {shape}: {}: {cpu:.2} µs of CPU, {:.3} context switches{allocations}; {:.0} a second",
            operation.name(),
            peer.name(),
            median(costs, |cost| cost.switches),
            median(costs, |cost| cost.per_second),
        );
        let cell = format!("{cpu:.2} µs{allocations}");
        tell_cell(operation.name(), &shape.to_string(), peer.name(), &cell);
    }
    Ok(())
}

fn cost(
    client: &mut Process,
    operation: Operation,
    shape: Shape,
    time: Duration,
) -> io::Result<Cost> {
    let Shape { depth, kind } = shape;
    let before = client.usage()?;
    let asked = format!("{} {depth} {} {}", operation.key(), kind.key(), time.as_millis());
    let answer = client.ask(&asked)?;
    let process::Usage { cpu, switches } = client.usage()?.since(before);
    let mut words = answer.split_whitespace();
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let Some(count) = number().filter(|count| *count > 0) else {
        return Err(io::Error::other(format!("no operation was answered: {answer}")));
    };
    let operations = count as f64;
    Ok(Cost {
        cpu: cpu.div_f64(operations),
        switches: switches as f64 / operations,
        allocations: number().map(|allocations| allocations as f64 / operations),
        per_second: operations / time.as_secs_f64(),
    })
}

fn median(costs: &[Cost], value: impl Fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = costs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
