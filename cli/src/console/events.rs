//! Server-sent events: the connection of one who looks.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::feed::Reader;
use super::hub::{Hub, Viewer};
use super::limits::{FEED_SPACING, HEARTBEAT, MESSAGE_SPACING};

/// Who receives messages.
pub(super) enum Listener {
    /// Of the state.
    Viewer(Viewer),
    /// Of what happens to znodes.
    Reader(Reader),
}

impl Listener {
    async fn next(&mut self) -> Bytes {
        match self {
            Self::Viewer(viewer) => viewer.next().await,
            Self::Reader(reader) => reader.next().await,
        }
    }

    /// The shortest time between two messages.
    fn spacing(&self) -> Duration {
        match self {
            Self::Viewer(_) => MESSAGE_SPACING,
            Self::Reader(_) => FEED_SPACING,
        }
    }
}

/// The answer that goes on as long as somebody listens.
pub(super) fn stream(hub: &Hub, mut listener: Listener) -> Response {
    // What a viewer has not read waits in its queue, where there is a limit.
    let (sender, receiver) = mpsc::channel(1);
    let hub = hub.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = send(&mut listener, &sender) => {}
            () = sender.closed() => {}
            () = hub.end().cancelled() => {}
        }
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, Body::new(Messages(receiver))).into_response()
}

async fn send(listener: &mut Listener, sender: &Sender<Bytes>) {
    loop {
        let next = tokio::time::timeout(HEARTBEAT, listener.next()).await;
        let message = next.unwrap_or(Bytes::from_static(b"event: heartbeat\ndata: {}\n\n"));
        if sender.send(message).await.is_err() {
            return;
        }
        tokio::time::sleep(listener.spacing()).await;
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
