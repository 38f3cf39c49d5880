//! The watches of a client: which are to be registered, and who hears of what.
//!
//! ZooKeeper knows one watch of a kind on a path, however many parts of a program wait for it; here
//! each part has a [`Cell`] of its own.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{BitAnd, BitOr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use zoolet_protocol::{EventType, WatchedEvent, Zxid};

/// What a watch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// One change of a znode that was there.
    Data,
    /// The creation of a znode that was not there.
    Exist,
    /// One change of a znode's children.
    Child,
    /// All changes of a znode and of its children.
    Persistent,
    /// All changes of a znode and of its descendants.
    Recursive,
}

impl Kind {
    pub(crate) fn is_one_shot(self) -> bool {
        matches!(self, Self::Data | Self::Exist | Self::Child)
    }

    /// Whether an event of this type at the very path is for this kind of watch.
    fn hears_of(self, event_type: EventType) -> bool {
        match self {
            Self::Data | Self::Exist => event_type != EventType::NODE_CHILDREN_CHANGED,
            Self::Child => {
                matches!(event_type, EventType::NODE_CHILDREN_CHANGED | EventType::NODE_DELETED)
            }
            Self::Persistent => true,
            Self::Recursive => event_type != EventType::NODE_CHILDREN_CHANGED,
        }
    }
}

/// A set of kinds; those of `getData` and of `exists` are one, as they are for a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    /// The kinds that stay until they are taken back.
    pub(crate) const LASTING: Self = Self::of(Kind::Persistent).with(Kind::Recursive);

    const fn of(kind: Kind) -> Self {
        Self(match kind {
            Kind::Data | Kind::Exist => 1,
            Kind::Child => 2,
            Kind::Persistent => 4,
            Kind::Recursive => 8,
        })
    }

    const fn with(self, kind: Kind) -> Self {
        Self(self.0 | Self::of(kind).0)
    }

    /// The kinds that a removal of a one-shot kind may take, on a server of any version.
    pub(crate) fn in_table_of(kind: Kind) -> Self {
        match kind {
            Kind::Child => Self::of(Kind::Child).with(Kind::Persistent),
            _ => Self::LASTING.with(Kind::Data),
        }
    }

    pub(crate) fn add(&mut self, kind: Kind) {
        *self = self.with(kind);
    }

    pub(crate) fn remove(&mut self, kind: Kind) {
        self.0 &= !Self::of(kind).0;
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has_any(self, others: Self) -> bool {
        !(self & others).is_none()
    }

    /// Whether one of these lasting kinds hears all that a one-shot kind hears of.
    pub(crate) fn covers(self, kind: Kind) -> bool {
        kind.is_one_shot() && self.has_any(Self::in_table_of(kind) & Self::LASTING)
    }
}

impl From<Kind> for Kinds {
    fn from(kind: Kind) -> Self {
        Self::of(kind)
    }
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Kinds {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::default(), Self::with)
    }
}

/// What a watcher hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Something happened.
    Event(Zxid, WatchedEvent),
    /// The server has not been asked for the watch, for want of a connection.
    NotSent,
    /// The session is over, and the watch with it.
    SessionLost,
    /// The client is closed, and the watch with it.
    Closed,
}

/// Tells the tasks apart that wait for one [`ZnodeWatch`](crate::recipe::ZnodeWatch).
///
/// ```
/// use zoolet_client::recipe::WaiterId;
///
/// assert_ne!(WaiterId::unique(), WaiterId::ONLY);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaiterId(u64);

impl WaiterId {
    /// The task that waits, where it is the only one.
    pub const ONLY: Self = Self(0);

    /// An id that no other task has.
    #[must_use]
    pub fn unique() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Where one watcher hears.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    heard: VecDeque<Heard>,
    waiters: Vec<(WaiterId, Waker)>,
    /// Nobody waits any more, although the server may still be about to register the watch.
    abandoned: bool,
}

impl Cell {
    pub(crate) fn tell(&self, heard: Heard) -> Vec<Waker> {
        let mut state = self.state.lock();
        state.heard.push_back(heard);
        std::mem::take(&mut state.waiters).into_iter().map(|(_, waker)| waker).collect()
    }

    /// What was heard, in order.
    pub(crate) fn poll_heard(&self, waiter: WaiterId, context: &Context<'_>) -> Poll<Heard> {
        let mut state = self.state.lock();
        match state.heard.pop_front() {
            Some(heard) => Poll::Ready(heard),
            None => {
                let waker = context.waker().clone();
                match state.waiters.iter_mut().find(|(other, _)| *other == waiter) {
                    Some((_, known)) => *known = waker,
                    None => state.waiters.push((waiter, waker)),
                }
                Poll::Pending
            }
        }
    }

    /// Someone does not wait any more.
    pub(crate) fn forget_waiter(&self, waiter: WaiterId) {
        self.state.lock().waiters.retain(|(other, _)| *other != waiter);
    }

    /// What was heard, if there is something, without waiting for it.
    pub(crate) fn take_heard(&self) -> Option<Heard> {
        self.state.lock().heard.pop_front()
    }

    pub(crate) fn abandon(&self) {
        self.state.lock().abandoned = true;
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.lock().abandoned
    }
}

/// All watches of a client.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_path: BTreeMap<String, Vec<(Kind, Arc<Cell>)>>,
}

impl Watches {
    pub(crate) fn add(&mut self, path: String, kind: Kind, cell: Arc<Cell>) {
        self.by_path.entry(path).or_default().push((kind, cell));
    }

    /// Forgets a watcher, and tells whether its kind of watch on the path has no watcher any more.
    pub(crate) fn remove(&mut self, path: &str, kind: Kind, cell: &Arc<Cell>) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let same_table = |other: Kind| match kind {
            Kind::Data | Kind::Exist => matches!(other, Kind::Data | Kind::Exist),
            kind => other == kind,
        };
        let count = watchers.len();
        watchers.retain(|(other, told)| !(same_table(*other) && Arc::ptr_eq(told, cell)));
        let was_there = watchers.len() < count;
        let is_last = !watchers.iter().any(|(other, _)| same_table(*other));
        if watchers.is_empty() {
            self.by_path.remove(path);
        }
        was_there && is_last
    }

    /// Tells an event to all that watch for it; one-shot watches end with it.
    pub(crate) fn fire(&mut self, zxid: Zxid, event: &WatchedEvent, wakers: &mut Vec<Waker>) {
        let path = event.path.text().unwrap_or_default();
        if let Some(watchers) = self.by_path.get_mut(path) {
            watchers.retain(|(kind, cell)| {
                if !kind.hears_of(event.event_type) {
                    return true;
                }
                wakers.extend(cell.tell(Heard::Event(zxid, event.clone())));
                !kind.is_one_shot()
            });
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
        }
        self.fire_recursive(path, zxid, event, wakers);
    }

    fn fire_recursive(
        &self,
        path: &str,
        zxid: Zxid,
        event: &WatchedEvent,
        wakers: &mut Vec<Waker>,
    ) {
        if event.event_type == EventType::NODE_CHILDREN_CHANGED {
            return;
        }
        let mut ancestor = path;
        while ancestor.len() > 1 {
            ancestor = match ancestor.rsplit_once('/') {
                Some(("", _)) => "/",
                Some((parent, _)) => parent,
                None => return,
            };
            for (kind, cell) in self.by_path.get(ancestor).into_iter().flatten() {
                if *kind == Kind::Recursive {
                    wakers.extend(cell.tell(Heard::Event(zxid, event.clone())));
                }
            }
        }
    }

    /// Tells all that it is over, and forgets them.
    pub(crate) fn end(&mut self, heard: &Heard, wakers: &mut Vec<Waker>) {
        for (_, watchers) in std::mem::take(&mut self.by_path) {
            wakers.extend(watchers.iter().flat_map(|(_, cell)| cell.tell(heard.clone())));
        }
    }

    /// The paths that are watched in each way, for `setWatches`.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (Kind, &str)> {
        self.by_path.iter().flat_map(|(path, watchers)| {
            let mut kinds: Vec<_> = watchers.iter().map(|(kind, _)| *kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds.into_iter().map(move |kind| (kind, path.as_str()))
        })
    }

    /// The kinds in which a path is watched.
    pub(crate) fn kinds(&self, path: &str) -> Kinds {
        self.by_path.get(path).into_iter().flatten().map(|(kind, _)| *kind).collect()
    }

    /// How many watchers there are.
    pub(crate) fn len(&self) -> usize {
        self.by_path.values().map(Vec::len).sum()
    }
}
