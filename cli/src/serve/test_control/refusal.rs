//! Why the test control refuses a request, with the cure.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use zoolet_testkit::{FaultError, TestEnsembleError};

use super::request::BadRequest;

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
    #[error(
        "this is one server without others; `zoolet serve --servers 3 --test-control 127.0.0.1:0` \
         starts an ensemble for tests"
    )]
    NoEnsemble,
    #[error(
        "there is no server {server:?} among {count}: servers are named by their numbers, from 0 on, \
         and the one that leads also by \"leader\""
    )]
    NoServer { server: String, count: usize },
    #[error(transparent)]
    Ensemble(#[from] TestEnsembleError),
    #[error("the ensemble is not {what} after {} ms; GET /v1/servers shows its state", .within.as_millis())]
    NotSo { what: &'static str, within: Duration },
    #[error("nothing is at {0}; GET / tells what there is")]
    Nowhere(Uri),
    #[error("{method} is not for {uri}; GET / tells what is")]
    Method { method: Method, uri: Uri },
    #[error("the server is ending")]
    Ending,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Json(rejection) => rejection.status(),
            Self::Query(rejection) => rejection.status(),
            Self::Path(rejection) => rejection.status(),
            Self::NoHit { .. } | Self::NotSo { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::FaultRequest(_)
            | Self::Fault(FaultError::TooLong(_) | FaultError::Path { .. } | FaultError::NoError) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Fault(FaultError::Stopped)
            | Self::Ending
            | Self::NoEnsemble
            | Self::Ensemble(_) => StatusCode::CONFLICT,
            Self::Fault(FaultError::Reset(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Fault(_) | Self::NoFault(_) | Self::NoServer { .. } | Self::Nowhere(_) => {
                StatusCode::NOT_FOUND
            }
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), Json(json!({ "error": self.to_string() }))).into_response()
    }
}
