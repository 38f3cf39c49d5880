//! `--metrics`: the page for Prometheus.

use std::io;
use std::net::SocketAddr;

use zoolet_server::Server;
use zoolet_server::admin::{MetricsConfig, MetricsError};

use super::listen::{self, ListenError};
use crate::server_options::monitoring::MetricsPage;

/// Starts the page of a server, and logs where it is. Returns it as it is now: with the port that was
/// picked.
///
/// # Errors
///
/// If the host has no address, or none of its addresses is available.
pub(super) async fn start(
    server: &Server,
    page: Option<&MetricsPage>,
) -> Result<Option<MetricsPage>, ServeMetricsError> {
    let Some(page) = page else { return Ok(None) };
    let mut refused = None;
    for listen in listen::resolve(Some(&page.listen))? {
        let MetricsPage { dialect, process, .. } = *page;
        match server.start_metrics(MetricsConfig { listen, dialect, process }).await {
            Ok(address) => {
                tracing::info!(%address, "metrics on http://{address}/metrics");
                return Ok(Some(at(page, address)));
            }
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or_else(|| io::Error::from(io::ErrorKind::NotFound).into(), Into::into))
}

fn at(page: &MetricsPage, address: SocketAddr) -> MetricsPage {
    let mut page = page.clone();
    page.listen.port = address.port();
    page
}

/// Why there is no page for Prometheus.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeMetricsError {
    #[error(transparent)]
    Host(#[from] ListenError),
    #[error(
        "{0}\nChoose another port with --metrics HOST:PORT (or metricsProvider.httpPort in the \
         configuration file)."
    )]
    Listen(#[from] MetricsError),
    #[error("the host of the metrics has no address: {0}")]
    NoAddress(#[from] io::Error),
}
