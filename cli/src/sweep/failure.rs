//! Why a sweep was not made, and the exit status of each case.

use std::io;
use std::path::PathBuf;

use zoolet_testkit::{FaultError, TestEnsembleError, TestServerError};

use super::variables::ADDRESS_VARIABLES;

/// Why a sweep was not made, or not to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{command}: there is no such command")]
    NoCommand { command: String },
    #[error("{command}: there is no such command; the file of this name here is ./{command}")]
    NotInPath { command: String },
    #[error("{command} cannot be executed: the interpreter that its first line names is not there")]
    NoInterpreter { command: String },
    #[error("{command} cannot be executed: {error}")]
    NotExecutable { command: String, error: io::Error },
    #[error(
        "the command fails without any fault: {how}. A sweep begins when it passes on a server where \
         nothing is yet"
    )]
    FailsByItself {
        how: String,
        /// The last lines that it printed, for a report.
        output: String,
    },
    #[error(
        "the command ended well and has sent no request: it never used the server. It finds the \
         address in the variable {}; others with the same value are {}",
        ADDRESS_VARIABLES[0], ADDRESS_VARIABLES[1..].join(", ")
    )]
    NoRequests,
    #[error("no request names {path}; `--list` shows the requests of the command and their paths")]
    NoSuchPath { path: String },
    #[error("no kind of fault that --only names concerns these requests; leave it out")]
    NothingLeft,
    #[error(
        "no request of the command has the fault {id}; `--list` shows the points. A request is \
         found again if its session, operation and path are the same in each run"
    )]
    NoSuchFault { id: String },
    #[error("{path} cannot be written: {error}")]
    Report { path: PathBuf, error: io::Error },
    #[error(
        "{} and {} would both be written to stdout; give one of them a file", options[0], options[1]
    )]
    TwoOnStdout { options: [&'static str; 2] },
    #[error("the system refuses what this needs: {0}")]
    System(io::Error),
    #[error("no server can be started for a run: {0}; fewer --jobs need fewer ports and files")]
    Server(#[from] TestServerError),
    #[error("no ensemble can be started for a run: {0}")]
    Ensemble(#[from] TestEnsembleError),
    #[error("a fault cannot be set: {0}")]
    Fault(#[from] FaultError),
    #[error("ended by {0}")]
    Signal(&'static str),
}

/// A fault broke the command.
pub(super) const BROKEN: u8 = 1;

/// The arguments are wrong, or nothing is left to do with them; clap has the same.
const WRONG: u8 = 2;

/// The command fails by itself.
pub(super) const FAILS_BY_ITSELF: u8 = 3;

/// No fault was reached.
pub(super) const NOT_REACHED: u8 = 4;

/// The user stopped it.
const INTERRUPTED: u8 = 130;

impl Failure {
    /// Whether a message is printed: not after a signal, whose sender knows.
    pub(super) fn is_told(&self) -> bool {
        !matches!(self, Self::Signal(_))
    }

    /// The statuses of `sysexits.h`, except where shells have their own.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::NoSuchPath { .. }
            | Self::NothingLeft
            | Self::NoSuchFault { .. }
            | Self::TwoOnStdout { .. } => WRONG,
            Self::FailsByItself { .. } | Self::NoRequests => FAILS_BY_ITSELF,
            Self::Server(_) | Self::Ensemble(_) | Self::Fault(_) => 70,
            Self::System(_) => 71,
            Self::Report { .. } => 73,
            Self::NotExecutable { .. } | Self::NoInterpreter { .. } => 126,
            Self::NoCommand { .. } | Self::NotInPath { .. } => 127,
            Self::Signal(_) => INTERRUPTED,
        }
    }
}
