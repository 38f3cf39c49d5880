//! The command `differential`: which servers, and what is reported.

use std::net::SocketAddr;
use std::ops::Range;
use std::str::FromStr;

use zoolet_conformance::apache::Apache;
use zoolet_conformance::core_target::CoreTarget;
use zoolet_conformance::differential::{self, Plan};
use zoolet_conformance::script::Setting;
use zoolet_conformance::stage;
use zoolet_conformance::target::{Target, TcpTarget};
use zoolet_conformance::wire::Wire;

/// What to send to whom.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The seeds, the end not among them.
    #[arg(long, default_value = "0..200", value_parser = seeds)]
    seeds: Range<u64>,
    /// How many operations all seeds have together.
    #[arg(long, default_value_t = 10_000)]
    operations: u64,
    /// Our server: `wire`, which is started over TCP; `core`, in process; or an address.
    #[arg(long, default_value = "wire")]
    server: Subject,
    /// The reference: an address; Apache ZooKeeper 3.8 is started if there is none.
    #[arg(long)]
    reference: Option<SocketAddr>,
    /// Print every operation and what came of it.
    #[arg(long)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy)]
enum Subject {
    Wire,
    Core,
    At(SocketAddr),
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "wire" => Ok(Self::Wire),
            "core" => Ok(Self::Core),
            address => address.parse().map(Self::At).map_err(|_| format!("no server: {address:?}")),
        }
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(start, end)| {
        let range = start.parse().ok()?..end.parse().ok()?;
        Some(range).filter(|range| !range.is_empty())
    });
    range.ok_or_else(|| format!("no seeds: {text:?}; 0..200 would be some"))
}

/// Runs it, and tells whether the servers agree.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let setting = Setting::Steady;
    let started;
    let ours: Box<dyn Target> = match arguments.server {
        Subject::Core => Box::new(CoreTarget::new(stage::settings(setting))),
        Subject::At(address) => Box::new(TcpTarget::new(address)),
        Subject::Wire => {
            started = Wire::start(stage::config(setting))?;
            Box::new(started.target())
        }
    };
    let apache;
    let reference = match arguments.reference {
        Some(address) => TcpTarget::new(address),
        None => {
            apache = Apache::start(&stage::properties(setting))?;
            apache.target()
        }
    };
    let plan = Plan {
        seeds: arguments.seeds.clone(),
        operations: arguments.operations,
        is_verbose: arguments.verbose,
        has_event_zxids: !matches!(arguments.server, Subject::At(_)),
    };
    match differential::run(&plan, &*ours, &reference) {
        Ok(agreement) => {
            println!(
                "no difference: {} seeds, {} operations, {} requests, {} events",
                agreement.seeds, agreement.steps, agreement.requests, agreement.events
            );
            Ok(true)
        }
        Err(differential::Fault::Differs(difference)) => {
            println!("{difference}");
            Ok(false)
        }
        Err(other) => Err(other.into()),
    }
}
