//! The watch tables, compared with one another.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{ConnectionId, Modes, Watcher, Watches};
use crate::check::Findings;

/// What the watchers by path give, counted again.
#[derive(Default)]
struct Counted<'a> {
    recursive: usize,
    data: usize,
    child: usize,
    data_paths: usize,
    by_connection: HashMap<ConnectionId, CountedConnection<'a>>,
}

#[derive(Default)]
struct CountedConnection<'a> {
    paths: BTreeSet<&'a str>,
    data: usize,
}

impl Watches {
    /// Compares the watches by connection and all totals with the watchers by path.
    pub(crate) fn check(&self, findings: &mut Findings) {
        let mut counted = Counted::default();
        let mut paths: Vec<&Arc<str>> = self.by_path.iter().map(|(path, _)| path).collect();
        paths.sort_unstable();
        for path in paths {
            self.check_path(path, &mut counted, findings);
        }
        self.check_connections(&counted, findings);
        let mut compare = |what: &str, kept: usize, actual: usize| {
            findings.compare(|| what.to_owned(), kept, actual);
        };
        compare("the number of recursive watches", self.recursive, counted.recursive);
        compare("the number of data watches", self.totals[0], counted.data);
        compare("the number of child watches", self.totals[1], counted.child);
        compare("the number of paths with data watches", self.data_paths, counted.data_paths);
        let connections = counted.by_connection.values().filter(|watched| watched.data > 0);
        let what = "the number of connections with data watches";
        compare(what, self.data_connections, connections.count());
    }

    /// The watchers of one path: in the order of the connections, each once, and none without a
    /// watch.
    fn check_path<'a>(&'a self, path: &'a str, counted: &mut Counted<'a>, findings: &mut Findings) {
        let watchers = self.by_path.get(path).expect("a listed path is found");
        let index = format!("the watchers of {path:?}");
        let is_ordered = |pair: &[Watcher]| matches!(pair, [a, b] if a.connection < b.connection);
        if watchers.list.is_empty() || !watchers.list.windows(2).all(is_ordered) {
            findings.compare(|| format!("the order of {index}"), "wrong", "by connection");
        }
        let mut data = 0;
        for watcher in &watchers.list {
            if watcher.is_idle() {
                findings.listed_wrongly(&index, &format!("connection {}", watcher.connection.0));
            }
            let is_data = usize::from(watcher.data != Modes::NONE);
            data += is_data;
            counted.child += usize::from(watcher.child != Modes::NONE);
            counted.recursive += usize::from(watcher.data.has(Modes::RECURSIVE));
            let connection = counted.by_connection.entry(watcher.connection).or_default();
            connection.paths.insert(path);
            connection.data += is_data;
        }
        counted.data += data;
        counted.data_paths += usize::from(data > 0);
        findings.compare(|| format!("the number of data watches of {path:?}"), watchers.data, data);
    }

    /// The paths that each connection watches.
    fn check_connections(&self, counted: &Counted<'_>, findings: &mut Findings) {
        let kept = self.by_connection.iter().map(|(connection, _)| connection);
        let all: BTreeSet<ConnectionId> =
            kept.chain(counted.by_connection.keys().copied()).collect();
        let none = CountedConnection::default();
        for connection in all {
            let index = format!("the watched paths of connection {}", connection.0);
            let actual = counted.by_connection.get(&connection).unwrap_or(&none);
            let Some(kept) = self.by_connection.get(connection) else {
                findings.compare_index(&index, &BTreeSet::new(), &actual.paths);
                continue;
            };
            if kept.paths.is_empty() {
                findings.listed_wrongly("the connections with watches", &connection.0.to_string());
            }
            let paths = kept.paths.after(None).map(AsRef::as_ref).collect();
            findings.compare_index(&index, &paths, &actual.paths);
            let what = || format!("the number of data watches of connection {}", connection.0);
            findings.compare(what, kept.data, actual.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::WatchMode;

    use super::super::Table;
    use super::*;

    /// Connection 1 watches the data of `/a` and, recursively, `/b`; connection 2 the children of
    /// `/a`.
    fn filled() -> Watches {
        let mut watches = Watches::default();
        watches.add(ConnectionId(1), "/a", Table::Data, Modes::STANDARD);
        watches.add_mode(ConnectionId(1), "/b", WatchMode::PERSISTENT_RECURSIVE).unwrap();
        watches.add(ConnectionId(2), "/a", Table::Child, Modes::STANDARD);
        assert_eq!(found(&watches), [""; 0]);
        watches
    }

    fn found(watches: &Watches) -> Vec<String> {
        let mut findings = Findings::default();
        watches.check(&mut findings);
        findings.to_strings()
    }

    #[test]
    fn check_finds_a_watch_that_its_connection_does_not_know() {
        let mut watches = filled();
        watches.by_connection.get_mut(ConnectionId(1)).unwrap().paths.remove("/b");
        assert_eq!(found(&watches), ["the watched paths of connection 1 do not list /b"]);

        let mut watches = filled();
        watches.by_connection.remove(ConnectionId(2));
        assert_eq!(found(&watches), ["the watched paths of connection 2 do not list /a"]);
    }

    #[test]
    fn check_finds_a_connection_that_watches_what_has_no_watcher() {
        let mut watches = filled();
        watches.by_connection.get_mut(ConnectionId(2)).unwrap().paths.insert("/gone".into());
        let surplus = "the watched paths of connection 2 list /gone, which does not belong there";
        assert_eq!(found(&watches), [surplus]);
    }

    #[test]
    fn check_finds_a_watcher_without_a_watch() {
        let mut watches = filled();
        watches.by_path.get_mut("/a").unwrap().list[1].child = Modes::NONE;
        assert_eq!(
            found(&watches),
            [
                "the watchers of \"/a\" list connection 2, which does not belong there",
                "the number of child watches: 1 is kept, 0 is right",
            ]
        );
    }

    #[test]
    fn check_finds_watchers_out_of_order() {
        let mut watches = filled();
        watches.by_path.get_mut("/a").unwrap().list.swap(0, 1);
        let wrong = "the order of the watchers of \"/a\": wrong is kept, by connection is right";
        assert_eq!(found(&watches), [wrong]);
    }

    #[test]
    fn check_finds_wrong_totals() {
        let mut watches = filled();
        watches.recursive = 0;
        watches.totals = [0, 2];
        watches.data_paths = 1;
        watches.data_connections = 2;
        watches.by_path.get_mut("/a").unwrap().data = 2;
        watches.by_connection.get_mut(ConnectionId(1)).unwrap().data = 1;
        assert_eq!(
            found(&watches),
            [
                "the number of data watches of \"/a\": 2 is kept, 1 is right",
                "the number of data watches of connection 1: 1 is kept, 2 is right",
                "the number of recursive watches: 0 is kept, 1 is right",
                "the number of data watches: 0 is kept, 2 is right",
                "the number of child watches: 2 is kept, 1 is right",
                "the number of paths with data watches: 1 is kept, 2 is right",
                "the number of connections with data watches: 2 is kept, 1 is right",
            ]
        );
    }
}
