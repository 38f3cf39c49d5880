//! Why a server for tests is not there.

use std::io;

use zoolet_server::StartError;

/// Why a server for tests is not there.
///
/// ```
/// use zoolet::testing::{TestServer, TestServerError};
/// use zoolet::Config;
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
    /// It cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its disk cannot lose power.
    #[error("this server's disk cannot lose power; build it with TestServerBuilder::sim_disk")]
    NoSimDisk,
    /// No port can be kept for it.
    #[error("no port can be had: {0}")]
    Port(io::Error),
    /// No directory can be had for its data.
    #[error("no directory can be had for the data: {0}")]
    Directory(io::Error),
}
