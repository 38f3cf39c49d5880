//! Serves HTTP on a port of its own, for programs and people who run a server.
//!
//! Every connection has limits: of its number, its head, its body, and of the time in which nothing
//! moves. A page in a browser cannot use what is served here (`browsers`), although such a page may
//! reach ports of this machine that the rest of the network cannot.

mod browsers;
mod guests;
mod stream;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::browsers::OwnNames;
pub use self::browsers::is_of_another_site;
pub use self::guests::Guest;
use self::guests::Guests;
use self::stream::{Handling, IdleLimited, IdleTimeouts};
use crate::engine::clock::now;
use crate::engine::warnings::Pace;
use crate::limits::{
    ACCEPT_RETRY, HTTP_BODY_BYTES_MAX, HTTP_BODY_TIMEOUT, HTTP_CONNECTIONS_MAX, HTTP_GONE_TIMEOUT,
    HTTP_HEAD_BYTES_MAX, HTTP_HEADERS_MAX, SHUTDOWN_TIMEOUT,
};

/// Pages, and how they are served.
///
/// ```
/// use std::time::Duration;
///
/// use axum::Router;
/// use axum::routing::get;
/// use tokio::net::TcpListener;
/// use tokio_util::sync::CancellationToken;
/// use zoolet_server::admin::http::Site;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let router = Router::new().route("/", get(async || "it works"));
/// let site = Site::new("the example", router, Duration::from_secs(30));
/// let end = CancellationToken::new();
/// let serving = tokio::spawn(site.serve(listener, end.clone()));
/// end.cancel();
/// serving.await.unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Site {
    /// What messages in the log call it, such as `the admin server`.
    pub name: &'static str,
    /// The pages. A handler learns the client's address by the extractor
    /// `ConnectInfo<SocketAddr>`.
    pub router: Router,
    /// A connection ends when nothing has moved on it for so long while no handler is at work: a
    /// client that stalls in the head of a request, one that does not read, and one that asks for
    /// nothing more.
    pub idle_timeout: Duration,
    /// Who says by which names the pages may be asked for. [`Names::ByAddress`] by default.
    pub names: Names,
    /// If it is given, a connection is that of a stranger until a handler lets its client in, by the
    /// extension [`Guest`]. A stranger has this idle time. It takes no place of one that was let in, and
    /// when there are too many strangers, a new one takes the place of the oldest of the network that has
    /// most of them.
    pub strangers: Option<Duration>,
}

/// Who decides by which names pages may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// On a loopback address only requests are answered that ask for a loopback address or
    /// `localhost`, so that no page in a browser gets through by a name of its own (DNS rebinding).
    ByAddress,
    /// The router refuses such names itself.
    Router,
}

impl Site {
    /// A site whose clients are all alike.
    #[must_use]
    pub fn new(name: &'static str, router: Router, idle_timeout: Duration) -> Self {
        Self { name, router, idle_timeout, names: Names::ByAddress, strangers: None }
    }

    /// Serves the pages until `end` is cancelled. Requests that are being answered then are
    /// completed within [`SHUTDOWN_TIMEOUT`].
    ///
    /// Requests that a browser sends for a page of another origin are refused, and those by other names
    /// than `names` allows. A client that is gone without a word is disconnected.
    ///
    /// # Cancellation
    ///
    /// The same as the end: it accepts no more connections, and the open ones are completed.
    pub async fn serve(self, listener: TcpListener, end: CancellationToken) {
        self.serve_over(Plaintext, listener, end).await;
    }

    /// As [`Site::serve`], over what `security` makes of connections.
    pub(super) async fn serve_over(
        self,
        security: impl Security,
        listener: TcpListener,
        end: CancellationToken,
    ) {
        let Self { name, router, idle_timeout, names, strangers } = self;
        let names = match names {
            Names::ByAddress => OwnNames::of(listener.local_addr().ok()),
            Names::Router => OwnNames::Any,
        };
        let router = router.layer(middleware::from_fn_with_state(names, browsers::refuse));
        let (crowded, began) = (Pace::default(), now());
        let guests = Guests::new(strangers);
        let idle =
            IdleTimeouts { known: idle_timeout, stranger: strangers.unwrap_or(idle_timeout) };
        let connections = TaskTracker::new();
        let end = end.child_token();
        let _ends_with_this = end.clone().drop_guard();
        while let Some(accepted) = end.run_until_cancelled(listener.accept()).await {
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("{name} cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            let Some(seat) = guests.admit(peer) else {
                let now_ms = (now() - began).as_millis() as u64;
                if let Some(others) = crowded.admit(now_ms) {
                    tracing::warn!(
                        address = %peer,
                        others,
                        "{name} has {HTTP_CONNECTIONS_MAX} connections: no more"
                    );
                }
                continue;
            };
            if let Err(error) = notice_its_end(&stream) {
                tracing::debug!(address = %peer, "the end of a client may not be noticed: {error}");
            }
            let (security, router, end) = (security.clone(), router.clone(), end.clone());
            connections.spawn(async move {
                let cut = seat.cut.clone();
                let served = async {
                    let secured = end.run_until_cancelled(security.secure(stream, peer)).await;
                    let Some(Some(Secured { stream, over_tls })) = secured else { return };
                    let handling = Handling::default();
                    let stream = IdleLimited::new(stream, idle, seat.is_known(), handling.clone());
                    let pages =
                        Pages { router, peer, over_tls, handling, guest: seat.guest.clone() };
                    if let Err(error) = serve_connection(stream, pages, idle_timeout, end).await {
                        tracing::debug!(
                            address = %peer,
                            cause = %error,
                            "a connection of {name} ended"
                        );
                    }
                };
                if cut.run_until_cancelled(served).await.is_none() {
                    tracing::debug!(address = %peer, "{name} has too many strangers, and cuts one");
                }
            });
        }
        connections.close();
        connections.wait().await;
    }
}

/// Lets the system end the connection of a client that is gone without a word.
fn notice_its_end(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(HTTP_GONE_TIMEOUT / 2);
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
    let probes = probes.with_interval(HTTP_GONE_TIMEOUT / 6).with_retries(3);
    socket.set_tcp_keepalive(&probes)?;
    // What was sent and is not acknowledged counts too: it keeps probes from being sent.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(HTTP_GONE_TIMEOUT))?;
    Ok(())
}

/// What is done with a connection before HTTP is spoken on it.
pub(super) trait Security: Clone + Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// Makes the stream on which HTTP is spoken. `None` if there is none, which was logged.
    fn secure(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = Option<Secured<Self::Stream>>> + Send;
}

/// A connection on which HTTP is spoken.
#[derive(Debug)]
pub(super) struct Secured<S> {
    pub(super) stream: S,
    /// `None` if it is in plaintext.
    pub(super) over_tls: Option<OverTls>,
}

/// What each request over TLS has as an extension.
#[derive(Debug, Clone)]
pub(super) struct OverTls {
    /// The certificates that the client showed, its own first, in DER.
    #[cfg(feature = "tls")]
    pub(super) certificates: Arc<[Vec<u8>]>,
}

/// HTTP without TLS.
#[derive(Debug, Clone)]
struct Plaintext;

impl Security for Plaintext {
    type Stream = TcpStream;

    async fn secure(&self, stream: TcpStream, _peer: SocketAddr) -> Option<Secured<TcpStream>> {
        Some(Secured { stream, over_tls: None })
    }
}

/// Serves one connection until its client or `end` ends it.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    pages: Pages,
    idle_timeout: Duration,
    end: CancellationToken,
) -> hyper::Result<()> {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle_timeout)
        .max_headers(HTTP_HEADERS_MAX)
        .max_header_size(HTTP_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), pages);
    let mut connection = pin!(connection);
    if let Some(ended) = end.run_until_cancelled(connection.as_mut()).await {
        return ended;
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(SHUTDOWN_TIMEOUT, connection).await.unwrap_or(Ok(()))
}

/// The pages, as one connection has them.
#[derive(Debug)]
struct Pages {
    router: Router,
    peer: SocketAddr,
    over_tls: Option<OverTls>,
    handling: Handling,
    guest: Guest,
}

impl Service<hyper::Request<Incoming>> for Pages {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, mut request: hyper::Request<Incoming>) -> Self::Future {
        let handling = self.handling.begin();
        request.extensions_mut().insert(ConnectInfo(self.peer));
        request.extensions_mut().insert(self.guest.clone());
        if let Some(over_tls) = &self.over_tls {
            request.extensions_mut().insert(over_tls.clone());
        }
        let answer = TowerToHyperService::new(self.router.clone()).call(request);
        Box::pin(async move {
            let answer = answer.await;
            drop(handling);
            answer
        })
    }
}

/// A layer for pages that need the whole body of a request: it refuses a body that is longer than
/// [`HTTP_BODY_BYTES_MAX`], and one that does not arrive within [`HTTP_BODY_TIMEOUT`].
pub async fn gather_body(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, HTTP_BODY_BYTES_MAX);
    match tokio::time::timeout(HTTP_BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(error)) => refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!(
                "the body cannot be read, or is longer than {HTTP_BODY_BYTES_MAX} bytes: {error}"
            ),
        ),
        Err(_) => refusal(
            StatusCode::REQUEST_TIMEOUT,
            &format!("the body did not come within {HTTP_BODY_TIMEOUT:?}"),
        ),
    }
}

/// An answer that says why a request is refused.
fn refusal(status: StatusCode, reason: &str) -> Response {
    (status, Json(json!({ "error": reason }))).into_response()
}

#[cfg(test)]
mod tests;
