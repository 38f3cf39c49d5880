//! The handlers of the test control.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Uri};
use axum::response::IntoResponse;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zoolet_testkit::{ConnectionInfo, Fault};

use super::description;
use super::refusal::Refusal;
use super::request::{FaultRequest, Target};
use super::subject::Subject;

/// The state that all requests share.
#[derive(Debug, Clone)]
pub(super) struct Control {
    pub(super) subject: Subject,
    /// The faults that were set here and not lifted, by their ids.
    set: Arc<Mutex<BTreeMap<u64, Set>>>,
    last: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Set {
    request: FaultRequest,
    /// One on each server that it concerns.
    faults: Vec<Fault>,
}

pub(super) type Answer = Result<Json<Value>, Refusal>;
pub(super) type Given<T> = Result<Json<T>, JsonRejection>;
type GivenId = Result<Path<u64>, PathRejection>;

impl Control {
    pub(super) fn new(subject: Subject) -> Self {
        Self { subject, set: Arc::default(), last: Arc::default() }
    }

    fn shown(&self, id: u64) -> Result<Json<Value>, Refusal> {
        let set = self.set.lock();
        set.get(&id).map(|set| Json(set.shown(id))).ok_or(Refusal::NoFault(id))
    }
}

impl Set {
    fn shown(&self, id: u64) -> Value {
        json!({ "id": id, "hits": total(&self.faults), "request": self.request })
    }
}

fn total(faults: &[Fault]) -> u64 {
    faults.iter().map(Fault::hits).sum()
}

/// Waits until faults have hit so often together.
async fn have_hit(faults: &[Fault], hits: u64) {
    while total(faults) < hits {
        let next = |fault: &Fault| {
            let (fault, next) = (fault.clone(), fault.hits() + 1);
            Box::pin(async move { fault.has_hit(next).await })
        };
        let mut nexts: Vec<_> = faults.iter().map(next).collect();
        // One of them has hit between the sum and here, or hits now.
        if total(faults) < hits {
            poll_fn(|context| {
                let mut polls = nexts.iter_mut().map(|next| next.as_mut().poll(context));
                if polls.any(|poll| poll.is_ready()) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
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
    let connections = control.subject.connections()?;
    let shown = |(server, connection): &(usize, ConnectionInfo)| {
        let session = Some(connection.session).filter(|session| !session.is_none());
        json!({
            "id": connection.id.0,
            "session": session.map(|session| session.to_string()),
            "address": connection.address.map(|address| address.to_string()),
            "server": server,
        })
    };
    Ok(Json(connections.iter().map(shown).collect()))
}

pub(super) async fn expire(State(control): State<Control>, target: Given<Target>) -> Answer {
    let Json(target) = target?;
    Ok(Json(json!({ "expired": control.subject.expire(target)? })))
}

pub(super) async fn cut(State(control): State<Control>, target: Given<Target>) -> Answer {
    let Json(target) = target?;
    Ok(Json(json!({ "cut": control.subject.cut(target)? })))
}

pub(super) async fn set(State(control): State<Control>, request: Given<FaultRequest>) -> Answer {
    let Json(request) = request?;
    request.check()?;
    let faults = control.subject.set(&request)?;
    let id = control.last.fetch_add(1, Ordering::Relaxed) + 1;
    control.set.lock().insert(id, Set { request, faults });
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
    let faults = control.set.lock().get(&id).map(|set| set.faults.clone());
    let faults = faults.ok_or(Refusal::NoFault(id))?;
    tokio::time::timeout(Duration::from_millis(within_ms), have_hit(&faults, hits))
        .await
        .map_err(|_| Refusal::NoHit { id, hits: total(&faults), within_ms })?;
    control.shown(id)
}

pub(super) async fn lift(State(control): State<Control>, id: GivenId) -> Answer {
    let Path(id) = id?;
    let set = control.set.lock().remove(&id).ok_or(Refusal::NoFault(id))?;
    set.faults.iter().for_each(Fault::lift);
    Ok(Json(set.shown(id)))
}

pub(super) async fn heal(State(control): State<Control>) -> Json<Value> {
    let lifted = std::mem::take(&mut *control.set.lock()).len();
    control.subject.heal();
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
    let advance = Duration::from_millis(request.advance_ms);
    control.subject.advance(advance, request.wall_skew_ms)?;
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
    control.subject.restart(Duration::from_millis(request.down_ms)).await?;
    Ok(Json(json!({ "restarted": true })))
}

pub(super) async fn reset(State(control): State<Control>) -> Answer {
    let subject = control.subject.clone();
    // With a data directory it waits for the disk.
    let reset = tokio::task::spawn_blocking(move || subject.reset()).await;
    reset.map_err(|_| Refusal::Ending)??;
    control.set.lock().clear();
    Ok(Json(json!({ "reset": true })))
}
