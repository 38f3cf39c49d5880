//! What the two recipes for leaders have in common: terms, participants, and how one stands in line
//! for a term and keeps an eye on it.

use std::pin::pin;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use zoolet_protocol::{ErrorCode, MultiOp, MultiResult, SessionId, Zxid};

use crate::client::{self, Client};
use crate::error::LockError;
use crate::line::place::Place;
use crate::lock::guard::{Guard, LockState};
use crate::lock::held::{self, Held};
use crate::lock::line_lock::LineLock;
use crate::lock::owner::Owner;
use crate::tries::Tries;

/// How long to wait before a line that could not be entered is entered again.
pub(crate) const ENTER_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A time in which one leads.
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
    client: Client,
    session: SessionId,
    path: String,
    token: Zxid,
    held: Weak<Held>,
}

impl Term {
    pub(crate) fn new(client: &Client, guard: &Guard) -> Self {
        Self {
            client: client.clone(),
            session: guard.session(),
            path: guard.path().to_owned(),
            token: guard.fencing_token(),
            held: guard.held(),
        }
    }

    /// A number that is greater than that of every term before: the zxid by which the leader's znode
    /// was created.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.token
    }

    /// The leader's znode.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Carries writes out only if the term lasts then: the server checks the leader's znode in the
    /// same multi.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the term is over; the refusal of an operation else.
    pub async fn transaction(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, LockError> {
        let path = std::iter::once(self.path());
        Place::transaction(&self.client, self.session, path, ops).await
    }

    /// Whether the leader's znode is held.
    pub(crate) fn is_held(&self) -> bool {
        self.held.upgrade().is_some_and(|held| held.state() == LockState::Held)
    }
}

/// One who would lead.
///
/// ```
/// use zoolet_recipes::Participant;
///
/// let participant = Participant { id: "host-1".into(), path: "/leader/x".into(), leads: true };
/// assert!(participant.leads);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// What it calls itself.
    pub id: String,
    /// Its znode.
    pub path: String,
    /// Whether it is the first in line.
    pub leads: bool,
}

/// All who would lead, in their order.
pub(crate) async fn participants(lock: &LineLock) -> Result<Vec<Participant>, LockError> {
    let mut participants = Vec::new();
    for path in lock.participants(lock.line.kind.marker).await? {
        match lock.line.client.get(&path).await {
            Ok((id, _)) => participants.push(Participant {
                id: String::from_utf8_lossy(&id).into_owned(),
                leads: participants.is_empty(),
                path,
            }),
            // It left in between.
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(participants)
}

/// A task that ends when nobody has it any more.
#[derive(Debug)]
pub(crate) struct Task {
    close: Option<oneshot::Sender<()>>,
    handle: JoinHandle<Result<(), LockError>>,
}

impl Task {
    /// Runs what ends by itself when it is told to.
    pub(crate) fn spawn<F>(client: &Client, run: impl FnOnce(Closing) -> F) -> Self
    where
        F: Future<Output = Result<(), LockError>> + Send + 'static,
    {
        let (close, closing) = oneshot::channel();
        let handle = client.spawn(run(Closing(closing)));
        Self { close: Some(close), handle }
    }

    /// Tells it to end, and waits for that.
    pub(crate) async fn close(mut self) -> Result<(), LockError> {
        if let Some(close) = self.close.take() {
            // A task that is gone needs not be told.
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

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Ready when one is told to end. It is not awaited again after that.
pub(crate) struct Closing(oneshot::Receiver<()>);

impl Closing {
    pub(crate) async fn closed(&mut self) {
        // Who drops the other end ends the task as well.
        let _ = (&mut self.0).await;
    }

    /// Waits for this long, and tells whether one is told to end meanwhile.
    pub(crate) async fn within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.closed()).await.is_ok()
    }
}

/// How standing in line ended.
pub(crate) enum Elected {
    /// In front.
    Leads(Guard),
    /// By the wish to leave, which was done: no znode is left.
    Closed(Result<(), LockError>),
    /// It could not be stood in line.
    Failed(LockError),
}

/// Takes a place at the end of the line and waits until it is in front and proved, or until one is
/// told to leave.
pub(crate) async fn stand(lock: &LineLock, closing: &mut Closing) -> Elected {
    let stand = match lock.stand(Owner::new()) {
        Ok(stand) => stand,
        Err(error) => return Elected::Failed(error),
    };
    let mut tries = Tries::new();
    loop {
        let mut entering = pin!(lock.line.enter());
        let (entered, is_closing) = tokio::select! {
            biased;
            entered = &mut entering => (entered, false),
            // Whether there is a znode is known when the answer is.
            () = closing.closed() => tokio::select! {
                biased;
                entered = &mut entering => (entered, true),
                () = without_session(&lock.line.client) => return Elected::Closed(Ok(())),
            },
        };
        let (mut place, standing) = match entered {
            Ok((place, _)) if is_closing => return Elected::Closed(place.leave().await),
            Err(error) if is_closing => return Elected::Closed(Err(error)),
            Ok(entered) => entered,
            Err(error) => return Elected::Failed(error),
        };
        let waited = tokio::select! {
            biased;
            waited = held::until_held(&mut place, &lock.line, standing) => waited,
            () = closing.closed() => return Elected::Closed(place.leave().await),
        };
        match waited {
            Ok(()) => return Elected::Leads(lock.hold(place, stand)),
            // The next session takes a place of its own.
            Err(LockError::PlaceLost) => {
                drop(place);
                tries.after_lost_place().await;
            }
            Err(error) => return Elected::Failed(error),
        }
    }
}

/// Waits until there is no session, and so no ephemeral of it.
async fn without_session(client: &Client) {
    let mut state = client.state();
    while !client.session_id().is_none() {
        if state.changed().await.is_err() {
            return;
        }
    }
}

/// Tells the term while it is held, until it is lost for good.
pub(crate) async fn tell_while_held(guard: &Guard, own: &Term, term: &watch::Sender<Option<Term>>) {
    let session = own.client.in_session(own.session);
    let mut changes = own.client.proof_changes();
    let mut lost = pin!(guard.until_lost());
    loop {
        changes.mark_unchanged();
        let is_held = guard.state() == LockState::Held;
        term.send_if_modified(|term| {
            let is_modified = term.is_some() != is_held;
            *term = is_held.then(|| own.clone());
            is_modified
        });
        tokio::select! {
            biased;
            () = &mut lost => return,
            () = session.until_unproven(), if is_held => {}
            changed = changes.changed(), if !is_held => if changed.is_err() { return },
        }
    }
}
