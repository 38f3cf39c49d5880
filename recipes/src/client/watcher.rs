//! Watches as values: awaited for what happens, forgotten when dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use zoolet_protocol::{EventType, OpCode, SessionId, WatchedEvent, Zxid};

use super::Client;
use super::error::Error;
use super::operation::Sent;
use super::session::Registration;
use super::watches::{Cell, Heard, Kind, WaiterId};

/// What a watch told.
///
/// ```
/// use zoolet_recipes::client::Event;
/// use zoolet_recipes::protocol::{EventType, Zxid};
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
            Heard::NotSent => Err(not_sent(&self.path)),
            Heard::SessionLost => Err(Error::Lost),
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

    /// [`Error::Lost`] when the session is over, [`Error::Closed`] when the client is.
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
    /// [`Error::Lost`] when the session is over, [`Error::Closed`] when the client is.
    ///
    /// # Cancellation
    ///
    /// Safe: no event is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Event, Error> {
        std::future::poll_fn(|context| self.0.poll(context)).await
    }
}

/// What a place in a line hears of one znode: its changes until it is deleted, and a change that
/// comes with the deletion apart from it.
#[derive(Debug)]
pub(crate) struct ZnodeWatch {
    client: Client,
    path: String,
    kinds: &'static [Kind],
    cell: Arc<Cell>,
}

/// For a znode that is only to stay. An ephemeral has no children, so this hears of its end alone,
/// whatever becomes of its data.
pub(crate) const STAYING: &[Kind] = &[Kind::Child];
/// For a znode whose last change is to be told apart from its deletion: the first fires the one
/// watch, the second the other.
pub(crate) const LEAVING: &[Kind] = &[Kind::Data, Kind::Child];

impl ZnodeWatch {
    /// What happened to the znode next; an error that is retryable when the watch is not there, for want
    /// of a connection.
    pub(crate) fn poll_event(
        &self,
        waiter: WaiterId,
        context: &Context<'_>,
    ) -> Poll<Result<(Zxid, EventType), Error>> {
        self.cell.poll_heard(waiter, context).map(|heard| self.change(heard))
    }

    /// Someone does not wait any more.
    pub(crate) fn forget_waiter(&self, waiter: WaiterId) {
        self.cell.forget_waiter(waiter);
    }

    /// What happened to the znode next, if something did, without waiting for it.
    pub(crate) fn take_event(&self) -> Option<Result<(Zxid, EventType), Error>> {
        self.cell.take_heard().map(|heard| self.change(heard))
    }

    fn change(&self, heard: Heard) -> Result<(Zxid, EventType), Error> {
        match heard {
            Heard::Event(zxid, event) => Ok((zxid, event.event_type)),
            Heard::NotSent => Err(not_sent(&self.path)),
            Heard::SessionLost => Err(Error::Lost),
            Heard::Closed => Err(Error::Closed),
        }
    }
}

/// The watch of a path is not there.
fn not_sent(path: &str) -> Error {
    Error::NotSent { op: OpCode::SET_WATCHES, path: path.to_owned() }
}

impl Drop for ZnodeWatch {
    fn drop(&mut self) {
        self.client.shared().with(|session, now| {
            for kind in self.kinds {
                session.unwatch(&self.path, *kind, &self.cell, now);
            }
        });
    }
}

impl Client {
    /// Watches znodes that were there at `seen`, all with one request and without their data: what
    /// happened since is told before the answer. In this session only.
    pub(crate) fn watch_znodes<const N: usize>(
        &self,
        znodes: [(&str, &'static [Kind]); N],
        seen: Zxid,
        session: SessionId,
    ) -> ([ZnodeWatch; N], Sent<()>) {
        let watches = znodes.map(|(path, kinds)| ZnodeWatch {
            client: self.clone(),
            path: self.server_path(path),
            kinds,
            cell: Arc::new(Cell::default()),
        });
        let registrations = watches.iter().flat_map(|watch| {
            let registration = |kind: &Kind| Registration {
                path: watch.path.clone(),
                kind: *kind,
                cell: Arc::clone(&watch.cell),
            };
            watch.kinds.iter().map(registration)
        });
        let sent = self.send_watches(registrations.collect(), seen, session);
        (watches, sent)
    }
}
