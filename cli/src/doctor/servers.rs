//! The servers at which `zoolet doctor` and `zoolet console` look: their options.

use std::fmt::{self, Display, Formatter};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use zoolet_client::{Builder, Client, Error, Hosts};
use zoolet_protocol::ZPath;

use super::limits::CHILDREN_LISTED_MAX;
use super::scan::ScanOptions;
use super::sessions::{self, AdminOptions, Patience, Sessions};
use crate::connect_options::{self, ConnectOptions, SecurityError};
use crate::server_options::values;

/// Which servers, as whom, and how much may be asked of them.
#[derive(Debug, Args)]
pub(crate) struct ServersOptions {
    /// The servers, each HOST or HOST:PORT, and the znode under which all paths are; name all servers
    /// of an ensemble to see all clients [default: that of --server]
    #[arg(value_name = "HOSTS", value_parser = connect_options::hosts)]
    hosts: Option<String>,

    /// The znode below which to look
    #[arg(value_name = "PATH", default_value = "/", value_parser = path)]
    pub(crate) path: String,

    /// The most requests in a second for locks and sessions
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    #[arg(value_parser = values::number::<u32>(1..=100_000))]
    rate: u32,

    /// How many children a directory may have to be listed; of one with more only their number is told
    #[arg(long, value_name = "NUMBER", default_value_t = CHILDREN_LISTED_MAX)]
    #[arg(value_parser = values::number::<u32>(1..=values::NUMBER_MAX))]
    max_children: u32,

    /// The longest message that servers and clients accept, in bytes: their jute.maxbuffer
    #[arg(long, value_name = "BYTES", default_value_t = FRAME_BYTES)]
    #[arg(value_parser = values::number::<u32>(1_024..=values::NUMBER_MAX))]
    max_message: u32,

    #[command(flatten)]
    admin: AdminOptions,

    /// How long to wait for a connection, and for the answer to a four-letter word
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::some_time)]
    connect_timeout: Duration,

    #[command(flatten)]
    pub(crate) connect: ConnectOptions,
}

/// The limit of servers and clients that were told no other.
const FRAME_BYTES: u32 = zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT as u32;

impl ServersOptions {
    /// The servers, as a person names them.
    pub(crate) fn hosts(&self) -> &str {
        self.hosts.as_ref().unwrap_or(&self.connect.server)
    }

    /// The znode below which to look, as the servers have it: below the one that is named behind them.
    pub(crate) fn whole_path(&self) -> String {
        let hosts = self.hosts().parse::<Hosts>();
        let root = hosts.map(|hosts| hosts.chroot().trim_end_matches('/').to_owned());
        match (root.unwrap_or_default(), self.path.as_str()) {
            (root, "/") if !root.is_empty() => root,
            (root, path) => root + path,
        }
    }

    /// What opens a session, read-only if there is no other.
    ///
    /// # Errors
    ///
    /// The files of the options cannot be used.
    pub(crate) fn builder(&self) -> Result<Builder, SecurityError> {
        Ok(self.connect.builder(self.connect_timeout)?.allow_read_only())
    }

    /// Opens a session, with what [`Self::builder`] has returned.
    ///
    /// # Errors
    ///
    /// There is none after the time limit for a connection. What each server answered meanwhile is told.
    pub(crate) async fn connect(&self, builder: Builder) -> Result<Client, NoServer> {
        let mut connecting = pin!(builder.connect(self.hosts()));
        // Late enough not to ask in vain, and early enough not to keep anybody waiting.
        let half = self.connect_timeout / 2;
        let mut asking = pin!(async {
            tokio::time::sleep(half).await;
            self.states(half).await
        });
        let (connected, states) = tokio::select! {
            connected = &mut connecting => (connected, None),
            states = &mut asking => (connecting.await, Some(states)),
        };
        let error = match connected {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        let states = match (&error, states) {
            (Error::Unreachable(_), None) => asking.await,
            (Error::Unreachable(_), Some(states)) => states,
            _ => Vec::new(),
        };
        Err(NoServer { hosts: self.hosts().to_owned(), last: error.to_string(), states })
    }

    /// What each server answers to `srvr`.
    async fn states(&self, limit: Duration) -> Vec<Result<String, String>> {
        let (Ok(hosts), Ok(tls)) = (self.hosts().parse(), self.connect.tls.load()) else {
            return Vec::new();
        };
        let ways = sessions::Ways { tls: tls.map(Arc::new), admin: None, limit };
        sessions::states(&hosts, &ways).await
    }

    /// How the tree is read.
    pub(crate) fn scan(&self, znodes_max: u64) -> ScanOptions {
        ScanOptions {
            rate: self.rate,
            znodes_max,
            children_max: self.max_children,
            frame_bytes: usize::try_from(self.max_message).unwrap_or(usize::MAX),
        }
    }

    /// What the servers tell of sessions. With `patience`, for those who look again and again, a server
    /// that does not answer keeps nobody waiting for long.
    ///
    /// # Errors
    ///
    /// The files of the options cannot be used.
    pub(crate) async fn sessions(
        &self,
        client: &Client,
        patience: Option<&Patience>,
    ) -> Result<Sessions, SecurityError> {
        let tls = self.connect.tls.load()?.map(Arc::new);
        let Ok(hosts) = self.hosts().parse::<Hosts>() else {
            // The client has connected to them.
            return Ok(Sessions::default());
        };
        let members = sessions::members(client).await;
        let admin = self.admin.servers(&self.connect.tls)?;
        let ways = sessions::Ways { tls, admin, limit: self.connect_timeout };
        Ok(sessions::ask(&hosts, members.as_deref(), &ways, patience).await)
    }
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) struct NoServer {
    hosts: String,
    /// What the last attempt has met.
    last: String,
    /// What each server answers to `srvr`, or why it serves nobody.
    states: Vec<Result<String, String>>,
}

impl std::error::Error for NoServer {}

impl Display for NoServer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { hosts, last, states } = self;
        write!(f, "no server at {hosts} can be used: ")?;
        // Where a server answers, that no session was opened is all that is known.
        if states.is_empty() || states.iter().any(Result::is_ok) {
            write!(f, "{last}{}", if states.is_empty() { "" } else { "; " })?;
        }
        let states: Vec<&str> = states.iter().map(|(Ok(text) | Err(text))| text.as_str()).collect();
        f.write_str(&states.join("; "))
    }
}

fn path(text: &str) -> Result<String, zoolet_protocol::PathError> {
    ZPath::check(text).map(|()| text.to_owned())
}
