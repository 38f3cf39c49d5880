//! What the two recipes for leaders have in common: terms, participants, and how a candidate waits
//! in line for a term.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::{MultiOp, MultiResult, Zxid};

use crate::attempts::Attempts;
use crate::client::recipe::{Publisher, SessionClient};
use crate::client::{self, Client, ConnectionState};
use crate::error::LockError;
use crate::lock::guard::Guard;
use crate::lock::held_lock::{self, HeldLock};
use crate::lock::line_lock::LineLock;
use crate::lock::owner::Owner;
use crate::lock::registry::Registered;
use crate::lock::state::LockState;

/// How long to wait before a candidate that could not enter the line tries again.
pub(crate) const ENTER_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The time in which one participant leads.
///
/// ```no_run
/// # async fn example(term: zoolet_recipes::Term) -> Result<(), zoolet_recipes::LockError> {
/// println!("{} leads with token {}", term.path(), term.fencing_token());
/// term.transaction(vec![]).await?; // refused if another leads by now
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Term {
    session: SessionClient,
    path: String,
    token: Zxid,
    held: Weak<HeldLock>,
    /// What a selector enters the line by again.
    queue: Option<Arc<Queue>>,
}

/// When a term ends (`ConnectionStateErrorPolicy` of Curator).
///
/// ```
/// use zoolet_recipes::ErrorPolicy;
///
/// assert_eq!(ErrorPolicy::default(), ErrorPolicy::Session);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ErrorPolicy {
    /// When another participant may lead: the session may have ended. A disconnect that is shorter
    /// than the proof of the session ends nothing. It takes the place of Curator's
    /// `SessionConnectionStateErrorPolicy`, whose leader may lead on beside the next one for a while.
    #[default]
    Session,
    /// Also at once when the connection is lost, as by Curator's default,
    /// `StandardConnectionStateErrorPolicy`. The place in line stays: after the reconnect the latch
    /// leads again, if its session has survived.
    Connection,
}

impl ErrorPolicy {
    /// Whether a client may lead by this policy, as far as its connection is concerned.
    pub(crate) fn admits(self, client: &Client) -> bool {
        self == Self::Session || client.state().borrow().is_some_and(ConnectionState::is_connected)
    }

    /// Waits until the connection does not admit a leader any more.
    pub(crate) async fn until_not_admitted(self, client: &Client) {
        match self {
            Self::Session => std::future::pending().await,
            Self::Connection => {
                let is_lost = |state: &Option<ConnectionState>| {
                    !state.is_some_and(ConnectionState::is_connected)
                };
                // The sender lives as long as the client.
                let _ = client.state().wait_for(is_lost).await;
            }
        }
    }
}

/// By what a selector that does not enter the line by itself is asked to.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Whether the task waits in line, or is asked to after its present term.
    is_queued: AtomicBool,
    asked: Notify,
}

impl Queue {
    /// The queue of a task that waits in line.
    pub(crate) fn new() -> Self {
        Self { is_queued: AtomicBool::new(true), asked: Notify::new() }
    }

    /// Asks the task to enter the line again. Returns `false` if it is asked already.
    pub(crate) fn ask(&self) -> bool {
        let was_queued = self.is_queued.swap(true, Ordering::AcqRel);
        if !was_queued {
            self.asked.notify_one();
        }
        !was_queued
    }

    /// The task leads now, and does not wait in line any more.
    pub(crate) fn left(&self) {
        self.is_queued.store(false, Ordering::Release);
    }

    /// Waits until the task is asked. What was asked for since it left the line counts.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }
}

impl Term {
    pub(crate) fn new(guard: &Guard) -> Self {
        let held = guard.handle.lock();
        Self {
            session: held.session().clone(),
            path: held.path().to_owned(),
            token: held.token(),
            held: Arc::downgrade(held),
            queue: None,
        }
    }

    /// The same term, whose function can have its selector enter the line again.
    pub(crate) fn with_queue(self, queue: &Arc<Queue>) -> Self {
        Self { queue: Some(Arc::clone(queue)), ..self }
    }

    /// Has the selector enter the line again, behind all others, when its function has returned:
    /// [`LeaderSelector::requeue`](crate::LeaderSelector::requeue), from within the function.
    /// Returns `false` if it does that anyway.
    pub fn requeue(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.ask())
    }

    /// The fencing token: the zxid of the transaction that created the leader's znode. It is
    /// greater than that of every term before.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.token
    }

    /// The leader's znode.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Carries out writes only if the term lasts then: the server checks the leader's znode in the
    /// same multi. Returns the results of the writes.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the term is over; the refusal of an operation.
    pub async fn transaction(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, LockError> {
        held_lock::transaction(&self.session, std::slice::from_ref(&self.path), ops).await
    }

    /// Whether the participant still leads.
    pub(crate) fn is_held(&self) -> bool {
        self.held.upgrade().is_some_and(|held| held.state() == LockState::Held)
    }
}

/// A participant of an election.
///
/// ```
/// use zoolet_recipes::Participant;
///
/// let participant = Participant { id: "host-1".into(), path: "/leader/x".into(), leads: true };
/// assert!(participant.leads);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// The id that it was started with.
    pub id: String,
    /// Its znode.
    pub path: String,
    /// Whether it is the first in line.
    pub leads: bool,
}

/// All participants, in their order.
pub(crate) async fn participants(lock: &LineLock) -> Result<Vec<Participant>, LockError> {
    let all = lock.line.participants_with_data(lock.line.kind.marker).await?;
    let participant = |(place, (path, id)): (usize, (String, Bytes))| Participant {
        id: String::from_utf8_lossy(&id).into_owned(),
        leads: place == 0,
        path,
    };
    Ok(all.into_iter().enumerate().map(participant).collect())
}

/// The task of a candidate. It is aborted when this is dropped.
#[derive(Debug)]
pub(crate) struct Task {
    close: Option<oneshot::Sender<()>>,
    handle: AbortOnDropHandle<Result<(), LockError>>,
}

impl Task {
    /// Spawns a future that returns when it is asked to close.
    pub(crate) fn spawn<F>(client: &Client, run: impl FnOnce(Closing) -> F) -> Self
    where
        F: Future<Output = Result<(), LockError>> + Send + 'static,
    {
        let (close, closing) = oneshot::channel();
        let handle = client.spawn(run(Closing(closing)));
        Self { close: Some(close), handle: AbortOnDropHandle::new(handle) }
    }

    /// Asks the task to close, and waits until it has.
    pub(crate) async fn close(mut self) -> Result<(), LockError> {
        if let Some(close) = self.close.take() {
            // A task that has returned needs no request.
            let _ = close.send(());
        }
        match (&mut self.handle).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime has ended, and the client with it.
            Err(_) => Err(LockError::Client(client::Error::Closed)),
        }
    }
}

/// Ready when a candidate is asked to close. It must not be awaited again after that.
pub(crate) struct Closing(oneshot::Receiver<()>);

impl Closing {
    pub(crate) async fn closed(&mut self) {
        // When the sender is dropped, the task is aborted anyway.
        let _ = (&mut self.0).await;
    }

    /// Waits for this long. Returns whether the candidate is asked to close in this time.
    pub(crate) async fn within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.closed()).await.is_ok()
    }
}

/// How a candidacy ended.
pub(crate) enum Candidacy {
    /// The candidate leads.
    Leads(Guard),
    /// The candidate was asked to close, and its znode is deleted.
    Closed(Result<(), LockError>),
    /// The candidate could not enter the line.
    Failed(LockError),
}

/// Enters the line and waits until the place is in front and its session is proved to be alive, or
/// until the candidate is asked to close.
pub(crate) async fn wait_to_lead(lock: &LineLock, closing: &mut Closing) -> Candidacy {
    let registration = match lock.register(Owner::new()) {
        Ok(Registered::New(registration)) => registration,
        Ok(Registered::Held(_)) => unreachable!("a new owner holds nothing"),
        Err(error) => return Candidacy::Failed(error),
    };
    let mut attempts = Attempts::new(&lock.line.client);
    loop {
        let mut entering = pin!(lock.line.enter());
        let (entered, is_closing) = tokio::select! {
            biased;
            entered = &mut entering => (entered, false),
            // Only the reply shows whether there is a znode to delete.
            () = closing.closed() => tokio::select! {
                biased;
                entered = &mut entering => (entered, true),
                () = without_session(&lock.line.client) => return Candidacy::Closed(Ok(())),
            },
        };
        let (mut place, at) = match entered {
            Ok((place, _)) if is_closing => return Candidacy::Closed(place.delete().await),
            Err(error) if is_closing => return Candidacy::Closed(Err(error)),
            Ok(entered) => entered,
            Err(error) => return Candidacy::Failed(error),
        };
        let waited = tokio::select! {
            biased;
            waited = lock.line.wait_until_held(&mut place, at) => waited,
            () = closing.closed() => return Candidacy::Closed(place.delete().await),
        };
        match waited {
            Ok(()) => return Candidacy::Leads(lock.guard(place, registration)),
            // The next session enters the line again.
            Err(LockError::PlaceLost(_)) => {
                drop(place);
                attempts.wait_after_lost_place().await;
            }
            Err(error) => return Candidacy::Failed(error),
        }
    }
}

/// Waits until there is no session, and so no ephemeral znode of it.
async fn without_session(client: &Client) {
    let mut state = client.state();
    while !client.session_id().is_none() {
        if state.changed().await.is_err() {
            return;
        }
    }
}

/// Publishes a term while it is held and the policy admits a leader, until it is lost for good.
pub(crate) async fn publish_while_held(
    guard: &Guard,
    own: &Term,
    term: &Publisher<Option<Term>>,
    policy: ErrorPolicy,
) {
    let client = own.session.client();
    let (mut changes, mut states) = (client.proof_changes(), client.state());
    let mut lost = pin!(guard.lock().lost_for_good());
    loop {
        changes.mark_unchanged();
        states.mark_unchanged();
        let is_held = guard.state() == LockState::Held && policy.admits(client);
        term.send_if_modified(|term| {
            let is_modified = term.is_some() != is_held;
            *term = is_held.then(|| own.clone());
            is_modified
        });
        tokio::select! {
            biased;
            () = &mut lost => return,
            () = own.session.until_unproven(), if is_held => {}
            changed = changes.changed(), if !is_held => if changed.is_err() { return },
            changed = states.changed(), if policy == ErrorPolicy::Connection => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}
