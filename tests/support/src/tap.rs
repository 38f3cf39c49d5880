//! A transport that passes the frames of another transport through a [`Tap`].

use std::task::{Context, Poll};

use bytes::Bytes;
use zoolet_protocol::{Dialing, Disconnected, Transport};

/// Sees, changes or loses the frames of one connection. Each method passes everything on unless it
/// is overridden.
pub(crate) trait Tap: Send + Sync + 'static {
    /// Whether the client may learn that the server is standalone.
    fn shows_single_node(&self) -> bool {
        true
    }

    /// Takes a frame of the client and sends it, or others, over `inner`.
    fn send(&self, frame: Bytes, inner: &dyn Transport) -> Result<(), Disconnected> {
        inner.send(frame)
    }

    /// The client flushes.
    fn flush(&self) {}

    /// Whether the client finds the connection closed, however many frames are left.
    fn is_cut(&self) -> bool {
        false
    }

    /// Takes a frame of the server and returns what the client receives. `None` closes the connection.
    fn receive(&self, frame: Bytes) -> Option<Bytes> {
        Some(frame)
    }
}

/// A connection attempt whose connection passes through `tap`.
pub(crate) fn tapped(dialing: Dialing, tap: impl Tap) -> Dialing {
    Box::pin(async move {
        let transport: Box<dyn Transport> = Box::new(Tapped { inner: dialing.await?, tap });
        Ok(transport)
    })
}

struct Tapped<T> {
    inner: Box<dyn Transport>,
    tap: T,
}

impl<T: Tap> Transport for Tapped<T> {
    fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    fn is_single_node(&self) -> bool {
        self.tap.shows_single_node() && self.inner.is_single_node()
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        self.tap.send(frame, &*self.inner)
    }

    fn flush(&self) -> Result<(), Disconnected> {
        self.tap.flush();
        self.inner.flush()
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.tap.is_cut() {
            return Poll::Ready(None);
        }
        self.inner.poll_receive(context).map(|frame| self.tap.receive(frame?))
    }
}
