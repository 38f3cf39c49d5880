//! Several mutexes at once: Curator's `InterProcessMultiLock` over paths, without its deadlocks.

use std::sync::Arc;
use std::time::Duration;

use zoolet_protocol::{MultiOp, MultiResult, Zxid};

use crate::client::Client;
use crate::error::{LockError, within};
use crate::line::entering::EnteringAll;
use crate::line::order::Turn;
use crate::line::place::{Line, Place};
use crate::line::wait_all::wait_all;
use crate::lock::guard::{Hold, Holds, LockState};
use crate::lock::held::{self, Acquired, Holder};
use crate::lock::mutex::InterProcessMutex;
use crate::lock::owner::{Owner, Stand, acquire_behind};
use crate::tries::Tries;

/// The mutexes of several paths as one: all are held, or none.
///
/// It enters all lines at once, with one multi. So of any two of its users the one who came first
/// is ahead in every line that they share, and they cannot wait for each other, in whatever order
/// they name the paths. Beside users who take the same mutexes one after the other that does not
/// hold, and a deadline is in place ([`InterProcessMultiLock::acquire_within`]).
///
/// Its znodes are those of [`InterProcessMutex`], and so of Curator's.
///
/// ```no_run
/// use zoolet_recipes::InterProcessMultiLock;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let accounts = InterProcessMultiLock::new(&client, &["/accounts/ann", "/accounts/bob"])?;
/// let guard = accounts.acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessMultiLock {
    client: Client,
    lines: Arc<[Line]>,
    holds: Holds<Vec<Stand>>,
    acquired: Acquired,
}

impl InterProcessMultiLock {
    /// The mutexes of these paths; a path that is named twice counts once.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if one names no znode.
    pub fn new(client: &Client, paths: &[&str]) -> Result<Self, LockError> {
        let mut paths = paths.to_vec();
        paths.sort_unstable();
        paths.dedup();
        let line = |path: &&str| InterProcessMutex::new(client, path).map(|mutex| mutex.line());
        let lines = paths.iter().map(line).collect::<Result<_, _>>()?;
        let (holds, acquired) = (Holds::default(), Acquired::default());
        Ok(Self { client: client.clone(), lines, holds, acquired })
    }

    /// Waits until all are held.
    ///
    /// Each call stands in line by itself, as with tokio's `Mutex`: a task that calls it while it
    /// holds one of the locks waits for itself, and a warning (`tracing`) says so after a second. To
    /// hold the locks twice, call [`MultiGuard::reenter`], or [`InterProcessMultiLock::acquire_as`]
    /// with one [`Owner`] both times.
    ///
    /// # Errors
    ///
    /// What may go wrong with requests.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves all lines.
    pub async fn acquire(&self) -> Result<MultiGuard, LockError> {
        self.acquire_as(Owner::new()).await
    }

    /// As [`InterProcessMultiLock::acquire`], within one time for all of them.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessMultiLock::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<MultiGuard, LockError> {
        within(time, self.acquire()).await
    }

    /// All of them if they are free, without waiting for them. If one is held that costs reads, and
    /// nothing is created.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMultiLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, LockError> {
        self.try_acquire_as(Owner::new()).await
    }

    /// As [`InterProcessMultiLock::acquire`], for an owner: while it holds them by this object it
    /// gets another guard of them, without a request.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] at once if the owner holds one of them by another object of the
    /// same client, or waits for one; else as [`InterProcessMultiLock::acquire`].
    pub async fn acquire_as(&self, owner: Owner) -> Result<MultiGuard, LockError> {
        if let Some(hold) = self.holds.of(owner) {
            return Ok(MultiGuard { hold });
        }
        let stands = self.stand(owner)?;
        let behind = stands.iter().filter_map(Stand::behind);
        let places = acquire_behind(behind, self.places_in_front()).await?;
        Ok(self.guard(places, owner, stands))
    }

    /// As [`InterProcessMultiLock::acquire_as`], within one time for all of them.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessMultiLock::acquire_as`].
    pub async fn acquire_within_as(
        &self,
        time: Duration,
        owner: Owner,
    ) -> Result<MultiGuard, LockError> {
        within(time, self.acquire_as(owner)).await
    }

    /// As [`InterProcessMultiLock::try_acquire`], for an owner.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMultiLock::acquire_as`].
    pub async fn try_acquire_as(&self, owner: Owner) -> Result<Option<MultiGuard>, LockError> {
        if let Some(hold) = self.holds.of(owner) {
            return Ok(Some(MultiGuard { hold }));
        }
        let stands = self.stand(owner)?;
        for line in self.lines.iter() {
            if !line.participants(line.kind.marker).await?.is_empty() {
                return Ok(None);
            }
        }
        let mut places = EnteringAll::enter(&self.client, &self.lines).await?;
        let standings = Place::look_at_all(&places, &self.lines).await?;
        if standings.iter().any(|standing| standing.turn != Turn::Mine) {
            // All are on their way before the first answer is waited for.
            let leaves: Vec<_> = places.into_iter().rev().map(Place::start_leaving).collect();
            for leave in leaves {
                leave.done_if_there().await?;
            }
            return Ok(None);
        }
        for (place, line) in places.iter_mut().zip(self.lines.iter()) {
            place.come_to_the_front(line, false);
        }
        held::until_proven(&mut places).await?;
        Ok(Some(self.guard(places, owner, stands)))
    }

    /// Whether an owner holds them by this object.
    #[must_use]
    pub fn is_held_by(&self, owner: Owner) -> bool {
        self.holds.of(owner).is_some()
    }

    /// Whether someone of this process holds them by this object.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.acquired.is_any_held()
    }

    fn stand(&self, owner: Owner) -> Result<Vec<Stand>, LockError> {
        let stand = |line: &Line| Stand::join(&line.id, line.kind, owner);
        self.lines.iter().map(stand).collect()
    }

    fn guard(&self, places: Vec<Place>, owner: Owner, mut stands: Vec<Stand>) -> MultiGuard {
        let session = places.first().map_or_else(|| self.client.session_id(), Place::session);
        let token = places.first().map_or(Zxid::ZERO, Place::token);
        let holder = Holder::new(self.client.clone(), session, token, places);
        for stand in &mut stands {
            stand.holds(holder.held());
        }
        self.acquired.note(&holder);
        let hold = Hold::new(holder, stands);
        self.holds.note(owner, &hold);
        MultiGuard { hold }
    }

    /// Waits until a place in each line is in front.
    async fn places_in_front(&self) -> Result<Vec<Place>, LockError> {
        let mut tries = Tries::new();
        loop {
            match self.enter_and_wait().await {
                // The session ended in line: the next session takes places of its own.
                Err(LockError::PlaceLost) => tries.after_lost_place().await,
                result => return result,
            }
        }
    }

    async fn enter_and_wait(&self) -> Result<Vec<Place>, LockError> {
        let mut places = EnteringAll::enter(&self.client, &self.lines).await?;
        let standings = Place::look_at_all(&places, &self.lines).await?;
        wait_all(&mut places, &self.lines, standings).await?;
        held::until_proven(&mut places).await?;
        Ok(places)
    }
}

/// Several mutexes that are held. Dropping it releases all in the background;
/// [`MultiGuard::release`] waits for that.
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard {
    hold: Arc<Hold<Vec<Stand>>>,
}

impl MultiGuard {
    /// Another guard of the same hold. It makes no request, and the locks are free when the last
    /// guard is gone. When one of them is lost, all guards are.
    pub fn reenter(&self) -> Self {
        Self { hold: Arc::clone(&self.hold) }
    }

    /// A number that is greater than that of everyone who held one of these locks before: the zxid
    /// by which all their znodes were created.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.hold.holder.token()
    }

    /// The znodes by which the locks are held.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.hold.holder.paths().iter().map(String::as_str)
    }

    /// Whether all are held, as far as is known without asking the server.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.hold.holder.state()
    }

    /// Waits until one of them is lost.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        self.hold.holder.lost().await;
    }

    /// Waits until the holder is asked to give one of the locks up ([`Revoker`](crate::Revoker)), also if that was
    /// before. What to do then is for the holder to say: nothing is taken from it.
    ///
    /// It costs a look and a watch, which is taken back when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one is lost meanwhile; what may go wrong with a read.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn revocation_requested(&self) -> Result<(), LockError> {
        self.hold.holder.revocation_requested().await
    }

    /// Carries writes out only if all locks are held then: the server checks their znodes in the
    /// same multi.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one of the znodes is gone; the refusal of an operation else.
    pub async fn transaction(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, LockError> {
        let holder = &self.hold.holder;
        holder.transaction(holder.paths(), ops).await
    }

    /// Releases all, the last first, and returns when they are free, or at once if there are other
    /// guards of the same hold. If the future is dropped it goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one was lost before; the others are released all the same.
    pub async fn release(self) -> Result<(), LockError> {
        self.hold.release().await
    }

    /// As [`MultiGuard::release`], and waits no longer than this.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over: the release goes on in the background. Else as
    /// [`MultiGuard::release`].
    pub async fn release_within(self, time: Duration) -> Result<(), LockError> {
        within(time, self.release()).await
    }
}
