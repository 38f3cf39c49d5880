//! What the test control injects faults into: a server, or an ensemble for tests.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use zoolet_protocol::SessionId;
use zoolet_testkit::{Aim, ConnectionInfo, Fault, FaultError, Faults, Scope, TestEnsemble};

use super::refusal::Refusal;
use super::request::{FaultRequest, Target};

/// A server or an ensemble. Clones are handles of the same one.
#[derive(Debug, Clone)]
pub(in super::super) enum Subject {
    /// One server, which the command starts and restarts.
    Server { faults: Faults, restarts: mpsc::Sender<Restart> },
    /// Several servers of an ensemble for tests.
    Ensemble(TestEnsemble),
}

/// A request to stop the server and to start it again after some time.
#[derive(Debug)]
pub(in super::super) struct Restart {
    pub(in super::super) down: Duration,
    /// Completed when the server listens again.
    pub(in super::super) done: oneshot::Sender<()>,
}

impl Subject {
    /// The ensemble, for what a server alone cannot do.
    pub(super) fn ensemble(&self) -> Result<&TestEnsemble, Refusal> {
        match self {
            Self::Server { .. } => Err(Refusal::NoEnsemble),
            Self::Ensemble(ensemble) => Ok(ensemble),
        }
    }

    /// The faults of each server, in order.
    fn servers(&self) -> Vec<Faults> {
        match self {
            Self::Server { faults, .. } => vec![faults.clone()],
            Self::Ensemble(ensemble) => {
                ensemble.servers().iter().map(|server| server.faults().clone()).collect()
            }
        }
    }

    /// The open connections, with the server of each.
    pub(super) fn connections(&self) -> Result<Vec<(usize, ConnectionInfo)>, Refusal> {
        let mut all = Vec::new();
        for (server, faults) in self.servers().iter().enumerate() {
            all.extend(faults.connections()?.into_iter().map(|connection| (server, connection)));
        }
        all.sort_by_key(|(_, connection)| connection.id);
        Ok(all)
    }

    /// The sessions that a target names; `None` if that is for the server to say.
    fn sessions(&self, scope: Option<Scope>) -> Option<Vec<SessionId>> {
        match (self, scope) {
            (Self::Ensemble(ensemble), None) => Some(ensemble.sessions()),
            (_, Some(Scope::Session(session))) => Some(vec![session]),
            _ => None,
        }
    }

    /// Expires the sessions of a target, and returns how many there were.
    pub(super) fn expire(&self, target: Target) -> Result<usize, Refusal> {
        let scope = target.scope()?;
        match (self, self.sessions(scope)) {
            (Self::Ensemble(ensemble), Some(sessions)) if target.server.is_none() => {
                let expire = |session: &SessionId| ensemble.session(*session).expire();
                Ok(sessions.iter().map(expire).sum::<Result<_, _>>()?)
            }
            _ => Ok(self.act(target, Aim::expire)?.into_iter().sum()),
        }
    }

    /// Closes the connections of a target, and returns how many there were.
    pub(super) fn cut(&self, target: Target) -> Result<usize, Refusal> {
        Ok(self.act(target, Aim::cut)?.into_iter().sum())
    }

    /// Sets a fault on each server that it concerns.
    pub(super) fn set(&self, request: &FaultRequest) -> Result<Vec<Fault>, Refusal> {
        self.act(request.target(), |aim| request.set(aim))
    }

    /// Acts on each server that a target concerns. A session or a connection need not be on all.
    fn act<T>(
        &self,
        target: Target,
        act: impl Fn(&Aim) -> Result<T, FaultError>,
    ) -> Result<Vec<T>, Refusal> {
        let scope = target.scope()?.unwrap_or(Scope::Server);
        let mut servers = self.servers();
        if let Some(server) = target.server {
            let count = servers.len();
            let number = usize::try_from(server).unwrap_or(usize::MAX);
            let known = servers.get(number).cloned();
            servers = vec![known.ok_or(Refusal::NoServer { server: server.to_string(), count })?];
        }
        let (mut done, mut missing) = (Vec::new(), None);
        for faults in servers {
            match act(&faults.at(scope)) {
                Ok(result) => done.push(result),
                Err(
                    error @ (FaultError::UnknownSession { .. }
                    | FaultError::UnknownConnection { .. }),
                ) => missing = missing.or(Some(error)),
                Err(error) => return Err(error.into()),
            }
        }
        match missing.filter(|_| done.is_empty()) {
            Some(error) => Err(error.into()),
            None => Ok(done),
        }
    }

    /// Ends all faults.
    pub(super) fn heal(&self) {
        match self {
            Self::Server { faults, .. } => faults.heal(),
            Self::Ensemble(ensemble) => ensemble.heal(),
        }
    }

    /// Moves the clocks of all servers.
    pub(super) fn advance(&self, time: Duration, wall_skew_ms: Option<i64>) -> Result<(), Refusal> {
        if let Some(ms) = wall_skew_ms {
            self.servers().iter().try_for_each(|faults| faults.skew_wall_time(ms))?;
        }
        match self {
            Self::Server { faults, .. } => faults.advance(time)?,
            Self::Ensemble(ensemble) => ensemble.advance(time)?,
        }
        Ok(())
    }

    /// Stops all servers, and starts them again after some time. An ensemble keeps its data, and
    /// elects a leader first.
    pub(super) async fn restart(&self, down: Duration) -> Result<(), Refusal> {
        match self {
            Self::Server { restarts, .. } => {
                let (done, is_done) = oneshot::channel();
                restarts.send(Restart { down, done }).await.map_err(|_| Refusal::Ending)?;
                is_done.await.map_err(|_| Refusal::Ending)
            }
            Self::Ensemble(ensemble) => {
                ensemble.servers().iter().for_each(|server| server.stop());
                tokio::time::sleep(down).await;
                ensemble.servers().iter().for_each(|server| server.start());
                let within = ELECTION_WITHIN;
                let serving = tokio::time::timeout(within, ensemble.serving()).await;
                serving.map_err(|_| Refusal::NotSo { what: "serving", within })
            }
        }
    }

    /// Makes the state that of a new server or ensemble, and ends all faults.
    pub(super) fn reset(&self) -> Result<(), FaultError> {
        match self {
            Self::Server { faults, .. } => faults.reset(),
            Self::Ensemble(ensemble) => {
                ensemble.reset();
                Ok(())
            }
        }
    }
}

/// An election takes a second at most, unless a fault keeps the servers from it.
const ELECTION_WITHIN: Duration = Duration::from_secs(10);
