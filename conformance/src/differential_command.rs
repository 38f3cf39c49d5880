//! The command `differential`.

use std::net::SocketAddr;
use std::ops::Range;
use std::str::FromStr;

use zoolet_conformance::apache::Apache;
use zoolet_conformance::core_target::CoreTarget;
use zoolet_conformance::differential::{self, Plan};
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::target::{Target, TcpTarget};
use zoolet_conformance::wire::Wire;

/// The arguments of `differential`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The range of the seeds, without its end.
    #[arg(long, default_value = "0..200", value_parser = seeds)]
    seeds: Range<u64>,
    /// The number of operations of all seeds together.
    #[arg(long, default_value_t = 10_000)]
    operations: u64,
    /// Our server: `wire` starts it on a port, `core` uses the state machine in this process, or
    /// the address of a running server.
    #[arg(long, default_value = "wire")]
    server: OurServer,
    /// The address of the reference. Without it, Apache ZooKeeper 3.8 is started.
    #[arg(long)]
    reference: Option<SocketAddr>,
    /// No seed has quotas, and our server enforces none: it carries out short writes together then.
    #[arg(long)]
    without_quotas: bool,
    /// Print every operation and its result.
    #[arg(long)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy)]
enum OurServer {
    Wire,
    Core,
    At(SocketAddr),
}

impl FromStr for OurServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "wire" => Ok(Self::Wire),
            "core" => Ok(Self::Core),
            address => address.parse().map(Self::At).map_err(|_| {
                format!(
                    "{address:?} is no server: use wire, core or an address like 127.0.0.1:2181"
                )
            }),
        }
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(start, end)| {
        let range = start.parse().ok()?..end.parse().ok()?;
        Some(range).filter(|range| !range.is_empty())
    });
    range.ok_or_else(|| format!("{text:?} is no range of seeds: use one like 0..200"))
}

/// Runs the command, and returns whether the servers agree.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let setting = match arguments.without_quotas {
        true => Setting::Steady,
        false => Setting::SteadyWithQuotas,
    };
    let started;
    let ours: Box<dyn Target> = match arguments.server {
        OurServer::Core => Box::new(CoreTarget::new(servers::settings(setting))),
        OurServer::At(address) => Box::new(TcpTarget::new(address)),
        OurServer::Wire => {
            started = Wire::start(servers::config(setting))?;
            Box::new(started.target())
        }
    };
    let apache;
    let reference = match arguments.reference {
        Some(address) => TcpTarget::new(address),
        None => {
            apache = Apache::start(&servers::properties(setting))?;
            apache.target()
        }
    };
    let plan = Plan {
        seeds: arguments.seeds.clone(),
        operations: arguments.operations,
        has_quotas: !arguments.without_quotas,
        is_verbose: arguments.verbose,
        has_event_zxids: !matches!(arguments.server, OurServer::At(_)),
    };
    match differential::run(&plan, &*ours, &reference) {
        Ok(agreement) => {
            println!(
                "no difference: {} seeds, {} operations, {} requests, {} events",
                agreement.seeds, agreement.steps, agreement.requests, agreement.events
            );
            Ok(true)
        }
        Err(differential::RunError::Differs(difference)) => {
            println!("{difference}");
            Ok(false)
        }
        Err(other) => Err(other.into()),
    }
}
