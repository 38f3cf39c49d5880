//! The watches of a client: which are to be registered, and who hears of what.
//!
//! ZooKeeper knows one watch of a kind on a path, however many parts of a program wait for it; here
//! each part has a [`Cell`] of its own.

use std::collections::{BTreeMap, VecDeque};
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

/// What a watcher hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Something happened.
    Event(Zxid, WatchedEvent),
    /// The session is over, and the watch with it.
    SessionLost,
    /// The client is closed, and the watch with it.
    Closed,
}

/// One of those who wait at a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaiterId(u64);

impl WaiterId {
    /// The one who waits, where only one does.
    pub(crate) const ONLY: Self = Self(0);

    /// One unlike the others.
    pub(crate) fn new() -> Self {
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
    fn tell(&self, heard: Heard) -> Vec<Waker> {
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

    /// Whether anything about a path is watched.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// How many watchers there are.
    pub(crate) fn len(&self) -> usize {
        self.by_path.values().map(Vec::len).sum()
    }
}
