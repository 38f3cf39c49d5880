//! What one has while one holds a lock.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use zoolet_protocol::{MultiOp, MultiResult, SessionId, Zxid};

use crate::client::{self, Client, WaiterId};
use crate::error::LockError;
use crate::owner::Stand;
use crate::place::Place;

/// Whether a lock is held, as far as can be known at this moment.
///
/// ```
/// use zoolet_recipes::LockState;
///
/// assert_ne!(LockState::Held, LockState::Suspect);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    client: Client,
    /// Taken out when it is left.
    place: Mutex<Option<Place>>,
    session: SessionId,
    path: String,
    token: Zxid,
    stand: Mutex<Option<Stand>>,
}

impl Hold {
    pub(crate) fn new(client: Client, place: Place, stand: Stand) -> Arc<Self> {
        let path = place.path().to_owned();
        let (session, token) = (place.session(), place.token());
        let (place, stand) = (Mutex::new(Some(place)), Mutex::new(Some(stand)));
        Arc::new(Self { client, place, session, path, token, stand })
    }

    /// Whether it is known to be lost.
    pub(crate) fn is_lost(&self) -> bool {
        let place = self.place.lock();
        let is_there =
            |place: &Place| place.session() == self.client.session_id() && !place.is_lost();
        !place.as_ref().is_some_and(is_there)
    }

    fn is_unwatched(&self) {
        if let Some(place) = &mut *self.place.lock() {
            place.is_unwatched();
        }
    }

    /// A hold that is lost does not keep its owner from standing in the line again.
    pub(crate) fn stand_no_more(&self) {
        self.stand.lock().take();
    }
}

/// One who waits for the loss of a lock; it waits no more when this is dropped.
struct Waiter<'a> {
    hold: &'a Hold,
    id: WaiterId,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(place) = &*self.hold.place.lock() {
            place.forget_waiter(self.id);
        }
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
        self.hold.token
    }

    /// The znode by which the lock is held.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.hold.path
    }

    /// The session to which the znode belongs.
    pub(crate) fn session(&self) -> SessionId {
        self.hold.session
    }

    /// The name of the znode, and the session to which it belongs, for another place beside it:
    /// from now on its end proves nothing.
    pub(crate) fn keep_beside(&self) -> Result<(String, SessionId), LockError> {
        let mut place = self.hold.place.lock();
        let place = place.as_mut().ok_or(LockError::Lost)?;
        place.end_silently();
        Ok((place.name().to_owned(), place.session()))
    }

    /// Whether the lock is held, as far as is known without asking the server.
    #[must_use]
    pub fn state(&self) -> LockState {
        if self.hold.is_lost() {
            return LockState::Lost;
        }
        if self.hold.client.is_session_sure(self.hold.session) {
            LockState::Held
        } else {
            LockState::Suspect
        }
    }

    /// Waits until the lock is lost: its session over, or its znode deleted by someone else.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        let mut state = self.hold.client.state();
        loop {
            if self.state() == LockState::Lost {
                return;
            }
            match self.watch().await {
                Ok(()) => {}
                // There is no connection: the watch is left when there is one again.
                Err(error) if error.is_retryable() => {
                    self.hold.is_unwatched();
                    if state.changed().await.is_err() {
                        return;
                    }
                    continue;
                }
                Err(_) => return,
            }
            let waiter = Waiter { hold: &self.hold, id: WaiterId::new() };
            let lost = std::future::poll_fn(|context| {
                let place = waiter.hold.place.lock();
                match &*place {
                    Some(place) => place.poll_lost(waiter.id, context).map(drop),
                    None => Poll::Ready(()),
                }
            });
            tokio::select! {
                () = lost => return,
                changed = state.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Has the own znode watched, if it is not.
    async fn watch(&self) -> Result<(), client::Error> {
        let sent = match &mut *self.hold.place.lock() {
            Some(place) => place.watch_own(),
            None => return Err(client::Error::Lost),
        };
        match sent {
            Some(sent) => sent.await,
            None => Ok(()),
        }
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
        Place::transaction(&self.hold.client, std::iter::once(self.path()), ops).await
    }

    /// Releases the lock, and returns when it is free, or, if the owner holds it more than once, at
    /// once. If the future is dropped the release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if it was lost before.
    pub async fn release(self) -> Result<(), LockError> {
        let Some(hold) = Arc::into_inner(self.hold) else { return Ok(()) };
        let place = hold.place.lock().take();
        match place {
            Some(place) => place.leave().await,
            None => Err(LockError::Lost),
        }
    }
}
