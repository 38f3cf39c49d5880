//! `snapshot`: takes a snapshot, and sends it.

use std::io::{self, Read};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tokio::sync::mpsc::{Sender, channel};

use super::{Chunked, Told, answer, error, rate_limited, switched_off};
use crate::admin::json::Object;
use crate::admin::server::{Admin, json};
use crate::backup::{BackupError, Snapshot, take_snapshot};
use crate::limits::REPORT_CHUNK_BYTES;

const COMMAND: &str = "snapshot";

/// The headers that tell what the snapshot is.
const LAST_ZXID: HeaderName = HeaderName::from_static("last_zxid");
const SNAPSHOT_SIZE: HeaderName = HeaderName::from_static("snapshot_size");

/// The answer; `streaming` is the argument of that name.
pub(super) async fn run(admin: &Admin, streaming: Option<&str>) -> Response {
    let stats = &admin.engine.stats;
    if !admin.config.snapshot_enabled {
        return switched_off(COMMAND);
    }
    if !admin.snapshots.allow(admin.engine.clock.now_ms()) {
        stats.snapshots_rate_limited.add(1);
        return rate_limited(admin.snapshots.interval(), COMMAND);
    }
    let snapshot = match take_snapshot(std::sync::Arc::clone(&admin.engine)).await {
        Ok(snapshot) => snapshot,
        Err(BackupError::Busy) => {
            stats.snapshots_rate_limited.add(1);
            let reason = BackupError::Busy.to_string();
            return error(StatusCode::TOO_MANY_REQUESTS, COMMAND, &reason);
        }
        Err(failure) => {
            if let Some(storage) = &stats.storage {
                storage.snapshot_errors.add(1);
            }
            tracing::warn!("no snapshot on request: {failure}");
            return error(StatusCode::INTERNAL_SERVER_ERROR, COMMAND, &failure.to_string());
        }
    };
    let told = [
        (LAST_ZXID, HeaderValue::from_str(&snapshot.zxid().to_string())),
        (SNAPSHOT_SIZE, Ok(HeaderValue::from(snapshot.length()))),
    ];
    let mut response = match streaming.is_none_or(|text| text.eq_ignore_ascii_case("true")) {
        true => stream(snapshot),
        false => plain(),
    };
    for (name, value) in told {
        response.headers_mut().extend(value.map(|value| (name, value)));
    }
    response
}

/// An answer without values.
fn plain() -> Response {
    json(|out| answer(out, COMMAND, |_: &mut Object<'_>| Ok(Told::Values)))
}

fn stream(snapshot: Snapshot) -> Response {
    let length = HeaderValue::from(snapshot.length());
    let (sender, receiver) = channel(1);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = read_to(snapshot, &sender) {
            tracing::warn!("a snapshot cannot be read to its end: {error}");
            // The client sees that something is missing.
            let _ = sender.blocking_send(Err(error));
        }
    });
    let content_type = HeaderValue::from_static("application/octet-stream");
    let headers = [(header::CONTENT_TYPE, content_type), (header::CONTENT_LENGTH, length)];
    (headers, Body::new(Chunked(receiver))).into_response()
}

fn read_to(mut snapshot: Snapshot, sender: &Sender<io::Result<Bytes>>) -> io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(REPORT_CHUNK_BYTES);
        if snapshot.by_ref().take(REPORT_CHUNK_BYTES as u64).read_to_end(&mut chunk)? == 0 {
            return Ok(());
        }
        if sender.blocking_send(Ok(chunk.into())).is_err() {
            // The client has closed the connection.
            return Ok(());
        }
    }
}
