//! Watches as values: awaited for what happens, forgotten when dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use zoolet_protocol::{EventType, OpCode, WatchedEvent, Zxid};

use super::Client;
use super::error::Error;
use super::watches::{Cell, Heard, Kind, WaiterId};

/// What a watch told.
///
/// ```
/// use zoolet_client::Event;
/// use zoolet_client::protocol::{EventType, Zxid};
///
/// let event = Event { event_type: EventType::NODE_DELETED, path: "/a".into(), zxid: Zxid(7) };
/// assert_eq!(event.event_type.to_string(), "NodeDeleted");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub event_type: EventType,
    /// To which znode, as the client names it.
    pub path: String,
    /// The change that it comes from; -1 from servers before 3.9, and for what happened while there was
    /// no connection. A server to which the client connects later has seen this change. Where there is
    /// no zxid, only a reply that came after the event, over the same connection, gives that certainty.
    pub zxid: Zxid,
}

/// One part of a program that watches.
#[derive(Debug)]
struct Watching {
    client: Client,
    /// As the server names it.
    path: String,
    kind: Kind,
    cell: Arc<Cell>,
}

impl Watching {
    fn poll(&self, context: &Context<'_>) -> Poll<Result<Event, Error>> {
        Poll::Ready(match ready!(self.cell.poll_heard(WaiterId::ONLY, context)) {
            Heard::Event(zxid, WatchedEvent { event_type, path, .. }) => {
                let path = self.client.local_path(path.text().unwrap_or_default());
                Ok(Event { event_type, path, zxid })
            }
            Heard::NotSent => {
                Err(Error::NotSent { op: OpCode::SET_WATCHES, path: self.path.clone() })
            }
            Heard::SessionLost => Err(Error::SessionExpired),
            Heard::Closed => Err(Error::Closed),
        })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.client.shared().with(|session, now| {
            session.unwatch(&self.path, self.kind, &self.cell, now);
        });
    }
}

/// A watch that tells of one change: a future. It survives reconnects within the session, and what
/// happened meanwhile is told then.
///
/// Dropping it forgets it, here and, as soon as no other watch of this client on the path needs the
/// registration, on the server. Other watches of the path are not affected.
#[derive(Debug)]
#[must_use = "a watch that is dropped is forgotten"]
pub struct Watcher(Watching);

impl Watcher {
    pub(crate) fn new(client: Client, path: String, kind: Kind, cell: Arc<Cell>) -> Self {
        Self(Watching { client, path, kind, cell })
    }
}

impl Future for Watcher {
    type Output = Result<Event, Error>;

    /// [`Error::SessionExpired`] when the session is over, [`Error::Closed`] when the client is.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

/// A watch that tells of every change until it is dropped: `addWatch`.
#[derive(Debug)]
#[must_use = "a watch that is dropped is forgotten"]
pub struct PersistentWatcher(Watching);

impl PersistentWatcher {
    pub(crate) fn new(client: Client, path: String, kind: Kind, cell: Arc<Cell>) -> Self {
        Self(Watching { client, path, kind, cell })
    }

    /// The next change. What happened while there was no connection is not told: look again after
    /// [`ConnectionState::Reconnected`](super::ConnectionState::Reconnected).
    ///
    /// # Errors
    ///
    /// [`Error::SessionExpired`] when the session is over, [`Error::Closed`] when the client is.
    ///
    /// # Cancellation
    ///
    /// Safe: no event is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Event, Error> {
        std::future::poll_fn(|context| self.0.poll(context)).await
    }
}
