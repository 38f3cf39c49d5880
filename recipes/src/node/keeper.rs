//! The task of a node: has the znode, watches over it, writes its data, has it again when it is
//! gone, and deletes it at the end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zoolet_protocol::{ErrorCode, SessionId, Zxid};

use super::creating::Attempt;
use super::error::NodeError;
use super::limits::{
    BACK_OFF_MAX, BACK_OFF_MIN, BACK_OFF_STEPS, FORMER_SESSIONS_MAX, STABLE_AFTER,
};
use super::plan::AtClose;
use super::report::{Present, Registered, Shared};
use super::siblings::{Sibling, Siblings};
use super::writing::{Writing, Written, has_ephemeral};
use crate::client::recipe::{SessionClient, ZnodeIdentity, now};
use crate::client::{self, Client, RetryPolicy, Watched};
use crate::line::place::Place;
use crate::lock::held_lock::{HeldLock, LockHandle};

/// The task of a node.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    client: Client,
    /// Cancelled when the node is closed or dropped.
    closing: CancellationToken,
    /// The sessions of the client in which the node made attempts, and that are over.
    former: Vec<SessionId>,
    /// The czxid of the last znode that the node had.
    last: Option<Zxid>,
    /// How many attempts failed in a row.
    failures: u32,
    /// How many znodes in a row were deleted soon after they were there, while their session lived.
    deletions: u32,
    /// Whether the last attempt ended without an answer to its create.
    is_unsure: bool,
    /// The version of the last znode of another session that was seen to have the name.
    others_version: Option<i32>,
    /// The nodes of the same client and path, where only the number tells the znodes apart.
    siblings: Option<(Arc<Siblings>, Sibling)>,
}

/// A znode that the node has.
enum Having {
    /// An ephemeral is held as a lock is: by a place that belongs to one session.
    Ephemeral(LockHandle),
    /// Any other znode outlives sessions.
    Lasting { path: String, czxid: Zxid },
}

/// Why the node does not have its znode any more.
enum Ended {
    Lost,
    Closing,
    ClientClosed,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>, closing: CancellationToken) -> Self {
        let client = shared.plan.client.clone();
        let siblings = shared.plan.is_numbered_alone();
        let siblings = siblings.then(|| (Siblings::of(&client, &shared.plan.path), Sibling::new()));
        Self {
            shared,
            client,
            closing,
            former: Vec::new(),
            last: None,
            failures: 0,
            deletions: 0,
            is_unsure: false,
            others_version: None,
            siblings,
        }
    }

    /// Has the znode until the node or the client is closed.
    pub(super) async fn run(mut self) {
        // If the runtime ends first, the client ends with it.
        let closed = CloseOnDrop(Arc::clone(&self.shared));
        let result = self.keep().await;
        closed.0.closed(result);
    }

    async fn keep(&mut self) -> Result<(), NodeError> {
        loop {
            let connected = tokio::select! {
                biased;
                () = self.closing.cancelled() => return Ok(()),
                connected = self.client.connected_session() => connected,
            };
            let session = match connected {
                Ok(session) => session,
                Err(client::Error::Closed) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let wanted = self.shared.wanted.borrow().clone();
            let known = self.shared.status.borrow().path.clone();
            let attempt = Attempt {
                plan: &self.shared.plan,
                session: &session,
                known: known.as_deref(),
                former: &self.former,
                last: self.last,
                data: &wanted.data,
                is_unsure: self.is_unsure,
                others_version: &mut self.others_version,
                siblings: self.siblings.as_ref().map(|(siblings, node)| (&**siblings, *node)),
            };
            // It is not cut short: see the module `creating`.
            let result = attempt.run().await;
            self.note_session(session.id());
            self.is_unsure = result.as_ref().is_err_and(NodeError::is_for_want_of_connection);
            match result {
                Ok(registered) => {
                    self.failures = 0;
                    self.others_version = None;
                    if let ControlFlow::Break(result) =
                        self.have(&session, registered, wanted.revision).await
                    {
                        return result;
                    }
                }
                Err(NodeError::Client(client::Error::Closed)) => return Ok(()),
                Err(error) if error.is_for_want_of_connection() => {
                    self.shared.failed(wanted.revision, error);
                }
                Err(NodeError::Occupied { path, owner }) => {
                    let error = NodeError::Occupied { path: path.clone(), owner };
                    self.shared.failed(wanted.revision, error);
                    self.wait_until_gone(&session, &path, owner).await;
                }
                Err(error) => {
                    tracing::warn!("{}: cannot have the znode: {error}", self.shared.plan.path);
                    self.shared.failed(wanted.revision, error);
                    self.failures += 1;
                    self.pause(self.failures).await;
                }
            }
        }
    }

    /// Remembers a session in which the node may have created its znode.
    fn note_session(&mut self, session: SessionId) {
        if self.former.last() == Some(&session) {
            return;
        }
        if self.former.len() == FORMER_SESSIONS_MAX {
            self.former.remove(0);
        }
        self.former.push(session);
    }

    /// Publishes the znode and watches over it until it is lost or the node is closed.
    async fn have(
        &mut self,
        session: &SessionClient,
        registered: Registered,
        revision: u64,
    ) -> ControlFlow<Result<(), NodeError>> {
        let (path, czxid) = (registered.path.clone(), registered.czxid);
        self.last = Some(czxid);
        let having = if self.shared.plan.is_ephemeral() {
            let place = Place::of_common_name(session, path, czxid);
            Having::Ephemeral(LockHandle::new(session.clone(), czxid, [place], Vec::new()))
        } else {
            Having::Lasting { path, czxid }
        };
        let held = match &having {
            Having::Ephemeral(handle) => Some(Arc::clone(handle.lock())),
            Having::Lasting { .. } => None,
        };
        self.shared.registered(Present { registered, held }, revision);
        let start = now();
        let ended = match &having {
            Having::Ephemeral(handle) => self.watch_ephemeral(handle.lock(), czxid).await,
            Having::Lasting { path, czxid } => self.watch_lasting(path, *czxid).await,
        };
        match ended {
            Ended::ClientClosed => ControlFlow::Break(Err(client::Error::Closed.into())),
            Ended::Closing => ControlFlow::Break(self.end(having).await),
            Ended::Lost => {
                // Nothing is deleted: the place knows that its znode is gone.
                drop(having);
                self.shared.lost();
                let was_stable = now().duration_since(start) >= STABLE_AFTER;
                let was_deleted = session.is_current() && !was_stable;
                self.deletions = if was_deleted { self.deletions + 1 } else { 0 };
                if self.deletions > 1 {
                    self.pause(self.deletions - 1).await;
                }
                ControlFlow::Continue(())
            }
        }
    }

    /// Writes new data until the ephemeral is lost or the node is closed.
    async fn watch_ephemeral(&self, held: &HeldLock, czxid: Zxid) -> Ended {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Ended::Closing,
            () = held.lost_for_good() => Ended::Lost,
            () = self.write_until_lost(Some(held.session()), held.path(), czxid) => {
                // Another znode may have the name by now: the place must not delete it.
                held.with_place(|place| place.note_gone());
                Ended::Lost
            }
        }
    }

    /// Writes new data until the znode is lost or the node is closed.
    async fn watch_lasting(&self, path: &str, czxid: Zxid) -> Ended {
        // A write fires the watch before it is answered: the two must not end each other, or the
        // write would be repeated for ever.
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Ended::Closing,
            ended = self.look_until_lost(path, czxid) => ended,
            () = self.write_until_lost(None, path, czxid) => Ended::Lost,
        }
    }

    /// Watches a znode that outlives sessions until it is gone or another one has its name.
    async fn look_until_lost(&self, path: &str, czxid: Zxid) -> Ended {
        loop {
            match self.client.exists(path).and_watch().await {
                Ok(Watched { found: Some(stat), watcher }) if stat.czxid == czxid => {
                    // Whatever it says, the next look shows what is so.
                    let _ = watcher.await;
                }
                Ok(_) => return Ended::Lost,
                Err(client::Error::Closed) => return Ended::ClientClosed,
                Err(error) => {
                    tracing::debug!("{path}: cannot watch it: {error}");
                    self.wait_for(BACK_OFF_MIN).await;
                }
            }
        }
    }

    /// Writes new data until the znode is found not to be the node's own any more; in this session, or
    /// in whatever session there is. A refusal is published, and the data is written again after a
    /// pause.
    async fn write_until_lost(&self, session: Option<&SessionClient>, path: &str, czxid: Zxid) {
        let mut writing = Writing::new(&self.client, session, path, czxid);
        loop {
            let written = self.shared.status.borrow().written;
            let mut changes = self.shared.wanted.subscribe();
            let next = changes.wait_for(|wanted| wanted.revision > written).await;
            let Some(wanted) = next.ok().map(|wanted| wanted.clone()) else {
                unreachable!("the task has the sender");
            };
            match writing.write(&wanted.data).await {
                Ok(Written::Yes) => self.shared.written(wanted.revision),
                Ok(Written::NotOwn) => return,
                Err(NodeError::Client(client::Error::Closed)) => {
                    return std::future::pending().await;
                }
                Err(error) => {
                    let is_new = changes.has_changed();
                    self.shared.failed(wanted.revision, error);
                    if !is_new {
                        let _ = tokio::time::timeout(BACK_OFF_MAX, changes.changed()).await;
                    }
                }
            }
        }
    }

    /// Waits until the znode that has the name is gone or belongs to another session.
    async fn wait_until_gone(&mut self, session: &SessionClient, path: &str, owner: SessionId) {
        loop {
            let looked = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                looked = session.exists(path).and_watch() => looked,
            };
            match looked {
                Ok(Watched { found: Some(stat), watcher }) if stat.ephemeral_owner == owner => {
                    self.others_version = Some(stat.version);
                    tokio::select! {
                        biased;
                        () = self.closing.cancelled() => return,
                        heard = watcher => if heard.is_err() { return },
                    }
                }
                Ok(_) => return,
                // The next attempt waits for a connection, or says what is wrong.
                Err(_) => return self.wait_for(BACK_OFF_MIN).await,
            }
        }
    }

    /// What happens to the znode at the end.
    async fn end(&self, having: Having) -> Result<(), NodeError> {
        match (self.shared.plan.at_close, having) {
            (AtClose::Delete, Having::Ephemeral(handle)) => match handle.into_place() {
                Ok((place, _)) => {
                    let path = place.path().to_owned();
                    delete_ephemeral(place).await?;
                    if let Some((siblings, node)) = &self.siblings {
                        siblings.give_back(*node, &self.client, &path);
                    }
                    Ok(())
                }
                Err(_) => unreachable!("the task has the only handle"),
            },
            (AtClose::Delete, Having::Lasting { path, czxid }) => {
                self.delete_lasting(&path, czxid).await
            }
            (AtClose::Keep, Having::Ephemeral(handle)) => {
                if let Ok((place, _)) = handle.into_place() {
                    place.note_deleted();
                }
                Ok(())
            }
            (AtClose::Keep, Having::Lasting { .. }) => Ok(()),
        }
    }

    /// Deletes the znode if it is the node's own, in whatever session there is.
    async fn delete_lasting(&self, path: &str, czxid: Zxid) -> Result<(), NodeError> {
        loop {
            let mut states = self.client.state();
            let session = self.client.connected_session().await?;
            let own = Some(ZnodeIdentity::Czxid(czxid));
            match session.delete_in_background(path, own).await {
                Err(client::Error::SessionExpired) => {}
                // The server serves reads only: this waits for another one.
                Err(error) if error.is(ErrorCode::NOT_READ_ONLY) => {
                    let _ = states.changed().await;
                }
                deleted => return Ok(deleted?),
            }
        }
    }

    /// Waits before the next attempt: longer, the more of them failed in a row. It comes at once when
    /// the connection changes: another server may not refuse what one refused that serves reads only.
    async fn pause(&self, failures: u32) {
        let mut states = self.client.state();
        let policy =
            RetryPolicy::bounded_exponential_backoff(BACK_OFF_MIN, BACK_OFF_MAX, BACK_OFF_STEPS);
        let retried = failures.saturating_sub(1).min(BACK_OFF_STEPS - 1);
        let pause = self.client.retry_delay(&policy, retried, Duration::ZERO);
        tokio::select! {
            biased;
            _ = states.changed() => {}
            () = self.wait_for(pause.unwrap_or(BACK_OFF_MAX)) => {}
        }
    }

    async fn wait_for(&self, time: Duration) {
        let _ = tokio::time::timeout(time, self.closing.cancelled()).await;
    }
}

/// Publishes that the node is closed when its task ends, also if the runtime ends first.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.closed(Err(client::Error::Closed.into()));
    }
}

/// Deletes an ephemeral if it is the place's own: others may create znodes of its name. It is no
/// error if it is gone, with its session or before.
async fn delete_ephemeral(place: Place) -> Result<(), NodeError> {
    let (session, path) = (place.session().clone(), place.path().to_owned());
    let own = ZnodeIdentity::Czxid(place.token());
    place.note_deleted();
    let deleted = match session.delete_in_background(&path, Some(own)).await {
        // Nothing of the znode may be read, but the server tells what the session has.
        Err(error) if error.is(ErrorCode::NO_AUTH) => match has_ephemeral(&session, &path).await {
            Ok(Some(true)) => session.delete_in_background(&path, None).await,
            Ok(Some(false)) => Ok(()),
            Ok(None) => Err(error),
            Err(error) => Err(error),
        },
        deleted => deleted,
    };
    match deleted {
        Err(client::Error::SessionExpired | client::Error::Closed) => Ok(()),
        deleted => Ok(deleted?),
    }
}
