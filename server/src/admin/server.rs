//! Opens the port of the admin server, and finds the command for each request.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use super::commands::{self, Asked};
use super::config::AdminConfig;
use super::http::{OverTls, Site};
use super::json::write_object;
use super::rate_limiter::RateLimiter;
use crate::engine::lock::Engine;
use crate::server::Server;

/// What all requests share.
#[derive(Debug)]
pub(super) struct Admin {
    pub(super) engine: Arc<Engine>,
    pub(super) config: AdminConfig,
    pub(super) snapshots: RateLimiter,
    pub(super) restores: RateLimiter,
}

/// Why the admin server does not start.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_server::admin::{AdminConfig, AdminError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let config = AdminConfig { command_url: "commands".to_owned(), ..AdminConfig::default() };
/// let error = server.start_admin(config).await.unwrap_err();
/// assert!(matches!(error, AdminError::CommandUrl(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The paths of the commands cannot begin like this.
    #[error(
        "admin.commandURL is {0:?}; it must begin with / and have letters, digits and -._~/ only"
    )]
    CommandUrl(String),
    /// The address is not available.
    #[error("cannot listen on {address} for the admin server: {source}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

impl Server {
    /// Starts the admin server, which answers when this returns, and returns its address. It ends
    /// with the server.
    ///
    /// # Errors
    ///
    /// [`AdminError`] if the address is not available, or [`AdminConfig::command_url`] is no path.
    ///
    /// ```
    /// use zoolet_server::Server;
    /// use zoolet_server::admin::AdminConfig;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder().start().await?;
    /// let listen = ([127, 0, 0, 1], 0).into();
    /// let address = server.start_admin(AdminConfig { listen, ..AdminConfig::default() }).await?;
    /// println!("http://{address}/commands");
    /// server.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start_admin(&self, config: AdminConfig) -> Result<SocketAddr, AdminError> {
        let url = config.command_url.trim_end_matches('/').to_owned();
        if !is_path(&url) {
            return Err(AdminError::CommandUrl(config.command_url));
        }
        let error = |source| AdminError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        if !address.ip().is_loopback() && !config.knows_all_clients() {
            tracing::warn!(
                "the admin server on {address} shows connections, znodes and settings to all who \
                 reach it, and lets those with all permissions on / restore snapshots; a firewall, \
                 or admin.serverAddress=127.0.0.1, keeps others out"
            );
        }
        #[cfg(feature = "tls")]
        let https = config.https.clone();
        let now_ms = self.engine.clock.now_ms();
        let interval = config.rate_limiter_interval;
        let idle_timeout = config.idle_timeout;
        let admin = Arc::new(Admin {
            engine: Arc::clone(&self.engine),
            config,
            snapshots: RateLimiter::new(interval / 1_000, now_ms),
            restores: RateLimiter::new(interval, now_ms),
        });
        let router = routes(&url, admin, StrictTransport::of(address));
        let site = Site::new("the admin server", router, idle_timeout);
        #[cfg(feature = "tls")]
        if let Some(https) = https {
            self.serve_https(&https, site, listener);
            return Ok(address);
        }
        self.tasks.spawn(site.serve(listener, self.cancelled.clone()));
        Ok(address)
    }
}

/// Whether the text is the beginning of a path, without `/` at its end.
fn is_path(url: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
    url.is_empty() || url.starts_with('/') && !url.contains("//") && url.chars().all(is_plain)
}

fn routes(url: &str, admin: Arc<Admin>, strict: StrictTransport) -> Router {
    let index = index(url);
    let list = move || async { Html(index) };
    Router::new()
        .route(&format!("{url}/"), get(list.clone()).post(list.clone()))
        .route(&format!("{url}/{{*command}}"), get(command).post(command))
        .route(if url.is_empty() { "/commands" } else { url }, get(list.clone()).post(list))
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(strict, harden))
        .with_state(admin)
}

/// The page with links to all commands (`JettyAdminServer.commandLinks`).
fn index(url: &str) -> String {
    let link = |name| format!("<a href=\"{url}/{name}\">{name}</a>\n<br/>\n");
    commands::primary_names().into_iter().map(link).collect()
}

async fn command(
    State(admin): State<Arc<Admin>>,
    Path(name): Path<String>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Query(query): Query<Vec<(String, String)>>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let is_post = head.method == Method::POST;
    let over_tls = head.extensions.get::<OverTls>().cloned();
    let asked = Asked { peer, over_tls, headers: head.headers, query, is_post };
    commands::run(admin, &name, asked, body).await
}

/// Whether browsers that ask by HTTPS are told to ask this host for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StrictTransport {
    /// For a day (`JettyAdminServer.DEFAULT_STS_MAX_AGE`).
    Told,
    /// They are not: on a loopback address it would count for all else on this machine.
    NotTold,
}

impl StrictTransport {
    fn of(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::NotTold } else { Self::Told }
    }
}

/// Browsers shall take an answer for what it says to be, show it nowhere else, and keep none.
async fn harden(State(strict): State<StrictTransport>, request: Request, next: Next) -> Response {
    if request.method() == Method::TRACE {
        return failure(StatusCode::FORBIDDEN, "TRACE is not answered");
    }
    let is_over_tls = request.extensions().get::<OverTls>().is_some();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if is_over_tls && strict == StrictTransport::Told {
        let a_day = HeaderValue::from_static("max-age=86400; includeSubDomains");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, a_day);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn nowhere(State(admin): State<Arc<Admin>>, uri: Uri) -> Response {
    let path: String = uri.path().chars().take(PATH_CHARS_SHOWN_MAX).collect();
    let url = &admin.config.command_url;
    failure(StatusCode::NOT_FOUND, &format!("nothing is at {path}; {url} lists the commands"))
}

/// How many characters of an unknown path the answer repeats.
const PATH_CHARS_SHOWN_MAX: usize = 100;

async fn wrong_method(method: Method) -> Response {
    failure(StatusCode::METHOD_NOT_ALLOWED, &format!("{method} is not answered; use GET or POST"))
}

/// An answer that is no command's.
pub(super) fn failure(status: StatusCode, reason: &str) -> Response {
    (status, json(|out| write_object(out, |object| object.field("error", reason)))).into_response()
}

/// A whole answer in JSON.
pub(super) fn json(write: impl FnOnce(&mut String) -> fmt::Result) -> Response {
    let mut text = String::new();
    write(&mut text).expect("writing to a string does not fail");
    ([(header::CONTENT_TYPE, JSON)], Body::from(text)).into_response()
}

/// The content type of all reports.
pub(super) const JSON: &str = "application/json";
