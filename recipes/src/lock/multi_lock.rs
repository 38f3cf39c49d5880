//! Several mutexes at once: Curator's `InterProcessMultiLock` over paths, without its deadlocks.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, MultiOp, MultiResult, Zxid};

use super::guard::guard_methods;
use super::held_lock::{HeldLock, LockHandle};
use super::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
use super::methods::lock_methods;
use super::mutex;
use super::owner::Owner;
use super::registry::{self, LockId, Registered, Registration};
use super::state::LockState;
use crate::attempts::Attempts;
use crate::client::Client;
use crate::error::{LockError, within};
use crate::line::order::{PlaceKind, Position};
use crate::line::place::Place;
use crate::line::proof::until_proven;
use crate::line::several::{enter_all, positions_of, wait_in_all};
use crate::line::{Line, LineId, PositionAt};

/// The kind under which a lock without paths is registered. No znode has it, and no owner waits
/// for it.
static WITHOUT_PATHS: PlaceKind = PlaceKind {
    marker: "",
    waits_for: &[],
    ignores: &[],
    is_exclusive: false,
    may_have_second_place: &[],
};

/// The mutexes of several paths as one lock: all are held, or none.
///
/// It enters all lines at once, with one multi. So of any two clients the one that came first is
/// ahead in every line that they share, and they cannot wait for each other, in whatever order they
/// name the paths. That does not hold beside clients that acquire the same mutexes one after the
/// other: set a time limit there ([`InterProcessMultiLock::acquire_within`]).
///
/// Its znodes are those of [`InterProcessMutex`](crate::InterProcessMutex), and so of Curator's.
///
/// ```no_run
/// use zoolet_recipes::InterProcessMultiLock;
/// use zoolet_client::Client;
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
    lines: Arc<[Line]>,
    client: Client,
    id: LockId,
}

impl InterProcessMultiLock {
    /// The mutexes of these paths; a path that is named twice counts once. A lock without paths can
    /// always be acquired.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if one of them is not valid.
    pub fn new(client: &Client, paths: &[&str]) -> Result<Self, LockError> {
        let mut paths = paths.to_vec();
        paths.sort_unstable();
        paths.dedup();
        let line = |path: &&str| Line::new(client, path, &mutex::KIND);
        let lines = paths.iter().map(line).collect::<Result<_, _>>()?;
        Ok(Self { lines, client: client.clone(), id: LockId::new() })
    }

    /// The same lock with this data for its znodes, which shows others who waits for or holds the
    /// locks. The default is this machine's address, as in Curator.
    #[must_use]
    pub fn with_data(self, data: impl Into<Bytes>) -> Self {
        let data = data.into();
        let with_data = |line: &Line| Line { data: data.clone(), ..line.clone() };
        Self { lines: self.lines.iter().map(with_data).collect(), ..self }
    }

    /// The same lock with this access control list for its znodes and for the directories that are
    /// created for them. Without it each has the [default](zoolet_client::Client::default_acl) of
    /// its path.
    #[must_use]
    pub fn with_acl(self, acl: Vec<Acl>) -> Self {
        let acl: Arc<[Acl]> = acl.into();
        let with_acl = |line: &Line| {
            let mut line = line.clone();
            line.set_acl(Arc::clone(&acl));
            line
        };
        Self { lines: self.lines.iter().map(with_acl).collect(), ..self }
    }

    async fn acquire_for(&self, owner: Owner) -> Result<MultiGuard, LockError> {
        let registrations = match self.register(owner)? {
            Registered::New(registrations) => registrations,
            Registered::Held(handle) => return Ok(MultiGuard { handle }),
        };
        let acquiring = pin!(self.places_in_front());
        let places = registry::with_self_wait_warning(&registrations, acquiring).await?;
        Ok(self.guard(places, registrations))
    }

    /// Enters the lines, and waits until the places hold the locks. When one of them is lost, this
    /// enters all lines again.
    async fn places_in_front(&self) -> Result<Vec<Place>, LockError> {
        let mut attempts = Attempts::new(&self.client);
        loop {
            match self.enter_and_wait().await {
                Err(LockError::PlaceLost(_)) => attempts.wait_after_lost_place().await,
                result => return result,
            }
        }
    }

    async fn enter_and_wait(&self) -> Result<Vec<Place>, LockError> {
        let mut places = enter_all(&self.client, &self.lines).await?;
        let positions = positions_of(&places, &self.lines).await?;
        wait_in_all(&mut places, &self.lines, positions).await?;
        until_proven(&mut places).await?;
        Ok(places)
    }

    async fn try_acquire_for(&self, owner: Owner) -> Result<Option<MultiGuard>, LockError> {
        let registrations = match self.register(owner)? {
            Registered::New(registrations) => registrations,
            Registered::Held(handle) => return Ok(Some(MultiGuard { handle })),
        };
        let places = self.try_places().await?;
        Ok(places.map(|places| self.guard(places, registrations)))
    }

    /// A place in front of each line, if no line has a place. Tries again when a place is lost,
    /// since that does not show who holds the locks.
    async fn try_places(&self) -> Result<Option<Vec<Place>>, LockError> {
        let mut attempts = Attempts::new(&self.client);
        loop {
            for line in self.lines.iter() {
                if !line.participants(line.kind.marker).await?.is_empty() {
                    return Ok(None);
                }
            }
            let mut places = enter_all(&self.client, &self.lines).await?;
            let positions = positions_of(&places, &self.lines).await?;
            let is_behind = |at: &PositionAt| matches!(at.position, Position::Behind { .. });
            if positions.iter().any(is_behind) {
                delete_all(places).await?;
                return Ok(None);
            }
            let missing = positions.iter().position(|at| at.position == Position::Missing);
            if let Some(missing) = missing {
                let lost = LockError::PlaceLost(places[missing].path().to_owned());
                delete_all(places).await?;
                attempts.wait_after(lost).await?;
                continue;
            }
            for (place, line) in places.iter_mut().zip(self.lines.iter()) {
                line.came_to_front(place);
            }
            match until_proven(&mut places).await {
                Ok(()) => return Ok(Some(places)),
                Err(error) => {
                    drop(places);
                    attempts.wait_after(error).await?;
                }
            }
        }
    }

    /// Registers an owner in all lines.
    fn register(&self, owner: Owner) -> Result<Registered<Vec<Registration>>, LockError> {
        let mut registrations = Vec::with_capacity(self.lines.len());
        for (line, kind) in self.registered_lines() {
            match Registration::new(&line, kind, self.id, owner)? {
                Registered::New(registration) => registrations.push(registration),
                Registered::Held(handle) => return Ok(Registered::Held(handle)),
            }
        }
        Ok(Registered::New(registrations))
    }

    fn guard(&self, places: Vec<Place>, registrations: Vec<Registration>) -> MultiGuard {
        let session = match places.first() {
            Some(place) => place.session().clone(),
            None => self.client.in_session(self.client.session_id()),
        };
        let token = places.first().map_or(Zxid::ZERO, Place::token);
        MultiGuard { handle: LockHandle::new(session, token, places, registrations) }
    }

    /// The lines in which owners are registered: those of the paths, or one without a
    /// path.
    fn registered_lines(&self) -> Vec<(LineId, &'static PlaceKind)> {
        if self.lines.is_empty() {
            return vec![(LineId::without_path(&self.client), &WITHOUT_PATHS)];
        }
        self.lines.iter().map(|line| (line.id.clone(), line.kind)).collect()
    }

    fn held_by(&self, owner: Owner) -> Option<LockHandle> {
        let (line, _) = self.registered_lines().into_iter().next()?;
        registry::held_by(&line, self.id, owner)
    }

    /// The paths of the mutexes, for errors.
    fn paths(&self) -> String {
        let paths: Vec<_> = self.lines.iter().map(|line| &*line.directory).collect();
        paths.join(", ")
    }

    fn is_acquired(&self) -> bool {
        let line = self.registered_lines().into_iter().next();
        line.is_some_and(|(line, _)| registry::is_held(&line, self.id))
    }
}

lock_methods! {
    impl InterProcessMultiLock => MultiGuard;
    /// Waits until all locks are held.
    ///
    /// Each call enters the lines by itself, as with tokio's `Mutex`: a task that calls it while it
    /// holds one of the locks waits for itself, and a warning (`tracing`) says so after a second.
    /// To hold the locks twice, call [`MultiGuard::reenter`], or
    /// [`InterProcessMultiLock::acquire_as`] with one [`Owner`] both times.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    acquire;
    /// Acquires all locks if they are free, without waiting for them. If one of them is held, this
    /// costs reads and creates nothing.
    try_acquire;
    /// As [`InterProcessMultiLock::acquire`], for an owner: while it holds the locks by this object
    /// or a clone of it, it gets another guard of them, without a request.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] at once if the owner holds one of the locks by another object
    /// of the same client, or waits for one; else as [`InterProcessMultiLock::acquire`].
    acquire_as = |lock, owner| lock.acquire_for(owner);
    try_acquire_as = |lock, owner| lock.try_acquire_for(owner);
    is_held_by = |lock, owner| lock.held_by(owner).is_some();
    is_acquired_in_this_process = |lock| lock.is_acquired();
    path = |lock| lock.paths();
}

/// Deletes places, the last first. All requests are sent before the first answer is awaited.
async fn delete_all(places: Vec<Place>) -> Result<(), LockError> {
    let deletions: Vec<_> = places.into_iter().rev().map(Place::send_delete).collect();
    for deletion in deletions {
        deletion.finish_if_present().await?;
    }
    Ok(())
}

/// Several mutexes that are held. Dropping the guard releases all of them in the background;
/// [`MultiGuard::release`] waits until they are released. When one of them is lost, the guard
/// counts as lost.
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard {
    handle: LockHandle,
}

impl MultiGuard {
    /// Another guard of the same held locks. It sends no request. The locks are released with the
    /// last guard; when one of them is lost, all guards are.
    pub fn reenter(&self) -> Self {
        Self { handle: self.handle.another() }
    }
}

guard_methods!(MultiGuard);
