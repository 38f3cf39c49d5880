//! By what a lock is held: places of one session, from when they are in front until they are left.

use std::sync::{Arc, Weak};
use std::task::Poll;

use parking_lot::Mutex;
use zoolet_protocol::{MultiOp, MultiResult, SessionId, Zxid};

use crate::client::{self, Client, WaiterId};
use crate::error::LockError;
use crate::guard::LockState;
use crate::leave::Leave;
use crate::place::Place;
use crate::revocation;

/// Places that are held.
#[derive(Debug)]
pub(crate) struct Held {
    client: Client,
    session: SessionId,
    token: Zxid,
    /// Taken out when they are left.
    places: Mutex<Option<Vec<Place>>>,
}

/// Who has what is held. Dropped, it leaves in the background.
#[derive(Debug)]
pub(crate) struct Holder {
    held: Arc<Held>,
    paths: Vec<String>,
}

impl std::ops::Deref for Holder {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Holder {
    /// The holder of places that were made in a session.
    pub(crate) fn new(client: Client, session: SessionId, token: Zxid, places: Vec<Place>) -> Self {
        let paths = places.iter().map(|place| place.path().to_owned()).collect();
        let places = Mutex::new(Some(places));
        Self { held: Arc::new(Held { client, session, token, places }), paths }
    }

    /// The znodes.
    pub(crate) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// What is held.
    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// One of the places, apart from the others.
    pub(crate) fn split_one(&mut self) -> Option<Self> {
        let place = self.held.places.lock().as_mut()?.pop()?;
        self.paths.pop();
        let Held { client, session, token, .. } = &*self.held;
        Some(Self::new(client.clone(), *session, *token, vec![place]))
    }

    /// The places, which are held no more by this.
    pub(crate) fn take(self) -> Vec<Place> {
        self.held.places.lock().take().unwrap_or_default()
    }

    /// Waits until one of the places is asked for by others.
    pub(crate) async fn revocation_requested(&self) -> Result<(), LockError> {
        let Held { client, session, .. } = &*self.held;
        revocation::requested(client, *session, &self.paths).await
    }

    /// Leaves, and returns when that is certain. If the future is dropped it goes on in the
    /// background.
    pub(crate) async fn release(self) -> Result<(), LockError> {
        // All are on their way before the first answer is waited for, the last first.
        let places = self.take().into_iter().rev();
        let leaves: Vec<Leave> = places.map(Place::start_leaving).collect();
        let mut errors = Vec::new();
        for leave in leaves {
            errors.extend(leave.done().await.err());
        }
        LockError::all(errors)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let places = self.held.places.lock().take();
        places.into_iter().flatten().rev().for_each(drop);
    }
}

/// One who waits for the loss of a lock; it waits no more when this is dropped.
struct Waiter<'a> {
    held: &'a Held,
    id: WaiterId,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        for place in self.held.places.lock().iter().flatten() {
            place.forget_waiter(self.id);
        }
    }
}

impl Held {
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    pub(crate) fn token(&self) -> Zxid {
        self.token
    }

    /// Whether it is known to be lost, or is left.
    pub(crate) fn is_lost(&self) -> bool {
        let is_of_this_session = self.session == self.client.session_id();
        match &*self.places.lock() {
            Some(places) => !is_of_this_session || places.iter().any(Place::is_lost),
            None => true,
        }
    }

    pub(crate) fn state(&self) -> LockState {
        if self.is_lost() {
            return LockState::Lost;
        }
        if self.client.is_session_sure(self.session) { LockState::Held } else { LockState::Suspect }
    }

    /// Does something with the first place, if it is not left.
    pub(crate) fn with_first<T>(&self, act: impl FnOnce(&mut Place) -> T) -> Option<T> {
        self.places.lock().as_mut()?.first_mut().map(act)
    }

    /// Waits until it is lost.
    pub(crate) async fn lost(&self) {
        let mut state = self.client.state();
        loop {
            if self.is_lost() {
                return;
            }
            match self.watch().await {
                Ok(()) => {}
                // There is no connection: the watches are left when there is one again.
                Err(error) if error.is_retryable() => {
                    self.is_unwatched();
                    if state.changed().await.is_err() {
                        return;
                    }
                    continue;
                }
                Err(_) => return,
            }
            let waiter = Waiter { held: self, id: WaiterId::new() };
            let lost = std::future::poll_fn(|context| {
                let places = self.places.lock();
                let Some(places) = &*places else { return Poll::Ready(()) };
                let is_lost = |place: &Place| place.poll_lost(waiter.id, context).is_ready();
                if places.iter().any(is_lost) { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::select! {
                biased;
                () = lost => return,
                changed = state.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Has the znodes watched that are not.
    async fn watch(&self) -> Result<(), client::Error> {
        let sent: Vec<_> = match &mut *self.places.lock() {
            Some(places) => places.iter_mut().filter_map(Place::watch_own).collect(),
            None => return Err(client::Error::Lost),
        };
        for sent in sent {
            sent.await?;
        }
        Ok(())
    }

    fn is_unwatched(&self) {
        for place in self.places.lock().iter_mut().flatten() {
            place.is_unwatched();
        }
    }

    /// Carries writes out only if all these znodes are there then.
    pub(crate) async fn transaction(
        &self,
        paths: &[String],
        ops: Vec<MultiOp>,
    ) -> Result<Vec<MultiResult>, LockError> {
        if self.is_lost() {
            return Err(LockError::Lost);
        }
        let paths = paths.iter().map(String::as_str);
        Place::transaction(&self.client, self.session, paths, ops).await
    }
}

/// What was acquired by one lock object, and is perhaps held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acquired(Arc<Mutex<Vec<Weak<Held>>>>);

impl Acquired {
    pub(crate) fn note(&self, holder: &Holder) {
        let mut all = self.0.lock();
        all.retain(|held| held.strong_count() > 0);
        all.push(Arc::downgrade(&holder.held));
    }

    /// Whether something of it is not left, and not known to be lost.
    pub(crate) fn is_any_held(&self) -> bool {
        let all: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().any(|held| !held.is_lost())
    }
}
