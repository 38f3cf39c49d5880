//! Whether a lock is held by one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use zoolet_recipes::LockGuard;

use super::failure::Failure;

/// Told by all who hold a lock when they do, and when they do not any more.
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
    /// To be called when the lock is held.
    pub(crate) fn enter(&self, guard: &dyn LockGuard) {
        let is_alone = self.shared.inside.fetch_add(1, Ordering::SeqCst) == 0;
        let token = guard.fencing_token().0;
        let is_newer = self.shared.last_token.swap(token, Ordering::SeqCst) < token;
        if !(is_alone && is_newer) {
            self.shared.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// To be called before the lock is released.
    pub(crate) fn leave(&self) {
        self.shared.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether it was held by one at a time.
    ///
    /// # Errors
    ///
    /// [`Failure::Violated`] if not.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.shared.violations.load(Ordering::SeqCst) {
            0 => Ok(()),
            times => Err(Failure::Violated { times }),
        }
    }
}
