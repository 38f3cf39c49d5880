//! What the engine's lock guards, and the proof that a thread holds the lock.

use std::marker::PhantomData;

use zoolet_core::Core;

use super::journal::Journal;

/// What the engine's lock guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) core: Core,
    pub(super) journal: Journal,
}

/// Proof that the caller holds the engine's lock. It borrows from the guard, so the guard outlives
/// it.
///
/// Invariant: **the lock is the order.** A reply or event enters its outbox before the lock is
/// released under which it was produced, so pushing a message takes this proof. A message that is
/// pushed later could be overtaken: an event could reach the client before the reply of the request
/// that set the watch, and the client would drop it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockHeld<'guard>(PhantomData<&'guard State>);

impl State {
    /// A `State` is only ever borrowed from a guard of the lock.
    pub(super) fn lock_held(&self) -> LockHeld<'_> {
        LockHeld(PhantomData)
    }
}

#[cfg(test)]
impl LockHeld<'_> {
    /// For tests of an outbox alone.
    pub(super) const NO_ENGINE: Self = Self(PhantomData);
}
