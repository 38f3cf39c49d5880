//! What a request of many sessions costs a server that have one under way each, as locks load it: CPU
//! time and context switches, beside a server of the same runtime that only answers.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench many_sessions
//! ```
//!
//! Each server is a process of its own, and the sessions are tasks on one thread of this one. The
//! servers take turns. CPU time depends less on what else the machine does than the time of a request.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod servers;

use std::io;
use std::time::Duration;

use zoolet_benches::process::{ServerProcess, Usage};
use zoolet_benches::sessions::{Load, Operation, Protocol, Work};
use zoolet_benches::{is_measured, tell};

use self::servers::Role;

const ROUNDS: usize = 5;

fn main() -> io::Result<()> {
    if let Some(role) = Role::of_this_process() {
        return servers::serve(role);
    }
    let (rounds, time, counts) = match is_measured() {
        true => (ROUNDS, Duration::from_secs(2), &[64, 1_000][..]),
        false => (1, Duration::from_millis(20), &[4][..]),
    };
    for &sessions in counts {
        compare(sessions, rounds, time)?;
    }
    Ok(())
}

/// What the sessions ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing: the server answers with as many bytes as to a `getData`.
    Bare,
    GetData,
    /// An ephemeral sequential, and its delete. Both are counted.
    CreateAndDelete,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Bare, Self::GetData, Self::CreateAndDelete];

    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "a bare answer",
            Self::GetData => "getData",
            Self::CreateAndDelete => "create or delete of an ephemeral sequential",
        }
    }

    const fn work(self) -> Work {
        let (protocol, operation) = match self {
            Self::Bare => (Protocol::Bare, Operation::Get),
            Self::GetData => (Protocol::ZooKeeper, Operation::Get),
            Self::CreateAndDelete => (Protocol::ZooKeeper, Operation::CreateAndDelete),
        };
        Work { protocol, operation, depth: 1 }
    }
}

/// What the operations of one kind have cost, by round.
struct Row {
    kind: Kind,
    costs: Vec<Cost>,
}

/// What an operation cost the server.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu: Duration,
    switches: f64,
}

/// Lets the servers take turns, and tells the medians.
fn compare(sessions: usize, rounds: usize, time: Duration) -> io::Result<()> {
    let bare = Role::Bare.start()?;
    let zoolet = Role::Zoolet.start()?;
    let mut rows = Kind::ALL.map(|kind| Row { kind, costs: Vec::new() });
    for _ in 0..rounds {
        for row in &mut rows {
            let server = if row.kind == Kind::Bare { &bare } else { &zoolet };
            row.costs.push(cost(server, row.kind, sessions, time)?);
        }
    }
    let floor = median(&rows[0].costs, |cost| cost.cpu.as_secs_f64());
    for row in &rows {
        let cpu = median(&row.costs, |cost| cost.cpu.as_secs_f64());
        tell(&format!(
            "{} from {sessions} sessions with one request each: {:.2} µs of CPU ({:.2} of the bare answer), \
             {:.3} context switches",
            row.kind.name(),
            cpu * 1e6,
            cpu / floor,
            median(&row.costs, |cost| cost.switches),
        ));
    }
    Ok(())
}

fn cost(server: &ServerProcess, kind: Kind, sessions: usize, time: Duration) -> io::Result<Cost> {
    let mut load = Load::open(server.address(), kind.work(), sessions)?;
    let before = server.usage()?;
    let operations = load.run(time)?.operations;
    let Usage { cpu, switches } = server.usage()?.since(before);
    load.close()?;
    if operations == 0 {
        return Err(io::Error::other("no operation was answered in time"));
    }
    let operations = operations as f64;
    Ok(Cost { cpu: cpu.div_f64(operations), switches: switches as f64 / operations })
}

fn median(costs: &[Cost], value: impl Fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = costs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
