//! The watches: ZooKeeper's two `WatchManager`s, one for data watches and one for child watches.
//!
//! What this file guarantees:
//!
//! - A connection has at most one watch of a mode on a path. Setting it again changes nothing.
//! - A change fires one event for a connection, however many of its watches match.
//! - A one-shot watch is removed when it fires; a persistent watch stays.
//! - Connections are returned in the order of their ids, so that a run can be repeated.

mod by_path;
mod check;
mod path_set;

use std::ops::{BitAnd, BitOr, Not};
use std::sync::Arc;

use smallvec::SmallVec;
use zoolet_protocol::{ErrorCode, Response, WatchMode, WatchedEvent, WatcherType};

use self::by_path::ByPath;
use self::path_set::PathSet;
use crate::by_id::ById;
use crate::path_hash::PathHasher;

/// The id of a connection, which the server gives only once. Watches belong to a connection and not
/// to a session.
///
/// ```
/// use zoolet_core::ConnectionId;
///
/// assert!(ConnectionId(1) < ConnectionId(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The result of a request that sets or removes watches.
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
pub struct WatchReply {
    /// The reply.
    pub reply: Result<Response, ErrorCode>,
    /// The events that `setWatches` found the client to have missed. They are sent before the
    /// reply, with the zxid -1.
    pub events: Vec<WatchedEvent>,
}

/// One of ZooKeeper's two tables of watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// The watches of `getData` and `exists`.
    Data,
    /// The watches of `getChildren`.
    Child,
}

/// The set of modes in which a connection watches a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Modes(u8);

impl Modes {
    pub(crate) const NONE: Self = Self(0);
    /// Fires once.
    pub(crate) const STANDARD: Self = Self(1);
    /// Fires until it is removed.
    pub(crate) const PERSISTENT: Self = Self(2);
    /// Fires for the znode and all its descendants, until it is removed.
    pub(crate) const RECURSIVE: Self = Self(4);
    const ALL: Self = Self(7);

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

/// The watches of one connection on one path.
#[derive(Debug, Clone, Copy)]
struct Watcher {
    connection: ConnectionId,
    data: Modes,
    child: Modes,
}

impl Watcher {
    fn modes(&mut self, table: Table) -> &mut Modes {
        match table {
            Table::Data => &mut self.data,
            Table::Child => &mut self.child,
        }
    }

    fn is_idle(&self) -> bool {
        self.data == Modes::NONE && self.child == Modes::NONE
    }
}

/// The watches of one connection on one path, by their modes.
///
/// ```
/// use zoolet_core::{ConnectionId, Core, Requester, Settings, WatchModes};
/// use zoolet_protocol::{Lookup, SessionId, Watch, Xid};
///
/// let mut core = Core::new(Settings::default());
/// let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
/// core.watch(&Watch::Lookup(Lookup::GetChildren("/".into())), &requester);
/// let modes = WatchModes { child: true, ..WatchModes::default() };
/// assert_eq!(core.watchers(), [("/".into(), vec![(ConnectionId(1), modes)])]);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchModes {
    /// A one-shot data watch: of `getData` or of `exists`, between which the server makes no
    /// difference.
    pub data: bool,
    /// A one-shot child watch.
    pub child: bool,
    /// A persistent watch. It is in both tables.
    pub persistent: bool,
    /// A persistent recursive watch. It is in the table of the data watches.
    pub recursive: bool,
}

/// The watched paths, each with the connections that watch it and the modes of their watches.
pub type WatchersByPath = Vec<(Arc<str>, Vec<(ConnectionId, WatchModes)>)>;

impl WatchModes {
    fn of(watcher: &Watcher) -> Self {
        Self {
            data: watcher.data.has(Modes::STANDARD),
            child: watcher.child.has(Modes::STANDARD),
            persistent: watcher.data.has(Modes::PERSISTENT) || watcher.child.has(Modes::PERSISTENT),
            recursive: watcher.data.has(Modes::RECURSIVE),
        }
    }

    /// The number of entries in both tables, as [`Totals::watches`](crate::Totals::watches) counts
    /// them.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.data || self.persistent || self.recursive)
            + usize::from(self.child || self.persistent)
    }
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// The watchers of each watched path. No list is empty.
    by_path: ByPath,
    /// The paths that each connection watches. No set is empty.
    by_connection: ById<ConnectionId, WatchedPaths>,
    /// The number of recursive watches. While there are none, no ancestors are looked up.
    recursive: usize,
    /// The number of data watches and of child watches.
    totals: [usize; 2],
    /// The number of paths that have a data watch.
    data_paths: usize,
    /// The number of connections that have a data watch.
    data_connections: usize,
}

/// The connections that receive an event, each once, ordered by id. Two need no memory of their own: the
/// owner of a lock and the next in line watch the znode that a release deletes.
pub(crate) type Receivers = SmallVec<[ConnectionId; 2]>;

/// The watchers of one path.
#[derive(Debug, Default)]
struct Watchers {
    /// Ordered by connection.
    list: Vec<Watcher>,
    /// The number of those with a data watch.
    data: usize,
}

/// The paths that one connection watches.
#[derive(Debug, Default)]
struct WatchedPaths {
    paths: PathSet,
    /// The number of those with a data watch.
    data: usize,
}

/// The totals of the data watches: what `wchs` shows.
///
/// ```
/// use zoolet_core::{Core, Settings, WatchSummary};
///
/// assert_eq!(Core::new(Settings::default()).watch_summary(), WatchSummary::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchSummary {
    /// Connections with a data watch.
    pub connections: usize,
    /// Paths with a data watch.
    pub paths: usize,
    /// Data watches, at most one for a connection and a path.
    pub watches: usize,
}

impl Watches {
    /// No watches. The hashes of their paths are made with this.
    pub(crate) fn new(hasher: PathHasher) -> Self {
        Self { by_path: ByPath::new(hasher), ..Self::default() }
    }

    /// Sets a watch. Setting it again changes nothing.
    pub(crate) fn add(&mut self, connection: ConnectionId, path: &str, table: Table, modes: Modes) {
        let (path, watchers) = self.by_path.get_or_add(path);
        let index = match watchers.list.binary_search_by_key(&connection, |w| w.connection) {
            Ok(index) => index,
            Err(index) => {
                let idle = Watcher { connection, data: Modes::NONE, child: Modes::NONE };
                if watchers.list.is_empty() {
                    // Most paths have one watcher, and a server may have millions of them.
                    watchers.list.reserve_exact(1);
                }
                watchers.list.insert(index, idle);
                self.by_connection.get_or_add(connection).paths.insert(path);
                index
            }
        };
        let registered = watchers.list[index].modes(table);
        self.recursive +=
            usize::from(modes.has(Modes::RECURSIVE) && !registered.has(Modes::RECURSIVE));
        let is_new = *registered == Modes::NONE;
        *registered = *registered | modes;
        if is_new {
            self.totals[table as usize] += 1;
        }
        if is_new && table == Table::Data {
            watchers.data += 1;
            self.data_paths += usize::from(watchers.data == 1);
            let watched = self.by_connection.get_mut(connection).expect("a watcher is listed");
            watched.data += 1;
            self.data_connections += usize::from(watched.data == 1);
        }
    }

    /// Sets the watch of an `addWatch`. `None` if the mode is unknown.
    pub(crate) fn add_mode(
        &mut self,
        connection: ConnectionId,
        path: &str,
        mode: WatchMode,
    ) -> Option<()> {
        match mode {
            WatchMode::PERSISTENT => {
                self.add(connection, path, Table::Data, Modes::PERSISTENT);
                self.add(connection, path, Table::Child, Modes::PERSISTENT);
            }
            WatchMode::PERSISTENT_RECURSIVE => {
                self.add(connection, path, Table::Data, Modes::RECURSIVE);
            }
            _ => return None,
        }
        Some(())
    }

    /// Fires the watches on `path`, which has this hash: returns the connections that receive the event,
    /// each once, and removes the one-shot watches.
    pub(crate) fn trigger(&mut self, path: &str, hash: u32, table: Table) -> Receivers {
        debug_assert_eq!(
            hash,
            self.by_path.hash(path),
            "the hash of {path} was made for this table"
        );
        let mut receivers = Receivers::new();
        let Self { by_path, by_connection, data_connections, .. } = self;
        if let Some(watchers) = by_path.get_hashed_mut(hash, path) {
            let (mut ended, mut has_idle) = (0, false);
            let watcher_count = watchers.list.len();
            for watcher in &mut watchers.list {
                let connection = watcher.connection;
                let modes = watcher.modes(table);
                if *modes == Modes::NONE {
                    continue;
                }
                if receivers.is_empty() {
                    receivers.reserve_exact(watcher_count);
                }
                receivers.push(connection);
                *modes = *modes & !Modes::STANDARD;
                if *modes != Modes::NONE {
                    continue;
                }
                ended += 1;
                let is_idle = watcher.is_idle();
                has_idle |= is_idle;
                if table == Table::Child && !is_idle {
                    continue;
                }
                let watched = by_connection.get_mut(connection).expect("a watcher is listed");
                if table == Table::Data {
                    watched.data -= 1;
                    *data_connections -= usize::from(watched.data == 0);
                }
                if is_idle {
                    watched.paths.remove(path);
                    if watched.paths.is_empty() {
                        by_connection.remove(connection);
                    }
                }
            }
            self.totals[table as usize] -= ended;
            if table == Table::Data {
                self.data_paths -= usize::from(watchers.data > 0 && watchers.data == ended);
                watchers.data -= ended;
            }
            if has_idle {
                watchers.list.retain(|watcher| !watcher.is_idle());
                if watchers.list.is_empty() {
                    self.by_path.remove_hashed(hash, path);
                }
            }
        }
        if table == Table::Data && self.recursive > 0 {
            self.add_recursive(path, &mut receivers);
        }
        receivers
    }

    /// Adds the connections that watch an ancestor of `path` recursively.
    fn add_recursive(&self, path: &str, receivers: &mut Receivers) {
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

    /// Whether a connection has a watch of this type on `path` (`checkWatches`). `None` if the type
    /// is unknown.
    pub(crate) fn has(
        &self,
        connection: ConnectionId,
        path: &str,
        watcher_type: WatcherType,
    ) -> Option<bool> {
        let (data, child) = match watcher_type {
            // `checkWatches` looks for persistent watches in the table of the data watches only.
            WatcherType::PERSISTENT => (Modes::PERSISTENT, Modes::NONE),
            other => modes_of(other)?,
        };
        let watcher = self.by_path.get(path).and_then(|watchers| {
            let index = watchers.list.binary_search_by_key(&connection, |w| w.connection).ok()?;
            Some(watchers.list[index])
        });
        Some(watcher.is_some_and(|w| w.data.has(data) || w.child.has(child)))
    }

    /// Removes the watches of this type on `path` and returns whether there were any
    /// (`removeWatches`). `None` if the type is unknown.
    pub(crate) fn remove(
        &mut self,
        connection: ConnectionId,
        path: &str,
        watcher_type: WatcherType,
    ) -> Option<bool> {
        let (data, child) = modes_of(watcher_type)?;
        Some(self.remove_modes(connection, path, data, child))
    }

    /// Removes the watches of these modes on `path` and returns whether there were any.
    fn remove_modes(
        &mut self,
        connection: ConnectionId,
        path: &str,
        data: Modes,
        child: Modes,
    ) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let Ok(index) = watchers.list.binary_search_by_key(&connection, |w| w.connection) else {
            return false;
        };
        let watcher = &mut watchers.list[index];
        let found = watcher.data.has(data) || watcher.child.has(child);
        let was_data = watcher.data != Modes::NONE;
        self.recursive -= usize::from((watcher.data & data).has(Modes::RECURSIVE));
        for (table, gone) in [(Table::Data, data), (Table::Child, child)] {
            let modes = watcher.modes(table);
            let was_there = *modes != Modes::NONE;
            *modes = *modes & !gone;
            self.totals[table as usize] -= usize::from(was_there && *modes == Modes::NONE);
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

    /// Counts one data watch less for a connection.
    fn uncount_data(&mut self, connection: ConnectionId) {
        let watched = self.by_connection.get_mut(connection).expect("a watcher is listed");
        watched.data -= 1;
        self.data_connections -= usize::from(watched.data == 0);
    }

    /// Takes `path` off the paths that a connection watches.
    fn unlist(&mut self, connection: ConnectionId, path: &str) {
        let watched = self.by_connection.get_mut(connection).expect("a watcher is listed");
        watched.paths.remove(path);
        if watched.paths.is_empty() {
            self.by_connection.remove(connection);
        }
    }

    /// Removes a connection's watches on at most `most` paths and returns whether there may be
    /// more.
    pub(crate) fn remove_all_of(&mut self, connection: ConnectionId, most: usize) -> bool {
        for _ in 0..most {
            let watched = self.by_connection.get(connection);
            let Some(path) = watched.and_then(|watched| watched.paths.first()).cloned() else {
                return false;
            };
            self.remove_modes(connection, &path, Modes::ALL, Modes::ALL);
        }
        true
    }

    /// The number of watches in both tables: `zk_watch_count`.
    pub(crate) fn count(&self) -> usize {
        self.totals.iter().sum()
    }

    /// Every watched path with its watchers, ordered by path and connection.
    pub(crate) fn watchers(&self) -> WatchersByPath {
        let modes = |watchers: &Watchers| {
            watchers
                .list
                .iter()
                .map(|watcher| (watcher.connection, WatchModes::of(watcher)))
                .collect()
        };
        let mut list: Vec<_> = self
            .by_path
            .iter()
            .map(|(path, watchers)| (Arc::clone(path), modes(watchers)))
            .collect();
        list.sort();
        list
    }

    /// The totals of the data watches.
    pub(crate) fn summary(&self) -> WatchSummary {
        WatchSummary {
            connections: self.data_connections,
            paths: self.data_paths,
            watches: self.totals[Table::Data as usize],
        }
    }

    /// Whether there are no watches.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// At most `most` paths that a connection watches and that come after `path`, in order, each
    /// with whether it has a data watch.
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
        let Some(watched) = self.by_connection.get(connection) else { return Vec::new() };
        let paths = watched.paths.after(path).take(most);
        paths.map(|path| (Arc::clone(path), is_data(path))).collect()
    }
}

/// The modes in the data table and in the child table that a watcher type includes.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// [`Watches::summary`], counted again.
    fn counted(watches: &Watches) -> WatchSummary {
        let is_data = |watcher: &&Watcher| watcher.data != Modes::NONE;
        let lists = watches.by_path.iter().map(|(_, w)| w.list.iter().filter(is_data).count());
        let connections = watches.by_connection.iter().filter(|(connection, _)| {
            watches.watched_after(*connection, None, usize::MAX).iter().any(|(_, data)| *data)
        });
        WatchSummary {
            connections: connections.count(),
            paths: lists.clone().filter(|watchers| *watchers > 0).count(),
            watches: lists.sum(),
        }
    }

    #[test]
    fn the_totals_agree_with_the_watches_after_each_step() {
        let mut watches = Watches::default();
        // A fixed sequence of pseudo-random numbers.
        let mut state = 7_u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..5_000 {
            let connection = ConnectionId(u64::from(next(5)));
            let path = ["/", "/a", "/a/b", "/c", ""][next(5) as usize];
            match next(8) {
                0 | 1 => watches.add(connection, path, Table::Data, Modes::STANDARD),
                2 => watches.add(connection, path, Table::Child, Modes::STANDARD),
                3 => drop(watches.add_mode(connection, path, WatchMode::PERSISTENT)),
                4 => drop(watches.add_mode(connection, path, WatchMode::PERSISTENT_RECURSIVE)),
                5 => {
                    let hash = watches.by_path.hash(path);
                    let table = [Table::Data, Table::Child][next(2) as usize];
                    drop(watches.trigger(path, hash, table));
                }
                6 => {
                    let types = [WatcherType::DATA, WatcherType::CHILDREN, WatcherType::ANY];
                    watches.remove(connection, path, types[next(3) as usize]);
                }
                _ => drop(watches.remove_all_of(connection, next(3) as usize)),
            }
            assert_eq!(watches.summary(), counted(&watches));
            let mut findings = crate::check::Findings::default();
            watches.check(&mut findings);
            assert_eq!(findings.to_strings(), [""; 0]);
        }
    }

    #[test]
    fn the_paths_that_a_connection_watches_are_listed_in_slices() {
        let mut watches = Watches::default();
        for path in ["", "/b", "/a"] {
            watches.add(ConnectionId(1), path, Table::Data, Modes::STANDARD);
        }
        watches.add(ConnectionId(1), "/a/b", Table::Child, Modes::STANDARD);
        watches.add(ConnectionId(2), "/other", Table::Data, Modes::STANDARD);
        let slice = |after| watches.watched_after(ConnectionId(1), after, 2);
        assert_eq!(slice(None), [("".into(), true), ("/a".into(), true)]);
        assert_eq!(slice(Some("/a")), [("/a/b".into(), false), ("/b".into(), true)]);
        assert_eq!(slice(Some("/b")), []);
    }
}
