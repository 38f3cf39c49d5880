//! Where the console gets what it shows: a client of the servers, and what these tell of sessions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use zoolet_client::{Builder, Client, Error, Hosts, RetryPolicy};

use super::embedded::Latest;
use super::limits::GOODBYE_WITHIN;
use super::metrics;
use crate::connect_options::{Identities, SecurityError};
use crate::doctor::servers::ServersOptions;
use crate::doctor::sessions::{self, Sessions};

/// How long to wait before a read is sent again whose answer was lost with the connection.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The servers that are looked at, and as whom.
#[derive(Debug)]
pub(super) enum Source {
    /// Any ZooKeeper, from outside.
    Named(Box<ServersOptions>),
    /// The server in this process.
    Embedded { latest: Latest, identities: Option<Identities> },
}

impl Source {
    /// A name for a person.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(servers) => servers.hosts(),
            Self::Embedded { .. } => "this server",
        }
    }

    /// Checks the options, so that the command fails at once and not when somebody looks.
    pub(super) fn check(&self) -> Result<(), SecurityError> {
        self.builder().map(|_| ())
    }

    fn builder(&self) -> Result<Builder, SecurityError> {
        Ok(match self {
            Self::Named(servers) => servers.builder()?,
            Self::Embedded { identities, .. } => {
                let builder = Client::builder().connection_timeout(EMBEDDED_TIMEOUT);
                identities.iter().fold(builder, |builder, identities| identities.apply(builder))
            }
        })
    }

    /// Opens a session.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let client = match self {
            Self::Named(servers) => self.builder()?.connect(servers.hosts()).await?,
            Self::Embedded { latest, .. } => self.builder()?.connect(latest.clone()).await?,
        };
        Ok(client.with_retry_policy(RetryPolicy::one_time(AGAIN_AFTER)))
    }

    /// What the servers tell of sessions.
    pub(super) async fn sessions(&self, client: &Client) -> Result<Sessions, Failure> {
        match self {
            Self::Named(servers) => Ok(servers.sessions(client).await?),
            Self::Embedded { latest, .. } => {
                Ok(sessions::embedded::ask(&latest.reports(), self.name()).await)
            }
        }
    }

    /// The metrics of the servers, if they tell them.
    pub(super) async fn metrics(&self) -> Option<Value> {
        match self {
            Self::Named(servers) => {
                let tls = servers.connect.tls.load().ok()?.map(Arc::new);
                let hosts: Hosts = servers.hosts().parse().ok()?;
                metrics::of_hosts(&hosts, tls.as_ref()).await
            }
            Self::Embedded { latest, .. } => metrics::of_reports(&latest.reports()).await,
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
    #[error("the servers cannot be read: {0}")]
    Client(#[from] Error),
}

/// The session of the console, which is open while somebody looks.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) source: Source,
    client: tokio::sync::Mutex<Option<Client>>,
}

impl Link {
    pub(super) fn new(source: Source) -> Self {
        Self { source, client: tokio::sync::Mutex::default() }
    }

    /// The client; opens a session if there is none. To be called while there is a visitor or a
    /// viewer, so that the session is closed when they have left.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.is_closing()) {
            return Ok(client.clone());
        }
        let new = self.source.connect().await?;
        *client = Some(new.clone());
        Ok(new)
    }

    /// Closes the session if there is one.
    pub(super) async fn close(&self) {
        let client = self.client.lock().await.take();
        if let Some(client) = client {
            // Without an answer the server ends it after its timeout.
            let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
        }
    }
}
