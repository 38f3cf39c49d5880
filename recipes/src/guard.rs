//! What one has while one holds a lock.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use zoolet_protocol::{MultiOp, MultiResult, SessionId, Zxid};

use crate::client::{self, Client, ConnectionState};
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
    path: String,
    token: Zxid,
    _stand: Stand,
}

impl Hold {
    pub(crate) fn new(client: Client, place: Place, stand: Stand) -> Arc<Self> {
        let path = place.path().to_owned();
        let token = place.czxid();
        Arc::new(Self { client, place: Mutex::new(Some(place)), path, token, _stand: stand })
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
        let place = self.hold.place.lock();
        let Some(place) = &*place else { return LockState::Lost };
        let is_over = place.session() != self.hold.client.session_id();
        if is_over || place.is_lost() {
            return LockState::Lost;
        }
        let is_connected =
            self.hold.client.state().borrow().is_some_and(ConnectionState::is_connected);
        if is_connected && client::now() < self.hold.client.session_valid_until() {
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
            if self.state() == LockState::Lost || self.watch().await.is_err() {
                return;
            }
            let lost = std::future::poll_fn(|context| {
                let place = self.hold.place.lock();
                match &*place {
                    Some(place) => place.poll_lost(context).map(drop),
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
    async fn watch(&self) -> Result<(), LockError> {
        let sent = match &mut *self.hold.place.lock() {
            Some(place) => place.watch_own(),
            None => return Err(LockError::Lost),
        };
        match sent {
            Some(sent) => Ok(sent.await?),
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
