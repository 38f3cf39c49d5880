//! The handlers of the test control for the servers of an ensemble: their lag, the links between
//! them, their processes and their leader.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zoolet_testkit::{EnsembleServer, ServerRole, TestEnsemble, TestEnsembleError};

use super::control::{Answer, Control, Given};
use super::refusal::Refusal;
use super::request::BadRequest;

/// A state of the ensemble that an answer waits for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Until {
    /// A leader can commit writes.
    Serving,
    /// Each server has applied all that is committed.
    CaughtUp,
}

/// How long an answer about the ensemble is delayed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wait {
    until: Option<Until>,
    within_ms: u64,
}

impl Default for Wait {
    fn default() -> Self {
        Self { until: None, within_ms: 10_000 }
    }
}

pub(super) async fn show(
    State(control): State<Control>,
    wait: Result<Query<Wait>, QueryRejection>,
) -> Answer {
    let Query(Wait { until, within_ms }) = wait?;
    let ensemble = control.subject.ensemble()?;
    let within = Duration::from_millis(within_ms);
    let (waited, what) = match until {
        None => (Ok(()), ""),
        Some(Until::Serving) => (tokio::time::timeout(within, ensemble.serving()).await, "serving"),
        Some(Until::CaughtUp) => {
            (tokio::time::timeout(within, ensemble.caught_up()).await, "caught up")
        }
    };
    waited.map_err(|_| Refusal::NotSo { what, within })?;
    Ok(Json(json!({
        "leader": ensemble.leader(),
        "epoch": ensemble.epoch(),
        "serving": ensemble.is_serving(),
        "zxid": ensemble.committed_zxid().to_string(),
        "servers": ensemble.servers().iter().map(shown).collect::<Vec<_>>(),
    })))
}

fn shown(server: &EnsembleServer) -> Value {
    json!({
        "server": server.index(),
        "address": server.connect_string(),
        "role": role(server.role()),
        "zxid": server.last_zxid().to_string(),
        "behind": server.behind(),
    })
}

fn role(role: ServerRole) -> &'static str {
    match role {
        ServerRole::Leader => "leader",
        ServerRole::Follower => "follower",
        ServerRole::ReadOnly => "read_only",
        ServerRole::Stopped => "stopped",
        // A role that is not known here serves nobody.
        _ => "looking",
    }
}

/// How a follower lags: one of these.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LagRequest {
    by_ms: Option<u64>,
    by_transactions: Option<usize>,
    hold: Option<bool>,
}

pub(super) async fn lag(
    State(control): State<Control>,
    name: Path<String>,
    request: Given<LagRequest>,
) -> Answer {
    let Json(request) = request?;
    act(&control, &name, |server| {
        match request {
            LagRequest { by_ms: Some(ms), by_transactions: None, hold: None } => {
                server.lag_by(Duration::from_millis(ms));
            }
            LagRequest { by_ms: None, by_transactions: Some(count), hold: None } => {
                server.lag_by_count(count);
            }
            LagRequest { by_ms: None, by_transactions: None, hold: Some(true) } => server.hold(),
            _ => return Err(BadRequest::NotOneLag.into()),
        }
        Ok(())
    })
}

pub(super) async fn release(State(control): State<Control>, name: Path<String>) -> Answer {
    act(&control, &name, |server| {
        server.release();
        Ok(())
    })
}

pub(super) async fn cut_off(State(control): State<Control>, name: Path<String>) -> Answer {
    act(&control, &name, |server| {
        server.cut_off();
        Ok(())
    })
}

pub(super) async fn rejoin(State(control): State<Control>, name: Path<String>) -> Answer {
    act(&control, &name, |server| {
        server.rejoin();
        Ok(())
    })
}

pub(super) async fn stop(State(control): State<Control>, name: Path<String>) -> Answer {
    act(&control, &name, |server| {
        server.stop();
        Ok(())
    })
}

pub(super) async fn start(State(control): State<Control>, name: Path<String>) -> Answer {
    act(&control, &name, |server| {
        server.start();
        Ok(())
    })
}

pub(super) async fn elect(State(control): State<Control>, name: Path<String>) -> Answer {
    let ensemble = control.subject.ensemble()?;
    act(&control, &name, |server| Ok(ensemble.elect(server.index())?))
}

/// The servers that reach each other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartitionRequest {
    groups: Vec<Vec<usize>>,
}

pub(super) async fn partition(
    State(control): State<Control>,
    request: Given<PartitionRequest>,
) -> Answer {
    let Json(PartitionRequest { groups }) = request?;
    let ensemble = control.subject.ensemble()?;
    let mut named = vec![false; ensemble.len()];
    for server in groups.iter().flatten() {
        let count = ensemble.len();
        let name = named.get_mut(*server);
        let name = name.ok_or_else(|| Refusal::NoServer { server: server.to_string(), count })?;
        if std::mem::replace(name, true) {
            return Err(BadRequest::InTwoGroups(*server).into());
        }
    }
    let groups: Vec<&[usize]> = groups.iter().map(Vec::as_slice).collect();
    ensemble.partition(&groups);
    Ok(Json(json!({ "groups": groups })))
}

pub(super) async fn unite(State(control): State<Control>) -> Answer {
    control.subject.ensemble()?.partition(&[]);
    Ok(Json(json!({ "groups": [] })))
}

/// Does something to a server, and shows it.
fn act(
    control: &Control,
    name: &str,
    act: impl FnOnce(&EnsembleServer) -> Result<(), Refusal>,
) -> Answer {
    let server = named(control.subject.ensemble()?, name)?;
    act(&server)?;
    Ok(Json(shown(&server)))
}

/// The server with a number, or the one that leads.
fn named(ensemble: &TestEnsemble, name: &str) -> Result<EnsembleServer, Refusal> {
    if name == "leader" {
        let leader = ensemble.leader().ok_or(TestEnsembleError::NoLeader)?;
        return Ok(ensemble.server(leader));
    }
    let count = ensemble.len();
    let number = name.parse().ok().filter(|number| *number < count);
    let number = number.ok_or_else(|| Refusal::NoServer { server: name.to_owned(), count })?;
    Ok(ensemble.server(number))
}
