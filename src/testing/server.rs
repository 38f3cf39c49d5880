//! A server for tests.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::Mutex;
use zoolet_protocol::SessionId;
use zoolet_recipes::client::{self, Client};
use zoolet_server::storage::SimDisk;
use zoolet_server::{Config, Server};

use super::builder::TestServerBuilder;
use super::dialer::TestDialer;
use super::port::Port;
use super::{
    Aim, ConnectionId, ConnectionInfo, Fault, FaultError, Faults, Observer, Scope, TestServerError,
};

/// A server for tests. Clones are the same server, which ends with the last of them, and takes with it
/// what it has made.
///
/// ```
/// use zoolet::testing::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let client = server.connect().await?;
/// client.create("/greeting").data("hello").await?;
/// server.session(client.session_id()).cut()?;
/// assert_eq!(&client.get("/greeting").await?.0[..], b"hello", "it has come back");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TestServer(Arc<Inner>);

struct Inner {
    /// Nothing while it is stopped.
    running: Mutex<Option<Server>>,
    config: Config,
    faults: Faults,
    observer: Observer,
    dialer: TestDialer,
    belongings: Belongings,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.dialer.end();
    }
}

/// What ends with a server, after it.
#[derive(Debug)]
pub(super) struct Belongings {
    #[expect(dead_code, reason = "it is given back when it is dropped")]
    pub(super) port: Option<Port>,
    #[expect(dead_code, reason = "it is deleted when it is dropped")]
    pub(super) directory: Option<TempDir>,
    pub(super) sim_disk: Option<SimDisk>,
}

impl TestServer {
    /// Starts a server in this process, with a disk in memory and no port. Must be awaited within a tokio
    /// runtime, which then drives it.
    ///
    /// # Errors
    ///
    /// [`TestServerError::Start`], for which there is no reason with these choices.
    pub async fn start() -> Result<Self, TestServerError> {
        Self::builder().start().await
    }

    /// A server that is as one chooses.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    pub(super) async fn new(
        mut config: Config,
        faults: Faults,
        belongings: Belongings,
    ) -> Result<Self, TestServerError> {
        let observer = Observer::default();
        let builder = Server::builder().config(config.clone()).faults(&faults).observer(&observer);
        let server = builder.start().await?;
        // The port that was picked is the one to come back to.
        config.listen = server.local_addr();
        let dialer = TestDialer::new(server.dialer());
        let running = Mutex::new(Some(server));
        Ok(Self(Arc::new(Inner { running, config, faults, observer, dialer, belongings })))
    }

    /// A new client of it, in this process, with the client's defaults.
    ///
    /// # Errors
    ///
    /// [`client::Error::Unreachable`] while a fault or a stop keeps it away for fifteen seconds.
    pub async fn connect(&self) -> Result<Client, client::Error> {
        Client::connect(self.dialer()).await
    }

    /// What makes connections to it in this process, before and after a restart.
    #[must_use]
    pub fn dialer(&self) -> TestDialer {
        self.0.dialer.clone()
    }

    /// Where it listens, now and after a restart; `None` if it serves in process only.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.config.listen
    }

    /// The same as clients take it: `127.0.0.1:40123`.
    #[must_use]
    pub fn connect_string(&self) -> Option<String> {
        self.address().map(|address| address.to_string())
    }

    /// The choices that it was started with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The disk that can lose power, if it was given one.
    #[must_use]
    pub fn sim_disk(&self) -> Option<&SimDisk> {
        self.0.belongings.sim_disk.as_ref()
    }

    /// What was seen of it since it was started first.
    #[must_use]
    pub fn observer(&self) -> &Observer {
        &self.0.observer
    }

    /// All that can be done to it.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Faults for whom `scope` says.
    #[must_use]
    pub fn at(&self, scope: impl Into<Scope>) -> Aim {
        self.0.faults.at(scope)
    }

    /// Faults for everyone.
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

    /// The connections that there are, in the order in which they came.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn connections(&self) -> Result<Vec<ConnectionInfo>, FaultError> {
        self.0.faults.connections()
    }

    /// Lets it stand still, as if its process was stopped, until [`TestServer::thaw`]. See
    /// [`Aim::freeze`].
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn freeze(&self) -> Result<Fault, FaultError> {
        self.everyone().freeze()
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.everyone().thaw();
    }

    /// Ends all faults; see [`Faults::heal`].
    pub fn heal(&self) {
        self.0.faults.heal();
    }

    /// Moves its clock on, and not those of its clients; see [`Faults::advance`].
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`]; [`FaultError::TooLong`].
    pub fn advance(&self, duration: Duration) -> Result<(), FaultError> {
        self.0.faults.advance(duration)
    }

    /// Lets its wall time differ by so many milliseconds; see [`Faults::skew_wall_time`].
    ///
    /// # Errors
    ///
    /// [`FaultError::TooLong`].
    pub fn skew_wall_time(&self, ms: i64) -> Result<(), FaultError> {
        self.0.faults.skew_wall_time(ms)
    }

    /// Deletes the containers and TTL znodes now whose time has come; see [`Faults::sweep`].
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn sweep(&self) -> Result<(), FaultError> {
        self.0.faults.sweep()
    }

    /// Stops it: clients get what waits for them and are disconnected, and connections are refused
    /// until [`TestServer::restart`]. Does nothing to one that is stopped.
    pub async fn stop(&self) {
        let server = self.0.running.lock().await.take();
        if let Some(server) = server {
            server.shutdown().await;
        }
    }

    /// Stops it, if it runs, and starts it again: with the data that it had, sessions and their
    /// ephemerals included, at the same port and for the same dialers. A server that was built
    /// [`forgetful`](TestServerBuilder::forgetful) begins anew.
    ///
    /// Of the faults those stay that are aimed at everyone or at a session, but for a freeze of everyone:
    /// that is one of the process.
    ///
    /// # Errors
    ///
    /// [`TestServerError::Start`] if it cannot be started again; it is stopped then.
    ///
    /// # Cancellation
    ///
    /// Dropped, it may leave the server stopped.
    pub async fn restart(&self) -> Result<(), TestServerError> {
        self.start_again_after(|| {}, || {}).await
    }

    /// Kills it and starts it again, as [`TestServer::restart`] but for what waits for clients, which is
    /// lost: answers to writes that are there.
    ///
    /// # Errors
    ///
    /// As [`TestServer::restart`].
    ///
    /// # Cancellation
    ///
    /// Dropped, it may leave the server stopped.
    pub async fn crash(&self) -> Result<(), TestServerError> {
        self.start_again_after(|| self.cut_all(), || {}).await
    }

    /// Takes the power from it and its disk, and starts it again when the power is back. What was not
    /// synced has survived or not, as `seed` says; what was acknowledged has, unless the server was
    /// told not to sync.
    ///
    /// # Errors
    ///
    /// [`TestServerError::NoSimDisk`] if it was not built with
    /// [`TestServerBuilder::sim_disk`]; else as [`TestServer::restart`].
    ///
    /// # Cancellation
    ///
    /// Dropped, it may leave the server stopped, and its disk without power.
    pub async fn lose_power(&self, seed: u64) -> Result<(), TestServerError> {
        let disk = self.sim_disk().ok_or(TestServerError::NoSimDisk)?;
        let lose = || {
            disk.lose_power_after(disk.steps());
            self.cut_all();
        };
        self.start_again_after(lose, || disk.restore_power(seed)).await
    }

    /// Ends all connections with what waits in them.
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
        let builder = Server::builder().config(self.0.config.clone());
        let server = builder.faults(&self.0.faults).observer(&self.0.observer).start().await?;
        self.0.dialer.follow(server.dialer());
        *running = Some(server);
        Ok(())
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("address", &self.address()).finish_non_exhaustive()
    }
}
