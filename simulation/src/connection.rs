//! What the model knows of one connection: its watches, and the messages that it should receive.

use std::collections::{BTreeSet, VecDeque};

use zoolet_protocol::{
    AddWatch, EventType, Lookup, RemoveWatches, SessionId, SetWatches, WatchMode, WatcherType,
};

use super::model::Expected;
use super::tree::{Change, Tree};

/// One connection and its watches.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) session: Option<SessionId>,
    /// Whether the server still handles its requests.
    pub(crate) is_open: bool,
    data: BTreeSet<String>,
    child: BTreeSet<String>,
    persistent: BTreeSet<String>,
    recursive: BTreeSet<String>,
    pub(crate) expected: VecDeque<Expected>,
}

impl Connection {
    pub(crate) fn open() -> Self {
        Self { is_open: true, ..Self::default() }
    }

    /// Sets a watch for a read.
    pub(crate) fn look(&mut self, lookup: &Lookup, is_found: bool) {
        let path = lookup.path().text().unwrap_or_default().to_owned();
        match lookup {
            Lookup::Exists(_) => drop(self.data.insert(path)),
            Lookup::GetData(_) if is_found => drop(self.data.insert(path)),
            _ if is_found => drop(self.child.insert(path)),
            _ => {}
        }
    }

    pub(crate) fn add(&mut self, add: &AddWatch) {
        let path = add.path.text().unwrap_or_default().to_owned();
        match add.mode {
            WatchMode::PERSISTENT => self.persistent.insert(path),
            _ => self.recursive.insert(path),
        };
    }

    /// Removes watches, and returns whether there were any.
    pub(crate) fn remove(&mut self, remove: &RemoveWatches) -> bool {
        let path = remove.path.text().unwrap_or_default();
        match remove.watcher_type {
            WatcherType::DATA => self.data.remove(path),
            WatcherType::CHILDREN => self.child.remove(path),
            _ => {
                self.data.remove(path)
                    | self.child.remove(path)
                    | self.persistent.remove(path)
                    | self.recursive.remove(path)
            }
        }
    }

    /// Sets watches again, except those that fire at once because of a missed change.
    pub(crate) fn set_watches<'a>(
        &mut self,
        lists: &'a SetWatches,
        tree: &Tree,
    ) -> Vec<(EventType, &'a str)> {
        let seen = lists.relative_zxid;
        let mut missed = Vec::new();
        for path in lists.data.iter() {
            match tree.stat(path) {
                None => missed.push((EventType::NODE_DELETED, path)),
                Some(stat) if stat.mzxid > seen => {
                    missed.push((EventType::NODE_DATA_CHANGED, path));
                }
                Some(_) => drop(self.data.insert(path.to_owned())),
            }
        }
        for path in lists.exist.iter() {
            match tree.stat(path) {
                Some(_) => missed.push((EventType::NODE_CREATED, path)),
                None => drop(self.data.insert(path.to_owned())),
            }
        }
        for path in lists.child.iter() {
            match tree.stat(path) {
                None => missed.push((EventType::NODE_DELETED, path)),
                Some(stat) if stat.pzxid > seen => {
                    missed.push((EventType::NODE_CHILDREN_CHANGED, path));
                }
                Some(_) => drop(self.child.insert(path.to_owned())),
            }
        }
        self.persistent.extend(lists.persistent.iter().map(str::to_owned));
        self.recursive.extend(lists.persistent_recursive.iter().map(str::to_owned));
        missed
    }

    /// Returns the events of a change, and removes the one-shot watches that fired.
    pub(crate) fn hears_of(&mut self, change: &Change) -> Vec<(EventType, String)> {
        let mut events = Vec::new();
        let path = change.path.as_str();
        let is_below = |watched: &String| {
            watched == "/" || path == watched || path.starts_with(&format!("{watched}/"))
        };
        let is_covered = self.recursive.iter().any(is_below) | self.persistent.contains(path);
        let is_deletion = change.event_type == EventType::NODE_DELETED;
        if self.data.remove(path) | (is_deletion && self.child.remove(path)) | is_covered {
            events.push((change.event_type, path.to_owned()));
        }
        if let Some(parent) = &change.parent
            && (self.child.remove(parent) | self.persistent.contains(parent))
        {
            events.push((EventType::NODE_CHILDREN_CHANGED, parent.clone()));
        }
        events
    }
}
