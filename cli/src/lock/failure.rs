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
    #[error("{}", lost(*ended))]
    Lost {
        /// The exit status of the command, if it had ended.
        ended: Option<u8>,
    },
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

fn lost(ended: Option<u8>) -> String {
    match ended {
        None => "the lock is lost, and the command was stopped".to_owned(),
        Some(code) => format!(
            "the lock was lost before the command ended, with exit status {code}; others may have \
             had it meanwhile"
        ),
    }
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
            LockError::Lost(_) => Self::Lost { ended: None },
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
