//! `zoolet bench`: measures what servers and locks cost.

mod certificates;
pub(crate) mod clock;
pub(crate) mod common;
mod counted;
mod embedded;
mod environment;
pub(crate) mod exclusion;
pub(crate) mod failure;
mod fan_out;
mod hand_over;
mod herd;
mod latency;
mod load;
pub(crate) mod lock_algorithm;
mod locks;
mod metrics;
mod outcome;
mod process;
mod report;
mod run;
pub(crate) mod server;
mod sessions;
pub(crate) mod table;
pub(crate) mod values;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::failure::Failure;
use crate::complain;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Bench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// How long a lock takes from one holder to the next, by how many wait for it
    ///
    /// One holds the lock and N wait, each a client with a session of its own. The holder releases,
    /// one of those who wait has it, and who released stands in line again. Measured is the time
    /// from the call to release until the next has acquired; counted, on the wire of the clients,
    /// what that cost: requests, events and bytes, pings apart. The counts do not depend on how busy
    /// the machine is.
    Herd(herd::Herd),

    /// How many acquisitions of a lock there are in a second, and how long each takes
    ///
    /// Clients acquire and release without a pause, each on a path of its own or all on one.
    Lock(locks::Locks),

    /// How many operations a server carries out in a second, and how long each takes
    ///
    /// A number of sessions, each with a number of requests under way, get, set, create and delete
    /// znodes in the mixture that is asked for.
    Load(load::Load),

    /// How long it takes until all watchers of a znode have received an event
    WatchFanout(fan_out::FanOut),

    /// How fast sessions open, and what many idle sessions cost
    Sessions(sessions::Sessions),
}

impl Bench {
    /// Runs the bench, reports and cleans up, and returns the exit status.
    pub(crate) fn run(self) -> ExitCode {
        let result = match self.workload {
            Workload::Herd(herd) => run::run(&herd, &herd.common),
            Workload::Lock(locks) => run::run(&locks, &locks.common),
            Workload::Load(load) => load.plan().and_then(|plan| run::run(&plan, &load.common)),
            Workload::WatchFanout(fan_out) => run::run(&fan_out, &fan_out.common),
            Workload::Sessions(sessions) => run::run(&sessions, &sessions.common),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !matches!(failure, Failure::Interrupted) {
                    complain(&failure.with_cure());
                }
                failure.exit_code()
            }
        }
    }
}

const AFTER_HELP: &str = "\
Without --server a server is started in this process for the time of the run, and reached by
TCP; with --tls by TLS, with certificates of its own. Everything is done below one znode, which
is deleted at the end, also after Ctrl-C.

Examples:
  zoolet bench herd                                     what the herd effect costs, on our server
  zoolet bench herd --report herd.html                  the same with plots, for a browser
  zoolet bench lock --clients 1,64 --lock predecessor   how fast the mutex is
  zoolet bench load --mix get=50,set=40,create=5,delete=5 --sessions 64
  zoolet bench load --mix get=100 --tls                 what TLS costs
  zoolet bench herd --server embedded --server apache=zk:2181 --rounds 5
                                                        on two servers, by turns

Exit status: 0 if everything was measured, 1 if a lock was held by two at once or the results or
the page cannot be written, 2 if the arguments are wrong, 69 if there is no server or the connection
to it was lost, 70 if the server refused, 71 if the system refused what this needs, 77 if the server
refused the credentials, 130 after Ctrl-C.";
