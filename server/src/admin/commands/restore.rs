//! `restore`: replaces the state of the server by a snapshot that the client sends.

use std::future::poll_fn;
use std::io::{self, Read};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::{Buf, Bytes};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{Told, answer, error, rate_limited, switched_off};
use crate::admin::server::{Admin, json};
use crate::backup::{self, BackupError};
use crate::engine::audit::Administrator;
use crate::limits::HTTP_SNAPSHOT_BYTES_MAX;

const COMMAND: &str = "restore";

/// The answer; `body` is the snapshot.
pub(super) async fn run(admin: &Admin, administrator: Administrator, body: Body) -> Response {
    let stats = &admin.engine.stats;
    if !admin.config.restore_enabled {
        return switched_off(COMMAND);
    }
    if !admin.restores.allow(admin.engine.clock.now_ms()) {
        stats.restores_rate_limited.add(1);
        return rate_limited(admin.restores.interval(), COMMAND);
    }
    let (sender, receiver) = channel(1);
    let received = receive(body, sender, admin.config.idle_timeout);
    let snapshot = Received { chunks: receiver, rest: Bytes::new(), is_over: false };
    let engine = Arc::clone(&admin.engine);
    let restored = backup::restore(engine, Box::new(snapshot), Some(administrator));
    // What is received ends when nobody reads it any more.
    match tokio::join!(received, restored).1 {
        Ok(zxid) => json(|out| {
            answer(out, COMMAND, |object| {
                object.field("last_zxid", zxid.0)?;
                Ok(Told::Values)
            })
        }),
        Err(busy @ BackupError::Busy) => {
            stats.restores_rate_limited.add(1);
            error(StatusCode::TOO_MANY_REQUESTS, COMMAND, &busy.to_string())
        }
        Err(failure) => {
            stats.restore_errors.add(1);
            error(StatusCode::INTERNAL_SERVER_ERROR, COMMAND, &failure.to_string())
        }
    }
}

/// Passes the body on, until its end or until nobody reads it.
async fn receive(body: Body, sender: Sender<io::Result<Bytes>>, idle_timeout: Duration) {
    let mut body = pin!(body);
    let mut bytes = 0;
    loop {
        let frame = poll_fn(|context| body.as_mut().poll_frame(context));
        let chunk = match tokio::time::timeout(idle_timeout, frame).await {
            Ok(None) => {
                // An empty chunk is the end.
                let _ = sender.send(Ok(Bytes::new())).await;
                return;
            }
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => Ok(data),
                // Trailers.
                Err(_) => continue,
            },
            Ok(Some(Err(error))) => Err(io::Error::other(error)),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("nothing came for {idle_timeout:?}"),
            )),
        };
        bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        let chunk = match bytes {
            ..=HTTP_SNAPSHOT_BYTES_MAX => chunk,
            _ => Err(io::Error::other(format!(
                "it is longer than {HTTP_SNAPSHOT_BYTES_MAX} bytes; start the server with it in the \
                 data directory"
            ))),
        };
        let is_over = chunk.is_err();
        if sender.send(chunk).await.is_err() || is_over {
            return;
        }
    }
}

/// The snapshot, for the thread that reads it.
#[derive(Debug)]
struct Received {
    chunks: Receiver<io::Result<Bytes>>,
    rest: Bytes,
    is_over: bool,
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && !self.is_over {
            self.rest = match self.chunks.blocking_recv() {
                Some(chunk) => chunk?,
                // The request was dropped before its end.
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            self.is_over = self.rest.is_empty();
        }
        let count = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
