//! Who watches what: ZooKeeper's two `WatchManager`s, for data and for children, in one table.
//!
//! Promises:
//!
//! - One registration of a mode by a connection on a path is one watch, however often it is made.
//! - One trigger sends one event to a connection, whatever number of its watches fit.
//! - A one-shot watch is gone once it was triggered, a persistent one stays.
//! - Connections come in the order of their ids, so that a run can be repeated.

use std::collections::BTreeSet;
use std::ops::{BitAnd, BitOr, Bound, Not};
use std::sync::Arc;

use hashbrown::HashMap;
#[cfg(feature = "planted-bugs")]
use zoolet_planted_bugs::{PlantedBug, is_planted};
use zoolet_protocol::{ErrorCode, EventType, Response, WatchMode, WatchedEvent, WatcherType};

/// A connection, by a number that its server gives once. Watches belong to it, not to the session.
///
/// ```
/// use zoolet_core::ConnectionId;
///
/// assert!(ConnectionId(1) < ConnectionId(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What came of a request that leaves or takes back watches.
///
/// ```
/// use zoolet_core::{ConnectionId, Core, Requester, Settings};
/// use zoolet_protocol::{Lookup, SessionId, Watch, Xid};
///
/// let mut core = Core::new(Settings::default());
/// let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
/// let watched = core.watch(&Watch::Lookup(Lookup::Exists("/".into())), &requester);
/// assert!(watched.reply.is_ok() && watched.events.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The answer.
    pub reply: Result<Response, ErrorCode>,
    /// What happened already, for this connection, to be sent before the answer with the zxid -1.
    pub events: Vec<WatchedEvent>,
}

/// Which of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Child,
}

/// A set of modes in which one connection watches one path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Modes(u8);

impl Modes {
    pub(crate) const NONE: Self = Self(0);
    /// Fires once.
    pub(crate) const STANDARD: Self = Self(1);
    /// Fires until it is taken back.
    pub(crate) const PERSISTENT: Self = Self(2);
    /// Fires for all descendants, until it is taken back.
    pub(crate) const RECURSIVE: Self = Self(4);
    const ALL: Self = Self(7);
    /// Fires once, and once more.
    #[cfg(feature = "planted-bugs")]
    const TWICE: Self = Self(8);

    fn has(self, other: Self) -> bool {
        (self & other) != Self::NONE
    }
}

impl BitOr for Modes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Modes {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Modes {
    type Output = Self;

    fn not(self) -> Self {
        Self(!self.0) & Self::ALL
    }
}

/// How one connection watches one path.
#[derive(Debug, Clone, Copy)]
struct Watcher {
    connection: ConnectionId,
    data: Modes,
    child: Modes,
}

impl Watcher {
    fn modes(&mut self, kind: Kind) -> &mut Modes {
        match kind {
            Kind::Data => &mut self.data,
            Kind::Child => &mut self.child,
        }
    }

    fn is_idle(&self) -> bool {
        self.data == Modes::NONE && self.child == Modes::NONE
    }
}

/// How one connection watches one path, in the terms of ZooKeeper's two tables.
///
/// ```
/// use zoolet_core::{ConnectionId, Core, Requester, Settings, WatchKinds};
/// use zoolet_protocol::{Lookup, SessionId, Watch, Xid};
///
/// let mut core = Core::new(Settings::default());
/// let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
/// core.watch(&Watch::Lookup(Lookup::GetChildren("/".into())), &requester);
/// let kinds = WatchKinds { child: true, ..WatchKinds::default() };
/// assert_eq!(core.watchers(), [("/".into(), vec![(ConnectionId(1), kinds)])]);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchKinds {
    /// A one-shot watch among the data watches: of `getData` and of `exists`, which look alike here.
    pub data: bool,
    /// A one-shot watch among the child watches.
    pub child: bool,
    /// A persistent watch, which is in both tables.
    pub persistent: bool,
    /// A persistent recursive watch, which is among the data watches.
    pub recursive: bool,
}

/// Paths, and the connections that watch each of them.
pub type WatchersByPath = Vec<(Arc<str>, Vec<(ConnectionId, WatchKinds)>)>;

impl WatchKinds {
    fn of(watcher: &Watcher) -> Self {
        Self {
            data: watcher.data.has(Modes::STANDARD),
            child: watcher.child.has(Modes::STANDARD),
            persistent: watcher.data.has(Modes::PERSISTENT) || watcher.child.has(Modes::PERSISTENT),
            recursive: watcher.data.has(Modes::RECURSIVE),
        }
    }

    /// How many entries this is in both tables: what [`Totals::watches`](crate::Totals::watches) counts.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.data || self.persistent || self.recursive)
            + usize::from(self.child || self.persistent)
    }
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// The watchers of each path, ordered by connection; never an empty list.
    by_path: HashMap<Arc<str>, Watchers>,
    /// The paths that each connection watches; never an empty set.
    by_connection: HashMap<ConnectionId, WatchedPaths>,
    /// How many recursive watches there are; without any, no ancestors are looked at.
    recursive: usize,
    /// How many entries there are in the data table and in the child table.
    totals: [usize; 2],
    /// How many paths and how many connections are in the data table.
    data_paths: usize,
    data_connections: usize,
}

/// Who watches a path.
#[derive(Debug, Default)]
struct Watchers {
    /// Ordered by connection.
    list: Vec<Watcher>,
    /// How many of them are in the data table.
    data: usize,
}

/// What a connection watches.
#[derive(Debug, Default)]
struct WatchedPaths {
    paths: BTreeSet<Arc<str>>,
    /// How many of them are in the data table.
    data: usize,
}

/// How much is watched, of data and existence: what `wchs` tells.
///
/// ```
/// use zoolet_core::{Core, Settings, WatchSummary};
///
/// assert_eq!(Core::new(Settings::default()).watch_summary(), WatchSummary::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchSummary {
    /// The connections that watch something.
    pub connections: usize,
    /// The paths that are watched.
    pub paths: usize,
    /// The watches: pairs of a connection and a path.
    pub watches: usize,
}

impl Watches {
    /// Registers a watch; registering it again changes nothing.
    pub(crate) fn add(&mut self, connection: ConnectionId, path: &str, kind: Kind, modes: Modes) {
        let (path, watchers) = match self.by_path.get_key_value(path) {
            Some((path, _)) => {
                let path = Arc::clone(path);
                let watchers = self.by_path.get_mut(&*path).expect("it was just found");
                (path, watchers)
            }
            None => {
                let path: Arc<str> = path.into();
                (Arc::clone(&path), self.by_path.entry(path).or_default())
            }
        };
        let index = match watchers.list.binary_search_by_key(&connection, |w| w.connection) {
            Ok(index) => index,
            Err(index) => {
                let idle = Watcher { connection, data: Modes::NONE, child: Modes::NONE };
                watchers.list.insert(index, idle);
                self.by_connection.entry(connection).or_default().paths.insert(path);
                index
            }
        };
        let registered = watchers.list[index].modes(kind);
        #[cfg(feature = "planted-bugs")]
        let modes = match is_planted(PlantedBug::WatchArmedTwice) {
            true if (modes & *registered).has(Modes::STANDARD) => modes | Modes::TWICE,
            _ => modes,
        };
        self.recursive +=
            usize::from(modes.has(Modes::RECURSIVE) && !registered.has(Modes::RECURSIVE));
        let is_new = *registered == Modes::NONE;
        *registered = *registered | modes;
        if is_new {
            self.totals[kind as usize] += 1;
        }
        if is_new && kind == Kind::Data {
            watchers.data += 1;
            self.data_paths += usize::from(watchers.data == 1);
            let watched = self.by_connection.get_mut(&connection).expect("a watcher is listed");
            watched.data += 1;
            self.data_connections += usize::from(watched.data == 1);
        }
    }

    /// Registers what `addWatch` asks for; `None` if there is no such mode.
    pub(crate) fn add_mode(
        &mut self,
        connection: ConnectionId,
        path: &str,
        mode: WatchMode,
    ) -> Option<()> {
        match mode {
            WatchMode::PERSISTENT => {
                self.add(connection, path, Kind::Data, Modes::PERSISTENT);
                self.add(connection, path, Kind::Child, Modes::PERSISTENT);
            }
            WatchMode::PERSISTENT_RECURSIVE => {
                self.add(connection, path, Kind::Data, Modes::RECURSIVE);
            }
            _ => return None,
        }
        Some(())
    }

    /// The connections that hear of a change of `path`, each once; one-shot watches end with it.
    pub(crate) fn trigger(&mut self, path: &str, kind: Kind) -> Vec<ConnectionId> {
        let mut receivers = Vec::new();
        if let Some(watchers) = self.by_path.get_mut(path) {
            let mut ended = Vec::new();
            let mut has_idle = false;
            for watcher in &mut watchers.list {
                let connection = watcher.connection;
                let modes = watcher.modes(kind);
                if *modes == Modes::NONE {
                    continue;
                }
                receivers.push(connection);
                #[cfg(feature = "planted-bugs")]
                let is_twice = modes.has(Modes::TWICE);
                *modes = *modes & !Modes::STANDARD;
                #[cfg(feature = "planted-bugs")]
                if is_twice {
                    *modes = *modes | Modes::STANDARD;
                }
                if *modes == Modes::NONE {
                    has_idle |= watcher.is_idle();
                    ended.push((watcher.connection, watcher.is_idle()));
                }
            }
            self.totals[kind as usize] -= ended.len();
            if kind == Kind::Data {
                self.data_paths -= usize::from(watchers.data > 0 && watchers.data == ended.len());
                watchers.data -= ended.len();
            }
            if has_idle {
                watchers.list.retain(|watcher| !watcher.is_idle());
            }
            let is_last = watchers.list.is_empty();
            for (connection, is_idle) in ended {
                if kind == Kind::Data {
                    self.uncount_data(connection);
                }
                if is_idle {
                    self.unlist(connection, path);
                }
            }
            if is_last {
                self.by_path.remove(path);
            }
        }
        if kind == Kind::Data && self.recursive > 0 {
            self.add_recursive(path, &mut receivers);
        }
        receivers
    }

    /// Adds the connections that watch an ancestor of `path` recursively.
    fn add_recursive(&self, path: &str, receivers: &mut Vec<ConnectionId>) {
        let mut ancestor = path;
        while ancestor != "/" {
            let Some((parent, _)) = ancestor.rsplit_once('/') else { break };
            ancestor = if parent.is_empty() { "/" } else { parent };
            let watchers = self.by_path.get(ancestor).into_iter().flat_map(|w| &w.list);
            receivers
                .extend(watchers.filter(|w| w.data.has(Modes::RECURSIVE)).map(|w| w.connection));
        }
        receivers.sort_unstable();
        receivers.dedup();
    }

    /// Whether `removeWatches` would find something; `None` if there is no such type.
    pub(crate) fn has(
        &self,
        connection: ConnectionId,
        path: &str,
        watcher_type: WatcherType,
    ) -> Option<bool> {
        let (data, child) = match watcher_type {
            // `checkWatches` looks for persistent watches among the data watches only.
            WatcherType::PERSISTENT => (Modes::PERSISTENT, Modes::NONE),
            other => modes_of(other)?,
        };
        let watcher = self.by_path.get(path).and_then(|watchers| {
            let index = watchers.list.binary_search_by_key(&connection, |w| w.connection).ok()?;
            Some(watchers.list[index])
        });
        Some(watcher.is_some_and(|w| w.data.has(data) || w.child.has(child)))
    }

    /// Takes watches back, and tells whether there were any; `None` if there is no such type.
    pub(crate) fn remove(
        &mut self,
        connection: ConnectionId,
        path: &str,
        watcher_type: WatcherType,
    ) -> Option<bool> {
        let (data, child) = modes_of(watcher_type)?;
        Some(self.take(connection, path, data, child))
    }

    /// Removes these modes of a connection on a path, and tells whether there were any.
    fn take(&mut self, connection: ConnectionId, path: &str, data: Modes, child: Modes) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let Ok(index) = watchers.list.binary_search_by_key(&connection, |w| w.connection) else {
            return false;
        };
        let watcher = &mut watchers.list[index];
        let found = watcher.data.has(data) || watcher.child.has(child);
        let was_data = watcher.data != Modes::NONE;
        self.recursive -= usize::from((watcher.data & data).has(Modes::RECURSIVE));
        for (kind, gone) in [(Kind::Data, data), (Kind::Child, child)] {
            let modes = watcher.modes(kind);
            let was_there = *modes != Modes::NONE;
            *modes = *modes & !gone;
            self.totals[kind as usize] -= usize::from(was_there && *modes == Modes::NONE);
        }
        let (is_idle, ends_data) = (watcher.is_idle(), was_data && watcher.data == Modes::NONE);
        if is_idle {
            watchers.list.remove(index);
        }
        let is_last = watchers.list.is_empty();
        if ends_data {
            watchers.data -= 1;
            self.data_paths -= usize::from(watchers.data == 0);
            self.uncount_data(connection);
        }
        if is_idle {
            self.unlist(connection, path);
        }
        if is_last {
            self.by_path.remove(path);
        }
        found
    }

    /// A connection has one path less in the data table.
    fn uncount_data(&mut self, connection: ConnectionId) {
        let watched = self.by_connection.get_mut(&connection).expect("a watcher is listed");
        watched.data -= 1;
        self.data_connections -= usize::from(watched.data == 0);
    }

    fn unlist(&mut self, connection: ConnectionId, path: &str) {
        let watched = self.by_connection.get_mut(&connection).expect("a watcher is listed");
        watched.paths.remove(path);
        if watched.paths.is_empty() {
            self.by_connection.remove(&connection);
        }
    }

    /// Takes at most `most` watches of a connection back, and tells whether there may be more.
    pub(crate) fn forget(&mut self, connection: ConnectionId, most: usize) -> bool {
        for _ in 0..most {
            let watched = self.by_connection.get(&connection);
            let Some(path) = watched.and_then(|watched| watched.paths.first()).cloned() else {
                return false;
            };
            self.take(connection, &path, Modes::ALL, Modes::ALL);
        }
        true
    }

    /// How many entries there are in both tables: `watch_count`.
    pub(crate) fn count(&self) -> usize {
        self.totals.iter().sum()
    }

    /// Every path with all its watchers, ordered by path and connection.
    pub(crate) fn watchers(&self) -> WatchersByPath {
        let kinds = |watchers: &Watchers| {
            watchers
                .list
                .iter()
                .map(|watcher| (watcher.connection, WatchKinds::of(watcher)))
                .collect()
        };
        let mut list: Vec<_> = self
            .by_path
            .iter()
            .map(|(path, watchers)| (Arc::clone(path), kinds(watchers)))
            .collect();
        list.sort();
        list
    }

    /// How much is watched among the data watches.
    pub(crate) fn summary(&self) -> WatchSummary {
        WatchSummary {
            connections: self.data_connections,
            paths: self.data_paths,
            watches: self.totals[Kind::Data as usize],
        }
    }

    /// Whether nobody watches anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// The paths after `path` that a connection watches, `most` of them in order, and whether each is
    /// among the data watches.
    pub(crate) fn watched_after(
        &self,
        connection: ConnectionId,
        path: Option<&str>,
        most: usize,
    ) -> Vec<(Arc<str>, bool)> {
        let is_data = |path: &str| {
            let watchers = self.by_path.get(path).map_or(&[][..], |watchers| &watchers.list);
            let index = watchers.binary_search_by_key(&connection, |w| w.connection);
            index.is_ok_and(|index| watchers[index].data != Modes::NONE)
        };
        let Some(watched) = self.by_connection.get(&connection) else { return Vec::new() };
        let after = (path.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let paths = watched.paths.range::<str, _>(after).take(most);
        paths.map(|path| (Arc::clone(path), is_data(path))).collect()
    }
}

/// The modes in the data table and in the child table that a type stands for.
fn modes_of(watcher_type: WatcherType) -> Option<(Modes, Modes)> {
    Some(match watcher_type {
        WatcherType::CHILDREN => (Modes::NONE, Modes::STANDARD),
        WatcherType::DATA => (Modes::STANDARD, Modes::NONE),
        WatcherType::ANY => (Modes::ALL, Modes::ALL),
        WatcherType::PERSISTENT => (Modes::PERSISTENT, Modes::PERSISTENT),
        WatcherType::PERSISTENT_RECURSIVE => (Modes::RECURSIVE, Modes::NONE),
        _ => return None,
    })
}

/// An event, and the connections that get it.
pub(crate) fn event(event_type: EventType, path: &str) -> WatchedEvent {
    WatchedEvent::new(event_type, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`Watches::summary`] keeps, counted anew.
    fn counted(watches: &Watches) -> WatchSummary {
        let is_data = |watcher: &&Watcher| watcher.data != Modes::NONE;
        let lists = watches.by_path.values().map(|w| w.list.iter().filter(is_data).count());
        let connections = watches.by_connection.keys().filter(|connection| {
            watches.watched_after(**connection, None, usize::MAX).iter().any(|(_, data)| *data)
        });
        WatchSummary {
            connections: connections.count(),
            paths: lists.clone().filter(|watchers| *watchers > 0).count(),
            watches: lists.sum(),
        }
    }

    #[test]
    fn the_summary_is_that_of_all_watches_whatever_happens() {
        let mut watches = Watches::default();
        // A fixed sequence of numbers without a pattern.
        let mut state = 7_u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..5_000 {
            let connection = ConnectionId(u64::from(next(5)));
            let path = ["/", "/a", "/a/b", "/c", ""][next(5) as usize];
            match next(8) {
                0 | 1 => watches.add(connection, path, Kind::Data, Modes::STANDARD),
                2 => watches.add(connection, path, Kind::Child, Modes::STANDARD),
                3 => drop(watches.add_mode(connection, path, WatchMode::PERSISTENT)),
                4 => drop(watches.add_mode(connection, path, WatchMode::PERSISTENT_RECURSIVE)),
                5 => drop(watches.trigger(path, [Kind::Data, Kind::Child][next(2) as usize])),
                6 => {
                    let types = [WatcherType::DATA, WatcherType::CHILDREN, WatcherType::ANY];
                    watches.remove(connection, path, types[next(3) as usize]);
                }
                _ => drop(watches.forget(connection, next(3) as usize)),
            }
            assert_eq!(watches.summary(), counted(&watches));
        }
    }

    #[test]
    fn what_a_connection_watches_is_listed_slice_by_slice() {
        let mut watches = Watches::default();
        for path in ["", "/b", "/a"] {
            watches.add(ConnectionId(1), path, Kind::Data, Modes::STANDARD);
        }
        watches.add(ConnectionId(1), "/a/b", Kind::Child, Modes::STANDARD);
        watches.add(ConnectionId(2), "/other", Kind::Data, Modes::STANDARD);
        let slice = |after| watches.watched_after(ConnectionId(1), after, 2);
        assert_eq!(slice(None), [("".into(), true), ("/a".into(), true)]);
        assert_eq!(slice(Some("/a")), [("/a/b".into(), false), ("/b".into(), true)]);
        assert_eq!(slice(Some("/b")), []);
    }
}
