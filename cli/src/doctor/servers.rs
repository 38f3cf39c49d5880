//! The servers at which `zoolet doctor` and `zoolet console` look: their options.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use zoolet_client::{Builder, Client, Hosts};
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
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// How many children a directory may have to be listed; of one with more only their number is told
    #[arg(long, value_name = "NUMBER", default_value_t = CHILDREN_LISTED_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    max_children: u32,

    /// The longest message that servers and clients accept, in bytes: their jute.maxbuffer
    #[arg(long, value_name = "BYTES", default_value_t = FRAME_BYTES)]
    #[arg(value_parser = clap::value_parser!(u32).range(1_024..))]
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

    /// What opens a session, read-only if there is no other.
    ///
    /// # Errors
    ///
    /// The files of the options cannot be used.
    pub(crate) fn builder(&self) -> Result<Builder, SecurityError> {
        Ok(self.connect.builder(self.connect_timeout)?.allow_read_only())
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

fn path(text: &str) -> Result<String, zoolet_protocol::PathError> {
    ZPath::check(text).map(|()| text.to_owned())
}
