//! Watches on znodes that are known to exist, left without reading them.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use zoolet_protocol::{EventType, OpCode, Zxid};

use super::SessionClient;
use crate::Client;
use crate::error::Error;
use crate::operation::Sent;
use crate::session::WatchRegistration;
use crate::watches::{EventQueue, WaiterId, WatchKind, WatchUpdate};

/// What a [`ZnodeWatch`] reports of its znode.
///
/// ```
/// use zoolet_client::recipe::WatchFor;
///
/// assert_ne!(WatchFor::Deletion, WatchFor::ChangeAndDeletion);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchFor {
    /// The deletion of an ephemeral znode, and not the changes of its data. It is a child watch: an
    /// ephemeral has no children, so nothing else fires it, except that a server reports
    /// [`NODE_CHILDREN_CHANGED`](zoolet_protocol::EventType::NODE_CHILDREN_CHANGED) when the watch is
    /// registered, or registered again after a reconnect, and another znode has the name by then.
    Deletion,
    /// The next change of the znode's data, and its deletion as an event of its own, also where one
    /// multi does both. It is a data watch and a child watch: the change fires the one, and the
    /// deletion the other.
    ChangeAndDeletion,
}

impl WatchFor {
    fn kinds(self) -> &'static [WatchKind] {
        match self {
            Self::Deletion => &[WatchKind::Child],
            Self::ChangeAndDeletion => &[WatchKind::Data, WatchKind::Child],
        }
    }
}

/// A watch on one znode, made by [`SessionClient::watch_znodes`]. Dropping it removes it.
///
/// Several tasks may wait for the same watch, each with a [`WaiterId`] of its own. All of them are
/// woken by an event, and the first that polls takes it.
///
/// ```no_run
/// use std::future::poll_fn;
///
/// use zoolet_client::Error;
/// use zoolet_client::protocol::{EventType, Zxid};
/// use zoolet_client::recipe::{SessionClient, WaiterId, WatchFor};
///
/// # async fn example(session: SessionClient, czxid: Zxid) -> Result<(), Error> {
/// let ([watch], sent) = session.watch_znodes([("/members/a", WatchFor::Deletion)], czxid);
/// sent.await?;
/// let (_zxid, event) = poll_fn(|context| watch.poll_event(WaiterId::ONLY, context)).await?;
/// assert_eq!(event, EventType::NODE_DELETED);
/// # Ok(())
/// # }
/// ```
#[must_use = "a watch that is dropped is removed"]
pub struct ZnodeWatch {
    client: Client,
    /// The path as the server names it.
    path: Arc<str>,
    kinds: &'static [WatchKind],
    queue: Arc<EventQueue>,
}

impl ZnodeWatch {
    /// The next event of the znode, with the zxid of the change, -1 from servers before 3.9.
    ///
    /// # Errors
    ///
    /// An error that [is retryable](Error::is_retryable) if the watch was not registered for want
    /// of a connection; [`Error::SessionExpired`] and [`Error::Closed`] when the watch ended. That the request
    /// is [too long](Error::TooLong) is told by its [`Sent`] only.
    pub fn poll_event(
        &self,
        waiter: WaiterId,
        context: &Context<'_>,
    ) -> Poll<Result<(Zxid, EventType), Error>> {
        self.queue.poll_next(waiter, context).map(|update| self.event(update))
    }

    /// Forgets a task that waited in [`ZnodeWatch::poll_event`] and does not any more.
    pub fn forget_waiter(&self, waiter: WaiterId) {
        self.queue.forget_waiter(waiter);
    }

    /// The next event if it has arrived, as of [`ZnodeWatch::poll_event`].
    #[must_use]
    pub fn take_event(&self) -> Option<Result<(Zxid, EventType), Error>> {
        self.queue.try_next().map(|update| self.event(update))
    }

    fn event(&self, update: WatchUpdate) -> Result<(Zxid, EventType), Error> {
        match update {
            WatchUpdate::Event(zxid, event) => Ok((zxid, event.event_type)),
            WatchUpdate::NotRegistered => {
                Err(Error::NotSent { op: OpCode::SET_WATCHES, path: self.path.to_string() })
            }
            WatchUpdate::SessionExpired => Err(Error::SessionExpired),
            WatchUpdate::Closed => Err(Error::Closed),
        }
    }
}

impl Drop for ZnodeWatch {
    fn drop(&mut self) {
        // Where all its watches have fired, or none was sent, there is none to remove. Then nobody else
        // may have the queue any more, who could add one.
        if Arc::strong_count(&self.queue) == 1 || !self.queue.abandon() {
            return;
        }
        self.client.shared().with(|session, now| {
            for kind in self.kinds {
                session.unwatch(&self.path, *kind, &self.queue, now);
            }
        });
    }
}

impl fmt::Debug for ZnodeWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZnodeWatch").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SessionClient {
    /// Watches znodes that existed at the zxid `seen`, all with one request (`setWatches`) that
    /// reads none of them. What has happened to them since `seen` is reported before the reply.
    ///
    /// The request has its place in line when this returns; the watches count from its reply.
    pub fn watch_znodes<const N: usize>(
        &self,
        znodes: [(&str, WatchFor); N],
        seen: Zxid,
    ) -> ([ZnodeWatch; N], Sent<()>) {
        let watches = znodes.map(|(path, watch_for)| ZnodeWatch {
            client: self.client().clone(),
            path: self.client().server_path(path).into(),
            kinds: watch_for.kinds(),
            queue: Arc::new(EventQueue::of_one_znode()),
        });
        let registrations = watches.iter().flat_map(|watch| {
            let registration = |kind: &WatchKind| WatchRegistration {
                path: Arc::clone(&watch.path),
                kind: *kind,
                queue: Arc::clone(&watch.queue),
            };
            watch.kinds.iter().map(registration)
        });
        let sent = self.client().send_watches(registrations.collect(), seen, self.id());
        (watches, sent)
    }
}
