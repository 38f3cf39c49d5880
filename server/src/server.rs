//! The handle of a running server, and its builder.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zoolet_core::{Core, Disagreements, Totals};

use crate::clock::machine_ms;
use crate::config::{Config, ConfigError};
use crate::engine::audit::{Audit, AuditError, Outcome};
use crate::engine::hooks::Hooks;
use crate::engine::journal::Journal;
use crate::engine::lock::Engine;
use crate::engine::metrics::Metrics;
use crate::engine::ticker;
use crate::probe::Probe;
use crate::storage::durable::Durable;
use crate::storage::{StorageConfig, StorageError};
use crate::transport::in_process::Dialer;
use crate::transport::ports::Ports;
use crate::transport::stream;
#[cfg(feature = "tls")]
use crate::transport::tls::TlsConfig;

/// A running server. Dropping it stops it at once; [`Server::shutdown`] lets clients receive their
/// messages first.
///
/// With a data directory, dropping it waits until the disk has what was appended, and keeps the
/// thread busy meanwhile. A worker of the runtime may wait for the same sync. So on a runtime with
/// two workers, a task that drops a server whose disk hangs stops all others; `shutdown` does not.
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
    pub(crate) engine: Arc<Engine>,
    local_addr: Option<SocketAddr>,
    secure_addr: Option<SocketAddr>,
    pub(crate) tasks: TaskTracker,
    pub(crate) cancelled: CancellationToken,
}

impl Server {
    /// A builder of a server with ZooKeeper's defaults, in memory, for in-process clients only.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The address on which it listens, with the port that was picked; `None` if it serves
    /// in-process clients and those of [`Server::secure_addr`] only.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    /// The address on which it listens for clients that speak TLS (`secureClientPort`), with the
    /// port that was picked; `None` if there is no such port.
    #[must_use]
    pub fn secure_addr(&self) -> Option<SocketAddr> {
        self.secure_addr
    }

    /// Makes connections to it in the same process.
    #[must_use]
    pub fn dialer(&self) -> Dialer {
        Dialer::new(&self.engine)
    }

    /// Serves one client over a stream of any kind: a simulated network, a pipe, or TLS that the
    /// caller has set up. The bytes on it are those of ZooKeeper's protocol, four-letter words
    /// included. The future ends when the connection has ended; the caller polls or spawns it. For a
    /// TCP port [`Builder::listen`] costs less.
    ///
    /// `address` is the client's: logs and reports show it, and limits and access control lists of
    /// the scheme `ip` apply to it. Where streams have none, any will do.
    ///
    /// `StreamDialer` of `zoolet-client` connects over streams.
    ///
    /// ```
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// use zoolet_server::Server;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder().start().await?;
    /// let (theirs, mut ours) = tokio::io::duplex(1 << 16);
    /// tokio::spawn(server.serve_stream(theirs, ([127, 0, 0, 1], 40_123).into()));
    /// ours.write_all(b"srvr").await?;
    /// let mut answer = String::new();
    /// ours.read_to_string(&mut answer).await?;
    /// assert!(answer.contains("Mode: standalone"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the connection at once. [`Server::shutdown`] ends it too, and waits
    /// for that.
    pub fn serve_stream<S>(
        &self,
        stream: S,
        address: SocketAddr,
    ) -> impl Future<Output = ()> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let (engine, cancelled) = (Arc::clone(&self.engine), self.cancelled.clone());
        self.tasks.track_future(stream::serve(stream, address, engine, cancelled))
    }

    /// The numbers of znodes, watches and sessions.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.engine.inspect(Core::totals)
    }

    /// Its metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::new(Arc::downgrade(&self.engine))
    }

    /// Tells whether it still carries out requests, for a watchdog.
    #[must_use]
    pub fn probe(&self) -> Probe {
        Probe::new(&self.engine)
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Compares what the state machine keeps twice: its indexes and totals with its znodes and
    /// watches ([`Core::check`]). It reads everything under the shared lock, so it is for tests. No
    /// read may be under way meanwhile.
    ///
    /// # Errors
    ///
    /// [`Disagreements`], which are a defect of the server.
    pub fn check(&self) -> Result<(), Disagreements> {
        self.engine.inspect(Core::check)
    }

    /// Stops the server: it refuses new connections, sends the messages that wait, and closes all
    /// connections. It waits no longer than [`Config::shutdown_timeout`] for a client that does not read.
    ///
    /// Sessions live on, as when a ZooKeeper server is stopped.
    pub async fn shutdown(self) {
        self.stop_serving();
        self.tasks.close();
        // Each connection observes the limit itself; this is for one that does not.
        if tokio::time::timeout(2 * self.engine.config.shutdown_timeout, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("{} connections did not end in time", self.tasks.len());
        }
        if self.engine.waits_for_disk() {
            let engine = Arc::clone(&self.engine);
            let _ = tokio::task::spawn_blocking(move || engine.close_files()).await;
        }
        // Without a disk that waits, dropping the server closes them.
    }

    /// Refuses new connections, and ends the open ones.
    fn stop_serving(&self) {
        if let Some(hooks) = &self.engine.hooks {
            hooks.stopping();
        }
        if let Some(audit) = &self.engine.audit {
            audit.server_stops(self.engine.clock.wall_ms());
        }
        self.engine.shut_down();
        self.cancelled.cancel();
    }

    /// Waits until the server can no longer write to its data directory, for example because the
    /// disk is full, and returns the cause. It waits forever if that does not happen. The server
    /// then serves nobody, and every write that it acknowledged is on the disk. A server that is
    /// started again, once the cause is removed, recovers them.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn failure(&self) -> Arc<StorageError> {
        self.engine.durable().failure().await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_serving();
        // Another server can use the files when this returns.
        self.engine.close_files();
    }
}

/// The settings with which a server starts.
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
    /// Set by the methods of the same names; they take precedence over `config`.
    listen: Option<SocketAddr>,
    listener: Option<Arc<TcpListener>>,
    #[cfg(feature = "tls")]
    tls: Option<TlsConfig>,
    storage: Option<StorageConfig>,
    seed: Option<u64>,
    hooks: Option<Arc<dyn Hooks>>,
}

impl Builder {
    /// Sets the whole configuration. [`Builder::listen`], `Builder::tls`, [`Builder::seed`] and
    /// [`Builder::data_dir`] take precedence, whether called before or after.
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Sets the hooks that observe and change what passes between clients and the server. Each
    /// server needs hooks of its own.
    pub fn hooks(mut self, hooks: Arc<dyn Hooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Keeps the data in a directory, in ZooKeeper's format: acknowledged writes, and the sessions
    /// with their ephemeral znodes, survive a restart. [`Config::storage`] has more settings.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.storage = Some(StorageConfig::at(directory));
        self
    }

    /// Lets a seed decide what is otherwise up to chance and the wall time: [`Config::seed`]. For
    /// tests that repeat; nobody else must know the ids of sessions in advance.
    ///
    /// ```
    /// use zoolet_server::Server;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder().seed(7).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Listens on an address; port 0 picks a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Accepts clients from a socket that is bound already, as one that a service manager has passed.
    /// It takes precedence over addresses.
    pub fn listener(mut self, listener: impl Into<Arc<TcpListener>>) -> Self {
        self.listener = Some(listener.into());
        self
    }

    /// Speaks TLS with clients: at the address that [`TlsConfig::listen`] names, and if
    /// [`TlsConfig::port_unification`] says so, on the plaintext port too.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Starts the server, which is ready when this returns. It must be awaited within a tokio
    /// runtime, which then drives the server.
    ///
    /// # Errors
    ///
    /// [`StartError`] if settings contradict each other, the address is not available or the data
    /// directory cannot be read.
    pub async fn start(mut self) -> Result<Server, StartError> {
        self.config.listen = self.listen.or(self.config.listen);
        #[cfg(feature = "tls")]
        {
            self.config.tls = self.tls.or(self.config.tls);
            // As `QuorumPeerConfig.configureSSLAuth`.
            self.config.settings.x509_scheme |= self.config.tls.is_some();
        }
        self.config.storage = self.storage.or(self.config.storage);
        self.config.seed = self.seed.or(self.config.seed);
        self.config.check()?;
        let audit = self.config.audit.as_ref().map(Audit::start).transpose()?;
        let opened = open(&self.config, self.listener.as_deref()).await;
        if let Some(audit) = &audit {
            let outcome = if opened.is_ok() { Outcome::Success } else { Outcome::Failure };
            audit.server_started(outcome, machine_ms());
        }
        let (ports, journal, core) = opened?;
        let engine = Engine::new(self.config, self.hooks, journal, core).audited(audit);
        let engine = Arc::new(engine);
        if let Some(hooks) = &engine.hooks {
            let server: Weak<Engine> = Arc::downgrade(&engine);
            hooks.started(server);
        }
        let tasks = TaskTracker::new();
        let cancelled = CancellationToken::new();
        tasks.spawn(ticker::run(Arc::downgrade(&engine), cancelled.clone()));
        tasks.spawn(end_on_failure(engine.durable(), Arc::downgrade(&engine), cancelled.clone()));
        let (local_addr, secure_addr) = ports.addresses();
        engine.set_addresses(local_addr, secure_addr);
        ports.serve(&engine, &tasks, &cancelled);
        Ok(Server { engine, local_addr, secure_addr, tasks, cancelled })
    }
}

/// Opens the ports and the data directory.
async fn open(
    config: &Config,
    listener: Option<&TcpListener>,
) -> Result<(Ports, Journal, Core), StartError> {
    let ports = Ports::open(config, listener)?;
    let (journal, core) = open_journal(config).await?;
    Ok((ports, journal, core))
}

/// Recovers the state from the data directory. A thread of its own waits for the disk, unless the
/// disk never waits: then no thread races tokio's paused clock, and a run repeats.
async fn open_journal(config: &Config) -> Result<(Journal, Core), StorageError> {
    let Some(storage) = config.storage.clone() else {
        return Ok((Journal::in_memory(), Core::new(config.settings.clone())));
    };
    if storage.disk.is_immediate() {
        return Journal::open(&storage, &config.settings);
    }
    let settings = config.settings.clone();
    let opened = tokio::task::spawn_blocking(move || Journal::open(&storage, &settings)).await;
    match opened {
        Ok(opened) => opened,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Stops a server that can no longer write to its data directory.
async fn end_on_failure(durable: Durable, engine: Weak<Engine>, cancelled: CancellationToken) {
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {}
        _failure = durable.failure() => {
            if let Some(engine) = engine.upgrade() {
                engine.cut_all();
            }
            cancelled.cancel();
        }
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
    /// Settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The audit log cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The address is not available.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The socket of [`Builder::listener`] cannot be used.
    #[error("the socket that was passed cannot be used: {0}")]
    Listener(io::Error),
    /// The thread of a [`blocking::Server`](crate::blocking::Server) cannot be started.
    #[error("the server's thread cannot be started: {0}")]
    Thread(io::Error),
}
