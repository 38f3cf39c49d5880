//! How throughput and CPU time grow with the cores: reads, writes and a mixture, on servers with 1, 2, 4 ..
//! threads up to the number of cores.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench scaling
//! ```
//!
//! Each server is a process of its own, and has as many threads as the clients in this process: with half of
//! the cores for each side, a row shows what more cores bring. The servers take turns. Where threads wait
//! for each other the CPU time of an operation grows with the threads.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod load;

use std::io;
use std::time::Duration;

use tokio::runtime::Builder;
use zoolet_benches::process::{ServerProcess, until_stdin_ends, usage_of};
use zoolet_benches::{is_measured, tell};

use self::load::Kind;

/// The variable that makes this program a server with so many threads.
const SERVER: &str = "ZOOLET_BENCH_SCALING";
const ROUNDS: usize = 3;

fn main() -> io::Result<()> {
    if let Ok(threads) = std::env::var(SERVER) {
        return serve(threads.parse().map_err(io::Error::other)?);
    }
    let cores = std::thread::available_parallelism()?.get();
    let (rounds, time, most) = match is_measured() {
        true => (ROUNDS, Duration::from_secs(1), cores.max(2)),
        false => (1, Duration::from_millis(20), 2),
    };
    println!("{cores} cores");
    let counts = std::iter::successors(Some(1), |threads| Some(2 * threads));
    let mut servers = Vec::new();
    for threads in counts.take_while(|threads| *threads <= most) {
        let process = ServerProcess::start(SERVER, &threads.to_string())?;
        servers.push(Server { process, threads });
    }
    for kind in Kind::ALL {
        compare(&servers, kind, rounds, time)?;
    }
    Ok(())
}

struct Server {
    process: ServerProcess,
    /// Of the server, and as many of its clients.
    threads: usize,
}

/// What a server and its clients did in one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    per_second: f64,
    /// CPU time of an operation, in microseconds.
    server: f64,
    clients: f64,
}

/// Lets the servers take turns, and tells the medians.
fn compare(servers: &[Server], kind: Kind, rounds: usize, time: Duration) -> io::Result<()> {
    let mut measured = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for (server, measured) in servers.iter().zip(&mut measured) {
            measured.push(round(server, kind, time)?);
        }
    }
    let mut of_one = None;
    for (server, rounds) in servers.iter().zip(&measured) {
        let per_second = median(rounds, |round| round.per_second);
        let of_one = *of_one.get_or_insert(per_second);
        tell(&format!(
            "{}, {} threads each side: {per_second:.0} a second ({:.2} of one thread's); CPU of each: \
             {:.2} µs of the server, {:.2} µs of the clients",
            kind.name(),
            server.threads,
            per_second / of_one,
            median(rounds, |round| round.server),
            median(rounds, |round| round.clients),
        ));
    }
    Ok(())
}

fn round(server: &Server, kind: Kind, time: Duration) -> io::Result<Round> {
    let load = load::open(server.process.address(), kind, server.threads)?;
    let own = std::process::id();
    let (before, own_before) = (server.process.usage()?, usage_of(own)?);
    let operations = load.run(time)?;
    let (used, own_used) =
        (server.process.usage()?.since(before), usage_of(own)?.since(own_before));
    // The threads end later, so that their CPU time is counted.
    load.end()?;
    let operations = operations.max(1) as f64;
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / operations;
    Ok(Round {
        per_second: operations / time.as_secs_f64(),
        server: each(used.cpu),
        clients: each(own_used.cpu),
    })
}

fn median(rounds: &[Round], value: impl Fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Serves until stdin ends.
fn serve(threads: usize) -> io::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let server = zoolet_benches::server().await;
        println!("{}", server.local_addr().unwrap_or_else(|| unreachable!("it listens")));
        until_stdin_ends().await
    })
}
