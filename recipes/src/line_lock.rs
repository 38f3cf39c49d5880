//! What the mutex and the two sides of the read-write lock have in common: an owner takes places of
//! one kind in a line, and holds one at most.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::error::LockError;
use crate::guard::{Guard, Hold};
use crate::held::Acquired;
use crate::line::Turn;
use crate::owner::{Owner, Stand};
use crate::place::{Line, Place};

/// Places of one kind in a line, and who of this process holds which.
#[derive(Debug, Clone)]
pub(crate) struct LineLock {
    pub(crate) line: Line,
    holds: Arc<Mutex<HashMap<Owner, Weak<Hold>>>>,
    acquired: Acquired,
}

impl LineLock {
    pub(crate) fn new(line: Line) -> Self {
        Self { line, holds: Arc::default(), acquired: Acquired::default() }
    }

    /// Waits for a place in front.
    pub(crate) async fn acquire(&self, owner: Owner) -> Result<Guard, LockError> {
        if let Some(guard) = self.held_by(owner) {
            return Ok(guard);
        }
        let stand = self.stand(owner)?;
        loop {
            let (mut place, standing) = self.line.enter().await?;
            match place.wait(&self.line, standing).await {
                Ok(()) => return Ok(self.hold(owner, place, stand)),
                // The session ended in line: the next session takes a place of its own.
                Err(LockError::PlaceLost) => drop(place),
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
        for marker in self.line.kind.waits_for {
            if !self.participants(marker).await?.is_empty() {
                return Ok(None);
            }
        }
        let (mut place, standing) = self.line.enter().await?;
        match standing.turn {
            Turn::Mine => {
                place.come_to_the_front(&self.line, false);
                Ok(Some(self.hold(owner, place, stand)))
            }
            // Somebody was quicker.
            Turn::Behind { .. } | Turn::Gone => {
                place.leave_if_there().await?;
                Ok(None)
            }
        }
    }

    /// The znodes of all who stand in line under a marker, the first first.
    pub(crate) async fn participants(&self, marker: &str) -> Result<Vec<String>, LockError> {
        self.line.participants(marker).await
    }

    pub(crate) fn stand(&self, owner: Owner) -> Result<Stand, LockError> {
        let Line { client, directory, kind, .. } = &self.line;
        Stand::join(client, directory, owner, kind.is_exclusive)
    }

    /// Notes that an owner holds a place.
    pub(crate) fn hold(&self, owner: Owner, place: Place, stand: Stand) -> Guard {
        let hold = Hold::new(self.line.client.clone(), place, stand);
        self.acquired.note(&hold.holder);
        let mut holds = self.holds.lock();
        holds.retain(|_, hold| hold.strong_count() > 0);
        holds.insert(owner, Arc::downgrade(&hold));
        Guard::new(hold)
    }

    /// Whether someone of this process holds a place by this object.
    pub(crate) fn is_acquired(&self) -> bool {
        self.acquired.is_any_held()
    }

    /// The guard of an owner that holds a place, once more. A place that is lost is not held, and
    /// does not stand in the way of a new one.
    pub(crate) fn held_by(&self, owner: Owner) -> Option<Guard> {
        let hold = self.holds.lock().get(&owner)?.upgrade()?;
        if hold.is_lost() {
            hold.stand_no_more();
            return None;
        }
        Some(Guard::new(hold))
    }
}
