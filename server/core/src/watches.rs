//! Who watches what: ZooKeeper's two `WatchManager`s, for data and for children, in one table.
//!
//! Promises:
//!
//! - One registration of a mode by a connection on a path is one watch, however often it is made.
//! - One trigger sends one event to a connection, whatever number of its watches fit.
//! - A one-shot watch is gone once it was triggered, a persistent one stays.
//! - Connections come in the order of their ids, so that a run can be repeated.

use std::collections::BTreeSet;
use std::ops::{BitAnd, BitOr, Not};
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
    by_path: HashMap<Arc<str>, Vec<Watcher>>,
    /// The paths that each connection watches; never an empty set.
    by_connection: HashMap<ConnectionId, BTreeSet<Arc<str>>>,
    /// How many recursive watches there are; without any, no ancestors are looked at.
    recursive: usize,
    /// How many entries there are in the data table and in the child table.
    totals: [usize; 2],
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
        let index = match watchers.binary_search_by_key(&connection, |w| w.connection) {
            Ok(index) => index,
            Err(index) => {
                let idle = Watcher { connection, data: Modes::NONE, child: Modes::NONE };
                watchers.insert(index, idle);
                self.by_connection.entry(connection).or_default().insert(path);
                index
            }
        };
        let registered = watchers[index].modes(kind);
        #[cfg(feature = "planted-bugs")]
        let modes = match is_planted(PlantedBug::WatchArmedTwice) {
            true if (modes & *registered).has(Modes::STANDARD) => modes | Modes::TWICE,
            _ => modes,
        };
        self.recursive +=
            usize::from(modes.has(Modes::RECURSIVE) && !registered.has(Modes::RECURSIVE));
        self.totals[kind as usize] += usize::from(*registered == Modes::NONE);
        *registered = *registered | modes;
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
            let mut idle = Vec::new();
            for watcher in watchers.iter_mut() {
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
                self.totals[kind as usize] -= usize::from(*modes == Modes::NONE);
                if watcher.is_idle() {
                    idle.push(watcher.connection);
                }
            }
            if !idle.is_empty() {
                watchers.retain(|watcher| !watcher.is_idle());
                let is_last = watchers.is_empty();
                for connection in idle {
                    self.unlist(connection, path);
                }
                if is_last {
                    self.by_path.remove(path);
                }
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
            let watchers = self.by_path.get(ancestor).into_iter().flatten();
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
            let index = watchers.binary_search_by_key(&connection, |w| w.connection).ok()?;
            Some(watchers[index])
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
        let Ok(index) = watchers.binary_search_by_key(&connection, |w| w.connection) else {
            return false;
        };
        let watcher = &mut watchers[index];
        let found = watcher.data.has(data) || watcher.child.has(child);
        self.recursive -= usize::from((watcher.data & data).has(Modes::RECURSIVE));
        for (kind, gone) in [(Kind::Data, data), (Kind::Child, child)] {
            let modes = watcher.modes(kind);
            let was_there = *modes != Modes::NONE;
            *modes = *modes & !gone;
            self.totals[kind as usize] -= usize::from(was_there && *modes == Modes::NONE);
        }
        if watcher.is_idle() {
            watchers.remove(index);
            let is_last = watchers.is_empty();
            self.unlist(connection, path);
            if is_last {
                self.by_path.remove(path);
            }
        }
        found
    }

    fn unlist(&mut self, connection: ConnectionId, path: &str) {
        let paths = self.by_connection.get_mut(&connection).expect("a watcher is listed");
        paths.remove(path);
        if paths.is_empty() {
            self.by_connection.remove(&connection);
        }
    }

    /// Takes at most `most` watches of a connection back, and tells whether there may be more.
    pub(crate) fn forget(&mut self, connection: ConnectionId, most: usize) -> bool {
        for _ in 0..most {
            let first = self.by_connection.get(&connection).and_then(BTreeSet::first);
            let Some(path) = first.cloned() else { return false };
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
        let kinds = |watchers: &Vec<Watcher>| {
            watchers.iter().map(|watcher| (watcher.connection, WatchKinds::of(watcher))).collect()
        };
        let mut list: Vec<_> = self
            .by_path
            .iter()
            .map(|(path, watchers)| (Arc::clone(path), kinds(watchers)))
            .collect();
        list.sort();
        list
    }

    /// Every path with its watchers among the data watches: what `wchs`, `wchc` and `wchp` list.
    /// Ordered by path.
    pub(crate) fn data_watchers(&self) -> Vec<(Arc<str>, Vec<ConnectionId>)> {
        let data = |watchers: &[Watcher]| -> Vec<ConnectionId> {
            watchers.iter().filter(|w| w.data != Modes::NONE).map(|w| w.connection).collect()
        };
        let mut list: Vec<_> = self
            .by_path
            .iter()
            .map(|(path, watchers)| (Arc::clone(path), data(watchers)))
            .filter(|(_, watchers)| !watchers.is_empty())
            .collect();
        list.sort();
        list
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
