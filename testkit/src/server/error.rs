//! Why a server for tests could not be started.

use std::io;

use zoolet_server::StartError;

/// Why a server for tests could not be started or crashed.
///
/// ```
/// use zoolet_server::Config;
/// use zoolet_testkit::{TestServer, TestServerError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let config = Config { tick_time_ms: 0, ..Config::default() };
/// let error = TestServer::builder().config(config).start().await.unwrap_err();
/// assert!(matches!(error, TestServerError::Start(_)));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestServerError {
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its disk cannot lose power: it is not a simulated one.
    #[error("this server's disk cannot lose power; build it with TestServerBuilder::sim_disk")]
    NoSimDisk,
    /// No port could be reserved.
    #[error("no port of the loopback address could be reserved: {0}")]
    Port(io::Error),
    /// No temporary directory could be created for its data.
    #[error("no temporary directory could be created for the data: {0}")]
    Directory(io::Error),
}
