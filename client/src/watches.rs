//! The watchers of a client: which watches they need on the server, and which events they get.
//!
//! A server has one watch of a kind per path and connection, however many parts of a program wait
//! for it. Here each part is a watcher with an [`EventQueue`] of its own.

mod by_path;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::{BitAnd, BitOr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use smallvec::SmallVec;
use zoolet_protocol::{EventType, RawPath, WatchedEvent, Zxid};

use self::by_path::ByPath;

/// The kinds of watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WatchKind {
    /// The next change of a znode that exists.
    Data,
    /// The creation of a znode that does not exist.
    Exist,
    /// The next change of a znode's list of children.
    Child,
    /// All changes of a znode and of its list of children.
    Persistent,
    /// All changes of a znode and of its descendants.
    Recursive,
}

impl WatchKind {
    pub(crate) fn is_one_shot(self) -> bool {
        matches!(self, Self::Data | Self::Exist | Self::Child)
    }

    /// Whether both are the same for a server. `Data` and `Exist` are.
    fn is_as(self, other: Self) -> bool {
        WatchModes::of(self) == WatchModes::of(other)
    }

    /// Whether an event of this type fires this kind of watch at the same path.
    fn is_fired_by(self, event_type: EventType) -> bool {
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

/// A set of kinds. `Data` and `Exist` count as one, as they do for a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WatchModes(u8);

impl WatchModes {
    /// The kinds that stay until they are removed.
    pub(crate) const PERSISTENT: Self = Self::of(WatchKind::Persistent).with(WatchKind::Recursive);

    const fn of(kind: WatchKind) -> Self {
        Self(match kind {
            WatchKind::Data | WatchKind::Exist => 1,
            WatchKind::Child => 2,
            WatchKind::Persistent => 4,
            WatchKind::Recursive => 8,
        })
    }

    const fn with(self, kind: WatchKind) -> Self {
        Self(self.0 | Self::of(kind).0)
    }

    /// The kinds that `removeWatches` of a one-shot kind may remove, on a server of any version.
    pub(crate) fn in_table_of(kind: WatchKind) -> Self {
        match kind {
            WatchKind::Child => Self::of(WatchKind::Child).with(WatchKind::Persistent),
            _ => Self::PERSISTENT.with(WatchKind::Data),
        }
    }

    pub(crate) fn add(&mut self, kind: WatchKind) {
        *self = self.with(kind);
    }

    pub(crate) fn remove(&mut self, kind: WatchKind) {
        self.0 &= !Self::of(kind).0;
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has_any(self, others: Self) -> bool {
        !(self & others).is_none()
    }

    /// Whether one of these persistent kinds gets all events of a one-shot kind.
    pub(crate) fn covers(self, kind: WatchKind) -> bool {
        kind.is_one_shot() && self.has_any(Self::in_table_of(kind) & Self::PERSISTENT)
    }
}

impl From<WatchKind> for WatchModes {
    fn from(kind: WatchKind) -> Self {
        Self::of(kind)
    }
}

impl BitOr for WatchModes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for WatchModes {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<WatchKind> for WatchModes {
    fn from_iter<I: IntoIterator<Item = WatchKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::default(), Self::with)
    }
}

/// What arrives in the queue of a watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WatchUpdate {
    /// An event, with the zxid of its change.
    Event(Zxid, WatchedEvent),
    /// The watch was never registered, for want of a connection.
    NotRegistered,
    /// The session expired, and the watch with it.
    SessionExpired,
    /// The client was closed, and the watch with it.
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

/// The events of one watcher that it has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    /// Whether the watcher knows of which znode its events are, so that they come without the path.
    is_of_one_znode: bool,
    /// Whether there are updates, as `state` says, to be read without its lock.
    has_updates: AtomicBool,
    state: Mutex<State>,
}

/// Updates in their order. The first two need no memory of their own: a watch on the znode ahead in a
/// line gets no more.
#[derive(Debug, Default)]
struct Updates {
    /// No update is behind an empty place.
    few: [Option<WatchUpdate>; 2],
    more: VecDeque<WatchUpdate>,
}

impl Updates {
    fn is_empty(&self) -> bool {
        self.few[0].is_none()
    }

    fn push(&mut self, update: WatchUpdate) {
        match self.few.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(update),
            None => self.more.push_back(update),
        }
    }

    fn pop(&mut self) -> Option<WatchUpdate> {
        let [first, second] = &mut self.few;
        let next = first.take();
        *first = second.take();
        *second = self.more.pop_front();
        next
    }
}

#[derive(Debug, Default)]
struct State {
    updates: Updates,
    /// In the order in which they began to wait. The first is here and not in `others`, since most
    /// queues have one.
    first: Option<(WaiterId, Waker)>,
    others: Vec<(WaiterId, Waker)>,
    /// How many entries of [`Watches`] have this queue.
    entries: usize,
    /// The watcher is gone, although the server may still be about to register the watch.
    abandoned: bool,
}

impl EventQueue {
    /// The queue of a watcher that does not look at the paths of its events.
    pub(crate) fn of_one_znode() -> Self {
        Self { is_of_one_znode: true, ..Self::default() }
    }

    /// An event as this watcher gets it.
    fn update(&self, zxid: Zxid, event: &WatchedEvent) -> WatchUpdate {
        let path = if self.is_of_one_znode { RawPath::NULL } else { event.path.clone() };
        WatchUpdate::Event(zxid, WatchedEvent { path, ..*event })
    }

    /// Adds an update, and the tasks that wait for one to `wakers`.
    pub(crate) fn push(&self, update: WatchUpdate, wakers: &mut Vec<Waker>) {
        self.add(&mut self.state.lock(), update, wakers);
    }

    /// As [`EventQueue::push`], where an entry of [`Watches`] ends by the update.
    fn push_last(&self, update: WatchUpdate, wakers: &mut Vec<Waker>) {
        let mut state = self.state.lock();
        state.entries -= 1;
        self.add(&mut state, update, wakers);
    }

    fn add(&self, state: &mut State, update: WatchUpdate, wakers: &mut Vec<Waker>) {
        state.push(update, wakers);
        self.has_updates.store(true, Ordering::Release);
    }

    fn take(&self, state: &mut State) -> Option<WatchUpdate> {
        let update = state.updates.pop();
        self.has_updates.store(!state.updates.is_empty(), Ordering::Release);
        update
    }

    /// Counts an entry of [`Watches`] that begins.
    fn add_entry(&self) {
        self.state.lock().entries += 1;
    }

    /// As [`EventQueue::add_entry`], unless the watcher is gone. Returns whether it is there.
    fn add_entry_if_needed(&self) -> bool {
        let mut state = self.state.lock();
        state.entries += usize::from(!state.abandoned);
        !state.abandoned
    }

    /// Counts an entry of [`Watches`] that ends without an update.
    fn remove_entry(&self) {
        self.state.lock().entries -= 1;
    }

    /// Takes the oldest update, or has the task woken when one arrives.
    pub(crate) fn poll_next(&self, waiter: WaiterId, context: &Context<'_>) -> Poll<WatchUpdate> {
        let mut state = self.state.lock();
        match self.take(&mut state) {
            Some(update) => Poll::Ready(update),
            None => {
                state.wait(waiter, context.waker());
                Poll::Pending
            }
        }
    }

    /// Forgets a task that no longer waits.
    pub(crate) fn forget_waiter(&self, waiter: WaiterId) {
        let mut state = self.state.lock();
        match &state.first {
            Some((first, _)) if *first == waiter => {
                state.first = (!state.others.is_empty()).then(|| state.others.remove(0));
            }
            _ => state.others.retain(|(other, _)| *other != waiter),
        }
    }

    /// Takes the oldest update, if there is one.
    pub(crate) fn try_next(&self) -> Option<WatchUpdate> {
        if !self.has_updates.load(Ordering::Acquire) {
            return None;
        }
        self.take(&mut self.state.lock())
    }

    /// Notes that the watcher is gone. Returns whether [`Watches`] has entries with the queue.
    pub(crate) fn abandon(&self) -> bool {
        let mut state = self.state.lock();
        state.abandoned = true;
        state.entries > 0
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.lock().abandoned
    }
}

impl State {
    fn push(&mut self, update: WatchUpdate, wakers: &mut Vec<Waker>) {
        self.updates.push(update);
        if let Some((_, first)) = self.first.take() {
            wakers.push(first);
            wakers.extend(self.others.drain(..).map(|(_, waker)| waker));
        }
    }

    fn wait(&mut self, waiter: WaiterId, waker: &Waker) {
        let is_alone = self.first.is_none();
        let mut known = self.first.iter_mut().chain(&mut self.others);
        match known.find(|(other, _)| *other == waiter) {
            Some((_, known)) => known.clone_from(waker),
            None if is_alone => self.first = Some((waiter, waker.clone())),
            None => self.others.push((waiter, waker.clone())),
        }
    }
}

/// The watchers of one path. Few have more than the two kinds of one [`ZnodeWatch`](crate::recipe::ZnodeWatch).
type Watchers = SmallVec<[(WatchKind, Arc<EventQueue>); 2]>;

/// All watchers of a client.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_path: ByPath<Watchers>,
    /// How many of them are recursive. While there are none, an event is only for those of its path.
    recursive: usize,
    /// Those that are told of the end also while they have no watch.
    told_of_end: Vec<Arc<EventQueue>>,
}

impl Watches {
    pub(crate) fn add(&mut self, path: Arc<str>, kind: WatchKind, queue: Arc<EventQueue>) {
        queue.add_entry();
        self.insert(path, kind, queue);
    }

    /// As [`Watches::add`], unless the watcher is gone. Its end in another thread comes before this, or
    /// finds what this adds.
    pub(crate) fn add_if_needed(
        &mut self,
        path: Arc<str>,
        kind: WatchKind,
        queue: Arc<EventQueue>,
    ) {
        if queue.add_entry_if_needed() {
            self.insert(path, kind, queue);
        }
    }

    fn insert(&mut self, path: Arc<str>, kind: WatchKind, queue: Arc<EventQueue>) {
        self.recursive += usize::from(kind == WatchKind::Recursive);
        self.by_path.get_or_add(path).push((kind, queue));
    }

    /// Removes a watcher. Returns whether its kind of watch has no watcher at the path any more.
    pub(crate) fn remove(&mut self, path: &str, kind: WatchKind, queue: &Arc<EventQueue>) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let count = watchers.len();
        watchers.retain(|(other, queued)| !(kind.is_as(*other) && Arc::ptr_eq(queued, queue)));
        let was_there = watchers.len() < count;
        let is_last = !watchers.iter().any(|(other, _)| kind.is_as(*other));
        (watchers.len()..count).for_each(|_| queue.remove_entry());
        if kind == WatchKind::Recursive {
            self.recursive -= count - watchers.len();
        }
        if watchers.is_empty() {
            self.by_path.remove(path);
        }
        was_there && is_last
    }

    /// Tells a queue of the end, also if it has no watch then, until [`Watches::remove_all`].
    pub(crate) fn tell_of_end(&mut self, queue: &Arc<EventQueue>) {
        self.told_of_end.push(Arc::clone(queue));
    }

    /// Removes all watchers that have this queue.
    pub(crate) fn remove_all(&mut self, queue: &Arc<EventQueue>) {
        self.told_of_end.retain(|other| !Arc::ptr_eq(other, queue));
        let recursive = &mut self.recursive;
        self.by_path.retain(|watchers| {
            watchers.retain(|(kind, other)| {
                if !Arc::ptr_eq(other, queue) {
                    return true;
                }
                *recursive -= usize::from(*kind == WatchKind::Recursive);
                queue.remove_entry();
                false
            });
            !watchers.is_empty()
        });
    }

    /// Whether the path has a watch of a kind with this queue.
    pub(crate) fn has(&self, path: &str, kind: WatchKind, queue: &Arc<EventQueue>) -> bool {
        let mut watchers = self.by_path.get(path).into_iter().flatten();
        watchers.any(|(other, queued)| kind.is_as(*other) && Arc::ptr_eq(queued, queue))
    }

    /// Delivers an event to all watchers of the path that it fires; one-shot watches end.
    pub(crate) fn fire(&mut self, zxid: Zxid, event: &WatchedEvent, wakers: &mut Vec<Waker>) {
        let path = event.path.text().unwrap_or_default();
        if let Some(watchers) = self.by_path.get_mut(path) {
            watchers.retain(|(kind, queue)| {
                if !kind.is_fired_by(event.event_type) {
                    return true;
                }
                let update = queue.update(zxid, event);
                if kind.is_one_shot() {
                    queue.push_last(update, wakers);
                } else {
                    queue.push(update, wakers);
                }
                !kind.is_one_shot()
            });
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
        }
        if self.recursive > 0 {
            self.fire_recursive(path, zxid, event, wakers);
        }
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
            for (kind, queue) in self.by_path.get(ancestor).into_iter().flatten() {
                if *kind == WatchKind::Recursive {
                    queue.push(queue.update(zxid, event), wakers);
                }
            }
        }
    }

    /// Ends all watchers with this last update.
    pub(crate) fn end(&mut self, update: &WatchUpdate, wakers: &mut Vec<Waker>) {
        let ended = std::mem::take(self);
        for (_, watchers) in ended.by_path.iter() {
            watchers.iter().for_each(|(_, queue)| queue.push_last(update.clone(), wakers));
        }
        ended.told_of_end.iter().for_each(|queue| queue.push(update.clone(), wakers));
    }

    /// The paths with the kinds of watches that they need, for `setWatches`.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (WatchKind, &str)> {
        self.by_path.iter().flat_map(|(path, watchers)| {
            let mut kinds: Vec<_> = watchers.iter().map(|(kind, _)| *kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds.into_iter().map(move |kind| (kind, &**path))
        })
    }

    /// The kinds of watches that a path needs.
    pub(crate) fn kinds(&self, path: &str) -> WatchModes {
        self.by_path.get(path).into_iter().flatten().map(|(kind, _)| *kind).collect()
    }

    /// The number of watchers.
    pub(crate) fn len(&self) -> usize {
        self.by_path.iter().map(|(_, watchers)| watchers.len()).sum()
    }
}
