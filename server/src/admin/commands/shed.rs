//! `shed_connections`: closes a part of the connections, so that their clients go to other servers.

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::{Told, answer};
use crate::admin::server::{Admin, json};
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_BODY_TIMEOUT};

const COMMAND: &str = "shed_connections";

/// The answer; `body` is `{"percentage": 0 to 100}`.
pub(super) async fn run(admin: &Admin, body: Body) -> Response {
    let body = tokio::time::timeout(HTTP_BODY_TIMEOUT, to_bytes(body, HTTP_BODY_BYTES_MAX)).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return refusal(&invalid(&error)),
        Err(_) => return refusal(&format!("the body did not come within {HTTP_BODY_TIMEOUT:?}")),
    };
    let request: Value = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return refusal(&invalid(&error)),
    };
    let Some(percentage) = request.get("percentage") else {
        return refusal("Missing required field: percentage");
    };
    let Some(percentage) = percentage.as_u64().filter(|&percentage| percentage <= 100) else {
        return refusal("Percentage must be between 0 and 100");
    };
    let shed = shed(admin, percentage);
    tracing::info!("{shed} connections closed of {percentage} % on request");
    json(|out| {
        answer(out, COMMAND, |object| {
            object.field("connections_shed", shed)?;
            object.field("percentage_requested", percentage)?;
            Ok(Told::Values)
        })
    })
}

/// Closes each connection with the probability of the percentage, and returns how many.
fn shed(admin: &Admin, percentage: u64) -> usize {
    let is_shed = || admin.engine.random.fraction() * 100.0 < percentage as f64;
    let peers = admin.engine.registry.peers().into_iter();
    let shed: Vec<_> = peers.filter(|_| is_shed()).collect();
    for peer in &shed {
        peer.outbox.cut();
    }
    shed.len()
}

fn invalid(error: &dyn std::fmt::Display) -> String {
    format!("Invalid JSON or failed to read request body: {error}")
}

fn refusal(reason: &str) -> Response {
    let text = json(|out| {
        answer(out, COMMAND, |object| {
            object.field("error", reason)?;
            Ok(Told::Error)
        })
    });
    (StatusCode::BAD_REQUEST, text).into_response()
}
