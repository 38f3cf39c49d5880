//! What one has while one holds a lock.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use zoolet_protocol::{MultiOp, MultiResult, SessionId, Zxid};

use crate::client::Client;
use crate::error::LockError;
use crate::held::Holder;
use crate::owner::{Owner, Stand};
use crate::place::Place;

/// Whether a lock is held, as far as can be known at this moment.
///
/// ```
/// use zoolet_recipes::LockState;
///
/// assert_ne!(LockState::Held, LockState::Suspect);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockState {
    /// It is held: the server was heard of recently enough that it cannot have ended the session.
    Held,
    /// It may be held or not: nothing was heard of the server for too long.
    Suspect,
    /// It is not held any more.
    Lost,
}

/// What the guards of one owner share.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) holder: Holder,
    stand: Mutex<Option<Stand>>,
}

impl Hold {
    pub(crate) fn new(client: Client, place: Place, stand: Stand) -> Arc<Self> {
        let (session, token) = (place.session(), place.token());
        let holder = Holder::new(client, session, token, vec![place]);
        Arc::new(Self { holder, stand: Mutex::new(Some(stand)) })
    }

    /// Whether it is known to be lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.holder.is_lost()
    }

    /// A hold that is lost does not keep its owner from standing in the line again.
    pub(crate) fn stand_no_more(&self) {
        self.stand.lock().take();
    }
}

/// A lock that is held. Dropping it releases the lock in the background; [`Guard::release`] waits
/// for that.
///
/// A guard may be moved anywhere, and its lock may be released by whoever has it. When the owner
/// has acquired the lock more than once, it is free again when the last guard is gone.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    hold: Arc<Hold>,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
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

    /// Whose lock it is, unless it was lost and acquired anew.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.hold.stand.lock().as_ref().map(Stand::owner)
    }

    /// Whether both hold the same.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.hold, &other.hold)
    }

    /// The place and that somebody stands there, if nobody else has a guard of it.
    pub(crate) fn into_place(self) -> Result<(Place, Option<Stand>), Self> {
        let hold = Arc::try_unwrap(self.hold).map_err(|hold| Self { hold })?;
        let Hold { holder, stand } = hold;
        match holder.take().pop() {
            Some(place) => Ok((place, stand.into_inner())),
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

    /// Whether the lock is held, as far as is known without asking the server.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.hold.holder.state()
    }

    /// Waits until the lock is lost: its session over, or its znode deleted by someone else.
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

    /// Runs `future` while the lock is held, and stops it when the lock is lost.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was stopped.
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

    /// Releases the lock, and returns when it is free, or, if the owner holds it more than once, at
    /// once. If the future is dropped the release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was lost before.
    pub async fn release(self) -> Result<(), LockError> {
        let Some(hold) = Arc::into_inner(self.hold) else { return Ok(()) };
        hold.holder.release().await
    }
}
