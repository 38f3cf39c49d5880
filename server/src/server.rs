//! The handle of a running server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zoolet_core::{Core, Totals};

use crate::config::{Config, ConfigError};
use crate::engine::Engine;
use crate::limits::SHUTDOWN_TIMEOUT;
use crate::local::Dialer;
use crate::{tcp, ticker};

/// A running server. Dropping it ends it at once; [`Server::shutdown`] lets clients take what is
/// theirs first.
///
/// ```
/// use zoolet_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).start().await?;
/// println!("listening on {}", server.local_addr().unwrap());
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    local_addr: Option<SocketAddr>,
    tasks: TaskTracker,
    cancelled: CancellationToken,
}

impl Server {
    /// A server with ZooKeeper's defaults, in memory, that listens nowhere.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where it listens, with the port that was picked; `None` if it serves in process only.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    /// What makes connections to it in the same process.
    #[must_use]
    pub fn dialer(&self) -> Dialer {
        Dialer::new(&self.engine)
    }

    /// Numbers for monitoring: znodes, watches, sessions.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.engine.look(Core::totals)
    }

    /// Ends the server: no connection is accepted any more, every client gets what waits for it,
    /// and its connection is closed. A client that does not take it is waited for no longer than
    /// [`SHUTDOWN_TIMEOUT`].
    ///
    /// Sessions are not ended, as when a ZooKeeper server is stopped.
    pub async fn shutdown(self) {
        self.engine.shut_down();
        self.cancelled.cancel();
        self.tasks.close();
        // Each connection keeps the limit itself; this is for what does not.
        if tokio::time::timeout(2 * SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("{} connections did not end in time", self.tasks.len());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.engine.shut_down();
        self.cancelled.cancel();
    }
}

/// How to start a server.
///
/// ```
/// use zoolet_server::{Config, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config { tick_time_ms: 100, ..Config::default() };
/// let server = Server::builder().config(config).start().await?;
/// assert_eq!(server.local_addr(), None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    config: Config,
}

impl Builder {
    /// Chooses everything that may be chosen.
    pub fn config(self, config: Config) -> Self {
        Self { config }
    }

    /// Listens at an address; port 0 picks a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.config.listen = Some(address);
        self
    }

    /// Starts the server, which is ready when this returns. Must be awaited within a tokio
    /// runtime, which then drives the server.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the configuration contradicts itself or the address cannot be had.
    // Asynchronous although nothing is waited for yet: reading a log will be.
    pub async fn start(self) -> Result<Server, StartError> {
        self.config.check()?;
        let listener = match self.config.listen {
            Some(address) => {
                let error = |source| StartError::Listen { address, source };
                Some(tcp::listen(address, &self.config).map_err(error)?)
            }
            None => None,
        };
        let local_addr = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let engine = Arc::new(Engine::new(self.config));
        let tasks = TaskTracker::new();
        let cancelled = CancellationToken::new();
        tasks.spawn(ticker::run(Arc::downgrade(&engine), cancelled.clone()));
        if let Some(listener) = listener {
            engine.listens_at(local_addr);
            let engine = Arc::clone(&engine);
            tasks.spawn(tcp::accept(listener, engine, tasks.clone(), cancelled.clone()));
        }
        Ok(Server { engine, local_addr, tasks, cancelled })
    }
}

/// Why a server did not start.
///
/// ```
/// use zoolet_server::{Config, Server, StartError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let config = Config { tick_time_ms: 0, ..Config::default() };
/// let error = Server::builder().config(config).start().await.unwrap_err();
/// assert!(matches!(error, StartError::Config(_)));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}
