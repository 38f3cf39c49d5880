//! A lock by one line: the mutex and both sides of the read-write lock. An owner holds the lock
//! when its place is in front and its session is proved to be alive.

use std::pin::pin;

use super::guard::Guard;
use super::held_lock::LockHandle;
use super::owner::Owner;
use super::registry::{self, LockId, Registered, Registration};
use crate::attempts::Attempts;
use crate::error::LockError;
use crate::line::Line;
use crate::line::order::Position;
use crate::line::place::Place;
use crate::line::proof::until_proven;

/// A lock by places of one kind in a line.
#[derive(Clone)]
pub(crate) struct LineLock {
    pub(crate) line: Line,
    id: LockId,
}

impl LineLock {
    pub(crate) fn new(line: Line) -> Self {
        Self { line, id: LockId::new() }
    }

    /// Waits until the owner holds the lock.
    pub(crate) async fn acquire(&self, owner: Owner) -> Result<Guard, LockError> {
        self.acquire_by(owner, || self.place_in_front()).await
    }

    /// As [`LineLock::acquire`], by the future of a place that holds the lock.
    pub(crate) async fn acquire_by<F: Future<Output = Result<Place, LockError>>>(
        &self,
        owner: Owner,
        place: impl FnOnce() -> F,
    ) -> Result<Guard, LockError> {
        let registration = match self.register(owner)? {
            Registered::Held(handle) => return Ok(Guard { handle }),
            Registered::New(registration) => registration,
        };
        let registrations = std::slice::from_ref(&registration);
        // Declared behind the registration, so that it is dropped, and its znode deleted, before the owner
        // can register again.
        let place = pin!(place());
        let place = registry::with_self_wait_warning(registrations, place).await?;
        Ok(self.guard(place, registration))
    }

    /// Enters the line, and waits until the place holds the lock. When the place is lost, because
    /// its session has ended or someone has deleted its znode, this enters the line again.
    async fn place_in_front(&self) -> Result<Place, LockError> {
        let mut attempts = Attempts::new(&self.line.client);
        loop {
            let (mut place, at) = self.line.enter().await?;
            match self.line.wait_until_held(&mut place, at).await {
                Ok(()) => return Ok(place),
                Err(LockError::PlaceLost(_)) => {
                    drop(place);
                    attempts.wait_after_lost_place().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Acquires the lock if it is free. If it is not, this costs one read.
    pub(crate) async fn try_acquire(&self, owner: Owner) -> Result<Option<Guard>, LockError> {
        let registration = match self.register(owner)? {
            Registered::Held(handle) => return Ok(Some(Guard { handle })),
            Registered::New(registration) => registration,
        };
        let place = self.try_place().await?;
        Ok(place.map(|place| self.guard(place, registration)))
    }

    /// A place in front, if there is no place of a kind for which it would wait.
    async fn try_place(&self) -> Result<Option<Place>, LockError> {
        let mut attempts = Attempts::new(&self.line.client);
        loop {
            if self.line.has_to_wait().await? {
                return Ok(None);
            }
            let (mut place, at) = self.line.enter().await?;
            match at.position {
                Position::Front => {
                    self.line.came_to_front(&mut place);
                    match until_proven(std::slice::from_mut(&mut place)).await {
                        Ok(()) => return Ok(Some(place)),
                        Err(error) => {
                            drop(place);
                            attempts.wait_after(error).await?;
                        }
                    }
                }
                // Another client was quicker.
                Position::Behind { .. } => {
                    place.delete_if_present().await?;
                    return Ok(None);
                }
                // The loss of the place does not show who holds the lock.
                Position::Missing => {
                    let lost = LockError::PlaceLost(place.path().to_owned());
                    attempts.wait_after(lost).await?;
                }
            }
        }
    }

    /// The guard that an owner has already, or a new registration.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if the owner would wait for itself.
    pub(crate) fn register(&self, owner: Owner) -> Result<Registered<Registration>, LockError> {
        Registration::new(&self.line.id, self.line.kind, self.id, owner)
    }

    /// Registers an owner that holds a place in the line already.
    pub(crate) fn register_beside(&self, owner: Owner) -> Registration {
        Registration::beside(&self.line.id, self.line.kind, self.id, owner)
    }

    /// The guard of a lock that is held by a place.
    pub(crate) fn guard(&self, place: Place, registration: Registration) -> Guard {
        let (session, token) = (place.session().clone(), place.token());
        let handle = LockHandle::new(session, token, [place], [registration]);
        Guard { handle }
    }

    /// Another guard of the lock, if the owner holds it by this object. A lost lock is not held,
    /// and does not keep the owner from acquiring it again.
    pub(crate) fn held_by(&self, owner: Owner) -> Option<Guard> {
        registry::held_by(&self.line.id, self.id, owner).map(|handle| Guard { handle })
    }

    /// Whether anyone holds the lock by this object.
    pub(crate) fn is_acquired(&self) -> bool {
        registry::is_held(&self.line.id, self.id)
    }
}

/// The znodes' directory and marker.
impl std::fmt::Debug for LineLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.line.fmt(f)
    }
}
