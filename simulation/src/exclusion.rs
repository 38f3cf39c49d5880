//! The holders of each lock, as the clients believe.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use zoolet_protocol::{MultiOp, Zxid};
use zoolet_recipes::{Guard, LeaderLatch, LockError, LockState, MultiGuard, Permits, Term};
pub(crate) use zoolet_testkit::sim::parts::Access;
use zoolet_testkit::sim::parts::{Conflict, Sections};

/// A held lock.
#[derive(Debug)]
pub(crate) enum Held {
    Guard(Guard),
    Permits(Permits),
    Multi(MultiGuard),
}

impl zoolet_testkit::sim::Held for Held {
    fn is_held(&self) -> bool {
        self.state() == LockState::Held
    }

    fn fencing_token(&self) -> Option<Zxid> {
        Some(self.token())
    }
}

impl Held {
    pub(crate) fn state(&self) -> LockState {
        match self {
            Self::Guard(guard) => guard.state(),
            Self::Permits(permits) => permits.state(),
            Self::Multi(guard) => guard.state(),
        }
    }

    pub(crate) fn token(&self) -> Zxid {
        match self {
            Self::Guard(guard) => guard.fencing_token(),
            Self::Permits(permits) => permits.fencing_token(),
            Self::Multi(guard) => guard.fencing_token(),
        }
    }

    pub(crate) async fn transaction(&self, ops: Vec<MultiOp>) -> Result<(), LockError> {
        match self {
            Self::Guard(guard) => guard.transaction(ops).await,
            Self::Permits(permits) => permits.transaction(ops).await,
            Self::Multi(guard) => guard.transaction(ops).await,
        }
        .map(drop)
    }

    pub(crate) async fn lost(&self) {
        match self {
            Self::Guard(guard) => guard.lost().await,
            Self::Permits(permits) => permits.lost().await,
            Self::Multi(guard) => guard.lost().await,
        }
    }

    pub(crate) async fn release(self) -> Result<(), LockError> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Permits(permits) => permits.release().await,
            Self::Multi(guard) => guard.release().await,
        }
    }
}

/// All locks.
#[derive(Default)]
pub(crate) struct Exclusion {
    locks: Sections,
    terms: Mutex<Zxid>,
    /// The participants of the election.
    latches: Mutex<Vec<Weak<LeaderLatch>>>,
}

impl Exclusion {
    /// Records that a client acquired a lock.
    pub(crate) fn enter(
        &self,
        path: &str,
        client: usize,
        access: Access,
        held: &Arc<Held>,
    ) -> Result<(), String> {
        let entered = self.locks.enter(path, client, access, held);
        entered.map_err(|conflict| describe(&conflict))?;
        self.check_locks()
    }

    fn check_locks(&self) -> Result<(), String> {
        self.locks.check(|_client| true).map_err(|conflict| describe(&conflict))
    }

    /// Records that a participant waits for leadership.
    pub(crate) fn stand(&self, latch: &Arc<LeaderLatch>) {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        latches.retain(|latch| latch.strong_count() > 0);
        latches.push(Arc::downgrade(latch));
    }

    /// Checks that no lock has more holders than it admits, and that at most one participant leads.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_locks()?;
        let latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        let leaders = latches.iter().filter_map(Weak::upgrade).filter(|latch| latch.is_leader());
        match leaders.count() {
            0 | 1 => Ok(()),
            count => Err(format!("{count} participants lead at once")),
        }
    }

    /// Records that a participant leads.
    pub(crate) fn lead(&self, term: &Term) -> Result<(), String> {
        let mut last = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        let token = term.fencing_token();
        if token < *last {
            return Err(format!("a leader of the term {token} after one of {last}"));
        }
        *last = token;
        Ok(())
    }
}

fn describe(conflict: &Conflict) -> String {
    conflict.describe(|client| format!("client {client}"))
}
