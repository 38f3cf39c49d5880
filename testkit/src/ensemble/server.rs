//! One server of an ensemble for tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::Client;
use zoolet_core::ConnectionId;
use zoolet_protocol::{SessionId, Zxid};
use zoolet_server::Totals;
use zoolet_server::hooks::ConnectionInfo;

use super::lag::{Hold, Lag};
use super::running::{Parts, Running};
use super::state::{Role, State, data};
use super::transport::EnsembleDialer;
use super::words;
use crate::faults::{Aim, Fault, FaultError, Faults, Scope};
use crate::observe::{Observer, Stats, WatchGraph};

/// One server of a [`TestEnsemble`](crate::TestEnsemble), and the faults that concern it alone. The
/// effect of each method is complete when it returns.
///
/// ```
/// use zoolet_testkit::{ServerRole, TestEnsemble};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ensemble = TestEnsemble::start().await?;
/// let follower = ensemble.server(1);
/// assert_eq!(follower.role(), ServerRole::Follower);
/// follower.cut_off();
/// ensemble.wait_until(|_| follower.role() == ServerRole::Looking).await;
/// follower.rejoin();
/// assert_eq!(follower.role(), ServerRole::Follower);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct EnsembleServer {
    pub(super) ensemble: Arc<Running>,
    pub(super) index: usize,
}

/// The role of a server, as it believes itself.
///
/// ```
/// use zoolet_testkit::ServerRole;
///
/// assert_ne!(ServerRole::Leader, ServerRole::Follower);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerRole {
    /// It leads, or was cut off from its followers and has not noticed.
    Leader,
    /// It follows a leader, or was cut off and has not noticed.
    Follower,
    /// It has no leader and serves no client.
    Looking,
    /// It has no leader and serves clients that only read.
    ReadOnly,
    /// It was stopped.
    Stopped,
}

/// The server and its clients.
impl EnsembleServer {
    /// Its number, counted from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Connects a new client in this process to this server, with the client's default settings.
    ///
    /// # Errors
    ///
    /// [`zoolet_client::Error::Unreachable`] if a fault keeps the client away for fifteen seconds.
    pub async fn connect(&self) -> Result<Client, zoolet_client::Error> {
        Client::connect(self.dialer()).await
    }

    /// Makes connections in this process to this server.
    #[must_use]
    pub fn dialer(&self) -> EnsembleDialer {
        EnsembleDialer::to(&self.ensemble.engine, self.index)
    }

    /// The address on which it listens; `None` without
    /// [`TestEnsembleBuilder::tcp`](crate::TestEnsembleBuilder::tcp). A stopped server closes new
    /// connections at once.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.parts().address
    }

    /// The same address as a connect string.
    #[must_use]
    pub fn connect_string(&self) -> Option<String> {
        self.address().map(|address| address.to_string())
    }

    /// Its role, as it believes itself.
    #[must_use]
    pub fn role(&self) -> ServerRole {
        self.inspect(|state| match state.members[self.index].role {
            Role::Leading => ServerRole::Leader,
            Role::Following => ServerRole::Follower,
            Role::Looking if state.is_read_only(self.index) => ServerRole::ReadOnly,
            Role::Looking => ServerRole::Looking,
            Role::Stopped => ServerRole::Stopped,
        })
    }

    /// The zxid of the last transaction that it has applied.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.inspect(|state| state.members[self.index].core.last_zxid())
    }

    /// How many committed transactions it has not applied.
    #[must_use]
    pub fn behind(&self) -> usize {
        self.inspect(|state| state.log.len() - state.members[self.index].applied)
    }

    /// The data of a znode as this server has it now, whatever its access control list says. `None`
    /// if the server does not have the znode, `Some(None)` if its data is null.
    #[must_use]
    pub fn data(&self, path: &str) -> Option<Option<Bytes>> {
        self.inspect(|state| Some(data(&state.members[self.index].core, path)?.0))
    }

    /// The totals that monitoring shows.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inspect(|state| state.members[self.index].core.totals())
    }

    /// Its answer to a four-letter word, as over TCP with all words enabled.
    #[must_use]
    pub fn four_letter_word(&self, word: &str) -> String {
        self.inspect(|state| words::answer(state, self.index, word))
    }

    fn parts(&self) -> &Parts {
        &self.ensemble.servers[self.index]
    }

    fn inspect<T>(&self, inspect: impl FnOnce(&State) -> T) -> T {
        self.ensemble.engine.inspect(inspect)
    }

    fn control<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        self.ensemble.engine.control(act)
    }

    fn change_lag(&self, change: impl FnOnce(&mut Lag)) {
        self.control(|state| change(&mut state.members[self.index].lag));
    }
}

/// When it applies what the leader commits. A leader applies at once, whatever was set.
impl EnsembleServer {
    /// Applies each transaction this much later than the leader, from now on, the ones included that
    /// it has not applied yet.
    pub fn lag_by(&self, time: Duration) {
        self.change_lag(|lag| lag.delay = time);
    }

    /// Stays this many transactions behind.
    pub fn lag_by_count(&self, transactions: usize) {
        self.change_lag(|lag| lag.count = transactions);
    }

    /// Applies nothing until [`EnsembleServer::release`]. It still follows the leader and serves its
    /// clients: reads show the past, and writes over it are committed but not answered.
    pub fn hold(&self) {
        self.change_lag(|lag| lag.applying = Hold::Released);
    }

    /// Ends every lag: it applies at once all that is committed.
    pub fn release(&self) {
        self.change_lag(|lag| *lag = Lag { link: lag.link, ..Lag::default() });
    }
}

/// Its links to the other servers, and its process.
impl EnsembleServer {
    /// Cuts it off from all others, in both directions. Neither side is told: each notices after
    /// `syncLimit` ticks, the server itself a tick later if it leads. Until then it answers reads and
    /// pings, and a session on it can expire at the leader.
    pub fn cut_off(&self) {
        self.control(|state| state.put_on_side(self.index, self.index + 1));
    }

    /// Lets nothing from the leader arrive, while what it sends arrives: its clients' writes are
    /// committed and not answered. After `syncLimit` ticks it gives its leader up.
    pub fn hold_link(&self) {
        self.change_lag(|lag| lag.link = Hold::Released);
    }

    /// Ends [`EnsembleServer::cut_off`] and [`EnsembleServer::hold_link`]. A server that has given
    /// its leader up follows the present one when this returns, and has applied what it missed.
    pub fn rejoin(&self) {
        self.control(|state| {
            state.put_on_side(self.index, 0);
            state.members[self.index].lag.link = Hold::No;
        });
    }

    /// Stops it, as if its process were killed: its connections end, and what waited in them is
    /// lost. The others notice at once.
    pub fn stop(&self) {
        self.control(|state| state.stop(self.index));
    }

    /// Starts it again after [`EnsembleServer::stop`], with its data. It follows the leader, if
    /// there is one, when this returns.
    pub fn start(&self) {
        self.control(|state| state.start_again(self.index));
    }
}

/// The faults of [`TestServer`](crate::TestServer), and what is observed, for this server alone.
impl EnsembleServer {
    /// Injects faults into it. A server that is frozen as a whole ([`Aim::freeze`]) is also cut off
    /// from the others, which notice after `syncLimit` ticks. Moved clocks concern it while it
    /// leads: sessions expire by the clock of the leader.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.parts().faults
    }

    /// Counts what passes between it and its clients.
    #[must_use]
    pub fn observer(&self) -> &Observer {
        &self.parts().observer
    }

    /// Faults within a scope.
    #[must_use]
    pub fn at(&self, scope: impl Into<Scope>) -> Aim {
        self.faults().at(scope)
    }

    /// Faults for all its clients. [`Aim::expire`] ends the sessions that it serves.
    #[must_use]
    pub fn everyone(&self) -> Aim {
        self.at(Scope::Server)
    }

    /// Faults for a session, while this server serves it. [`Aim::expire`] ends any session: the
    /// leader commits that, if it can, and else when it can. Watches fire on the other servers when
    /// they apply it.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Aim {
        self.at(session)
    }

    /// Faults for a connection, of those that [`EnsembleServer::connections`] lists.
    #[must_use]
    pub fn connection(&self, connection: ConnectionId) -> Aim {
        self.at(connection)
    }

    /// Its open connections, in the order in which they were opened.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`] when the ensemble has ended.
    pub fn connections(&self) -> Result<Vec<ConnectionInfo>, FaultError> {
        self.faults().connections()
    }

    /// Freezes it, as if its process were stopped by a signal, until [`EnsembleServer::thaw`]. A leader
    /// that is frozen does not ask its followers which sessions they have heard from. It does so a
    /// moment after it goes on, when it has handled what arrived meanwhile.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`] when the ensemble has ended.
    pub fn freeze(&self) -> Result<Fault, FaultError> {
        self.everyone().freeze()
    }

    /// Ends [`EnsembleServer::freeze`].
    pub fn thaw(&self) {
        self.everyone().thaw();
        // What it missed takes effect at once.
        self.control(|_| ());
    }

    /// Everything that was counted up to now, and the watches that are set.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.observer().stats()
    }

    /// Who watches what, and which session owns each ephemeral znode.
    #[must_use]
    pub fn watch_graph(&self) -> WatchGraph {
        self.observer().watch_graph()
    }

    /// Waits until `holds` accepts what was counted; see
    /// [`TestServer::wait_until`](crate::TestServer::wait_until).
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn wait_until(&self, holds: impl FnMut(&Stats) -> bool) -> Stats {
        self.observer().wait_until(holds).await
    }
}
