//! The page for Prometheus: `metricsProvider.httpHost` and `metricsProvider.httpPort`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use super::http::Site;
use crate::engine::lock::Engine;
use crate::engine::metrics::{Dialect, Metrics, ProcessMetrics};
use crate::reports::permits::ReportKind;
use crate::server::Server;

/// The type of the text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Prometheus asks once in some seconds, on a connection that it keeps.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Where the page for Prometheus is, and what it has.
///
/// ```
/// use zoolet_server::admin::MetricsConfig;
///
/// assert_eq!(MetricsConfig::default().listen.to_string(), "127.0.0.1:7000");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    /// `metricsProvider.httpHost` and `metricsProvider.httpPort`; 127.0.0.1 and 7000 by default.
    /// Port 0 picks a free one. The path is `/metrics`.
    pub listen: SocketAddr,
    /// Whose names and labels it has. It should be the one in
    /// [`Config::metrics_provider`](crate::Config::metrics_provider), which says how far the
    /// quantiles look back.
    pub dialect: Dialect,
    /// `metricsProvider.exportJvmInfo`: whether it has metrics of the process.
    pub process: ProcessMetrics,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 7000).into(),
            dialect: Dialect::default(),
            process: ProcessMetrics::default(),
        }
    }
}

/// The address of the page for Prometheus is not available.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_server::admin::MetricsConfig;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let page = MetricsConfig { listen: ([127, 0, 0, 1], 0).into(), ..MetricsConfig::default() };
/// let listen = server.start_metrics(page.clone()).await?;
/// assert!(server.start_metrics(MetricsConfig { listen, ..page }).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the metrics: {source}")]
pub struct MetricsError {
    address: SocketAddr,
    source: io::Error,
}

#[derive(Debug)]
struct Page {
    engine: Arc<Engine>,
    metrics: Metrics,
    config: MetricsConfig,
}

impl Server {
    /// Starts the page for Prometheus, which answers when this returns, and returns its address. It
    /// ends with the server. Whoever reaches it can read the metrics, among them the names of
    /// top-level znodes, and nothing else.
    ///
    /// # Errors
    ///
    /// [`MetricsError`] if the address is not available.
    pub async fn start_metrics(&self, config: MetricsConfig) -> Result<SocketAddr, MetricsError> {
        let error = |source| MetricsError { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        let engine = Arc::clone(&self.engine);
        let page = Arc::new(Page { engine, metrics: self.metrics(), config });
        let site = Site::new("the page for Prometheus", routes(page), IDLE_TIMEOUT);
        self.tasks.spawn(site.serve(listener, self.cancelled.clone()));
        Ok(address)
    }
}

fn routes(page: Arc<Page>) -> Router {
    // `MetricsServlet` answers both.
    let answer = get(answer).post(answer);
    Router::new()
        .route("/metrics", answer)
        .layer(middleware::from_fn_with_state(Arc::clone(&page), no_trace))
        .with_state(page)
}

/// The method TRACE shows a page in a browser the headers that the browser hides from it.
async fn no_trace(
    State(page): State<Arc<Page>>,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    match (request.method(), page.config.dialect) {
        (&Method::TRACE, Dialect::V3_9) => StatusCode::FORBIDDEN.into_response(),
        (&Method::TRACE, Dialect::V3_10) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        _ => next.run(request).await,
    }
}

async fn answer(
    State(page): State<Arc<Page>>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let names: Vec<_> =
        query.into_iter().filter(|(key, _)| key == "name[]").map(|(_, name)| name).collect();
    let Ok(permit) = page.engine.reports.acquire(ReportKind::Monitoring).await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let text = tokio::task::spawn_blocking(move || {
        let text = page.metrics.prometheus(page.config.dialect, page.config.process, &names);
        drop(permit);
        text
    });
    match text.await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
