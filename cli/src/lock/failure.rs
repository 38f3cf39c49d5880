//! Why a command did not run under a lock, or did not run to its end, and the exit status of each case.

use std::io;

use nix::sys::signal::Signal;
use zoolet_client as client;
use zoolet_protocol::ErrorCode;
use zoolet_recipes::LockError;

use crate::connect_options::SecurityError;

/// Why the command did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0} is held by another; `zoolet cli locks {0}` shows by whom")]
    Conflict(String),
    #[error(
        "no server at {server} could be connected to{why}; is one running there? --server or \
         ZOOLET_SERVER names another"
    )]
    NoServer { server: String, why: String },
    #[error("the lock {path} {how}")]
    Lost { path: String, how: Loss },
    #[error(
        "{path} is used for {other} too: they do not exclude each other. Use another path, or the \
         same kind of lock everywhere"
    )]
    Mixed { path: String, other: &'static str },
    #[error(transparent)]
    Security(SecurityError),
    #[error("the server refuses the lock: {0}")]
    Refused(LockError),
    #[error("{command}: there is no such command")]
    NoCommand { command: String },
    #[error("{command} cannot be executed: {error}")]
    NotExecutable { command: String, error: io::Error },
    #[error("the system refuses what this needs: {0}")]
    System(io::Error),
    #[error("ended by {0}")]
    Signal(Signal),
}

/// How a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Loss {
    #[error("was lost before the command was started; try again")]
    Before,
    #[error("is lost: its znode was deleted, or its session has ended. The command was stopped")]
    Gone,
    #[error(
        "may be another's soon: no server has proved in time that the session lives. The command \
         was stopped"
    )]
    Unproved,
    #[error(
        "was lost before the command ended, with exit status {0}; others may have had it meanwhile"
    )]
    Ended(u8),
}

impl Failure {
    /// Whether a message is printed: not after a signal, whose sender knows.
    pub(super) fn is_told(&self) -> bool {
        !matches!(self, Self::Signal(_))
    }

    /// The statuses of `sysexits.h`, except where shells and `flock` have their own.
    pub(super) fn exit_code(&self, conflict: u8) -> u8 {
        match self {
            Self::Conflict(_) => conflict,
            Self::NoServer { .. } => 69,
            Self::Refused(LockError::Client(error)) if error.is(ErrorCode::NO_AUTH) => 77,
            Self::Refused(_) => 70,
            Self::System(_) => 71,
            Self::Lost { .. } => 75,
            Self::Security(_) => 2,
            Self::Mixed { .. } => 78,
            Self::NotExecutable { .. } => 126,
            Self::NoCommand { .. } => 127,
            Self::Signal(signal) => signalled(*signal as i32),
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Lost(path) => Self::Lost { path, how: Loss::Before },
            error => Self::Refused(error),
        }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        Self::Refused(error.into())
    }
}

/// The exit status that shells use for a command that a signal ended.
pub(super) fn signalled(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(u8::MAX)
}
