//! What the examples share: a server, in this process or another.

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use zoolet::client::Client;
use zoolet::server::{Config, Server};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Sessions are short here, so that an example that waits for an expiry is short. Another server
/// may grant longer ones.
const SESSION_TIMEOUT: Duration = Duration::from_secs(2);
const TICK_TIME_MS: u32 = 100;

#[derive(Debug, Default, Parser)]
pub(crate) struct Arguments {
    /// The server to use; one in this process by default
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
}

/// The server of an example.
pub(crate) enum Stage {
    InProcess(Server),
    Elsewhere(String),
}

impl Stage {
    pub(crate) async fn start(arguments: Arguments) -> Result<Self> {
        if let Some(server) = arguments.server {
            return Ok(Self::Elsewhere(server));
        }
        let config = Config { tick_time_ms: TICK_TIME_MS, ..Config::default() };
        Ok(Self::InProcess(Server::builder().config(config).start().await?))
    }

    /// A client with a session of its own.
    pub(crate) fn connect(&self) -> impl Future<Output = Result<Client>> + Send + 'static {
        let builder = Client::builder().session_timeout(SESSION_TIMEOUT);
        let target = match self {
            Self::InProcess(server) => Ok(server.dialer()),
            Self::Elsewhere(server) => Err(server.clone()),
        };
        async move {
            Ok(match target {
                Ok(dialer) => builder.connect(dialer).await?,
                Err(server) => builder.connect(server.as_str()).await?,
            })
        }
    }
}
