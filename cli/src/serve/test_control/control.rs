//! The handlers of the test control.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use zoolet_testkit::{Fault, FaultError, Faults};

use super::description;
use super::request::{BadRequest, FaultRequest, Target};

/// The state that all requests share.
#[derive(Debug, Clone)]
pub(super) struct Control {
    faults: Faults,
    /// The faults that were set here and not lifted, by their ids.
    set: Arc<Mutex<BTreeMap<u64, Set>>>,
    last: Arc<AtomicU64>,
    restarts: mpsc::Sender<Restart>,
}

#[derive(Debug)]
struct Set {
    request: FaultRequest,
    fault: Fault,
}

/// A request to stop the server and to start it again after some time.
#[derive(Debug)]
pub(in super::super) struct Restart {
    pub(in super::super) down: Duration,
    /// Completed when the server listens again.
    pub(in super::super) done: oneshot::Sender<()>,
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{0}")]
    Json(#[from] JsonRejection),
    #[error("{0}")]
    Query(#[from] QueryRejection),
    #[error("{0}; a fault is named by its id, a number as GET /v1/faults lists it")]
    Path(#[from] PathRejection),
    #[error(transparent)]
    FaultRequest(#[from] BadRequest),
    #[error(transparent)]
    Fault(#[from] FaultError),
    #[error("fault {id} has hit {hits} times within {within_ms} ms")]
    NoHit { id: u64, hits: u64, within_ms: u64 },
    #[error("fault {0} is not set; GET /v1/faults lists those that are")]
    NoFault(u64),
    #[error("nothing is at {0}; GET / tells what there is")]
    Nowhere(Uri),
    #[error("{method} is not for {uri}; GET / tells what is")]
    Method { method: Method, uri: Uri },
    #[error("the server is ending")]
    Ending,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Json(rejection) => rejection.status(),
            Self::Query(rejection) => rejection.status(),
            Self::Path(rejection) => rejection.status(),
            Self::NoHit { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::FaultRequest(_)
            | Self::Fault(FaultError::TooLong(_) | FaultError::Path { .. } | FaultError::NoError) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Fault(FaultError::Stopped) | Self::Ending => StatusCode::CONFLICT,
            Self::Fault(FaultError::Reset(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Fault(_) | Self::NoFault(_) | Self::Nowhere(_) => StatusCode::NOT_FOUND,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
        };
        (status, Json(json!({ "error": self.to_string() }))).into_response()
    }
}

type Answer = Result<Json<Value>, Refusal>;
type Given<T> = Result<Json<T>, JsonRejection>;
type GivenId = Result<Path<u64>, PathRejection>;

impl Control {
    pub(super) fn new(faults: Faults, restarts: mpsc::Sender<Restart>) -> Self {
        Self { faults, set: Arc::default(), last: Arc::default(), restarts }
    }

    fn shown(&self, id: u64) -> Result<Json<Value>, Refusal> {
        let set = self.set.lock();
        set.get(&id).map(|set| Json(set.shown(id))).ok_or(Refusal::NoFault(id))
    }
}

impl Set {
    fn shown(&self, id: u64) -> Value {
        json!({ "id": id, "hits": self.fault.hits(), "request": self.request })
    }
}

/// Names the routes, and where their description is.
pub(super) async fn help() -> Json<Value> {
    Json(json!({
        "zoolet": env!("CARGO_PKG_VERSION"),
        "description": description::PATH,
        "routes": description::summaries(),
    }))
}

pub(super) async fn describe() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], description::TEXT)
}

pub(super) async fn unknown(uri: Uri) -> Refusal {
    Refusal::Nowhere(uri)
}

pub(super) async fn unknown_method(method: Method, uri: Uri) -> Refusal {
    Refusal::Method { method, uri }
}

pub(super) async fn connections(State(control): State<Control>) -> Answer {
    let connections = control.faults.connections()?;
    let shown = |connection: &zoolet_testkit::ConnectionInfo| {
        let session = Some(connection.session).filter(|session| !session.is_none());
        json!({
            "id": connection.id.0,
            "session": session.map(|session| session.to_string()),
            "address": connection.address.map(|address| address.to_string()),
        })
    };
    Ok(Json(connections.iter().map(shown).collect()))
}

pub(super) async fn expire(State(control): State<Control>, target: Given<Target>) -> Answer {
    let expired = target?.aim(&control.faults)?.expire()?;
    Ok(Json(json!({ "expired": expired })))
}

pub(super) async fn cut(State(control): State<Control>, target: Given<Target>) -> Answer {
    let cut = target?.aim(&control.faults)?.cut()?;
    Ok(Json(json!({ "cut": cut })))
}

pub(super) async fn set(State(control): State<Control>, request: Given<FaultRequest>) -> Answer {
    let Json(request) = request?;
    request.check()?;
    let fault = request.set(&control.faults)?;
    let id = control.last.fetch_add(1, Ordering::Relaxed) + 1;
    control.set.lock().insert(id, Set { request, fault });
    control.shown(id)
}

pub(super) async fn faults(State(control): State<Control>) -> Json<Value> {
    Json(control.set.lock().iter().map(|(id, set)| set.shown(*id)).collect())
}

/// How long an answer about a fault is delayed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wait {
    /// How often the fault must have hit.
    hits: u64,
    within_ms: u64,
}

impl Default for Wait {
    fn default() -> Self {
        Self { hits: 0, within_ms: 10_000 }
    }
}

pub(super) async fn fault(
    State(control): State<Control>,
    id: GivenId,
    wait: Result<Query<Wait>, QueryRejection>,
) -> Answer {
    let Path(id) = id?;
    let Query(Wait { hits, within_ms }) = wait?;
    let fault = control.set.lock().get(&id).map(|set| set.fault.clone());
    let fault = fault.ok_or(Refusal::NoFault(id))?;
    tokio::time::timeout(Duration::from_millis(within_ms), fault.has_hit(hits))
        .await
        .map_err(|_| Refusal::NoHit { id, hits: fault.hits(), within_ms })?;
    control.shown(id)
}

pub(super) async fn lift(State(control): State<Control>, id: GivenId) -> Answer {
    let Path(id) = id?;
    let set = control.set.lock().remove(&id).ok_or(Refusal::NoFault(id))?;
    set.fault.lift();
    Ok(Json(set.shown(id)))
}

pub(super) async fn heal(State(control): State<Control>) -> Json<Value> {
    let lifted = std::mem::take(&mut *control.set.lock()).len();
    control.faults.heal();
    Json(json!({ "lifted": lifted }))
}

/// A request to move the server's clocks.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TimeRequest {
    advance_ms: u64,
    wall_skew_ms: Option<i64>,
}

pub(super) async fn time(State(control): State<Control>, request: Given<TimeRequest>) -> Answer {
    let Json(request) = request?;
    if let Some(ms) = request.wall_skew_ms {
        control.faults.skew_wall_time(ms)?;
    }
    control.faults.advance(Duration::from_millis(request.advance_ms))?;
    Ok(Json(json!(request)))
}

/// A request to restart the server.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RestartRequest {
    down_ms: u64,
}

pub(super) async fn restart(
    State(control): State<Control>,
    request: Given<RestartRequest>,
) -> Answer {
    let Json(request) = request?;
    let (done, is_done) = oneshot::channel();
    let restart = Restart { down: Duration::from_millis(request.down_ms), done };
    control.restarts.send(restart).await.map_err(|_| Refusal::Ending)?;
    is_done.await.map_err(|_| Refusal::Ending)?;
    Ok(Json(json!({ "restarted": true })))
}

pub(super) async fn reset(State(control): State<Control>) -> Answer {
    let faults = control.faults.clone();
    // With a data directory it waits for the disk.
    let reset = tokio::task::spawn_blocking(move || faults.reset()).await;
    reset.map_err(|_| Refusal::Ending)??;
    control.set.lock().clear();
    Ok(Json(json!({ "reset": true })))
}
