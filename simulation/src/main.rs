//! Runs the simulation over many seeds, or one of them again.
//!
//! ```console
//! $ cargo run --release -p zoolet-simulation -- --seeds 0..100000 --jobs 2
//! $ cargo run --release -p zoolet-simulation -- --ensemble --seeds 0..100000 --jobs 2
//! $ cargo run --release -p zoolet-simulation -- --seed 17 --trace
//! ```

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use zoolet_simulation::{Bug, Failure, Options, Part, run, sweep, workers};
use zoolet_testkit::sim::{Schedule, Sim};

/// Simulates a ZooKeeper server with its disk, its clients and their locks, with crashes and cut
/// connections, all from one seed.
#[derive(Debug, Parser)]
struct Arguments {
    /// The seeds to run, as FIRST..END.
    #[arg(long, value_parser = seeds, default_value = "0..1000")]
    seeds: Range<u64>,
    /// A single seed, instead of many.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// How many threads run seeds.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// An ensemble of three servers that lag and are cut off, instead of one that crashes.
    #[arg(long)]
    ensemble: bool,
    /// The parts to switch off.
    #[arg(long, value_delimiter = ',')]
    without: Vec<Part>,
    /// The number of clients.
    #[arg(long)]
    clients: Option<usize>,
    /// The number of actions of each client.
    #[arg(long)]
    operations: Option<usize>,
    /// The duration of the faults, in seconds of the run's clock.
    #[arg(long)]
    seconds: Option<u64>,
    /// The planted bug to choose, in a copy of the workspace that is patched with the bugs.
    #[arg(long)]
    bug: Option<Bug>,
    /// Runs a program as a user of `zoolet::sim` writes it, on an ensemble.
    #[arg(long, conflicts_with_all = [
        "seed", "ensemble", "without", "clients", "operations", "seconds", "no_shrink", "trace",
    ])]
    users: bool,
    /// The schedule to run again, as the report of a failure with --users shows it.
    #[arg(long, requires = "users", conflicts_with = "seeds")]
    replay: Option<Schedule>,
    /// Reports the failing seed as it is, and does not search for a smaller run that fails.
    #[arg(long)]
    no_shrink: bool,
    /// Prints the last messages of the run. Needs --seed.
    #[arg(long)]
    trace: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("give FIRST..END")?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is not a number"));
    let seeds = number(first)?..number(end)?;
    match seeds.is_empty() {
        true => Err("it has no seed; END must be above FIRST".to_owned()),
        false => Ok(seeds),
    }
}

#[allow(clippy::disallowed_methods, reason = "the time that it takes is shown")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.users {
        let sim = workers(arguments.bug).jobs(arguments.jobs);
        let bug = arguments.bug.map_or_else(String::new, |bug| format!(" --bug {bug}"));
        return run_users(&sim, arguments.seeds, arguments.replay, &bug);
    }
    let base = match (arguments.bug, arguments.seed) {
        // The report of a failure names all options for a single run.
        (Some(bug), None) => Options::with_bug(bug),
        _ if arguments.ensemble => Options::ensemble(),
        _ => Options::default(),
    };
    let options = Options {
        is_ensemble: base.is_ensemble,
        without: base.without.iter().chain(&arguments.without).copied().collect(),
        clients: arguments.clients.unwrap_or(base.clients),
        operations: arguments.operations.unwrap_or(base.operations),
        seconds: arguments.seconds.unwrap_or(base.seconds),
        bug: arguments.bug,
        keeps_trace: arguments.trace && arguments.seed.is_some(),
    };
    if let Some(seed) = arguments.seed {
        return run_one(seed, options);
    }
    let start = Instant::now();
    let show = |count: u64| {
        if count.is_multiple_of(10_000) {
            println!("{count} seeds in {:?}", start.elapsed());
        }
    };
    let swept = sweep(arguments.seeds, arguments.jobs, &options, show);
    println!("{} seeds, {} messages compared, {:?}", swept.seeds, swept.messages, start.elapsed());
    for (what, count) in &swept.counts {
        println!("{count:>12} {what}");
    }
    match swept.failure {
        Some(failure) if arguments.no_shrink => {
            println!("{}", failure.report());
            ExitCode::FAILURE
        }
        Some(failure) => report_failure(failure),
        None => ExitCode::SUCCESS,
    }
}

fn run_users(sim: &Sim, seeds: Range<u64>, replay: Option<Schedule>, bug: &str) -> ExitCode {
    let (found, what) = match replay {
        Some(schedule) => (sim.try_replay(schedule.clone()), format!("schedule {schedule}")),
        None => (sim.search(seeds.clone()), format!("{} seeds", seeds.end - seeds.start)),
    };
    match found {
        Ok(()) => {
            println!("{what}: no violation");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}\nhere: --users --replay {}{bug}", failure.schedule());
            ExitCode::FAILURE
        }
    }
}

fn run_one(seed: u64, options: Options) -> ExitCode {
    let verdict = run(seed, &options);
    verdict.trace.iter().for_each(|line| println!("{line}"));
    println!("{} messages, hash {:016x}", verdict.messages, verdict.hash);
    match verdict.violation {
        Some(_) if options.keeps_trace => {
            println!("{}", Failure { seed, options, verdict }.report());
            ExitCode::FAILURE
        }
        Some(_) => report_failure(Failure { seed, options, verdict }),
        None => ExitCode::SUCCESS,
    }
}

/// Reports a failure, and the smallest run that fails.
fn report_failure(failure: Failure) -> ExitCode {
    println!("{}", failure.report());
    println!("shrinking the run ..");
    println!("{}", failure.shrink().report());
    ExitCode::FAILURE
}
