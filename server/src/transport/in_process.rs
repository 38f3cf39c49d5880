//! Connections of clients in the same process: no socket, no pipe, no task.
//!
//! The server handles a request on the thread that sends it, and the reply is in the outbox when
//! the call returns. An event that another client causes wakes the receiving side.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use zoolet_protocol::{Dial, Dialing, Disconnected, FrameCodec, Received, Transport};

use crate::engine::connection::Connection;
use crate::engine::lock::Engine;
use crate::engine::outbox::Taken;
use crate::engine::registry::Entrance;

/// Makes connections to a server in the same process. Clones reach the same server.
///
/// It does not keep the server alive: when the server is dropped or shut down, new connections are
/// refused and the connected clients close at once.
///
/// ```
/// use zoolet_protocol::Dial;
/// use zoolet_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let connection = server.dialer().dial().await?;
/// server.shutdown().await;
/// assert!(connection.send(bytes::Bytes::new()).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Dialer {
    engine: Weak<Engine>,
}

impl Dialer {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::downgrade(engine) }
    }

    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let refused = |reason: String| io::Error::new(io::ErrorKind::ConnectionRefused, reason);
        let engine =
            self.engine.upgrade().ok_or_else(|| refused("the server was dropped".into()))?;
        if engine.is_shut_down() {
            return Err(refused("the server is shut down".into()));
        }
        if engine.refuses_connection() {
            return Err(refused("the server's hooks refuse new connections".into()));
        }
        let codec = FrameCodec::new(engine.config.frame_bytes_max);
        let connection = Connection::open(engine, Entrance::IN_PROCESS)
            .map_err(|full| refused(full.to_string()))?;
        Ok(Box::new(LocalTransport { connection: Arc::new(connection), codec }))
    }
}

impl Dial for Dialer {
    fn dial(&self) -> Dialing {
        Box::pin(std::future::ready(self.connect()))
    }

    fn is_gone(&self) -> bool {
        self.engine.upgrade().is_none_or(|engine| engine.is_shut_down())
    }
}

/// The client's end of an in-process connection.
struct LocalTransport {
    connection: Arc<Connection>,
    /// Checks the limit of a frame, as over TCP.
    codec: FrameCodec,
}

impl Transport for LocalTransport {
    fn is_local(&self) -> bool {
        true
    }

    fn is_single_node(&self) -> bool {
        true
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        if !self.connection.peer.outbox.is_open() {
            return Err(Disconnected);
        }
        if let Err(error) = self.codec.check_frame(&frame) {
            self.connection.refuse_frame(&error);
            return Ok(());
        }
        // The sender looks for the reply itself, so the reply does not wake the receiving side. The
        // receiving side learns of the end after the messages before it.
        let _closed = self.connection.peer.outbox.without_waking(|| self.connection.receive(frame));
        Ok(())
    }

    fn flush(&self) -> Result<(), Disconnected> {
        Ok(())
    }

    fn poll_receive_some(
        &self,
        context: &mut Context<'_>,
        frames: &mut VecDeque<Bytes>,
    ) -> Poll<Received> {
        if let Some(received) = self.connection.peer.outbox.take_short(context, frames) {
            return Poll::Ready(received);
        }
        self.poll_receive(context).map(|frame| match frame {
            Some(frame) => {
                frames.push_back(frame);
                Received::Some
            }
            None => Received::Closed,
        })
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let taken = std::task::ready!(self.connection.peer.outbox.poll_take(context));
        Poll::Ready(match taken {
            Taken::Message(message) => Some(message.into_frame()),
            Taken::Over => None,
            Taken::ReadInput => unreachable!("in process there is no socket to read"),
        })
    }
}
