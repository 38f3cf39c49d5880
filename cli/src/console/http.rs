//! The pages and the requests of the console.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use zoolet_protocol::SessionId;
use zoolet_server::admin::http::{Guest, Names, Site, gather_body};
use zoolet_testkit::FaultError;

use super::Shared;
use super::access::{self, Access};
use super::events::{self, Listener};
use super::feed::Filter;
use super::hub::Crowded;
use super::limits::{IDLE_TIMEOUT, STRANGER_TIMEOUT};
use super::tree::{self, Unread};

/// A file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Everything that a browser loads. Nothing comes from elsewhere.
const FILES: [File; 14] = [
    File { path: "/", kind: "text/html; charset=utf-8", text: include_str!("page/index.html") },
    File {
        path: "/console.css",
        kind: "text/css; charset=utf-8",
        text: concat!(
            include_str!("page/console.css"),
            include_str!("../doctor/report/finding.css")
        ),
    },
    File { path: "/icon.svg", kind: "image/svg+xml", text: include_str!("page/icon.svg") },
    File { path: "/console.js", kind: JAVASCRIPT, text: include_str!("page/console.js") },
    File { path: "/dom.js", kind: JAVASCRIPT, text: include_str!("page/dom.js") },
    File { path: "/live.js", kind: JAVASCRIPT, text: include_str!("page/live.js") },
    File { path: "/locks.js", kind: JAVASCRIPT, text: include_str!("page/locks.js") },
    File { path: "/login.js", kind: JAVASCRIPT, text: include_str!("page/login.js") },
    File { path: "/sessions.js", kind: JAVASCRIPT, text: include_str!("page/sessions.js") },
    File { path: "/tree.js", kind: JAVASCRIPT, text: include_str!("page/tree.js") },
    File { path: "/watches.js", kind: JAVASCRIPT, text: include_str!("page/watches.js") },
    File { path: "/charts.js", kind: JAVASCRIPT, text: include_str!("page/charts.js") },
    File { path: "/feed.js", kind: JAVASCRIPT, text: include_str!("page/feed.js") },
    File { path: "/findings.js", kind: JAVASCRIPT, text: include_str!("page/findings.js") },
];

/// What every answer has: nothing but files of this console is loaded or run, and no page frames it.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// What all requests share.
#[derive(Debug, Clone)]
struct Pages {
    shared: Arc<Shared>,
    access: Access,
}

/// Serves the console until it ends.
pub(super) async fn serve(shared: Arc<Shared>, access: Access, listener: TcpListener) {
    let end = shared.hub.end().clone();
    let router = router(shared, access);
    let site = Site {
        // `access` knows them.
        names: Names::Router,
        strangers: Some(STRANGER_TIMEOUT),
        ..Site::new("the console", router, IDLE_TIMEOUT)
    };
    site.serve(listener, end).await;
}

fn router(shared: Arc<Shared>, access: Access) -> Router {
    let pages = Pages { shared, access: access.clone() };
    let guarded = Router::new()
        .route("/v1/console", get(about))
        .route("/v1/events", get(look))
        .route("/v1/feed", get(feed))
        .route("/v1/children", get(children))
        .route("/v1/znode", get(znode))
        .route("/v1/sessions/{action}", post(act))
        .layer(middleware::from_fn_with_state(access.clone(), access::by_token));
    let mut open = Router::new().route("/v1/login", post(login));
    for File { path, kind, text } in FILES {
        let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")];
        open = open.route(path, get(async move || (headers, text)));
    }
    open.merge(guarded)
        .fallback(async |uri: Uri| Refusal::Nowhere(uri))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| Refusal::Method(method, uri))
        .layer(middleware::from_fn(gather_body))
        .layer(middleware::from_fn(access::by_site))
        .layer(middleware::from_fn_with_state(access, access::by_name))
        .layer(middleware::from_fn(with_headers))
        .with_state(pages)
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().extend(HEADERS);
    response
}

/// The token that a person has typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

async fn login(
    State(pages): State<Pages>,
    Extension(guest): Extension<Guest>,
    headers: HeaderMap,
    login: Result<Json<Login>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(Login { token }) = login?;
    if let Some(cookie) = pages.access.cookie(&headers, &token) {
        access::let_in(Some(&guest));
        return Ok(([(SET_COOKIE, cookie)], Json(json!({ "let_in": true }))).into_response());
    }
    pages.access.wrong_token().await;
    Err(Refusal::NoToken)
}

/// What the console is. A page asks for it to learn why it has no live state: a stream that is refused
/// tells it nothing.
async fn about(State(pages): State<Pages>) -> Json<Value> {
    let refusal = pages.shared.hub.is_full().then(|| Crowded.to_string());
    Json(json!({ "zoolet": env!("CARGO_PKG_VERSION"), "no_view": refusal }))
}

/// The live state, by server-sent events.
async fn look(State(pages): State<Pages>) -> Result<Response, Refusal> {
    let viewer = pages.shared.hub.view()?;
    Ok(events::stream(&pages.shared.hub, Listener::Viewer(viewer)))
}

/// What a reader wants of what happens to znodes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wanted {
    filter: String,
    /// Names with commas between them.
    kinds: String,
    /// The id of the last message that it has received.
    after: Option<u64>,
}

/// What happens to znodes, by server-sent events.
async fn feed(
    State(pages): State<Pages>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(Wanted { filter, kinds, after }) = wanted?;
    let shared = &pages.shared;
    let reader = shared.feed.read(shared.hub.visit(), Filter::new(&filter, &kinds), after)?;
    Ok(events::stream(&shared.hub, Listener::Reader(reader)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    path: String,
    /// The name after which to go on.
    after: Option<String>,
}

type Asked = Result<Query<Place>, QueryRejection>;

async fn children(State(pages): State<Pages>, asked: Asked) -> Result<Json<Value>, Refusal> {
    let Query(Place { path, after }) = asked?;
    tree::checked(&path)?;
    let shared = &pages.shared;
    let _visit = shared.hub.visit();
    let client = shared.link.client().await.map_err(Unread::from)?;
    let max = shared.scan.children_max;
    let page = shared.lists.page(&client, &path, after.as_deref(), max);
    Ok(Json(tree::in_time(&path, page).await?))
}

async fn znode(State(pages): State<Pages>, asked: Asked) -> Result<Json<Value>, Refusal> {
    let Query(Place { path, .. }) = asked?;
    tree::checked(&path)?;
    let _visit = pages.shared.hub.visit();
    let client = pages.shared.link.client().await.map_err(Unread::from)?;
    Ok(Json(tree::in_time(&path, tree::znode(&client, &path)).await?))
}

/// What is done to a session, by the test control.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Expire,
    Cut,
    Freeze,
    Thaw,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    session: String,
}

async fn act(
    State(pages): State<Pages>,
    action: Result<Path<Action>, PathRejection>,
    subject: Result<Json<Subject>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let faults = pages.shared.faults.as_ref().ok_or(Refusal::ReadOnly)?;
    let (Path(action), Json(Subject { session })) = (action?, subject?);
    let id = session_id(&session).ok_or_else(|| Refusal::NoSession(session.clone()))?;
    let aim = faults.at(id);
    tracing::info!("the console does to the session {id}: {action:?}");
    match action {
        Action::Expire => drop(aim.expire()?),
        Action::Cut => drop(aim.cut()?),
        // It stays until it is thawed.
        Action::Freeze => drop(aim.freeze()?),
        Action::Thaw => aim.thaw(),
    }
    Ok(Json(json!({ "done": true })))
}

/// A session as the page names it.
fn session_id(text: &str) -> Option<SessionId> {
    let digits = text.strip_prefix("0x")?;
    // A sign would be read too.
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let id = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some(SessionId(id.cast_signed()))
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "{0:?} is no name of this console; ask for its IP address, or allow the name with --allow-host \
         (--console-allow-host of zoolet serve) and a token"
    )]
    Host(String),
    #[error("this console needs its token")]
    NoToken,
    #[error(
        "a page of another site may link to the page of this console, and ask for nothing else"
    )]
    Foreign,
    #[error(transparent)]
    Crowded(#[from] Crowded),
    #[error("{0}")]
    Json(#[from] JsonRejection),
    #[error("{0}")]
    Query(#[from] QueryRejection),
    #[error("nothing is at {0}")]
    Nowhere(Uri),
    #[error("{0} is not for {1}")]
    Method(Method, Uri),
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error(
        "this console is read-only; a server for tests lets it act on sessions: zoolet serve --console \
         127.0.0.1:8181 --console-write --test-control 127.0.0.1:0"
    )]
    ReadOnly,
    #[error("{0}; the actions are expire, cut, freeze and thaw")]
    Action(#[from] PathRejection),
    #[error("{0:?} is no session; it is named as 0x and hexadecimal digits")]
    NoSession(String),
    #[error(transparent)]
    Fault(#[from] FaultError),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Host(_) | Self::Foreign | Self::ReadOnly | Self::Unread(Unread::NoAuth(_)) => {
                StatusCode::FORBIDDEN
            }
            Self::NoToken => StatusCode::UNAUTHORIZED,
            Self::Crowded(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Json(rejection) => rejection.status(),
            Self::Query(rejection) => rejection.status(),
            Self::Nowhere(_)
            | Self::Unread(Unread::NoNode(_))
            | Self::Action(_)
            | Self::Fault(FaultError::UnknownSession { .. }) => StatusCode::NOT_FOUND,
            Self::Fault(_) => StatusCode::CONFLICT,
            Self::Method(..) => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoSession(_) | Self::Unread(Unread::Path(..) | Unread::TooMany { .. }) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Unread(Unread::Slow(_)) => StatusCode::GATEWAY_TIMEOUT,
            Self::Unread(Unread::Failure(_)) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), Json(json!({ "error": self.to_string() }))).into_response()
    }
}

/// Where a browser on this machine finds the console.
pub(super) fn url(address: SocketAddr) -> String {
    let host = match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_owned(),
        ip if ip.is_unspecified() => "[::1]".to_owned(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    format!("http://{host}:{}/", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_hexadecimal_digits_and_nothing_else() {
        assert_eq!(session_id("0x1f"), Some(SessionId(0x1f)));
        assert_eq!(session_id("0xFFFFFFFFFFFFFFFF"), Some(SessionId(-1)));
        for other in ["", "7", "0x", "0x+5", "0x-5", "0x1_0", "0x10000000000000000", "+0x5"] {
            assert_eq!(session_id(other), None, "{other}");
        }
    }
}
