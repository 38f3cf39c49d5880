//! `--admin`: the admin server.

use std::io;
use std::net::SocketAddr;

use zoolet_server::Server;
use zoolet_server::admin::{AdminConfig, AdminError};

use super::listen::{self, ListenError};
use crate::server_options::admin::AdminServer;

/// Starts the admin server of a server, and logs where it is. Returns what was asked for as it is
/// now: with the port that was picked.
///
/// # Errors
///
/// If the host has no address, or none of its addresses is available.
pub(super) async fn start(
    server: &Server,
    asked: Option<AdminServer>,
) -> Result<Option<AdminServer>, ServeAdminError> {
    let Some(AdminServer { mut listen, config }) = asked else { return Ok(None) };
    let mut refused = None;
    for address in listen::resolve(Some(&listen))? {
        let config_there = AdminConfig { listen: address, ..config.clone() };
        match server.start_admin(config_there).await {
            Ok(address) => {
                tracing::info!(%address, "admin server on {}", urls(&config, address));
                listen.port = address.port();
                return Ok(Some(AdminServer { listen, config }));
            }
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or_else(|| io::Error::from(io::ErrorKind::NotFound).into(), Into::into))
}

fn urls(config: &AdminConfig, address: SocketAddr) -> String {
    let url = |scheme| format!("{scheme}://{address}{}", config.command_url);
    match &config.https {
        None => url("http"),
        Some(https) if https.port_unification => format!("{} and {}", url("http"), url("https")),
        Some(_) => url("https"),
    }
}

/// Why there is no admin server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeAdminError {
    #[error(transparent)]
    Host(#[from] ListenError),
    #[error(
        "{0}\nChoose another address with --admin HOST:PORT (or admin.serverPort in the \
         configuration file), or admin.enableServer=false."
    )]
    Start(#[from] AdminError),
    #[error("the host of the admin server has no address: {0}")]
    NoAddress(#[from] io::Error),
}
