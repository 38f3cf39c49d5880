//! Server-sent events: the connection of a viewer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::hub::{Hub, Viewer};
use super::limits::{HEARTBEAT, MESSAGE_SPACING};

/// The answer that goes on as long as the viewer looks.
pub(super) fn stream(hub: &Hub, viewer: Viewer) -> Response {
    // What a viewer has not read waits in its queue, where there is a limit.
    let (sender, receiver) = mpsc::channel(1);
    let hub = hub.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = send(&viewer, &sender) => {}
            () = sender.closed() => {}
            () = hub.end().cancelled() => {}
        }
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, Body::new(Messages(receiver))).into_response()
}

async fn send(viewer: &Viewer, sender: &Sender<Bytes>) {
    loop {
        let next = tokio::time::timeout(HEARTBEAT, viewer.next()).await;
        let message = next.unwrap_or(Bytes::from_static(b": nothing has changed\n\n"));
        if sender.send(message).await.is_err() {
            return;
        }
        tokio::time::sleep(MESSAGE_SPACING).await;
    }
}

/// The messages, as the body of an answer.
struct Messages(Receiver<Bytes>);

impl hyper::body::Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}
