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

/// Why a bench failed.
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
    #[error(
        "no server at {0} could be connected to{1}; is one running there? Without --server one is \
         started for the run"
    )]
    NoServer(String, String),
    #[error(
        "{0} takes no more connections. By default ZooKeeper and zoolet serve take 60 \
         from one address: start the server with maxClientCnxns=0 or --max-client-cnxns 0, or \
         measure with fewer clients"
    )]
    NoMoreConnections(String),
    #[error(
        "this process can open no more connections: raise the limit of open files, which `ulimit -n` \
         tells, or measure with fewer clients"
    )]
    NoMoreHere,
    #[error(
        "{server} is gone: the connection was lost for {seconds} s. What was created may be left"
    )]
    Gone { server: String, seconds: u64 },
    #[error("{0} is there already; name a znode that is not: it is deleted at the end")]
    Exists(String),
    #[error("the znode above {0} is not there; create it, or name another --path")]
    NoParent(String),
    #[error("{0} refused the credentials")]
    AuthFailed(String),
    #[error("the connection to the server was lost: {0}. What was created may be left")]
    Lost(LockError),
    #[error("the server refused: {0}")]
    Refused(LockError),
    #[error("two held the lock at once: {times} times. This must never happen")]
    Violated { times: usize },
    #[error("{sold} were sold of {items} under a lock. This must never happen")]
    Oversold { sold: usize, items: usize },
    #[error("{server} has not answered for {seconds} s; its log may say why")]
    Silent { server: String, seconds: u64 },
    #[error("the system refuses what this needs: {0}")]
    System(io::Error),
    #[error("{path} cannot be written: {error}")]
    Report { path: PathBuf, error: io::Error },
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The message without its cure, which stderr tells.
    pub(super) fn in_short(&self) -> String {
        let mut text = self.to_string();
        let end = ["; ", ". "].iter().filter_map(|stop| text.find(stop)).min();
        text.truncate(end.unwrap_or(text.len()));
        text
    }

    /// The statuses of `sysexits.h`.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Violated { .. } | Self::Oversold { .. } | Self::Report { .. } => 1,
            Self::Usage(_) | Self::Tls(_) | Self::Sasl(_) => 2,
            Self::Exists(_) | Self::NoParent(_) => 2,
            Self::NoServer(..) | Self::Gone { .. } | Self::Lost(_) => 69,
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
            LockError::Client(Error::ConnectionLoss { .. } | Error::NotSent { .. }) => {
                Self::Lost(error)
            }
            error => Self::Refused(error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        LockError::from(error).into()
    }
}
