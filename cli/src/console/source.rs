//! Where the console gets what it shows: a client of the servers, and what these tell of sessions.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zoolet_client::{Builder, Client, Error, Hosts, RetryPolicy};

use super::embedded::Latest;
use super::limits::{GOODBYE_WITHIN, SESSION_TIMEOUT};
use super::metrics;
use crate::connect_options::{Identities, SecurityError};
use crate::doctor::servers::{NoServer, ServersOptions};
use crate::doctor::sessions::{self, Patience, Sessions};

/// How long to wait before a read is sent again whose answer was lost with the connection.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The servers that are looked at, and as whom.
#[derive(Debug)]
pub(super) enum Source {
    /// Any ZooKeeper, from outside.
    Named { servers: Box<ServersOptions>, patience: Patience },
    /// The server in this process.
    Embedded { latest: Latest, identities: Option<Identities> },
}

impl Source {
    pub(super) fn named(servers: ServersOptions) -> Self {
        Self::Named { servers: Box::new(servers), patience: Patience::default() }
    }

    /// A name for a person.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named { servers, .. } => servers.hosts(),
            Self::Embedded { .. } => "this server",
        }
    }

    /// The path of the znode below which it looks, as the servers have it.
    pub(super) fn whole_path(&self, path: &str) -> String {
        match self {
            Self::Named { servers, .. } => servers.whole_path(),
            Self::Embedded { .. } => path.to_owned(),
        }
    }

    /// Checks the options, so that the command fails at once and not when somebody looks.
    pub(super) fn check(&self) -> Result<(), SecurityError> {
        self.builder().map(|_| ())
    }

    fn builder(&self) -> Result<Builder, SecurityError> {
        match self {
            Self::Named { servers, .. } => Ok(servers.builder()?),
            Self::Embedded { identities, .. } => {
                let builder = Client::builder().connection_timeout(EMBEDDED_TIMEOUT);
                let builder = builder.session_timeout(SESSION_TIMEOUT);
                Ok(identities.iter().fold(builder, |builder, identities| identities.apply(builder)))
            }
        }
    }

    /// Opens a session.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let client = match self {
            Self::Named { servers, .. } => servers.connect(self.builder()?).await?,
            Self::Embedded { latest, .. } => self.builder()?.connect(latest.clone()).await?,
        };
        Ok(client.with_retry_policy(RetryPolicy::one_time(AGAIN_AFTER)))
    }

    /// What the servers tell of sessions.
    pub(super) async fn sessions(&self, client: &Client) -> Result<Sessions, Failure> {
        match self {
            Self::Named { servers, patience } => {
                Ok(servers.sessions(client, Some(patience)).await?)
            }
            Self::Embedded { latest, .. } => {
                Ok(sessions::embedded::ask(&latest.reports(), self.name()).await)
            }
        }
    }

    /// The metrics of the servers that answer, if these tell them.
    pub(super) async fn metrics(&self) -> Option<Value> {
        match self {
            Self::Named { servers, patience } => {
                let tls = servers.connect.tls.load().ok()?.map(Arc::new);
                let hosts: Hosts = servers.hosts().parse().ok()?;
                let answer = hosts.addresses().iter().filter(|server| patience.expects(server));
                metrics::of_servers(answer.cloned(), tls.as_ref()).await
            }
            Self::Embedded { latest, .. } => metrics::of_reports(&latest.reports()).await,
        }
    }

    /// Nobody looks: no server is asked any more.
    fn rest(&self) {
        if let Self::Named { patience, .. } = self {
            patience.forget();
        }
    }
}

/// How long a server in this process may take to accept a session: it may be restarted meanwhile.
const EMBEDDED_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error("there is no znode {0}: nothing is shown before somebody creates it")]
    NoPath(String),
    #[error("the servers cannot be read: {0}")]
    NoServer(#[from] NoServer),
    #[error("the servers cannot be read: {0}")]
    Client(#[from] Error),
    /// That of an attempt for which others waited too.
    #[error(transparent)]
    Shared(Arc<Self>),
    #[error("the console ends")]
    Ended,
}

/// The session of the console, which is open while somebody looks.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) source: Arc<Source>,
    state: Mutex<LinkState>,
}

#[derive(Debug, Default)]
enum LinkState {
    #[default]
    Closed,
    Opening(Arc<Attempt>),
    Open(Client),
    /// There is no session any more.
    Ended,
}

/// An attempt to open a session, for all who wait for one.
#[derive(Debug, Default)]
struct Attempt {
    /// Cancelled when it is over, be it without an outcome.
    over: CancellationToken,
    outcome: OnceLock<Result<Client, Arc<Failure>>>,
}

impl Link {
    pub(super) fn new(source: Source) -> Self {
        Self { source: Arc::new(source), state: Mutex::default() }
    }

    /// The client; opens a session if there is none. To be called while there is a visitor or a
    /// viewer, so that the session is closed when they have left. All who call it meanwhile wait for one
    /// attempt, and have its failure, after the time limit for a connection at most.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        let attempt = {
            let mut state = self.state.lock();
            match &*state {
                LinkState::Open(client) if !client.is_closing() => return Ok(client.clone()),
                LinkState::Opening(attempt) if !attempt.has_failed() => Arc::clone(attempt),
                LinkState::Ended => return Err(Failure::Ended),
                LinkState::Closed | LinkState::Open(_) | LinkState::Opening(_) => {
                    let attempt = Attempt::start(Arc::clone(&self.source));
                    *state = LinkState::Opening(Arc::clone(&attempt));
                    attempt
                }
            }
        };
        attempt.over.cancelled().await;
        let outcome = attempt.outcome();
        let mut state = self.state.lock();
        if matches!(&*state, LinkState::Opening(known) if Arc::ptr_eq(known, &attempt)) {
            *state = outcome
                .as_ref()
                .map_or(LinkState::Closed, |client| LinkState::Open(client.clone()));
        }
        outcome
    }

    /// Closes the session if there is one.
    pub(super) async fn close(&self) {
        self.source.rest();
        let state = std::mem::take(&mut *self.state.lock());
        goodbye(state).await;
    }

    /// Closes the session if there is one, and opens no other.
    pub(super) async fn end(&self) {
        self.source.rest();
        let state = std::mem::replace(&mut *self.state.lock(), LinkState::Ended);
        goodbye(state).await;
    }
}

/// Without an answer the server ends the session after its timeout.
async fn goodbye(state: LinkState) {
    let closing = async {
        let client = match state {
            LinkState::Closed | LinkState::Ended => None,
            LinkState::Open(client) => Some(client),
            LinkState::Opening(attempt) => {
                attempt.over.cancelled().await;
                attempt.outcome().ok()
            }
        };
        if let Some(client) = client {
            // Whether it was told of the end or is gone, there is no more to do.
            let _ = client.close().await;
        }
    };
    let _ = tokio::time::timeout(GOODBYE_WITHIN, closing).await;
}

impl Attempt {
    /// It goes on when those who wait for it have left: others may come.
    fn start(source: Arc<Source>) -> Arc<Self> {
        let attempt = Arc::new(Self::default());
        let running = Arc::clone(&attempt);
        tokio::spawn(async move {
            let _over = running.over.clone().drop_guard();
            let outcome = source.connect().await.map_err(Arc::new);
            running.outcome.get_or_init(|| outcome);
        });
        attempt
    }

    fn has_failed(&self) -> bool {
        self.over.is_cancelled() && !matches!(self.outcome.get(), Some(Ok(_)))
    }

    /// What came of it, when it is over.
    fn outcome(&self) -> Result<Client, Failure> {
        match self.outcome.get() {
            Some(Ok(client)) => Ok(client.clone()),
            Some(Err(failure)) => Err(Failure::Shared(Arc::clone(failure))),
            // Its task has panicked, or the runtime ends.
            None => Err(Failure::Ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tokio::net::TcpListener;
    use zoolet_client::recipe::now;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        servers: ServersOptions,
    }

    fn link(hosts: &str, timeout: &str) -> Link {
        let options = ["zoolet", hosts, "--connect-timeout", timeout];
        let servers = Command::try_parse_from(options).unwrap().servers;
        Link::new(Source::named(servers))
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_a_server_that_does_not_answer_share_one_attempt() {
        // It accepts nothing, so that the system does: whoever connects hears no more.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = link(&silent.local_addr().unwrap().to_string(), "10s");
        let began = now();
        let (one, two, three) = tokio::join!(link.client(), link.client(), link.client());
        for outcome in [one, two, three] {
            let failure = outcome.unwrap_err().to_string();
            assert!(failure.contains("cannot be read"), "{failure}");
        }
        let took = now() - began;
        assert!(took < Duration::from_secs(11), "one after the other: {took:?}");
        // The failure is not kept for those who come later.
        link.client().await.unwrap_err();
        assert!(now() - began >= took + Duration::from_secs(9));
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_end_no_session_is_opened() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = link(&silent.local_addr().unwrap().to_string(), "10s");
        let began = now();
        let waits = async {
            let waits = tokio::time::timeout(Duration::from_secs(1), link.client());
            assert!(waits.await.is_err(), "it hangs up");
            link.end().await;
        };
        waits.await;
        assert!(matches!(link.client().await, Err(Failure::Ended)));
        assert!(now() - began <= Duration::from_secs(1) + GOODBYE_WITHIN * 2);
    }
}
