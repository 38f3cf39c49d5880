//! The faults, as methods.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zoolet_core::ConnectionId;
use zoolet_protocol::{ErrorCode, SessionId};
use zoolet_server::hooks::{ConnectionInfo, HookedServer};

use super::control::{Control, Target};
use super::decision::Decide;
use super::rules::Action;
use super::scope::Client;
use super::{Fate, Fault, FaultError, RequestFilter, RequestInfo, Scope, time};

/// Injects faults for all clients, for a session or for a connection.
///
/// ```
/// use zoolet_testkit::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// assert_eq!(server.everyone().expire()?, 0, "there is no session");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Aim {
    control: Arc<Control>,
    scope: Scope,
}

impl Aim {
    pub(super) fn new(control: Arc<Control>, scope: Scope) -> Self {
        Self { control, scope }
    }

    /// Expires the sessions now, as if their timeouts had passed. When this returns their
    /// ephemerals are deleted and the watches on them have fired. Their connections are closed; a
    /// client learns of the expiry when it reconnects. Returns the number of sessions.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if there is no such session or connection, or no server.
    pub fn expire(&self) -> Result<usize, FaultError> {
        let (target, _) = self.hit()?;
        let sessions = self.sessions(&*target.server);
        for session in &sessions {
            target.server.expire(*session);
        }
        Ok(sessions.len())
    }

    /// Closes the connections now; messages that wait in them are lost, and the sessions live on.
    /// Returns the number of connections.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if there is no such session or connection, or no server.
    pub fn cut(&self) -> Result<usize, FaultError> {
        let (target, connections) = self.hit()?;
        for connection in &connections {
            target.server.cut(*connection);
            target.gates.gate(*connection).await_turn();
        }
        Ok(connections.len())
    }

    /// Passes no frame to the server and no message to the clients until the fault is lifted.
    /// Clients are not informed: what they send waits, new connections included, and is handled
    /// later in its order.
    ///
    /// With [`Scope::Server`] the server stops as a stopped process does, and so does its clock.
    /// When it resumes, overdue sessions expire before any waiting frame is handled. With a session
    /// or a connection it is as if its network were down, or its client stopped: the session
    /// expires after its timeout.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if there is no such session or connection, or no server, or an argument is
    /// invalid. The methods below fail for the same reasons.
    pub fn freeze(&self) -> Result<Fault, FaultError> {
        self.set(Action::Freeze)
    }

    /// Refuses new connections; open ones stay. With a session it refuses those that want to
    /// re-attach to it. Over TCP a refused connection is accepted and closed.
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn refuse(&self) -> Result<Fault, FaultError> {
        self.set(Action::Refuse)
    }

    /// Holds back every message to the clients: replies, events and handshake responses. The server
    /// carries requests out. What is in a socket already is not held back.
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn hold(&self) -> Result<Fault, FaultError> {
        self.set(Action::Hold)
    }

    /// Delays every message that is sent to the clients from now on. The longest of several delays
    /// applies.
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn delay(&self, delay: Duration) -> Result<Fault, FaultError> {
        self.set(Action::Delay(delay))
    }

    /// Loses requests on their way to the server, which neither carries them out nor replies. The
    /// client waits; when the reply to a later request comes first it takes that for an error of
    /// the server and reconnects.
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn drop_requests(&self, requests: RequestFilter) -> Result<Fault, FaultError> {
        self.set(Action::Requests(requests, Fate::Drop))
    }

    /// Carries requests out and loses their replies. The client waits; when the reply to a later
    /// request comes first it takes that for an error of the server and reconnects.
    /// [`Aim::cut_before_reply`] closes the connection instead.
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn drop_replies(&self, requests: RequestFilter) -> Result<Fault, FaultError> {
        self.set(Action::Requests(requests, Fate::LoseReply))
    }

    /// Carries requests out and closes the connection before the reply leaves, so that the client
    /// cannot know whether they were carried out. Earlier replies still leave.
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn cut_before_reply(&self, requests: RequestFilter) -> Result<Fault, FaultError> {
        self.set(Action::Requests(requests, Fate::CutReply))
    }

    /// Refuses requests with an error code, and does nothing of what they ask. A write takes a
    /// zxid, like any write that the server refuses.
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn fail(&self, requests: RequestFilter, code: ErrorCode) -> Result<Fault, FaultError> {
        self.set(Action::Requests(requests, Fate::Fail(code)))
    }

    /// Asks `decide` about each request from now on, in the order in which the server takes them, and
    /// does with it what `decide` says. Pings and handshakes pass without a question. Of several
    /// faults that concern a request the one that was set first decides, unless it lets the request
    /// pass. [`Fault::hits`] counts those that did not pass.
    ///
    /// `decide` must not use this server, nor its faults or observer: it runs under their locks.
    ///
    /// ```
    /// use zoolet_protocol::OpCode;
    /// use zoolet_testkit::{Fate, TestServer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::start().await?;
    /// let client = server.connect().await?;
    /// let mut writes = 0;
    /// server.everyone().decide(move |request| {
    ///     writes += u32::from(request.op == OpCode::SET_DATA);
    ///     if writes == 2 { Fate::ExpireAfter } else { Fate::Pass }
    /// })?;
    /// # client.create("/a").await?;
    /// # client.set("/a", "1").await?;
    /// # let first = client.session_id();
    /// # client.set("/a", "2").await?;
    /// # assert_eq!(&client.get("/a").await?.0[..], b"2");
    /// # assert_ne!(client.session_id(), first);
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn decide(
        &self,
        decide: impl FnMut(&RequestInfo<'_>) -> Fate + Send + 'static,
    ) -> Result<Fault, FaultError> {
        self.set(Action::Decide(Decide::new(decide)))
    }

    /// Corrupts the next `messages` messages to the clients: of each only the first half leaves, as
    /// a frame of that length, which no client can decode.
    #[expect(clippy::missing_errors_doc, reason = "as for Aim::freeze")]
    pub fn corrupt(&self, messages: u64) -> Result<Fault, FaultError> {
        self.set(Action::Corrupt(messages))
    }

    /// Ends the faults that [`Aim::freeze`] set with this scope.
    pub fn thaw(&self) {
        self.lift(|action| matches!(action, Action::Freeze));
    }

    /// Ends the faults that [`Aim::hold`] set with this scope: held messages leave in their order.
    pub fn release(&self) {
        self.lift(|action| matches!(action, Action::Hold));
    }

    fn lift(&self, is_lifted: impl Fn(&Action) -> bool) {
        self.control.lift(|rule| rule.scope == self.scope && is_lifted(&rule.action));
    }

    /// Ends all faults that were set with this scope.
    pub fn heal(&self) {
        self.lift(|_| true);
    }

    fn set(&self, action: Action) -> Result<Fault, FaultError> {
        match &action {
            Action::Requests(_, Fate::Fail(ErrorCode::OK)) => return Err(FaultError::NoError),
            Action::Requests(filter, _) => filter.check()?,
            Action::Delay(delay) => _ = time::checked_ms(*delay)?,
            _ => {}
        }
        let (target, connections) = self.hit()?;
        let (id, hits) = self.control.rules().with(|rules| rules.add(self.scope, action));
        // Frames that were being handled before the rule existed are finished first.
        for connection in connections {
            target.gates.gate(connection).await_turn();
        }
        target.server.await_tick();
        Ok(Fault::new(Arc::clone(&self.control), id, hits))
    }

    /// The server, and its connections within the scope.
    fn hit(&self) -> Result<(Target, Vec<ConnectionId>), FaultError> {
        let target = self.control.running()?;
        let connections = target.server.connections();
        match self.scope {
            Scope::Session(session) => {
                let live = target.server.sessions();
                if !live.contains(&session) {
                    return Err(FaultError::UnknownSession { session, live });
                }
            }
            Scope::Connection(connection) => {
                let open: Vec<_> = connections.iter().map(|open| open.id).collect();
                if !open.contains(&connection) {
                    return Err(FaultError::UnknownConnection { connection, open });
                }
            }
            Scope::Server => {}
        }
        let client = |info: &ConnectionInfo| Client { connection: info.id, session: info.session };
        let covered = connections.iter().filter(|info| self.scope.covers(client(info)));
        let covered = covered.map(|info| info.id).collect();
        Ok((target, covered))
    }

    fn sessions(&self, server: &dyn HookedServer) -> Vec<SessionId> {
        let live = server.sessions();
        match self.scope {
            Scope::Server => server.own_sessions(),
            Scope::Session(session) => vec![session],
            Scope::Connection(connection) => {
                let session = server.session_of(connection);
                session.filter(|session| live.contains(session)).into_iter().collect()
            }
        }
    }
}

impl fmt::Debug for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aim").field("scope", &self.scope).finish_non_exhaustive()
    }
}
