//! What the mutex and the two sides of the read-write lock have in common: an owner takes places of
//! one kind in a line, and holds one at most.

use std::slice;

use crate::error::LockError;
use crate::line::order::Turn;
use crate::line::place::{Line, Place};
use crate::lock::guard::{Guard, Hold, Holds};
use crate::lock::held::{self, Acquired, Holder};
use crate::lock::owner::{Owner, Stand, acquire_behind};
use crate::tries::Tries;

/// Places of one kind in a line, and who of this process holds which.
#[derive(Debug, Clone)]
pub(crate) struct LineLock {
    pub(crate) line: Line,
    holds: Holds<Stand>,
    acquired: Acquired,
}

impl LineLock {
    pub(crate) fn new(line: Line) -> Self {
        Self { line, holds: Holds::default(), acquired: Acquired::default() }
    }

    /// Waits for a place in front.
    pub(crate) async fn acquire(&self, owner: Owner) -> Result<Guard, LockError> {
        if let Some(guard) = self.held_by(owner) {
            return Ok(guard);
        }
        let stand = self.stand(owner)?;
        let place = acquire_behind(stand.behind(), self.first_place()).await?;
        Ok(self.hold(place, stand))
    }

    /// Waits until a place is in front.
    async fn first_place(&self) -> Result<Place, LockError> {
        let mut tries = Tries::new();
        loop {
            let (mut place, standing) = self.line.enter().await?;
            match held::until_held(&mut place, &self.line, standing).await {
                Ok(()) => return Ok(place),
                // The session ended in line: the next session takes a place of its own. Or somebody
                // deletes places, perhaps each new one.
                Err(LockError::PlaceLost) => {
                    drop(place);
                    tries.after_lost_place().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A place in front if there is one now; if not, it costs one read.
    pub(crate) async fn try_acquire(&self, owner: Owner) -> Result<Option<Guard>, LockError> {
        if let Some(guard) = self.held_by(owner) {
            return Ok(Some(guard));
        }
        let stand = self.stand(owner)?;
        let mut tries = Tries::new();
        loop {
            for marker in self.line.kind.waits_for {
                if !self.participants(marker).await?.is_empty() {
                    return Ok(None);
                }
            }
            let (mut place, standing) = self.line.enter().await?;
            match standing.turn {
                Turn::Mine => {
                    place.come_to_the_front(&self.line, false);
                    match held::until_proven(slice::from_mut(&mut place)).await {
                        Ok(()) => return Ok(Some(self.hold(place, stand))),
                        Err(error) => {
                            drop(place);
                            tries.after(error.into()).await?;
                        }
                    }
                }
                // Somebody was quicker.
                Turn::Behind { .. } => {
                    place.leave_if_there().await?;
                    return Ok(None);
                }
                // It says nothing of who holds the lock.
                Turn::Gone => tries.after(LockError::PlaceLost).await?,
            }
        }
    }

    /// The znodes of all who stand in line under a marker, the first first.
    pub(crate) async fn participants(&self, marker: &str) -> Result<Vec<String>, LockError> {
        self.line.participants(marker).await
    }

    pub(crate) fn stand(&self, owner: Owner) -> Result<Stand, LockError> {
        Stand::join(&self.line.id, self.line.kind, owner)
    }

    /// Notes that an owner holds a place.
    pub(crate) fn hold(&self, place: Place, mut stand: Stand) -> Guard {
        let (owner, client) = (stand.owner(), self.line.client.clone());
        let holder = Holder::new(client, place.session(), place.token(), vec![place]);
        stand.holds(holder.held());
        self.acquired.note(&holder);
        let hold = Hold::new(holder, stand);
        self.holds.note(owner, &hold);
        Guard::new(hold)
    }

    /// Whether someone of this process holds a place by this object.
    pub(crate) fn is_acquired(&self) -> bool {
        self.acquired.is_any_held()
    }

    /// The guard of an owner that holds a place, once more. A place that is lost is not held, and
    /// does not stand in the way of a new one.
    pub(crate) fn held_by(&self, owner: Owner) -> Option<Guard> {
        self.holds.of(owner).map(Guard::new)
    }
}
