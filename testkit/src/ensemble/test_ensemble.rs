//! An ensemble for tests: its servers, its leader, and the faults between them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use zoolet_client::Client;
use zoolet_core::{Core, Disagreements};
use zoolet_protocol::{SessionId, Zxid};

use super::builder::TestEnsembleBuilder;
use super::engine::Ensemble;
use super::error::TestEnsembleError;
use super::observer::{EnsembleEvent, EnsembleObserver};
use super::running::{History, Parts, Running};
use super::server::EnsembleServer;
use super::settings::Law;
use super::state::{Role, State};
use super::tcp;
use super::transport::EnsembleDialer;
use crate::faults::{Aim, FaultError};

/// A ZooKeeper ensemble for tests, in this process: a leader and followers that a test lets lag,
/// cuts off, stops and elects. Clones are handles of the same ensemble, which ends when the last of
/// them is dropped.
///
/// It is a test double: to its clients it behaves as an ensemble does, but nothing is replicated,
/// and all servers are views of one list of transactions. Use it for nothing but tests.
///
/// A write reaches one server later than another:
///
/// ```
/// use zoolet_testkit::TestEnsemble;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ensemble = TestEnsemble::start().await?;
/// let (writer, reader) = (ensemble.connect_to(0).await?, ensemble.connect_to(1).await?);
/// ensemble.server(1).hold();
/// writer.create("/config").await?;
/// assert!(reader.exists("/config").await?.is_none(), "server 1 has not applied it");
/// ensemble.server(1).release();
/// assert!(reader.exists("/config").await?.is_some());
/// # Ok(())
/// # }
/// ```
///
/// A leader is lost and another one is elected:
///
/// ```
/// use zoolet_testkit::TestEnsemble;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ensemble = TestEnsemble::start().await?;
/// let client = ensemble.connect().await?;
/// let lost = ensemble.lose_leader()?;
/// client.create("/a").await?; // the client finds the new leader
/// assert_ne!(ensemble.leader().unwrap(), lost);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TestEnsemble(Arc<Running>);

impl TestEnsemble {
    /// Starts an ensemble of three servers in this process, without ports. Server 0 leads. It must
    /// be awaited within a tokio runtime, which then drives the ensemble.
    ///
    /// # Errors
    ///
    /// [`TestEnsembleError`]; with these defaults there is no cause for it.
    pub async fn start() -> Result<Self, TestEnsembleError> {
        Self::builder().start().await
    }

    /// A builder of an ensemble with other settings.
    pub fn builder() -> TestEnsembleBuilder {
        TestEnsembleBuilder::default()
    }

    pub(super) async fn start_with(
        builder: TestEnsembleBuilder,
        law: Law,
    ) -> Result<Self, TestEnsembleError> {
        let history = Arc::new(History::default());
        let observer: Arc<dyn EnsembleObserver> = Arc::clone(&history) as _;
        let engine = Ensemble::with_law(Rng::with_seed(builder.seed), law, observer);
        let mut servers: Vec<_> =
            (0..builder.servers).map(|index| Parts::new(&engine, index)).collect();
        let mut tasks = vec![tokio::spawn(engine.clone().live())];
        for (index, server) in servers.iter_mut().enumerate().filter(|_| builder.is_tcp) {
            let (address, task) = tcp::listen(&engine, index, &builder.config)
                .await
                .map_err(TestEnsembleError::Port)?;
            server.address = Some(address);
            tasks.push(task);
        }
        let next_first = AtomicUsize::new(0);
        Ok(Self(Arc::new(Running { engine, servers, history, next_first, tasks })))
    }

    /// Connects a new client in this process to all servers in turn, with the client's default
    /// settings; see [`TestEnsemble::dialer`].
    ///
    /// # Errors
    ///
    /// [`zoolet_client::Error::Unreachable`] if faults keep the client away from every server for
    /// fifteen seconds.
    pub async fn connect(&self) -> Result<Client, zoolet_client::Error> {
        Client::connect(self.dialer()).await
    }

    /// Connects a new client in this process to one server, and to no other.
    ///
    /// # Errors
    ///
    /// As [`TestEnsemble::connect`].
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub async fn connect_to(&self, server: usize) -> Result<Client, zoolet_client::Error> {
        self.server(server).connect().await
    }

    /// Makes connections in this process to all servers in turn, as a connect string of all does.
    /// The first dialer begins with server 0, the next one with server 1, and so on.
    #[must_use]
    pub fn dialer(&self) -> EnsembleDialer {
        let first = self.0.next_first.fetch_add(1, Ordering::Relaxed);
        EnsembleDialer::in_turn(&self.0.engine, first)
    }

    /// The addresses of all servers as a connect string; `None` without
    /// [`TestEnsembleBuilder::tcp`].
    #[must_use]
    pub fn connect_string(&self) -> Option<String> {
        let addresses = self.0.servers.iter().map(|server| Some(server.address?.to_string()));
        Some(addresses.collect::<Option<Vec<_>>>()?.join(","))
    }

    /// The number of servers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.servers.len()
    }

    /// Always false: there is at least one server.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// A server, counted from 0. Server 0 leads at the start.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    #[must_use]
    pub fn server(&self, index: usize) -> EnsembleServer {
        let servers = self.len();
        assert!(
            index < servers,
            "there is no server {index}; the ensemble has {servers}, from 0 on"
        );
        EnsembleServer { ensemble: Arc::clone(&self.0), index }
    }

    /// All servers, in order.
    #[must_use]
    pub fn servers(&self) -> Vec<EnsembleServer> {
        (0..self.len()).map(|index| self.server(index)).collect()
    }

    /// The server that a majority follows; `None` while there is none.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.0.engine.inspect(|state| state.leader)
    }

    /// The servers that follow the leader.
    #[must_use]
    pub fn followers(&self) -> Vec<usize> {
        self.0.engine.inspect(|state| {
            let follows = |server: &usize| {
                state.members[*server].role == Role::Following && state.reaches_leader(*server)
            };
            (0..state.members.len()).filter(follows).collect()
        })
    }

    /// Whether a leader can commit writes: a majority hears from it.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.0.engine.inspect(|state| state.has_quorum())
    }

    /// The epoch of the last leader. The first one has epoch 1.
    #[must_use]
    pub fn epoch(&self) -> i64 {
        self.0.engine.inspect(|state| state.epoch)
    }

    /// The zxid of the last committed transaction. Its upper half is the epoch.
    #[must_use]
    pub fn committed_zxid(&self) -> Zxid {
        self.0.engine.inspect(|state| state.head().last_zxid())
    }

    /// What has happened between the servers so far, in order: elections, cuts, expired sessions.
    #[must_use]
    pub fn events(&self) -> Vec<EnsembleEvent> {
        self.0.history.events()
    }

    /// The server that serves a session; `None` if its client is not connected.
    #[must_use]
    pub fn server_of(&self, session: SessionId) -> Option<EnsembleServer> {
        let server = self.0.engine.inspect(|state| state.server_of(session));
        server.map(|server| self.server(server))
    }

    /// Faults for a session, on the server that serves it now, or on the leader if none does.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Aim {
        let server = self.server_of(session);
        let server = server.or_else(|| Some(self.server(self.leader()?)));
        server.unwrap_or_else(|| self.server(0)).session(session)
    }

    /// Cuts the leader off from the others. It gives up after `syncLimit` ticks and one more, and
    /// answers reads until then; the others elect another after `syncLimit` ticks. Returns the
    /// number of the leader, for [`EnsembleServer::rejoin`].
    ///
    /// # Errors
    ///
    /// [`TestEnsembleError::NoLeader`].
    pub fn cut_off_leader(&self) -> Result<usize, TestEnsembleError> {
        let leader = self.leader().ok_or(TestEnsembleError::NoLeader)?;
        self.server(leader).cut_off();
        Ok(leader)
    }

    /// Stops the leader, as if its process were killed. The others notice at once and close the
    /// connections of their clients; nobody is served until they have elected another. Returns the
    /// number of the lost leader, for [`EnsembleServer::start`].
    ///
    /// # Errors
    ///
    /// [`TestEnsembleError::NoLeader`].
    pub fn lose_leader(&self) -> Result<usize, TestEnsembleError> {
        let leader = self.leader().ok_or(TestEnsembleError::NoLeader)?;
        self.server(leader).stop();
        Ok(leader)
    }

    /// Lets those who reach a server elect it now. The connections of their clients are closed, as
    /// with each election. When this returns the server leads, with a new epoch.
    ///
    /// # Errors
    ///
    /// [`TestEnsembleError::NoMajority`] if the server does not reach a majority.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn elect(&self, server: usize) -> Result<(), TestEnsembleError> {
        let server = self.server(server).index;
        match self.0.engine.control(|state| state.elect_now(server)) {
            true => Ok(()),
            false => Err(TestEnsembleError::NoMajority { server }),
        }
    }

    /// Divides the servers: those of one group reach each other, and no others. Those that are not
    /// named form one more group. It replaces earlier cuts.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn partition(&self, groups: &[&[usize]]) {
        let mut sides = vec![0; self.len()];
        for (group, servers) in groups.iter().enumerate() {
            for server in *servers {
                sides[self.server(*server).index] = 2 * self.len() + group;
            }
        }
        self.0.engine.control(|state| {
            for (server, side) in sides.into_iter().enumerate() {
                state.put_on_side(server, side);
            }
        });
    }

    /// Ends all faults: the servers reach each other, stopped ones start, none lags, and the faults
    /// of each server end ([`Faults::heal`](crate::Faults::heal)).
    pub fn heal(&self) {
        self.0.servers.iter().for_each(|server| server.faults.heal());
        self.0.engine.control(|state| {
            state.end_faults();
            for server in 0..state.members.len() {
                state.put_on_side(server, 0);
                state.start_again(server);
            }
        });
    }

    /// Makes the state that of a new ensemble, led by server 0, and ends all faults
    /// ([`TestEnsemble::heal`]): for the next test with the same servers. It takes a fraction of a
    /// millisecond.
    ///
    /// When this returns all znodes but `/zookeeper` and the built-in ones below it are gone, and so
    /// are all sessions. All connections are closed: a client that comes back learns that its
    /// session has expired, and opens another. No watch fires. An epoch begins, and the ids of
    /// sessions go on, so that a client never takes the new state for the old one. Clocks stay where
    /// they were moved to, and what was counted is kept.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let ensemble = zoolet_testkit::TestEnsemble::start().await?;
    /// let client = ensemble.connect().await?;
    /// client.create("/a").await?;
    /// ensemble.server(2).cut_off();
    /// ensemble.reset();
    /// assert!(client.exists("/a").await?.is_none(), "in a new session");
    /// assert_eq!(ensemble.followers(), [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset(&self) {
        self.0.servers.iter().for_each(|server| server.faults.heal());
        self.0.engine.control(State::reset);
    }

    /// The sessions that have not ended, in the order of their ids.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionId> {
        let mut sessions: Vec<_> = self.0.engine.inspect(|state| {
            state.head().sessions().into_iter().map(|(session, _)| session).collect()
        });
        sessions.sort_unstable();
        sessions
    }

    /// Moves the clocks of all servers on by `duration`, and not those of the clients; see
    /// [`Faults::advance`](crate::Faults::advance). The leader expires the sessions whose timeouts have
    /// passed.
    ///
    /// # Errors
    ///
    /// [`FaultError::TooLong`].
    pub fn advance(&self, duration: Duration) -> Result<(), FaultError> {
        self.0.servers.iter().try_for_each(|server| server.faults.advance(duration))
    }

    /// Deletes the containers and TTL znodes that are due, if the leader can commit that.
    pub fn sweep(&self) {
        self.0.engine.control(State::sweep);
    }

    /// Waits until `holds` accepts the ensemble. It does not poll: it looks again whenever something
    /// has happened. It waits forever if `holds` never accepts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let ensemble = zoolet_testkit::TestEnsemble::start().await?;
    /// let old = ensemble.cut_off_leader()?;
    /// ensemble.wait_until(|ensemble| ensemble.leader().is_some_and(|leader| leader != old)).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn wait_until(&self, mut holds: impl FnMut(&Self) -> bool) {
        self.0.engine.until(|| holds(self)).await;
    }

    /// Waits until a leader can commit writes.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn serving(&self) {
        self.wait_until(Self::is_serving).await;
    }

    /// Waits until each server has applied all transactions that are committed by then. It waits
    /// forever if a fault keeps one from that.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn caught_up(&self) {
        let committed = self.0.engine.inspect(|state| state.log.len());
        let is_caught_up = |ensemble: &Self| {
            ensemble.0.engine.inspect(|state| {
                // After a reset there are fewer.
                let least = committed.min(state.log.len());
                state.members.iter().all(|member| member.applied >= least)
            })
        };
        self.wait_until(is_caught_up).await;
    }

    /// Compares the indexes and totals of each server with its znodes and watches.
    ///
    /// # Errors
    ///
    /// The disagreements of the first server that has any.
    pub fn check(&self) -> Result<(), Disagreements> {
        self.0.engine.inspect(|state| state.cores().try_for_each(Core::check))
    }
}

/// Starting.
impl TestEnsembleBuilder {
    /// Starts the ensemble. It is ready when this returns: the first server leads and the others
    /// follow. It must be awaited within a tokio runtime, which then drives the ensemble.
    ///
    /// # Errors
    ///
    /// [`TestEnsembleError`] if a setting is outside its limits or has no effect, or no port is
    /// available.
    pub async fn start(self) -> Result<TestEnsemble, TestEnsembleError> {
        let law = self.law()?;
        TestEnsemble::start_with(self, law).await
    }
}

impl fmt::Debug for TestEnsemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
