//! The load of `benches/budgets/run`: the same client for every server that is compared. One run is one
//! measurement of one server; the script takes turns.
//!
//! ```text
//! budgets_load bare                       answer requests with bytes; print the address
//! budgets_load bare DIRECTORY             the same, once a file in this new directory survives a crash
//! budgets_load answers                    answer requests of ZooKeeper as if all was well; print the address
//! budgets_load plain-tree                 the same, but from a plain tree; print the address
//! budgets_load exact-tree                 the same, from a tree whose answers are right; print the address
//! budgets_load fan-out-floor              write an event to all that are connected; print the address
//! budgets_load run PROTOCOL ADDRESS PID OPERATION SESSIONS DEPTH WARM-UP-MS TIME-MS
//! budgets_load fan-out PROTOCOL ADDRESS PID WATCHERS CHANGES
//! budgets_load fill PROTOCOL ADDRESS line|directories COUNT
//! ```
//!
//! `run` prints operations a second, the server's CPU time in µs for each, and the median time in µs of a
//! batch of DEPTH requests. It measures for TIME-MS, or until 100,000 znodes or keys are created. `fan-out`
//! prints the server's CPU time in µs for each event.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod fan_out;
mod fan_out_floor;
mod kept;

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use zoolet_benches::bare;
use zoolet_benches::plain::{self, Behind};
use zoolet_benches::process::usage_of;
use zoolet_benches::sessions::{Load, Operation, Place, Protocol, Work, fill};

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match command(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("budgets_load {}: {error}", arguments.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn command(arguments: &[&str]) -> Result<(), Failure> {
    match arguments {
        ["bare"] => Ok(bare::serve(told)?),
        ["bare", directory] => {
            kept::keep(Path::new(directory))?;
            Ok(bare::serve(told)?)
        }
        ["answers"] => Ok(plain::serve(Behind::Nothing, told)?),
        ["plain-tree"] => Ok(plain::serve(Behind::PlainTree, told)?),
        ["exact-tree"] => Ok(plain::serve(Behind::ExactTree, told)?),
        ["fan-out-floor"] => Ok(fan_out_floor::serve()?),
        ["run", protocol, address, process, operation, sessions, depth, warm_up, time] => {
            let (protocol, operation) = (protocol_of(protocol)?, operation_of(operation)?);
            let work = Work { protocol, operation, depth: depth.parse()? };
            let load = Load::open(address.parse()?, work, sessions.parse()?)?;
            run(load, process.parse()?, milliseconds(warm_up)?, milliseconds(time)?)
        }
        ["fan-out", protocol, address, process, watchers, changes] => {
            let server = fan_out::Watched {
                protocol: protocol_of(protocol)?,
                address: address.parse::<SocketAddr>()?,
                process: process.parse()?,
            };
            let cpu = server.measure(watchers.parse()?, changes.parse()?)?;
            println!("{:.3}", micros(cpu));
            Ok(())
        }
        ["fill", protocol, address, place, count] => {
            let place = match *place {
                "line" => Place::Line,
                "directories" => Place::Directories,
                other => return Err(format!("there is no place {other}").into()),
            };
            Ok(fill(address.parse()?, protocol_of(protocol)?, place, count.parse()?)?)
        }
        _ => Err("the first lines of benches/budgets/load/main.rs have the arguments".into()),
    }
}

fn told(address: SocketAddr) {
    println!("listening on {address}");
}

fn run(mut load: Load, process: u32, warm_up: Duration, time: Duration) -> Result<(), Failure> {
    load.warm_up(warm_up)?;
    let (cpu, begin) = (usage_of(process)?.cpu, Instant::now());
    let mut answered = load.run(time)?;
    let (cpu, seconds) =
        (usage_of(process)?.cpu.saturating_sub(cpu), begin.elapsed().as_secs_f64());
    load.close()?;
    answered.times.sort_unstable();
    let operations = answered.operations as f64;
    let median = answered.times.get(answered.times.len() / 2).copied().unwrap_or_default();
    println!("{:.0} {:.3} {:.1}", operations / seconds, micros(cpu) / operations, micros(median));
    Ok(())
}

fn protocol_of(name: &str) -> Result<Protocol, Failure> {
    match name {
        "zookeeper" => Ok(Protocol::ZooKeeper),
        "redis" => Ok(Protocol::Redis),
        "bare" => Ok(Protocol::Bare),
        other => Err(format!("there is no protocol {other}").into()),
    }
}

fn operation_of(name: &str) -> Result<Operation, Failure> {
    match name {
        "get" => Ok(Operation::Get),
        "set" => Ok(Operation::Set),
        "create" => Ok(Operation::Create),
        "pair" => Ok(Operation::CreateAndDelete),
        other => Err(format!("there is no operation {other}").into()),
    }
}

fn milliseconds(text: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(text.parse()?))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
