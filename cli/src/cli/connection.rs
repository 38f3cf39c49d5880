//! The session of a shell, which can be closed and replaced.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_client::{Client, ConnectionState, Error, FourLetterWord, RetryPolicy, Subscription};

use super::failure::Failure;
use super::output::Output;
use crate::connect_options::ConnectOptions;
use crate::connecting::Attempts;

/// How long to wait before a read is sent again whose answer was lost with the connection.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How long to wait for the server to end the session.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// The client of the session that there is at the moment, for the completion too.
#[derive(Clone, Default)]
pub(super) struct CurrentClient(Arc<Mutex<Option<Client>>>);

impl CurrentClient {
    pub(super) fn get(&self) -> Option<Client> {
        self.0.lock().clone()
    }
}

/// How a shell connects, and its session if it has one.
pub(super) struct Connection {
    options: ConnectOptions,
    is_read_only: bool,
    /// How long to wait for a connection.
    limit: Duration,
    client: CurrentClient,
    state: Option<Subscription<Option<ConnectionState>>>,
}

impl Connection {
    /// A connection that is not open yet.
    pub(super) fn new(options: ConnectOptions, is_read_only: bool, limit: Duration) -> Self {
        Self { options, is_read_only, limit, client: CurrentClient::default(), state: None }
    }

    /// Opens a session. Tells on the way that it takes long.
    pub(super) async fn open(&mut self, output: &Output) -> Result<(), Failure> {
        let server = self.servers();
        let attempts = Attempts::default();
        let mut builder = attempts.of(self.options.builder(self.limit)?);
        if self.is_read_only {
            builder = builder.allow_read_only();
        }
        let told = attempts.tell_meanwhile(server, Some(self.limit), |text| output.notice(text));
        let client = tokio::select! {
            client = builder.connect(server) => client,
            never = told => match never {},
        };
        match client {
            Ok(client) => {
                let client = client.with_retry_policy(RetryPolicy::one_time(AGAIN_AFTER));
                self.state = Some(client.state());
                *self.client.0.lock() = Some(client);
                Ok(())
            }
            Err(Error::Unreachable(cause)) => {
                Err(Failure::NoServer { server: server.to_owned(), cause })
            }
            Err(error) => Err(self.explained(error.into())),
        }
    }

    /// The failure of what is not `addauth`: what the server refuses then is the user of the options.
    pub(super) fn explained(&self, failure: Failure) -> Failure {
        match (failure, self.options.sasl_user()) {
            (Failure::Client(Error::AuthFailed), Some(user)) => {
                Failure::SaslUser { user: user.to_owned() }
            }
            (failure, _) => failure,
        }
    }

    /// Closes the session if there is one.
    pub(super) async fn close(&mut self) {
        self.state = None;
        let client = self.client.0.lock().take();
        if let Some(client) = client {
            // Without an answer the server ends it after its timeout.
            let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
        }
    }

    /// Connects to other servers from now on.
    pub(super) fn set_servers(&mut self, servers: String) {
        self.options.server = servers;
    }

    /// The connection string.
    pub(super) fn servers(&self) -> &str {
        &self.options.server
    }

    /// A four-letter word to a server of the connection string, by TLS if the options say so.
    pub(super) fn word(&self, word: FourLetterWord) -> Result<FourLetterWord, Failure> {
        Ok(match self.options.tls.load()? {
            Some(tls) => word.tls(tls),
            None => word,
        })
    }

    /// How long to wait for a connection, and for the answer to a four-letter word.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// The client of the session.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        self.client.get().ok_or(Failure::NotConnected)
    }

    /// The client, for whoever needs the one that there is at the moment.
    pub(super) fn current(&self) -> CurrentClient {
        self.client.clone()
    }

    pub(super) fn is_connected(&self) -> bool {
        let state = self.state.as_ref().and_then(|state| *state.borrow());
        state.is_some_and(ConnectionState::is_connected)
    }

    /// The next change of the state; pending for ever without a session.
    pub(super) async fn changed(&mut self) -> Option<ConnectionState> {
        if let Some(state) = &mut self.state {
            match state.changed().await {
                Ok(()) => return *state.borrow_and_update(),
                Err(_) => self.state = None,
            }
        }
        std::future::pending().await
    }
}
