//! A server for tests that can be stopped, restarted, crashed and interfered with.

mod builder;
mod dialer;
mod error;
mod observation;
mod port;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::time::Instant;
use zoolet_client::Client;
use zoolet_core::ConnectionId;
use zoolet_protocol::SessionId;
use zoolet_server::hooks::ConnectionInfo;
use zoolet_server::storage::SimDisk;
use zoolet_server::{Config, Server, StartError, WallTime};

pub use self::builder::TestServerBuilder;
pub use self::dialer::TestDialer;
pub use self::error::TestServerError;
use self::port::Port;
use crate::clock;
use crate::faults::{Aim, Fault, FaultError, Faults, Scope};
use crate::hooks::TestHooks;
use crate::observe::Observer;

/// A server for tests. Clones are handles of the same server, which stops when the last of them is
/// dropped; its temporary port and directory go with it.
///
/// ```
/// use zoolet_testkit::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let client = server.connect().await?;
/// client.create("/greeting").data("hello").await?;
/// server.session(client.session_id()).cut()?;
/// assert_eq!(&client.get("/greeting").await?.0[..], b"hello", "the client has reconnected");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TestServer(Arc<Inner>);

struct Inner {
    /// `None` while it is stopped.
    running: Mutex<Option<Server>>,
    config: Config,
    /// When it was started for the first time.
    first_start: Instant,
    faults: Faults,
    observer: Observer,
    dialer: TestDialer,
    /// Gives the clients their seeds, if the server has one.
    seeds: Option<parking_lot::Mutex<Rng>>,
    /// How often it was started.
    starts: AtomicU64,
    resources: Resources,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.dialer.end();
    }
}

/// What a server needs as long as it may be restarted.
#[derive(Debug)]
struct Resources {
    _port: Option<Port>,
    _directory: Option<TempDir>,
    sim_disk: Option<SimDisk>,
}

impl TestServer {
    /// Starts a server in this process, with a disk in memory and no port. It must be awaited
    /// within a tokio runtime, which then drives the server.
    ///
    /// # Errors
    ///
    /// [`TestServerError::Start`]; with these defaults there is no cause for it.
    pub async fn start() -> Result<Self, TestServerError> {
        Self::builder().start().await
    }

    /// A builder of a server with other settings.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    async fn new(mut config: Config, resources: Resources) -> Result<Self, TestServerError> {
        let (faults, observer) = (Faults::default(), Observer::default());
        let first_start = clock::now();
        let server = start(config.clone(), &faults, &observer).await?;
        // A restart takes the port that was picked.
        config.listen = server.local_addr();
        let dialer = TestDialer::new(server.dialer());
        let running = Mutex::new(Some(server));
        let seeds = config.seed.map(|seed| parking_lot::Mutex::new(Rng::with_seed(seed)));
        Ok(Self(Arc::new(Inner {
            running,
            config,
            first_start,
            faults,
            observer,
            dialer,
            seeds,
            starts: AtomicU64::new(1),
            resources,
        })))
    }

    /// Connects a new client to it, in this process, with the client's default settings. Its limit of a request is
    /// the server's (`Config::frame_bytes_max`), or 524,288 bytes if that is less.
    ///
    /// # Errors
    ///
    /// [`zoolet_client::Error::Unreachable`] if a fault or a stop keeps the client away for fifteen
    /// seconds.
    pub async fn connect(&self) -> Result<Client, zoolet_client::Error> {
        let builder = match &self.0.seeds {
            Some(seeds) => Client::builder().seed(seeds.lock().u64(..)),
            None => Client::builder(),
        };
        let builder = builder.jute_max_buffer(self.0.config.frame_bytes_max);
        builder.connect(self.dialer()).await
    }

    /// Makes connections to it in this process, also after a restart.
    #[must_use]
    pub fn dialer(&self) -> TestDialer {
        self.0.dialer.clone()
    }

    /// The address on which it listens, also after a restart; `None` if it serves in process only.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.config.listen
    }

    /// The same address as a connect string: `127.0.0.1:40123`.
    #[must_use]
    pub fn connect_string(&self) -> Option<String> {
        self.address().map(|address| address.to_string())
    }

    /// The configuration that it was started with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Its disk that can lose power, if it has one.
    #[must_use]
    pub fn sim_disk(&self) -> Option<&SimDisk> {
        self.0.resources.sim_disk.as_ref()
    }

    /// Counts what passes since its first start.
    #[must_use]
    pub fn observer(&self) -> &Observer {
        &self.0.observer
    }

    /// Injects faults into it.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Faults within a scope.
    #[must_use]
    pub fn at(&self, scope: impl Into<Scope>) -> Aim {
        self.0.faults.at(scope)
    }

    /// Faults for all clients.
    #[must_use]
    pub fn everyone(&self) -> Aim {
        self.at(Scope::Server)
    }

    /// Faults for a session: `server.session(client.session_id())`.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Aim {
        self.at(session)
    }

    /// Faults for a connection, of those that [`TestServer::connections`] lists.
    #[must_use]
    pub fn connection(&self, connection: ConnectionId) -> Aim {
        self.at(connection)
    }

    /// The open connections, in the order in which they were opened.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn connections(&self) -> Result<Vec<ConnectionInfo>, FaultError> {
        self.0.faults.connections()
    }

    /// Freezes it, as if its process were stopped, until [`TestServer::thaw`]. See [`Aim::freeze`].
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn freeze(&self) -> Result<Fault, FaultError> {
        self.everyone().freeze()
    }

    /// Ends [`TestServer::freeze`].
    pub fn thaw(&self) {
        self.everyone().thaw();
    }

    /// Ends all faults; see [`Faults::heal`].
    pub fn heal(&self) {
        self.0.faults.heal();
    }

    /// Makes its state that of a new server and ends all faults, for the next test: znodes and
    /// sessions are gone, and clients that come back open new sessions. See [`Faults::reset`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zoolet_testkit::TestServer::start().await?;
    /// let client = server.connect().await?;
    /// client.create("/locks").await?;
    /// server.reset()?;
    /// let client = server.connect().await?;
    /// assert_eq!(client.children("/").await?.to_vec(), ["zookeeper"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`]; [`FaultError::Reset`].
    pub fn reset(&self) -> Result<(), FaultError> {
        self.0.faults.reset()
    }

    /// Moves its clock on, but not those of its clients; see [`Faults::advance`].
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`]; [`FaultError::TooLong`].
    pub fn advance(&self, duration: Duration) -> Result<(), FaultError> {
        self.0.faults.advance(duration)
    }

    /// Sets its wall time `ms` milliseconds apart from the machine's; see
    /// [`Faults::skew_wall_time`].
    ///
    /// # Errors
    ///
    /// [`FaultError::TooLong`].
    pub fn skew_wall_time(&self, ms: i64) -> Result<(), FaultError> {
        self.0.faults.skew_wall_time(ms)
    }

    /// Deletes the containers and TTL znodes that are due; see [`Faults::sweep`].
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn sweep(&self) -> Result<(), FaultError> {
        self.0.faults.sweep()
    }

    /// Stops it: clients receive the messages that wait for them and are disconnected, and
    /// connections are refused until [`TestServer::restart`]. Does nothing if it is stopped.
    pub async fn stop(&self) {
        let server = self.0.running.lock().await.take();
        if let Some(server) = server {
            server.shutdown().await;
        }
    }

    /// Stops it if it runs, and starts it again with its data, sessions and ephemeral znodes
    /// included, on the same port and for the same dialers. A server that was built with
    /// [`forgetful`](TestServerBuilder::forgetful) starts empty.
    ///
    /// Faults stay if their scope is all clients or a session, but for a freeze of all clients:
    /// that belongs to the stopped process.
    ///
    /// # Errors
    ///
    /// [`TestServerError::Start`] if it cannot be started again; then it is stopped.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped the server may be stopped.
    pub async fn restart(&self) -> Result<(), TestServerError> {
        self.start_again_after(|| {}, || {}).await
    }

    /// Kills it and starts it again. In contrast to [`TestServer::restart`] the messages that wait
    /// for clients are lost, replies to writes that were carried out among them.
    ///
    /// # Errors
    ///
    /// As [`TestServer::restart`].
    ///
    /// # Cancellation
    ///
    /// If the future is dropped the server may be stopped.
    pub async fn crash(&self) -> Result<(), TestServerError> {
        self.start_again_after(|| self.cut_all(), || {}).await
    }

    /// Cuts the power of it and its disk, and starts it again when the power is back. `seed`
    /// decides which bytes survive that were not synced. Acknowledged writes survive, unless the
    /// server was configured not to sync.
    ///
    /// # Errors
    ///
    /// [`TestServerError::NoSimDisk`] if it was not built with [`TestServerBuilder::sim_disk`];
    /// else as [`TestServer::restart`].
    ///
    /// # Cancellation
    ///
    /// If the future is dropped the server may be stopped, and its disk without power.
    pub async fn lose_power(&self, seed: u64) -> Result<(), TestServerError> {
        let disk = self.sim_disk().ok_or(TestServerError::NoSimDisk)?;
        let lose = || {
            disk.lose_power_after(disk.steps());
            self.cut_all();
        };
        self.start_again_after(lose, || disk.restore_power(seed)).await
    }

    /// Closes all connections; messages that wait in them are lost.
    fn cut_all(&self) {
        // A server that is stopped has none.
        let _ = self.everyone().cut();
    }

    async fn start_again_after(
        &self,
        before: impl FnOnce(),
        between: impl FnOnce(),
    ) -> Result<(), TestServerError> {
        let mut running = self.0.running.lock().await;
        if let Some(server) = running.take() {
            before();
            server.shutdown().await;
        }
        between();
        let mut config = self.0.config.clone();
        // Without its data a server with the same seed would create the same sessions again.
        let starts = self.0.starts.fetch_add(1, Ordering::Relaxed);
        config.seed = config.seed.map(|seed| seed.wrapping_add(starts));
        if let WallTime::Virtual { start_ms } = &mut config.wall_time {
            // The wall time goes on where it was.
            let since = clock::now().saturating_duration_since(self.0.first_start);
            *start_ms =
                start_ms.saturating_add(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        }
        let server = start(config, &self.0.faults, &self.0.observer).await?;
        self.0.dialer.follow(server.dialer());
        *running = Some(server);
        Ok(())
    }
}

async fn start(config: Config, faults: &Faults, observer: &Observer) -> Result<Server, StartError> {
    Server::builder().config(config).hooks(TestHooks::new(faults, observer)).start().await
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("address", &self.address()).finish_non_exhaustive()
    }
}
