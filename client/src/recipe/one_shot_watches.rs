//! One-shot watches on many znodes, with one queue for their events.

use std::fmt;
use std::sync::Arc;

use zoolet_protocol::{Read, Request, Watch};

use crate::Client;
use crate::error::Error;
use crate::operation::{Operation, Sent};
use crate::reads::kind_of_watch;
use crate::session::WatchRegistration;
use crate::watcher::{Event, read_update};
use crate::watches::{EventQueue, WaiterId, WatchKind};

/// One-shot watches on many znodes, whose events come in the order of their arrival: for whoever
/// follows a tree on a server without persistent watches. [`Client::one_shot_watches`] makes it.
///
/// The watches are left by reads, and survive reconnects within the session. The first error is the end
/// of the session: another of these is needed then.
///
/// Dropping this costs no request: the server keeps the watches until each fires, unheard, or until the
/// connection ends.
///
/// ```no_run
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let watches = client.one_shot_watches();
/// let (one, two) = (watches.send(client.get("/one")), watches.send(client.children("/two")));
/// println!("{:?} {:?}", one.await?, two.await?);
/// println!("then {:?}", watches.next().await?);
/// # Ok(())
/// # }
/// ```
#[must_use = "no events are delivered once it is dropped"]
pub struct OneShotWatches {
    client: Client,
    queue: Arc<EventQueue>,
}

impl Client {
    /// No watches yet.
    pub fn one_shot_watches(&self) -> OneShotWatches {
        let queue = Arc::default();
        self.shared().with(|session, _now| session.tell_of_end(&queue));
        OneShotWatches { client: self.clone(), queue }
    }
}

impl OneShotWatches {
    /// Sends a read now, which leaves a watch as [`Operation::and_watch`] does, unless such a watch is
    /// there. Any other request is sent as it is. The read must be of this client.
    pub fn send<T>(&self, mut read: Operation<T>) -> Sent<T> {
        let Ok(Request::Read(Read::Lookup(lookup))) = &read.request else { return read.send() };
        let (lookup, kind) = (lookup.clone(), kind_of_watch(lookup));
        let path = lookup.path().text().unwrap_or_default().to_owned();
        if self.has(&path, kind) {
            return read.send();
        }
        read.request = Ok(Request::Watch(Watch::Lookup(lookup)));
        let queue = Arc::clone(&self.queue);
        read.send_with(Some(WatchRegistration { path: path.into(), kind, queue }))
    }

    /// Whether there is a watch for the children of a znode that has not fired.
    #[must_use]
    pub fn has_child_watch(&self, path: &str) -> bool {
        self.has(&self.client.server_path(path), WatchKind::Child)
    }

    fn has(&self, server_path: &str, kind: WatchKind) -> bool {
        self.client.shared().inspect(|session| session.has_watch(server_path, kind, &self.queue))
    }

    /// The next event. Its watch is gone.
    ///
    /// # Errors
    ///
    /// [`Error::SessionExpired`] when the session has expired, [`Error::Closed`] when the client is
    /// closed.
    ///
    /// # Cancellation
    ///
    /// Safe: no event is lost when the future is dropped. Only one task may wait.
    pub async fn next(&self) -> Result<Event, Error> {
        let next =
            std::future::poll_fn(|context| self.queue.poll_next(WaiterId::ONLY, context)).await;
        read_update(&self.client, "", next)
    }
}

impl Drop for OneShotWatches {
    fn drop(&mut self) {
        self.client.shared().with(|session, _now| session.forget_one_shots(&self.queue));
    }
}

impl fmt::Debug for OneShotWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneShotWatches").finish_non_exhaustive()
    }
}
