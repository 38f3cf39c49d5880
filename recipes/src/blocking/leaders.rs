//! Leaders.

use std::time::Duration;

use super::{Client, Recipe};
use crate::error::LockError;
use crate::leadership::{Participant, Term};

/// The async [`LeaderLatch`](crate::LeaderLatch), for threads.
pub type LeaderLatch = Recipe<crate::LeaderLatch>;

impl LeaderLatch {
    /// Stands for election at a path from now on.
    ///
    /// # Errors
    ///
    /// As the async [`start`](crate::LeaderLatch::start).
    pub fn start(client: &Client, path: &str, id: &str) -> Result<Self, LockError> {
        let latch = client.wait(async { crate::LeaderLatch::start(client.ask(), path, id) })?;
        Ok(Self::of(client, latch))
    }

    /// Whether this one leads.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.recipe.is_leader()
    }

    /// Waits no longer than this until this one leads.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as the async
    /// [`await_leadership_within`](crate::LeaderLatch::await_leadership_within).
    pub fn await_leadership_within(&self, time: Duration) -> Result<Term, LockError> {
        self.client.wait(self.recipe.await_leadership_within(time))
    }

    /// All who stand for election, who leads first.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read; so of what follows.
    pub fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.client.wait(self.recipe.participants())
    }

    /// Who leads.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub fn leader(&self) -> Result<Option<Participant>, LockError> {
        self.client.wait(self.recipe.leader())
    }

    /// Stands for election no more, and returns when another may lead.
    ///
    /// # Errors
    ///
    /// As the async [`close`](crate::LeaderLatch::close).
    pub fn close(self) -> Result<(), LockError> {
        let Self { recipe, client } = self;
        client.wait(recipe.close())
    }
}
