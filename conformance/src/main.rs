//! The command of this crate: runs and records golden scripts, and runs random operations.

mod cost_shell;
mod differential_command;
mod ensemble_command;
mod fleet_member;
mod group_shell;
mod lock_shell;
mod recorded_member;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use zoolet_conformance::apache::APACHE_VERSION;
use zoolet_conformance::script::{Script, corpus};
use zoolet_conformance::servers::{ScriptServers, ServerKind};

/// Conformance with Apache ZooKeeper.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs scripts and compares their traces with the recorded ones.
    Golden {
        /// The server.
        #[arg(long, value_enum, default_value_t = ServerKind::Core)]
        server: ServerKind,
        /// Only scripts whose names begin with one of these.
        prefixes: Vec<String>,
    },
    /// Runs scripts against Apache ZooKeeper and records their traces.
    Record {
        /// Only scripts whose names begin with one of these.
        prefixes: Vec<String>,
    },
    /// Runs and records scripts with several servers.
    #[command(subcommand)]
    Ensemble(ensemble_command::Command),
    /// Sends random operations to our server and to a reference, and compares the results.
    Differential(differential_command::Arguments),
    /// Runs as a member of a fleet. The lines of its standard input tell it what to do.
    FleetMember(fleet_member::Arguments),
    /// Records the traces of our state machine in the blocks that Apache ZooKeeper 3.8 is too old
    /// for. Compare them with the source of a newer ZooKeeper.
    Fill {
        /// Only scripts whose names begin with one of these.
        prefixes: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Golden { server, prefixes } => {
            let mut servers = ScriptServers::new(server);
            for_each(corpus(), &prefixes, |script| Ok(servers.check(script).map(|()| false)?))
        }
        Command::Record { prefixes } => {
            let mut servers = ScriptServers::new(ServerKind::Apache);
            let version = servers.version();
            for_each(corpus(), &prefixes, |script| {
                Ok(servers.with(script.setting(), |target| script.record(target, version))??)
            })
        }
        Command::Ensemble(command) => ensemble_command::run(&command),
        Command::Differential(arguments) => differential_command::run(&arguments),
        Command::FleetMember(arguments) => fleet_member::run(&arguments).map(|()| true),
        Command::Fill { prefixes } => {
            let mut servers = ScriptServers::new(ServerKind::Core);
            for_each(corpus(), &prefixes, |script| {
                Ok(servers
                    .with(script.setting(), |target| script.fill(target, APACHE_VERSION))??)
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

type BoxError = Box<dyn std::error::Error>;

/// Calls `act` with each chosen script, and prints failures. `act` returns whether it changed the
/// file. Returns whether no script failed.
fn for_each(
    scripts: std::io::Result<Vec<Script>>,
    prefixes: &[String],
    mut act: impl FnMut(&Script) -> Result<bool, BoxError>,
) -> Result<bool, BoxError> {
    let is_chosen = |script: &Script| {
        prefixes.is_empty() || prefixes.iter().any(|prefix| script.name.starts_with(prefix))
    };
    let (mut count, mut failures) = (0, 0);
    for script in scripts?.iter().filter(|script| is_chosen(script)) {
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
