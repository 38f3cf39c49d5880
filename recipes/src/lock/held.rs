//! By what a lock is held: places of one session, from when they are in front until they are left.
//!
//! # What is known of a lock
//!
//! A lock is [`Held`](LockState::Held) while its znode is not known to be gone and its session is
//! *proved*: the present moment is before `proven_until`, up to which no server can have ended the
//! session. From `proven_until` on it is [`Suspect`](LockState::Suspect): another may hold it. Proved
//! anew, it is held again. It is [`Lost`](LockState::Lost) for good when its znode is known to be gone, or
//! its session over. `state()`, `lost()`, `run()`, `is_leader()`, `has_leadership()`, a selector's
//! function, the blocking calls and `zoolet lock` go by this and by nothing else. A disconnect ends
//! nothing by itself, and reads and pings prove nothing: a server that is cut off from its ensemble
//! answers them.
//!
//! # What proves
//!
//! An answered write does: the leader looks at the session before it proposes, and the answer comes when
//! a quorum has agreed. The create that made the znode is the first such write. While something is held,
//! each third of the timeout `T` the session sends one multi that checks all znodes that are held, which
//! is the least that needs a quorum. A refused multi is logged too and proves as much, and that a znode
//! is not there ends its lock at once. What is held for less than `T/3` costs no request.
//!
//! # How long it proves it
//!
//! The leader ends a session at the first tick after `T` has passed since it last heard of it, never
//! before. A write that a follower hands on is checked and does not count as having been heard of. What
//! counts is a handshake, which the leader answers, and what the followers tell: the leader pings them
//! each half tick, and each answers with the sessions that it heard of. Both go over one connection in
//! their order. So when a write sent at `w` was answered, the leader had by then heard of the session as
//! of `s`, the sending of the last request or ping that was answered by the follower half a tick before
//! `w`, or of the handshake, if that was later. The session lives at least until `s + T`.
//!
//! A client does not know the tick. A timeout has two ticks at least, unless an administrator sets
//! `minSessionTimeout` lower, so that half a tick is `T/4` at most. We take `T/3`, which leaves `T/12`
//! for delays between leader and follower, and `T/100` for clocks that do not run alike:
//!
//! ```text
//! proven_until = s + T - T/100,  s = the last sending that was answered before w - T/3
//! ```
//!
//! With a round trip `r`, one check follows another after `T/3 + r`, and each proves until `2T/3 - r` after its
//! own sending: the next is answered `T/3 - 3r` before the proof ends. From `r = T/9` on a lock is
//! `Suspect` now and then. The create and the first check after a wait may prove less: of a client that only
//! pings, the last request of which the leader has heard may be `2T/3` old, so that `T/3 - r` is left at the
//! least. The next check is sent `T/12` before that ends, and from `r = T/12` on the lock is `Suspect` for a
//! moment. Who wants more to be left ([`proven_ahead`](crate::client::Builder::proven_ahead), `T/6` at most)
//! has the check sent as much sooner, but not before the leader has heard of a later request, since it would
//! prove nothing more. So `T/6` is left up to `r = T/20` from one check to the next, and up to `r = T/40` after a
//! wait, where a second check may follow the first after `T/12`.
//!
//! Where `minSessionTimeout` is below one and a half ticks, none of this holds: leave it at two ticks. Where
//! observers connect to followers (`observerMasterPort`), a request reaches the leader by two such ways, in
//! one tick: choose a session timeout of three ticks there at the least, and of four to leave `T/12` for
//! delays. A leader that is replaced gives each session its whole timeout anew: the one with which the session
//! was created, so that `T` is the shortest timeout that a server has granted to the session.
//!
//! Where the server is certainly the only one, as in process
//! ([`Transport::is_single_node`](zoolet_protocol::Transport::is_single_node)), each answer proves until its
//! sending and `T`. A machine that was suspended finds its locks `Suspect` when that has taken longer
//! than was left ([`suspended_time`](crate::client::Builder::suspended_time)).
//!
//! The margin covers clocks, ticks and the network. It does not cover a program that looks and acts
//! later: what must not happen twice is bound to the lock by the server
//! ([`Guard::transaction`](crate::Guard::transaction)) or refused by what it is done to
//! ([`Guard::fencing_token`](crate::Guard::fencing_token)).

use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_protocol::{ErrorCode, MultiOp, MultiResult, SessionId, Zxid};

use crate::client::recipe::WaiterId;
use crate::client::{self, Client};
use crate::error::LockError;
use crate::line::leave::Leave;
use crate::line::place::{Line, Place, Standing};
use crate::lock::guard::LockState;
use crate::lock::revocation;

/// The pause before a watch is set again that an overloaded server refused.
const WATCH_AGAIN_AFTER: Duration = Duration::from_millis(50);

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
    pub(crate) fn new(
        client: Client,
        session: SessionId,
        token: Zxid,
        mut places: Vec<Place>,
    ) -> Self {
        places.iter_mut().for_each(Place::claim);
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

    /// What is held, for those who only look at it.
    pub(crate) fn downgrade(&self) -> Weak<Held> {
        Arc::downgrade(&self.held)
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

/// Waits until the session of places that came to the front is proved to live, if that is not certain.
/// A client that only waits writes nothing, so nothing proves its session after a long wait, and
/// nothing does after a lost answer. It costs no request: what is held is looked at anyway.
///
/// # Errors
///
/// [`SessionExpired`](client::Error::SessionExpired) if one of the places is lost, and [`Closed`](client::Error::Closed)
/// if the client is closed, as soon as that is known.
pub(crate) async fn until_proven(places: &mut [Place]) -> Result<(), client::Error> {
    let Some(first) = places.first() else { return Ok(()) };
    let (client, session) = (first.client().clone(), first.session());
    let last = client.session_valid_until();
    if client.in_session(session).is_proven_ahead() {
        return Ok(());
    }
    // The end of a session is no proof, and the end of a client may come without a connection.
    let (mut changes, mut state) = (client.proof_changes(), client.state());
    loop {
        changes.mark_unchanged();
        state.mark_unchanged();
        if client.is_closing() {
            return Err(client::Error::Closed);
        }
        if session != client.session_id() || places.iter().any(Place::is_lost) {
            return Err(client::Error::SessionExpired);
        }
        places.iter_mut().for_each(Place::claim);
        // A proof that is about to end is as good as none, a new one as good as the network allows.
        let is_new = last < client.session_valid_until() && client.in_session(session).is_proven();
        if is_new || client.in_session(session).is_proven_ahead() {
            return Ok(());
        }
        let told = tokio::select! {
            biased;
            told = changes.changed() => told,
            told = state.changed() => told,
        };
        told.map_err(|_gone| client::Error::Closed)?;
    }
}

/// Waits until a place is in front and proved to be there.
pub(crate) async fn until_held(
    place: &mut Place,
    line: &Line,
    standing: Standing,
) -> Result<(), LockError> {
    place.wait(line, standing).await?;
    Ok(until_proven(std::slice::from_mut(place)).await?)
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

    /// Whether it is held, as far as can be known.
    pub(crate) fn state(&self) -> LockState {
        if self.is_lost() {
            return LockState::Lost;
        }
        if self.client.in_session(self.session).is_proven() {
            LockState::Held
        } else {
            LockState::Suspect
        }
    }

    /// Does something with the first place, if it is not left.
    pub(crate) fn with_first<T>(&self, act: impl FnOnce(&mut Place) -> T) -> Option<T> {
        self.places.lock().as_mut()?.first_mut().map(act)
    }

    /// Waits until it is not held any more, as far as can be known: until another may hold it.
    pub(crate) async fn lost(&self) {
        let session = self.client.in_session(self.session);
        tokio::select! {
            biased;
            () = self.until_lost() => {}
            () = session.until_unproven() => {}
        }
    }

    /// Waits until it is lost for good.
    pub(crate) async fn until_lost(&self) {
        let mut state = self.client.state();
        let mut changes = self.client.proof_changes();
        loop {
            state.mark_unchanged();
            changes.mark_unchanged();
            if self.is_lost() {
                return;
            }
            match self.watch().await {
                Ok(()) => {}
                // There is no connection: the watches are set when there is one again. Or the server is
                // overloaded, which says nothing about the lock.
                Err(error) if error.is_retryable() || error.is(ErrorCode::THROTTLED_OP) => {
                    self.unwatch();
                    tokio::select! {
                        biased;
                        changed = state.changed() => if changed.is_err() { return },
                        () = tokio::time::sleep(WATCH_AGAIN_AFTER), if !error.is_retryable() => {}
                    }
                    continue;
                }
                Err(_) => return,
            }
            let waiter = Waiter { held: self, id: WaiterId::unique() };
            let told = std::future::poll_fn(|context| self.poll_told(waiter.id, context));
            tokio::select! {
                biased;
                () = told => {}
                changed = state.changed() => if changed.is_err() { return },
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Ready when one of the places is lost, or is to be watched anew.
    fn poll_told(&self, waiter: WaiterId, context: &Context<'_>) -> Poll<()> {
        let places = self.places.lock();
        let Some(places) = &*places else { return Poll::Ready(()) };
        let is_told =
            |place: &Place| place.poll_lost(waiter, context).is_ready() || place.is_unwatched();
        if places.iter().any(is_told) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Has the znodes watched that are not.
    async fn watch(&self) -> Result<(), client::Error> {
        let sent: Vec<_> = match &mut *self.places.lock() {
            Some(places) => places.iter_mut().filter_map(Place::watch_own).collect(),
            None => return Err(client::Error::SessionExpired),
        };
        for sent in sent {
            sent.await?;
        }
        Ok(())
    }

    fn unwatch(&self) {
        for place in self.places.lock().iter_mut().flatten() {
            place.unwatch_own();
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
        all.push(holder.downgrade());
    }

    /// Whether something of it is not left, and not known to be lost.
    pub(crate) fn is_any_held(&self) -> bool {
        let all: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().any(|held| !held.is_lost())
    }
}
