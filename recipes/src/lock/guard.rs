//! What one has while one holds a lock.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_protocol::{MultiOp, MultiResult, SessionId, Zxid};

use crate::error::{LockError, within};
use crate::line::place::Place;
use crate::lock::held::Holder;
use crate::lock::owner::{Owner, Stand};

/// Whether a lock is held, as far as can be known at this moment.
///
/// All that tells or ends with a lock goes by this: `state()` and `lost()` of every guard, [`Guard::run`],
/// and whether somebody leads. While something is held the client has the server prove, once in a third of
/// the session timeout, that the session lives and the znodes are there, by a request that a quorum of
/// the servers must agree to. Each proof holds for about two thirds of the timeout, so that another can
/// hold the lock only after this one is `Suspect`: see [`Client::session_valid_until`](crate::client::Client::session_valid_until). That asks of an
/// ensemble that its `minSessionTimeout` is two ticks or more, as it is by default, and that the session
/// timeout is three ticks or more where observers connect to followers (`observerMasterPort`);
/// ARCHITECTURE.md has the reckoning.
///
/// It is a matter of moments: who looks and acts later may be too late. What must not happen twice is
/// bound to the lock by the server ([`Guard::transaction`]) or by a [`Guard::fencing_token`].
///
/// ```
/// use zoolet_recipes::LockState;
///
/// assert_ne!(LockState::Held, LockState::Suspect);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockState {
    /// It is held: its session was proved to live recently enough that no server can have ended it. A
    /// disconnect alone does not change that.
    Held,
    /// Another may hold it: there was no such proof for too long. It is held again when there is one.
    Suspect,
    /// It is not held any more, for good: its session is over, or its znode gone.
    Lost,
}

/// What the guards of one hold share.
#[derive(Debug)]
pub(crate) struct Hold<S> {
    // Before the znodes: its owner may stand in line again as soon as they are given up.
    stands: S,
    pub(crate) holder: Holder,
}

impl<S> Hold<S> {
    pub(crate) fn new(holder: Holder, stands: S) -> Arc<Self> {
        Arc::new(Self { stands, holder })
    }

    /// Gives it up if nobody else has a guard of it.
    pub(crate) async fn release(self: Arc<Self>) -> Result<(), LockError> {
        let Some(Self { stands, holder }) = Arc::into_inner(self) else { return Ok(()) };
        drop(stands);
        holder.release().await
    }
}

/// What owners hold by one lock object.
#[derive(Debug)]
pub(crate) struct Holds<S>(Arc<Mutex<HashMap<Owner, Weak<Hold<S>>>>>);

impl<S> Clone for Holds<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Default for Holds<S> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<S> Holds<S> {
    pub(crate) fn note(&self, owner: Owner, hold: &Arc<Hold<S>>) {
        let mut holds = self.0.lock();
        holds.retain(|_, hold| hold.strong_count() > 0);
        holds.insert(owner, Arc::downgrade(hold));
    }

    /// What an owner holds, unless that is lost: then it may be acquired anew.
    pub(crate) fn of(&self, owner: Owner) -> Option<Arc<Hold<S>>> {
        let hold = self.0.lock().get(&owner)?.upgrade()?;
        (!hold.holder.is_lost()).then_some(hold)
    }
}

/// A lock that is held. Dropping it releases the lock in the background; [`Guard::release`] waits
/// for that.
///
/// A guard may be moved anywhere, and its lock may be released by whoever has it. After
/// [`Guard::reenter`], or when its [`Owner`] has acquired the lock more than once, the lock is free
/// when the last guard is gone.
///
/// ```no_run
/// use zoolet_recipes::InterProcessMutex;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let guard = InterProcessMutex::new(&client, "/locks/stock")?.acquire().await?;
/// let inner = guard.reenter(); // for a function that is to hold the lock itself
/// guard.release().await?; // `inner` still holds it
/// inner.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    hold: Arc<Hold<Stand>>,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold<Stand>>) -> Self {
        Self { hold }
    }

    /// A number that is greater than that of everyone who held this lock before: the zxid by which
    /// the lock's znode was created. Hand it to what the lock protects, and let that refuse what
    /// comes with a smaller one.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.hold.holder.token()
    }

    /// The znode by which the lock is held.
    #[must_use]
    pub fn path(&self) -> &str {
        self.hold.holder.paths().first().map_or("", String::as_str)
    }

    /// The session to which the znode belongs.
    pub(crate) fn session(&self) -> SessionId {
        self.hold.holder.session()
    }

    /// What is held, for those who only look at it.
    pub(crate) fn held(&self) -> Weak<crate::lock::held::Held> {
        self.hold.holder.downgrade()
    }

    /// Waits until the lock is lost for good.
    pub(crate) async fn until_lost(&self) {
        self.hold.holder.until_lost().await;
    }

    /// Another guard of the same hold. It makes no request, and the lock is free when the last
    /// guard is gone. When the lock is lost, all its guards are.
    pub fn reenter(&self) -> Self {
        Self { hold: Arc::clone(&self.hold) }
    }

    /// Whose lock it is: the owner that was named, or one of its own for each `acquire` without.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.hold.stands.owner()
    }

    /// Whether both hold the same.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.hold, &other.hold)
    }

    /// The place and that somebody stands there, if nobody else has a guard of it.
    pub(crate) fn into_place(self) -> Result<(Place, Stand), Self> {
        let hold = Arc::try_unwrap(self.hold).map_err(|hold| Self { hold })?;
        let Hold { holder, stands } = hold;
        match holder.take().pop() {
            Some(place) => Ok((place, stands)),
            None => unreachable!("only who releases takes the place out"),
        }
    }

    /// The name of the znode, and the session to which it belongs, for another place beside it:
    /// from now on its end proves nothing.
    pub(crate) fn keep_beside(&self) -> Result<(String, SessionId), LockError> {
        let beside = self.hold.holder.with_first(|place| {
            place.end_silently();
            (place.name().to_owned(), place.session())
        });
        beside.ok_or(LockError::PlaceLost)
    }

    /// Notes that the server does not have the znode any more.
    pub(crate) fn note_lost(&self) {
        // A place that is left is lost already.
        let _ = self.hold.holder.with_first(|place| place.note_gone());
    }

    /// Whether the lock is held, as far as is known without asking the server.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.hold.holder.state()
    }

    /// Waits until the lock is not [`Held`](LockState::Held) any more: its session is over, someone else
    /// deleted its znode, or the last proof that the session lives is too old. [`Guard::state`] tells
    /// the cases apart. It costs a watch, which is taken back when the lock is released.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        self.hold.holder.lost().await;
    }

    /// Waits until the holder is asked to give the lock up ([`Revoker`](crate::Revoker)), also if that was
    /// before. What to do then is for the holder to say: nothing is taken from it.
    ///
    /// It costs a look and a watch, which is taken back when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it is lost meanwhile; what may go wrong with a read.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn revocation_requested(&self) -> Result<(), LockError> {
        self.hold.holder.revocation_requested().await
    }

    /// Runs `future` while the lock is held, and drops it, so that it stops at its next `await`, as soon as
    /// [`Guard::lost`] would return.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was stopped: another may hold the lock.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, LockError> {
        tokio::select! {
            biased;
            () = self.lost() => Err(LockError::Lost),
            output = future => Ok(output),
        }
    }

    /// Carries writes out only if the lock is held then: the server checks the lock's znode in the
    /// same multi.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock's znode is gone; the refusal of an operation else.
    pub async fn transaction(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, LockError> {
        let holder = &self.hold.holder;
        holder.transaction(holder.paths(), ops).await
    }

    /// Releases the lock, and returns when it is free, or at once if there are other guards of the
    /// same hold. If the future is dropped the release goes on in the background.
    ///
    /// Without a connection it waits until there is one again, or until the session must be taken to
    /// be over; [`Guard::release_within`] does not.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was lost before.
    pub async fn release(self) -> Result<(), LockError> {
        self.hold.release().await
    }

    /// As [`Guard::release`], and waits no longer than this.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over: the release goes on in the background. Else as
    /// [`Guard::release`].
    pub async fn release_within(self, time: Duration) -> Result<(), LockError> {
        within(time, self.release()).await
    }
}
