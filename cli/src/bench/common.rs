//! The options that all benches share.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use zoolet_client::Hosts;
use zoolet_protocol::ZPath;

use crate::connect_options::{SaslOptions, TlsOptions};
use crate::logging::LogLevel;
use crate::server_options::values;

/// Which servers to measure, how often, and how to report.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// A server to measure; given several times, they take turns. `embedded` is one in this process
    /// that is reached by TCP [the default], `in-process` one that is reached by calls
    #[arg(short, long = "server", value_name = "[NAME=]HOST:PORT", help_heading = SERVERS)]
    pub(super) servers: Vec<Target>,

    /// Measure a server in this process that is reached by calls, without TCP
    #[arg(long, conflicts_with = "servers", help_heading = SERVERS)]
    pub(super) in_process: bool,

    /// The process of a server on this machine, for its CPU time and memory; given several times,
    /// in the order of --server. Of an embedded server it is known
    #[arg(long = "pid", value_name = "PID", help_heading = SERVERS)]
    #[arg(value_parser = values::number::<u32>(1..=values::INT_MAX))]
    pub(super) pids: Vec<u32>,

    #[command(flatten)]
    pub(super) tls: TlsOptions,

    #[command(flatten)]
    pub(super) sasl: SaslOptions,

    /// The znode below which everything is done. It must not be there yet, and is deleted at the
    /// end [default: /zoolet-bench-SESSION]
    #[arg(long, value_name = "PATH", value_parser = znode, help_heading = SERVERS)]
    pub(super) path: Option<String>,

    /// For how long a server keeps a session without hearing of it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::some_time)]
    #[arg(help_heading = SERVERS)]
    pub(super) session_timeout: Duration,

    /// How often everything is measured, the servers by turns; what is told is the median
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    #[arg(value_parser = values::number::<u32>(1..=values::INT_MAX))]
    pub(super) rounds: u32,

    /// Print JSON instead of a table, with the numbers of each round
    #[arg(long, help_heading = RESULTS)]
    pub(super) json: bool,

    /// Write a page for a browser; it is one file, and needs no network
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub(super) report: Option<PathBuf>,

    /// How much to log [default: error, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    pub(super) log_level: Option<LogLevel>,
}

impl Common {
    /// The servers to measure.
    pub(super) fn targets(&self) -> Vec<Target> {
        match self.servers.as_slice() {
            [] if self.in_process => vec![Target { name: None, location: Location::InProcess }],
            [] => vec![Target::EMBEDDED],
            servers => servers.to_vec(),
        }
    }
}

/// A server, and its name in tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: Option<String>,
    pub(crate) location: Location,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// In this process, over TCP.
    Embedded,
    /// In this process, by calls.
    InProcess,
    /// At these hosts.
    Hosts(String),
}

impl Target {
    /// In this process, over TCP.
    pub(crate) const EMBEDDED: Self = Self { name: None, location: Location::Embedded };

    /// Its name in tables.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.place())
    }

    /// Where it is, as in the option.
    pub(crate) fn place(&self) -> &str {
        match &self.location {
            Location::Embedded => EMBEDDED,
            Location::InProcess => IN_PROCESS,
            Location::Hosts(hosts) => hosts,
        }
    }
}

impl FromStr for Target {
    type Err = zoolet_client::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, server) = match text.split_once('=') {
            Some((name, server)) => (Some(name.to_owned()), server),
            None => (None, text),
        };
        let location = match server {
            EMBEDDED => Location::Embedded,
            IN_PROCESS => Location::InProcess,
            hosts => {
                hosts.parse::<Hosts>()?;
                Location::Hosts(hosts.to_owned())
            }
        };
        Ok(Self { name: name.filter(|name| !name.is_empty()), location })
    }
}

/// The values without repetitions, in their order.
pub(super) fn unique<T: Copy + PartialEq>(values: &[T]) -> Vec<T> {
    let mut unique = Vec::new();
    for value in values {
        if !unique.contains(value) {
            unique.push(*value);
        }
    }
    unique
}

fn znode(path: &str) -> Result<String, BadPath> {
    ZPath::check(path)?;
    if path == "/" { Err(BadPath::Root) } else { Ok(path.to_owned()) }
}

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
enum BadPath {
    #[error(transparent)]
    Path(#[from] zoolet_protocol::PathError),
    #[error("the root is there already; name a znode that is not, such as /bench")]
    Root,
}

const EMBEDDED: &str = "embedded";
const IN_PROCESS: &str = "in-process";

const SERVERS: &str = "Servers";
const RESULTS: &str = "Results";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_may_have_names() {
        for (text, name, location) in [
            ("embedded", "embedded", Location::Embedded),
            ("in-process", "in-process", Location::InProcess),
            ("zk:1", "zk:1", Location::Hosts("zk:1".to_owned())),
            ("apache=zk:1/a", "apache", Location::Hosts("zk:1/a".to_owned())),
            ("ours=embedded", "ours", Location::Embedded),
            ("=zk", "zk", Location::Hosts("zk".to_owned())),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.name(), &target.location), (name, &location), "{text}");
        }
        for text in ["", "zk:x", "a=", "a=zk:x"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
