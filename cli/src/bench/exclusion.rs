//! Checks that at most one client holds a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use zoolet_recipes::LockGuard;

use super::failure::Failure;

/// Each holder reports here when it has acquired and before it releases.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exclusion {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    inside: AtomicUsize,
    last_token: AtomicI64,
    violations: AtomicUsize,
}

impl Exclusion {
    /// Call this after the lock was acquired.
    pub(crate) fn enter(&self, guard: &dyn LockGuard) {
        let is_alone = self.shared.inside.fetch_add(1, Ordering::SeqCst) == 0;
        let token = guard.fencing_token().0;
        let is_newer = self.shared.last_token.swap(token, Ordering::SeqCst) < token;
        if !(is_alone && is_newer) {
            self.shared.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Call this before the lock is released.
    pub(crate) fn leave(&self) {
        self.shared.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Checks that at most one client held the lock at a time.
    ///
    /// # Errors
    ///
    /// [`Failure::Violated`] if two held it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.shared.violations.load(Ordering::SeqCst) {
            0 => Ok(()),
            times => Err(Failure::Violated { times }),
        }
    }
}
