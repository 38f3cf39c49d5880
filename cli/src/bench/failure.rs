//! Why a bench failed, and the exit status of each case.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use zoolet_client::Error;
use zoolet_client::tls::TlsError;
use zoolet_protocol::ErrorCode;
use zoolet_recipes::LockError;

use crate::certs::CertsError;
use crate::connect_options::{NoPassword, TlsFailure};

/// Why a bench failed. The message is without the cure, which [`Failure::with_cure`] has too.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Tls(#[from] TlsFailure),
    #[error("the certificates for the run cannot be used: {0}")]
    OwnTls(#[from] TlsError),
    #[error(transparent)]
    Sasl(#[from] NoPassword),
    #[error(transparent)]
    Certificates(#[from] CertsError),
    #[error("no server at {0} could be connected to{1}")]
    NoServer(String, String),
    #[error("{0} takes no more connections")]
    NoMoreConnections(String),
    #[error("this process can open no more connections")]
    NoMoreHere,
    #[error("{server} is gone: the connection was lost for {seconds} s")]
    Gone { server: String, seconds: u64 },
    #[error("{0} is there already")]
    Exists(String),
    #[error("the znode above {0} is not there")]
    NoParent(String),
    #[error("{0} refused the credentials")]
    AuthFailed(String),
    #[error("the connection to the server was lost: {0}")]
    Lost(LockError),
    #[error("the session at the server was lost: {0}")]
    SessionLost(LockError),
    #[error("the server refused: {0}")]
    Refused(LockError),
    #[error("two held the lock at once: {times} times")]
    Violated { times: usize },
    #[error("{sold} were sold of {items} under a lock")]
    Oversold { sold: usize, items: usize },
    #[error("{server} has not answered for {seconds} s")]
    Silent { server: String, seconds: u64 },
    #[error("the system refuses what this needs: {0}")]
    System(io::Error),
    #[error("{path} cannot be written: {error}")]
    Report { path: PathBuf, error: io::Error },
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The message, and what to do about it, for stderr.
    pub(crate) fn with_cure(&self) -> String {
        let cure = match self {
            Self::NoServer(..) => {
                "; is one running there? Without --server one is started for the run"
            }
            Self::NoMoreConnections(_) => {
                ". By default ZooKeeper and zoolet serve take 60 from one address: start the \
                 server with maxClientCnxns=0 or --max-client-cnxns 0, or measure with fewer clients"
            }
            Self::NoMoreHere => {
                ": raise the limit of open files, which `ulimit -n` tells, or measure with fewer \
                 clients"
            }
            Self::Gone { .. } | Self::Lost(_) | Self::SessionLost(_) => {
                ". What was created may be left"
            }
            Self::Exists(_) => "; name a znode that is not: it is deleted at the end",
            Self::NoParent(_) => "; create it, or name another --path",
            Self::Violated { .. } | Self::Oversold { .. } => ". This must never happen",
            Self::Silent { .. } => "; its log may say why",
            // These have none, or within the message.
            Self::Usage(_) | Self::Tls(_) | Self::OwnTls(_) | Self::Sasl(_) => "",
            Self::Certificates(_) | Self::AuthFailed(_) | Self::Refused(_) => "",
            Self::System(_) | Self::Report { .. } | Self::Interrupted => "",
        };
        format!("{self}{cure}")
    }

    /// The statuses of `sysexits.h`.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Violated { .. } | Self::Oversold { .. } | Self::Report { .. } => 1,
            Self::Usage(_) | Self::Tls(_) | Self::Sasl(_) => 2,
            Self::Exists(_) | Self::NoParent(_) => 2,
            Self::NoServer(..) | Self::Gone { .. } => 69,
            Self::Lost(_) | Self::SessionLost(_) => 69,
            Self::Refused(LockError::Client(error)) if error.is(ErrorCode::NO_AUTH) => 77,
            Self::Refused(_) | Self::Silent { .. } | Self::NoMoreConnections(_) => 70,
            Self::System(_) | Self::NoMoreHere | Self::Certificates(_) | Self::OwnTls(_) => 71,
            Self::AuthFailed(_) => 77,
            Self::Interrupted => 130,
        })
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            // A client is closed by the end of a server in this process.
            LockError::Client(
                Error::ConnectionLoss { .. } | Error::NotSent { .. } | Error::Closed,
            ) => Self::Lost(error),
            // The server has forgotten the session, or was away for longer than it lasts.
            LockError::Lost(_) | LockError::PlaceLost(_) => Self::SessionLost(error),
            error => Self::Refused(error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            // Which was no place in line.
            Error::SessionExpired => Self::SessionLost(LockError::Client(error)),
            error => LockError::from(error).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use zoolet_client::ConnectError;

    use super::*;

    #[test]
    fn the_message_is_whole_and_the_cure_follows_it() {
        let cause = ConnectError::Closed("it ended. Why; who knows".to_owned());
        let failure = Failure::NoServer("h".to_owned(), format!(" ({cause})"));
        let message = "no server at h could be connected to (it ended. Why; who knows)";
        assert_eq!(failure.to_string(), message);
        assert!(failure.with_cure().starts_with(&format!("{message}; is one running there? ")));
        let failure = Failure::Exists("/a. b; c".to_owned());
        assert_eq!(failure.to_string(), "/a. b; c is there already");
        assert!(failure.with_cure().starts_with("/a. b; c is there already; name a znode"));
        assert_eq!(Failure::Interrupted.with_cure(), "interrupted");
    }

    #[test]
    fn the_end_of_a_session_is_no_refusal() {
        for (error, expected) in [
            (Error::SessionExpired, "the session at the server was lost: the session has expired"),
            (Error::Closed, "the connection to the server was lost: the client is closed"),
        ] {
            let failure = Failure::from(error);
            assert_eq!(failure.to_string(), expected);
            assert_eq!(failure.exit_code(), ExitCode::from(69), "{failure}");
            assert!(failure.with_cure().ends_with(". What was created may be left"), "{failure}");
        }
    }
}
