//! Bugs that are put into the server and the recipes on purpose: a simulation that finds none proves
//! nothing until it has found these.
//!
//! They are compiled in with the feature `planted-bugs` of those crates only, and then still chosen at
//! run time, for the present thread. A program that is built without tests has none of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A bug, by what is done wrong.
///
/// ```
/// use zoolet_planted_bugs::{PlantedBug, is_planted, plant};
///
/// plant(Some(PlantedBug::WatchArmedTwice));
/// assert!(is_planted(PlantedBug::WatchArmedTwice) && !is_planted(PlantedBug::MultiHalfDone));
/// plant(None);
/// assert!(!is_planted(PlantedBug::WatchArmedTwice));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// A reply enters its outbox after the lock was released, so that an event may overtake it.
    ReplyAfterTheLock,
    /// What was missed during a disconnect is not told.
    EventLostOnReconnect,
    /// A watch that is left twice fires twice.
    WatchArmedTwice,
    /// A multi that is refused has done what stands before the refusal.
    MultiHalfDone,
    /// A record is synced after the answer has left.
    LogSyncedLate,
    /// After a restart numbers are given again.
    NumberReused,
    /// After a reconnect the end of the one ahead is taken for one's turn.
    LockWithoutLook,
    /// The handshake does not report the zxid of an event, so that a server is accepted that is behind it.
    EventNotReported,
    /// An event without a zxid makes a holder, and no reply confirms it.
    EventNotConfirmed,
    /// Any answer proves that the session lives, also that of a server that is cut off from its leader.
    PingsProve,
}

impl PlantedBug {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ReplyAfterTheLock,
        Self::EventLostOnReconnect,
        Self::WatchArmedTwice,
        Self::MultiHalfDone,
        Self::LogSyncedLate,
        Self::NumberReused,
        Self::LockWithoutLook,
        Self::EventNotReported,
        Self::EventNotConfirmed,
        Self::PingsProve,
    ];
}

thread_local! {
    static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) };
    static IN_GAP: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// Chooses the bug of this thread, or none.
pub fn plant(bug: Option<PlantedBug>) {
    PLANTED.set(bug);
}

/// Whether this thread has the bug.
#[must_use]
pub fn is_planted(bug: PlantedBug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Chooses what another thread would do in the moment in which [`ReplyAfterTheLock`] holds no lock.
///
/// [`ReplyAfterTheLock`]: PlantedBug::ReplyAfterTheLock
///
/// ```
/// zoolet_planted_bugs::in_gap(Some(std::rc::Rc::new(|| println!("another request"))));
/// let lock = zoolet_planted_bugs::release_early(());
/// assert!(lock.is_some(), "the bug is not planted");
/// ```
pub fn in_gap(act: Option<Rc<dyn Fn()>>) {
    IN_GAP.set(act);
}

/// Gives the lock back, or, with [`PlantedBug::ReplyAfterTheLock`], releases it and lets others act.
pub fn release_early<Lock>(lock: Lock) -> Option<Lock> {
    if !is_planted(PlantedBug::ReplyAfterTheLock) {
        return Some(lock);
    }
    drop(lock);
    let act = IN_GAP.with_borrow(Clone::clone);
    if let Some(act) = act {
        act();
    }
    None
}
