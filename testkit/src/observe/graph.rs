//! The graph of watches: a herd shows as many watchers on one path, a queue as a chain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use zoolet_core::{ConnectionId, Core, WatchModes};
use zoolet_protocol::{SessionId, sequence_number};

/// Who watches what at one moment, and which session owns each ephemeral znode.
///
/// `Display` lists the watched paths with their watchers. [`WatchGraph::dot`] exports the graph,
/// and [`WatchGraph::line`] shows who waits for whom below one path.
///
/// ```
/// use zoolet_testkit::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let graph = server.watch_graph();
/// assert_eq!(graph.to_string(), "0 watches on 0 paths\n");
/// assert!(graph.dot().starts_with("digraph"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchGraph {
    /// The paths that are watched, in order.
    pub paths: Vec<WatchedPath>,
    /// All ephemeral znodes and the sessions that own them, watched or not.
    pub ephemerals: BTreeMap<String, SessionId>,
}

/// A path with watches.
///
/// ```
/// use zoolet_testkit::WatchedPath;
///
/// fn is_herd(watched: &WatchedPath) -> bool {
///     watched.watchers.len() > 10
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedPath {
    /// The path.
    pub path: String,
    /// Whether the znode exists. If not, a data watch waits for its creation.
    pub exists: bool,
    /// The session that owns the znode, if it is ephemeral.
    pub owner: Option<SessionId>,
    /// The watchers, in the order of their connections.
    pub watchers: Vec<Watcher>,
}

/// A connection that has set a watch on a path.
///
/// ```
/// use zoolet_testkit::Watcher;
///
/// fn line(watcher: &Watcher) -> String {
///     format!("{} over connection {}", watcher.session, watcher.connection.0)
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watcher {
    /// The session of the connection.
    pub session: SessionId,
    /// The connection, to which the watch belongs.
    pub connection: ConnectionId,
    /// The kinds of its watches.
    pub kinds: WatchModes,
}

/// An ephemeral sequential znode in the queue of a lock, and the sessions that wait for it.
///
/// ```
/// use zoolet_testkit::Contender;
///
/// fn is_waited_for(contender: &Contender) -> bool {
///     !contender.waiting.is_empty()
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The path of the znode.
    pub path: String,
    /// The session that owns it.
    pub owner: SessionId,
    /// The other sessions that watch it, in order.
    pub waiting: Vec<SessionId>,
}

impl WatchGraph {
    /// The graph of a state; `session_of` tells the session of a connection.
    pub(super) fn of(core: &Core, session_of: impl Fn(ConnectionId) -> Option<SessionId>) -> Self {
        let owned = core.ephemeral_owners().into_iter();
        let ephemerals = owned.flat_map(|(session, paths)| {
            paths.into_iter().map(move |path| (path.as_str().to_owned(), session))
        });
        let ephemerals: BTreeMap<_, _> = ephemerals.collect();
        let paths = watched_paths(core, &ephemerals, session_of);
        Self { paths, ephemerals }
    }

    /// The path with the most watchers, and their number.
    #[must_use]
    pub fn most_watched(&self) -> Option<(&str, usize)> {
        // The first path, if several have as many.
        let most = self.paths.iter().rev().max_by_key(|watched| watched.watchers.len())?;
        Some((&most.path, most.watchers.len()))
    }

    /// The ephemeral sequential children of a path, in the order of their sequence numbers, and the
    /// sessions that wait for each. In the directory of a lock the first holds the lock; in a queue
    /// without a herd one session waits for each.
    #[must_use]
    pub fn line(&self, directory: &str) -> Vec<Contender> {
        let directory = directory.trim_end_matches('/');
        let number = |path: &str| {
            let name = path.strip_prefix(directory)?.strip_prefix('/')?;
            // Each recipe has its own prefix, and all put the number at the end.
            if name.contains('/') { None } else { sequence_number(name, "") }
        };
        let mut contenders: Vec<_> = self
            .ephemerals
            .iter()
            .filter_map(|(path, owner)| Some((number(path)?, self.contender(path, *owner))))
            .collect();
        contenders.sort_by_key(|(number, _)| *number);
        contenders.into_iter().map(|(_, contender)| contender).collect()
    }

    fn contender(&self, path: &str, owner: SessionId) -> Contender {
        let watched = self.paths.iter().find(|watched| watched.path == path);
        let watchers = watched.into_iter().flat_map(|watched| &watched.watchers);
        let waiting = watchers.map(|w| w.session).filter(|session| *session != owner);
        let waiting: BTreeSet<_> = waiting.collect();
        Contender { path: path.to_owned(), owner, waiting: waiting.into_iter().collect() }
    }

    /// The graph in Graphviz's language, for `dot -Tsvg`. Boxes are znodes, dashed if they do not
    /// exist; ellipses are sessions. An edge leads from a session to what it watches, and from an
    /// ephemeral znode to its owner, so that a path through the graph shows who waits for whom.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut text = "digraph watches {\n  rankdir=LR;\n".to_owned();
        let watched: BTreeMap<_, _> =
            self.paths.iter().map(|watched| (watched.path.as_str(), watched.exists)).collect();
        let ephemerals = self.ephemerals.keys().map(|path| (path.as_str(), true));
        let znodes: BTreeMap<_, _> = watched.into_iter().chain(ephemerals).collect();
        for (path, exists) in znodes {
            let style = if exists { "solid" } else { "dashed" };
            let _ = writeln!(text, "  {} [shape=box, style={style}];", quoted(path));
        }
        for watched in &self.paths {
            for watcher in &watched.watchers {
                let kinds = kinds(watcher.kinds, watched.exists);
                let (from, to) = (watcher.session, quoted(&watched.path));
                let _ = writeln!(text, "  \"{from}\" -> {to} [label=\"{kinds}\"];");
            }
        }
        for (path, owner) in &self.ephemerals {
            let _ = writeln!(text, "  {} -> \"{owner}\" [style=dashed];", quoted(path));
        }
        text.push_str("}\n");
        text
    }
}

fn watched_paths(
    core: &Core,
    ephemerals: &BTreeMap<String, SessionId>,
    session_of: impl Fn(ConnectionId) -> Option<SessionId>,
) -> Vec<WatchedPath> {
    let watcher = |(connection, kinds): (ConnectionId, WatchModes)| {
        let session = session_of(connection)?;
        Some(Watcher { session, connection, kinds })
    };
    let watched = core.watchers().into_iter().map(|(path, watchers)| WatchedPath {
        exists: core.has_znode(&path),
        owner: ephemerals.get(&*path).copied(),
        watchers: watchers.into_iter().filter_map(watcher).collect(),
        path: path.to_string(),
    });
    // The watches of a connection that is closing are not shown.
    watched.filter(|watched| !watched.watchers.is_empty()).collect()
}

/// The kinds of watches in words.
fn kinds(kinds: WatchModes, exists: bool) -> String {
    let names = [
        (kinds.data, if exists { "data" } else { "exist" }),
        (kinds.child, "child"),
        (kinds.persistent, "persistent"),
        (kinds.recursive, "recursive"),
    ];
    let names: Vec<_> = names.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    names.join(", ")
}

/// Quotes a name for Graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (connection {})", self.session, self.connection.0)
    }
}

impl fmt::Display for WatchedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        match self.owner {
            Some(owner) => write!(f, ", ephemeral of {owner}")?,
            None if !self.exists => f.write_str(", missing")?,
            None => {}
        }
        for watcher in &self.watchers {
            let kinds = kinds(watcher.kinds, self.exists);
            let own = if self.owner == Some(watcher.session) { ", its own" } else { "" };
            write!(f, "\n  {watcher}: {kinds}{own}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.path, self.owner)?;
        for (index, session) in self.waiting.iter().enumerate() {
            let separator = if index == 0 { " <- " } else { ", " };
            write!(f, "{separator}{session}")?;
        }
        Ok(())
    }
}

impl fmt::Display for WatchGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watchers = self.paths.iter().flat_map(|watched| &watched.watchers);
        let count: usize = watchers.map(|watcher| watcher.kinds.count()).sum();
        write!(f, "{count} watches on {} paths", self.paths.len())?;
        if let Some((path, most)) = self.most_watched() {
            write!(f, ", at most {most} watchers on one: {path}")?;
        }
        f.write_char('\n')?;
        self.paths.iter().try_for_each(|watched| writeln!(f, "{watched}"))
    }
}
