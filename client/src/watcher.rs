//! Watches as values: awaiting one gives its event, dropping it removes it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use zoolet_protocol::{EventType, OpCode, WatchedEvent, Zxid};

use super::Client;
use super::error::Error;
use super::watches::{EventQueue, WaiterId, WatchKind, WatchUpdate};

/// An event: what happened to a znode that is watched.
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
    /// The path of the znode, as the client names it.
    pub path: String,
    /// The zxid of the change; -1 from servers before 3.9, and for what happened while there was no
    /// connection. After a reconnect the client accepts only a server that has applied this change.
    /// Without a zxid, only a reply that came after the event over the same connection gives that
    /// certainty.
    pub zxid: Zxid,
}

/// The watcher behind both public types.
struct Watching {
    client: Client,
    /// The path as the server names it.
    path: String,
    kind: WatchKind,
    queue: Arc<EventQueue>,
}

impl Watching {
    fn poll(&self, context: &Context<'_>) -> Poll<Result<Event, Error>> {
        let update = ready!(self.queue.poll_next(WaiterId::ONLY, context));
        Poll::Ready(read_update(&self.client, &self.path, update))
    }
}

/// What arrived in the queue of a watch of this path, as the client names paths.
pub(crate) fn read_update(
    client: &Client,
    watched: &str,
    update: WatchUpdate,
) -> Result<Event, Error> {
    match update {
        WatchUpdate::Event(zxid, WatchedEvent { event_type, path, .. }) => {
            let path = client.local_path(path.text().unwrap_or_default());
            Ok(Event { event_type, path, zxid })
        }
        WatchUpdate::NotRegistered => {
            Err(Error::NotSent { op: OpCode::SET_WATCHES, path: watched.to_owned() })
        }
        WatchUpdate::SessionExpired => Err(Error::SessionExpired),
        WatchUpdate::Closed => Err(Error::Closed),
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.client.shared().with(|session, now| {
            session.unwatch(&self.path, self.kind, &self.queue, now);
        });
    }
}

/// A one-shot watch: a future of the next event.
///
/// It survives reconnects within the session: what happened meanwhile is reported after the
/// reconnect. Dropping it removes it, on the server too as soon as no other watch of this client on
/// the path needs it there. Other watches of the path are not affected.
///
/// ```no_run
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// use zoolet_client::Watched;
///
/// let Watched { found: (data, _stat), watcher } = client.get("/config").and_watch().await?;
/// println!("{data:?}");
/// let event = watcher.await?; // the next change after what was read
/// println!("{} {}", event.event_type, event.path);
/// # Ok(())
/// # }
/// ```
#[must_use = "a watch that is dropped is removed"]
pub struct Watcher(Watching);

impl Watcher {
    pub(crate) fn new(
        client: Client,
        path: String,
        kind: WatchKind,
        queue: Arc<EventQueue>,
    ) -> Self {
        Self(Watching { client, path, kind, queue })
    }
}

impl Future for Watcher {
    type Output = Result<Event, Error>;

    /// [`Error::SessionExpired`] when the session expires, [`Error::Closed`] when the client is
    /// closed.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

/// A watch that reports every change until it is dropped (`addWatch`, ZooKeeper 3.6 and later).
///
/// Events wait in memory until they are taken, however many there are, as in ZooKeeper's client: take
/// them as they come, or drop the watcher.
///
/// ```no_run
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// use zoolet_client::protocol::WatchMode;
///
/// let mut watcher = client.watch("/app", WatchMode::PERSISTENT_RECURSIVE).await?;
/// loop {
///     let event = watcher.next().await?;
///     println!("{} {}", event.event_type, event.path);
/// }
/// # }
/// ```
#[must_use = "a watch that is dropped is removed"]
pub struct PersistentWatcher(Watching);

impl PersistentWatcher {
    pub(crate) fn new(
        client: Client,
        path: String,
        kind: WatchKind,
        queue: Arc<EventQueue>,
    ) -> Self {
        Self(Watching { client, path, kind, queue })
    }

    /// The next event. Changes that happened while there was no connection are not reported: read
    /// the znodes again after
    /// [`ConnectionState::Reconnected`](super::ConnectionState::Reconnected).
    ///
    /// # Errors
    ///
    /// [`Error::SessionExpired`] when the session expires, [`Error::Closed`] when the client is
    /// closed.
    ///
    /// # Cancellation
    ///
    /// Safe: no event is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Event, Error> {
        std::future::poll_fn(|context| self.0.poll(context)).await
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for PersistentWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentWatcher")
            .field("path", &self.0.path)
            .field("kind", &self.0.kind)
            .finish_non_exhaustive()
    }
}
