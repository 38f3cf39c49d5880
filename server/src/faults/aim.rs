//! The faults, as methods.

use std::sync::Arc;
use std::time::Duration;

use zoolet_protocol::ErrorCode;

use super::fault::Hits;
use super::rules::{Action, Fate};
use super::{Fault, FaultError, Faults, RequestFilter, Scope, time};
use crate::engine::lock::Engine;
use crate::engine::registry::{Liveness, Peer};

/// Faults for everyone, for a session or for a connection.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_server::faults::{Faults, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let faults = Faults::default();
/// let server = Server::builder().faults(&faults).start().await?;
/// let everyone = faults.at(Scope::Server);
/// assert_eq!(everyone.expire()?, 0, "there is no session");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Aim {
    faults: Faults,
    scope: Scope,
}

impl Aim {
    pub(super) fn new(faults: Faults, scope: Scope) -> Self {
        Self { faults, scope }
    }

    /// Ends the sessions now, as if their timeouts had passed: their ephemerals are gone and the watches
    /// told when this returns. Their connections are closed, and a client hears of it when it comes
    /// back. Returns how many there were.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if there is no such session or connection, or no server.
    pub fn expire(&self) -> Result<usize, FaultError> {
        let (engine, _) = self.hit()?;
        let sessions = self.sessions(&engine);
        for liveness in &sessions {
            engine.expire(liveness);
        }
        Ok(sessions.len())
    }

    /// Ends the connections now, with all that waits in them; the sessions live on. Returns how many
    /// there were.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if there is no such session or connection, or no server.
    pub fn cut(&self) -> Result<usize, FaultError> {
        let (_, peers) = self.hit()?;
        for peer in &peers {
            peer.outbox.cut();
            peer.outbox.gate().await_turn();
        }
        Ok(peers.len())
    }

    /// Lets nothing come in and nothing leave until the fault is lifted, without a word: what is sent
    /// waits, new connections too, and is handled after that in its order.
    ///
    /// For [`Scope::Server`] it is as if the server's process was stopped: its clock stands still as
    /// well, and when it goes on, sessions whose time ran out meanwhile expire before anything that waits
    /// is handled. For a session or connection it is as if its network was gone, or its client was
    /// stopped: the session expires in its time.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if there is no such session or connection, or no server, or what is given makes no
    /// sense; so everywhere here.
    pub fn freeze(&self) -> Result<Fault, FaultError> {
        self.set(Action::Freeze)
    }

    /// Turns new connections away; those that there are stay. For a session, those that want to take it
    /// up. Over TCP they are accepted and closed.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    pub fn refuse(&self) -> Result<Fault, FaultError> {
        self.set(Action::Refuse)
    }

    /// Holds everything back that is sent to the clients: replies, events, answers to handshakes.
    /// Requests are carried out. What is in a socket already is not held.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    pub fn hold(&self) -> Result<Fault, FaultError> {
        self.set(Action::Hold)
    }

    /// Delays everything that is sent to the clients from now on. Of several delays the longest holds.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    pub fn delay(&self, delay: Duration) -> Result<Fault, FaultError> {
        self.set(Action::Delay(delay))
    }

    /// Lets requests never arrive: they are not carried out, and not answered. The client waits, and
    /// takes the answer to a later request for a fault of the server, and connects again.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    pub fn drop_requests(&self, requests: RequestFilter) -> Result<Fault, FaultError> {
        self.set(Action::Requests(requests, Fate::Drop))
    }

    /// Carries requests out and does not answer them. The client waits, and takes the answer to a later
    /// request for a fault of the server, and connects again; [`Aim::cut_before_reply`] spares it that.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    pub fn drop_replies(&self, requests: RequestFilter) -> Result<Fault, FaultError> {
        self.set(Action::Requests(requests, Fate::LoseReply))
    }

    /// Carries requests out and ends the connection before the answer leaves: the client cannot know
    /// whether they were. Earlier answers still leave.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    pub fn cut_before_reply(&self, requests: RequestFilter) -> Result<Fault, FaultError> {
        self.set(Action::Requests(requests, Fate::CutReply))
    }

    /// Answers requests with an error, and does nothing of what they ask. A write takes a zxid, as one
    /// that the server refuses by itself.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    pub fn fail(&self, requests: RequestFilter, code: ErrorCode) -> Result<Fault, FaultError> {
        self.set(Action::Requests(requests, Fate::Fail(code)))
    }

    /// Falsifies the next frames that are sent to the clients: of each only the first half arrives, as a
    /// frame of that length, which nobody can read.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    pub fn corrupt(&self, frames: u64) -> Result<Fault, FaultError> {
        self.set(Action::Corrupt(frames))
    }

    /// Ends what [`Aim::freeze`] has begun.
    pub fn thaw(&self) {
        self.lift(|action| matches!(action, Action::Freeze));
    }

    /// Ends what [`Aim::hold`] has begun: what was held leaves in its order.
    pub fn release(&self) {
        self.lift(|action| matches!(action, Action::Hold));
    }

    fn lift(&self, is_lifted: impl Fn(&Action) -> bool) {
        self.faults.lift(|rule| rule.scope == self.scope && is_lifted(&rule.action));
    }

    /// Ends all faults that were set with this aim.
    pub fn heal(&self) {
        self.lift(|_| true);
    }

    fn set(&self, action: Action) -> Result<Fault, FaultError> {
        match &action {
            Action::Requests(_, Fate::Fail(ErrorCode::OK)) => return Err(FaultError::NoError),
            Action::Requests(filter, _) => filter.check()?,
            Action::Delay(delay) => _ = time::check(*delay)?,
            _ => {}
        }
        let (engine, peers) = self.hit()?;
        let (id, hits) = self.faults.rules().add(self.scope, action);
        Ok(self.settle(&engine, &peers, id, hits))
    }

    /// Waits for what had begun before the fault was there.
    fn settle(&self, engine: &Engine, peers: &[Arc<Peer>], id: u64, hits: Arc<Hits>) -> Fault {
        self.faults.note();
        for peer in peers {
            peer.outbox.gate().await_turn();
        }
        drop(engine.sweeps.lock());
        Fault::new(self.faults.clone(), id, hits)
    }

    /// The server, and the connections that it has of those aimed at.
    fn hit(&self) -> Result<(Arc<Engine>, Vec<Arc<Peer>>), FaultError> {
        let engine = self.faults.engine()?;
        let mut peers = engine.registry.peers();
        match self.scope {
            Scope::Session(session) if engine.registry.session(session).is_none() => {
                let sessions = engine.registry.sessions();
                let live = sessions.iter().map(|liveness| liveness.session).collect();
                return Err(FaultError::UnknownSession { session, live });
            }
            Scope::Connection(connection) if engine.registry.peer(connection).is_none() => {
                let open = peers.iter().map(|peer| peer.id).collect();
                return Err(FaultError::UnknownConnection { connection, open });
            }
            _ => {}
        }
        peers.retain(|peer| self.scope.covers(peer.id, peer.stats.session()));
        Ok((engine, peers))
    }

    fn sessions(&self, engine: &Engine) -> Vec<Arc<Liveness>> {
        match self.scope {
            Scope::Server => engine.registry.sessions(),
            Scope::Session(session) => engine.registry.session(session).into_iter().collect(),
            Scope::Connection(connection) => {
                let peer = engine.registry.peer(connection);
                let session = peer.map(|peer| peer.stats.session());
                session.and_then(|session| engine.registry.session(session)).into_iter().collect()
            }
        }
    }
}
