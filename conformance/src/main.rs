//! The command of the conformance crate: records scripts, and runs random operations.

mod differential_command;
mod fleet_member;
mod lock_shell;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use zoolet_conformance::apache::APACHE_VERSION;
use zoolet_conformance::script::{Script, corpus};
use zoolet_conformance::stage::{Kind, Stage};

/// Conformance with Apache ZooKeeper.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs scripts and compares their traces with what is recorded.
    Golden {
        /// Which server.
        #[arg(long, value_enum, default_value_t = Kind::Core)]
        server: Kind,
        /// Only scripts whose names begin so.
        prefixes: Vec<String>,
    },
    /// Runs scripts against Apache ZooKeeper and records their traces.
    Record {
        /// Only scripts whose names begin so.
        prefixes: Vec<String>,
    },
    /// Sends random operations to our server and to a reference, and compares what comes back.
    Differential(differential_command::Arguments),
    /// Contends as a member of a fleet, told what to do by the lines of its standard input.
    FleetMember(fleet_member::Arguments),
    /// Writes what our core does into the blocks that Apache ZooKeeper 3.8 is too old for. What
    /// is written must then be compared with the reference by eye.
    Fill {
        /// Only scripts whose names begin so.
        prefixes: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Golden { server, prefixes } => {
            let mut stage = Stage::new(server);
            for_each(&prefixes, |script| Ok(stage.check(script).map(|()| false)?))
        }
        Command::Record { prefixes } => {
            let mut stage = Stage::new(Kind::Apache);
            let version = stage.version();
            for_each(&prefixes, |script| {
                Ok(stage.with(script.setting(), |target| script.record(target, version))??)
            })
        }
        Command::Differential(arguments) => differential_command::run(&arguments),
        Command::FleetMember(arguments) => fleet_member::run(&arguments).map(|()| true),
        Command::Fill { prefixes } => {
            let mut stage = Stage::new(Kind::Core);
            for_each(&prefixes, |script| {
                Ok(stage.with(script.setting(), |target| script.fill(target, APACHE_VERSION))??)
            })
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Fault = Box<dyn std::error::Error>;

/// Does something with each script, reports what failed, and tells whether nothing did.
fn for_each(
    prefixes: &[String],
    mut act: impl FnMut(&Script) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let is_chosen = |script: &Script| {
        prefixes.is_empty() || prefixes.iter().any(|prefix| script.name.starts_with(prefix))
    };
    let (mut count, mut failures) = (0, 0);
    for script in corpus()?.iter().filter(|script| is_chosen(script)) {
        count += 1;
        match act(script) {
            Ok(true) => println!("changed: {}", script.name),
            Ok(false) => {}
            Err(error) => {
                failures += 1;
                println!("{error}");
            }
        }
    }
    println!("{count} scripts, {failures} failed");
    Ok(failures == 0)
}
