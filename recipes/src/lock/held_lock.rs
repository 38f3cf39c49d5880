//! A lock that is held: the places by which a session holds it, from the moment when they are in
//! front, with a proof of their session, until they are deleted.
//!
//! Each guard has a [`LockHandle`], and these are counted. The lock is released with its last
//! handle.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytestring::ByteString;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use zoolet_protocol::{ErrorCode, Expect, MultiOp, MultiResult, Zxid};

use super::owner::Owner;
use super::registry::Registration;
use super::revocation;
use super::state::LockState;
use crate::client;
use crate::client::recipe::{SessionClient, WaiterId};
use crate::error::LockError;
use crate::line::deletion::Deletion;
use crate::line::place::Place;

/// The pause before the watches are set again after an overloaded server has refused them.
const WATCH_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A lock that is held.
pub(crate) struct HeldLock {
    session: SessionClient,
    token: Zxid,
    /// The owner of the lock; `None` for the permits of a semaphore.
    owner: Option<Owner>,
    /// The path of the first znode, which is the only one of most locks, and those of the others.
    first_path: Option<ByteString>,
    other_paths: Vec<ByteString>,
    /// All paths as guards show them, once one was asked.
    paths: OnceLock<Vec<String>>,
    parts: Mutex<Parts>,
    /// Notified when watches were cleared on which other tasks may wait.
    watches_cleared: Notify,
}

struct Parts {
    /// The number of handles.
    handles: usize,
    /// `None` once the lock is released.
    held: Option<Held>,
}

/// What a release deletes and removes.
struct Held {
    // Dropped before the places are deleted: then the owner may enter the line again.
    registrations: Registrations,
    places: Places,
}

/// Most locks have one of each.
pub(crate) type Places = SmallVec<[Place; 1]>;
pub(crate) type Registrations = SmallVec<[Registration; 1]>;

/// A counted reference to a held lock. The lock is released in the background when the last handle
/// is dropped.
pub(crate) struct LockHandle {
    lock: Arc<HeldLock>,
    /// Whether it still counts.
    is_open: bool,
}

impl LockHandle {
    /// The first handle of a lock that is held by these places of one session.
    pub(crate) fn new(
        session: SessionClient,
        token: Zxid,
        places: impl Into<Places>,
        registrations: impl Into<Registrations>,
    ) -> Self {
        let (mut places, mut registrations) = (places.into(), registrations.into());
        places.iter_mut().for_each(Place::claim);
        let mut paths = places.iter().map(|place| place.shared_path().clone());
        let (first_path, other_paths) = (paths.next(), paths.collect());
        let held = Some(Held { registrations: SmallVec::new(), places });
        let lock = Arc::new(HeldLock {
            session,
            token,
            owner: registrations.first().map(Registration::owner),
            first_path,
            other_paths,
            paths: OnceLock::new(),
            parts: Mutex::new(Parts { handles: 1, held }),
            watches_cleared: Notify::new(),
        });
        registrations.iter_mut().for_each(|registration| registration.set_held(&lock));
        // The owner has the lock from now on, and may have registered another holder.
        if let Some(held) = &mut lock.parts.lock().held {
            registrations.append(&mut held.registrations);
            held.registrations = registrations;
        }
        Self { lock, is_open: true }
    }

    /// Keeps the registration of the owner that holds the lock, until the lock is released.
    pub(crate) fn register(&self, mut registration: Registration) {
        registration.set_held(&self.lock);
        let mut parts = self.lock.parts.lock();
        if let Some(held) = &mut parts.held {
            held.registrations.push(registration);
        }
    }

    /// Another handle of the same lock.
    pub(crate) fn another(&self) -> Self {
        self.lock.parts.lock().handles += 1;
        Self { lock: Arc::clone(&self.lock), is_open: true }
    }

    /// Another handle of a lock, unless the lock is released or lost.
    pub(crate) fn another_of(lock: &Arc<HeldLock>) -> Option<Self> {
        if lock.is_lost() {
            return None;
        }
        let mut parts = lock.parts.lock();
        parts.held.as_ref()?;
        parts.handles += 1;
        Some(Self { lock: Arc::clone(lock), is_open: true })
    }

    pub(crate) fn lock(&self) -> &Arc<HeldLock> {
        &self.lock
    }

    /// Releases the lock if this is its last handle, and returns when the znodes are gone. If the
    /// future is dropped, the release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if a znode was gone before.
    pub(crate) async fn release(mut self) -> Result<(), LockError> {
        let Some(held) = self.close() else { return Ok(()) };
        let mut errors = Vec::new();
        // All requests are sent before the first answer is awaited, the deletion of the last place
        // first.
        for deletion in held.send_deletes() {
            errors.extend(deletion.finish().await.err());
        }
        LockError::all(errors)
    }

    /// The only place of the lock and its registrations, if this is its only handle. The place is
    /// not deleted.
    pub(crate) fn into_place(self) -> Result<(Place, Registrations), Self> {
        match self.take_if_only() {
            Some(Held { registrations, mut places }) => match places.pop() {
                Some(place) => Ok((place, registrations)),
                None => unreachable!("a guard's lock has one place"),
            },
            None => Err(self),
        }
    }

    /// Whether both are handles of the same lock.
    pub(crate) fn is_same_lock(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.lock, &other.lock)
    }

    /// Separates one place from the others: the returned handle holds it alone. The last place
    /// takes the registrations with it. Only for locks that have one handle.
    pub(crate) fn split_one(&mut self) -> Option<Self> {
        let Held { mut registrations, mut places } = self.take_if_only()?;
        let HeldLock { session, token, .. } = &*self.lock;
        let one = places.pop().map(|place| {
            let is_last = places.is_empty();
            let of_one = if is_last { std::mem::take(&mut registrations) } else { SmallVec::new() };
            Self::new(session.clone(), *token, [place], of_one)
        });
        *self = Self::new(session.clone(), *token, places, registrations);
        one
    }

    /// What the lock is held by, if this is its only handle. From then on the lock counts as
    /// released.
    fn take_if_only(&self) -> Option<Held> {
        let mut parts = self.lock.parts.lock();
        if parts.handles > 1 {
            return None;
        }
        parts.held.take()
    }

    /// Removes this handle from the count. The last one gets the places and registrations.
    fn close(&mut self) -> Option<Held> {
        if !std::mem::take(&mut self.is_open) {
            return None;
        }
        let mut parts = self.lock.parts.lock();
        parts.handles -= 1;
        if parts.handles == 0 { parts.held.take() } else { None }
    }
}

impl Drop for LockHandle {
    fn drop(&mut self) {
        if let Some(Held { registrations, mut places }) = self.close() {
            drop(registrations);
            places.iter_mut().rev().for_each(|place| drop(place.delete_in_background()));
        }
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.lock.paths().join(", ");
        write!(f, "{paths} ({:?}, fencing token {:#x})", self.lock.state(), self.lock.token.0)
    }
}

impl Held {
    /// Sends the deletions of all places, the last first.
    fn send_deletes(self) -> Vec<Deletion> {
        drop(self.registrations);
        self.places.into_iter().rev().map(Place::send_delete).collect()
    }
}

impl HeldLock {
    /// The session that holds the lock.
    pub(crate) fn session(&self) -> &SessionClient {
        &self.session
    }

    pub(crate) fn token(&self) -> Zxid {
        self.token
    }

    /// The znodes.
    pub(crate) fn paths(&self) -> &[String] {
        let all = || self.first_path.iter().chain(&self.other_paths);
        self.paths.get_or_init(|| all().map(ToString::to_string).collect())
    }

    /// The first znode.
    pub(crate) fn path(&self) -> &str {
        self.first_path.as_deref().unwrap_or_default()
    }

    /// The owner of the lock, if it has one.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Whether the lock is known to be lost, or is released.
    pub(crate) fn is_lost(&self) -> bool {
        let is_of_this_session = self.session.is_current();
        match &self.parts.lock().held {
            Some(held) => !is_of_this_session || held.places.iter().any(Place::is_lost),
            None => true,
        }
    }

    /// Whether the lock is held, as far as is known without a request.
    pub(crate) fn state(&self) -> LockState {
        if self.is_lost() {
            return LockState::Lost;
        }
        if self.session.is_proven() { LockState::Held } else { LockState::Suspect }
    }

    /// Calls a function with the first place, unless the lock is released.
    pub(crate) fn with_place<T>(&self, act: impl FnOnce(&mut Place) -> T) -> Option<T> {
        self.parts.lock().held.as_mut()?.places.first_mut().map(act)
    }

    /// Waits until the lock is not certainly held any more: until another client may hold it.
    pub(crate) async fn not_held(&self) {
        tokio::select! {
            biased;
            () = self.lost_for_good() => {}
            () = self.session.until_unproven() => {}
        }
    }

    /// Waits until the lock is lost for good.
    pub(crate) async fn lost_for_good(&self) {
        let mut state = self.session.client().state();
        let mut changes = self.session.client().proof_changes();
        loop {
            state.mark_unchanged();
            changes.mark_unchanged();
            let mut cleared = pin!(self.watches_cleared.notified());
            cleared.as_mut().enable();
            if self.is_lost() {
                return;
            }
            let is_watched = match self.watch_places().await {
                Ok(()) => true,
                // The checks of the claim tell the loss, a while later.
                Err(client::Error::TooLong { .. }) => false,
                // Without a connection the watches are set when there is one again. An overloaded
                // server receives them again after a pause: its refusal does not mean that the lock
                // is lost.
                Err(error) if error.is_retryable() || error.is(ErrorCode::THROTTLED_OP) => {
                    tokio::select! {
                        biased;
                        changed = state.changed() => if changed.is_err() { return },
                        () = tokio::time::sleep(WATCH_AGAIN_AFTER), if !error.is_retryable() => {}
                    }
                    continue;
                }
                Err(_) => return,
            };
            let waiter = Waiter { lock: self, id: WaiterId::unique() };
            let event = std::future::poll_fn(|context| self.poll_event(waiter.id, context));
            tokio::select! {
                biased;
                () = event, if is_watched => {}
                changed = state.changed() => if changed.is_err() { return },
                changed = changes.changed() => if changed.is_err() { return },
                () = cleared, if is_watched => tokio::time::sleep(WATCH_AGAIN_AFTER).await,
            }
        }
    }

    /// Ready when one of the places is lost, or has no watch.
    fn poll_event(&self, waiter: WaiterId, context: &Context<'_>) -> Poll<()> {
        let parts = self.parts.lock();
        let Some(held) = &parts.held else { return Poll::Ready(()) };
        let is_ready =
            |place: &Place| place.poll_lost(waiter, context).is_ready() || place.is_unwatched();
        if held.places.iter().any(is_ready) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Sets the missing watches on the znodes. Clears all of them if the server does not confirm
    /// these, or if the future is dropped before that.
    async fn watch_places(&self) -> Result<(), client::Error> {
        let sent: Vec<_> = match &mut self.parts.lock().held {
            Some(held) => held.places.iter_mut().filter_map(Place::watch_own).collect(),
            None => return Err(client::Error::SessionExpired),
        };
        if sent.is_empty() {
            return Ok(());
        }
        let unconfirmed = UnconfirmedWatches(self);
        for sent in sent {
            sent.await?;
        }
        std::mem::forget(unconfirmed);
        Ok(())
    }

    /// Waits until another client asks the holder to release the lock.
    pub(crate) async fn revocation_requested(&self) -> Result<(), LockError> {
        revocation::requested(&self.session, self.paths()).await
    }

    /// Carries out writes only if the lock is held then.
    pub(crate) async fn transaction(
        &self,
        ops: Vec<MultiOp>,
    ) -> Result<Vec<MultiResult>, LockError> {
        if self.is_lost() {
            return Err(LockError::Lost(self.path().to_owned()));
        }
        transaction(&self.session, self.paths(), ops).await
    }
}

/// Carries out writes only if these znodes of a session are there then: the multi checks them.
pub(crate) async fn transaction(
    session: &SessionClient,
    paths: &[String],
    ops: Vec<MultiOp>,
) -> Result<Vec<MultiResult>, LockError> {
    let mut all: Vec<_> =
        paths.iter().map(|path| MultiOp::check(path.as_str(), Expect::Any)).collect();
    let checks = all.len();
    all.extend(ops);
    match session.multi(all).await {
        Ok(results) => Ok(results.into_iter().skip(checks).collect()),
        Err(error) => match error.operation_index().and_then(|index| paths.get(index)) {
            Some(path) => Err(LockError::Lost(path.clone())),
            None => {
                let lock = paths.first().map_or("", String::as_str);
                Err(LockError::from(error).of_held().at(lock))
            }
        },
    }
}

/// Watches that the server has not confirmed. Dropping this clears them, and lets the other tasks
/// that wait for the loss set watches of their own: otherwise these would wait for an event that
/// the server may never send.
struct UnconfirmedWatches<'a>(&'a HeldLock);

impl Drop for UnconfirmedWatches<'_> {
    fn drop(&mut self) {
        if let Some(held) = &mut self.0.parts.lock().held {
            held.places.iter_mut().for_each(Place::clear_own_watch);
        }
        self.0.watches_cleared.notify_waiters();
    }
}

/// A waiter for the loss of a lock. It is removed when this is dropped.
struct Waiter<'a> {
    lock: &'a HeldLock,
    id: WaiterId,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(held) = &self.lock.parts.lock().held {
            held.places.iter().for_each(|place| place.forget_waiter(self.id));
        }
    }
}
