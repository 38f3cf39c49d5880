//! Bugs that the simulation must find, which proves that it can find bugs.
//!
//! Production code contains none of them. Each is a patch in the folder `patches`, which the test
//! `planted_bugs` of the simulation applies to a copy of the workspace. In the copy [`plant`]
//! chooses the bug of a thread at run time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A planted bug, named after what goes wrong.
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
    /// A reply enters its outbox after the lock was released, so an event can overtake it.
    ReplyAfterTheLock,
    /// A client does not receive the events that it missed during a disconnect.
    EventLostOnReconnect,
    /// A watch that is set twice fires twice.
    WatchArmedTwice,
    /// A refused multi carries out the operations before the refused one.
    MultiHalfDone,
    /// A record is synced after the reply has left.
    LogSyncedLate,
    /// After a restart sequence numbers are used again.
    NumberReused,
    /// After a reconnect a client treats the deletion of the znode ahead as its turn, without a
    /// list.
    LockWithoutLook,
    /// The handshake does not report the zxid of an event, so the client accepts a server that is
    /// behind it.
    EventNotReported,
    /// A client acquires a lock by an event without a zxid, without a reply that confirms it.
    EventNotConfirmed,
    /// Any reply proves that the session is alive, also that of a server that is cut off from its
    /// leader.
    PingsProve,
}

impl PlantedBug {
    /// All planted bugs.
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

/// Chooses the bug of this thread; `None` for no bug.
pub fn plant(bug: Option<PlantedBug>) {
    PLANTED.set(bug);
}

/// Whether the bug is chosen for this thread.
#[must_use]
pub fn is_planted(bug: PlantedBug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Sets what another thread does while [`ReplyAfterTheLock`] has released the lock.
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

/// Returns the lock; with [`PlantedBug::ReplyAfterTheLock`] releases it and lets the other thread
/// act.
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
