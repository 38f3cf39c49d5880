//! What can go wrong with an ensemble for tests.

use std::io;

use zoolet_server::ConfigError;

use crate::limits::ENSEMBLE_SERVERS_MAX;

/// What can go wrong with a [`TestEnsemble`](crate::TestEnsemble).
///
/// ```
/// use zoolet_testkit::{TestEnsemble, TestEnsembleError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ensemble = TestEnsemble::start().await?;
/// ensemble.server(2).cut_off();
/// let error = ensemble.elect(2).unwrap_err();
/// assert!(matches!(error, TestEnsembleError::NoMajority { server: 2 }), "{error}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestEnsembleError {
    /// The number of servers is outside the limits.
    #[error("an ensemble of {0} servers; it has 1 to {ENSEMBLE_SERVERS_MAX}")]
    Servers(usize),
    /// The time after which a server gives its leader up is no tick.
    #[error("a syncLimit of 0; it must be at least 1 tick")]
    NoSyncLimit,
    /// Settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting has no effect on an ensemble for tests.
    #[error(
        "{0} has no effect on an ensemble for tests; leave it as it is, or test with TestServer"
    )]
    Unsupported(&'static str),
    /// No port is available.
    #[error("no port is available: {0}")]
    Port(#[source] io::Error),
    /// No server leads.
    #[error("no server leads; wait for an election (TestEnsemble::serving), or elect one")]
    NoLeader,
    /// A server cannot lead.
    #[error(
        "server {server} reaches no majority, so it cannot lead; rejoin or start servers, or elect \
         another"
    )]
    NoMajority {
        /// The server.
        server: usize,
    },
}
