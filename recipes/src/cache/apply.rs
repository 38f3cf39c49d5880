//! How a state that was read, or a deletion, changes the cache.
//!
//! A state takes effect at a *position*: the zxid of the event because of which it was read. It may
//! be later than that. What is later than the position is not applied here, because its own event
//! follows and stands behind in the queue. So nobody sees a change before an older one.

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_protocol::Zxid;

use super::event::CacheEvent;
use super::store::{Store, parent_path};
use super::znode::Record;

/// Where in the order of changes something takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// The zxid of the event; `None` from servers before 3.9.
    pub(crate) zxid: Option<Zxid>,
    /// The last transaction that the server had applied when it was read.
    pub(crate) read_at: Zxid,
}

impl Position {
    /// The last transaction whose effects may be shown.
    fn limit(self) -> Zxid {
        self.zxid.unwrap_or(self.read_at)
    }
}

/// All changes of a znode's children up to this zxid are in the cache, once all entries up to it
/// are applied.
#[derive(Debug)]
pub(crate) struct ChildrenKnown {
    pub(crate) path: Box<str>,
    pub(crate) pzxid: Zxid,
}

/// The cache, and the events of the changes that are made to it.
pub(crate) struct Applying<'a> {
    /// The root of the cache.
    pub(crate) root: &'a str,
    pub(crate) store: &'a mut Store,
    pub(crate) events: &'a mut Vec<CacheEvent>,
    pub(crate) children_known: &'a mut VecDeque<ChildrenKnown>,
}

impl Applying<'_> {
    /// Applies the state of a znode that existed when it was read.
    pub(crate) fn state(&mut self, path: &str, position: Position, new: &Record) {
        let limit = position.limit();
        if new.czxid() > limit {
            return;
        }
        let Some(old) = self.store.get(path) else {
            // Where the parent is not cached at this position, its deletion follows, and before it
            // that of this znode. A parent that may not be read is never cached.
            if path == self.root || parent_path(path).is_some_and(|it| self.store.contains(it)) {
                self.create(path, position, new.clone());
            }
            return;
        };
        if new.czxid() < old.czxid() {
            return;
        }
        if new.czxid() > old.czxid() {
            let deleted_at = position.zxid.unwrap_or_else(|| new.czxid());
            self.remove(path, deleted_at);
            return self.create(path, position, new.clone());
        }
        if new.mzxid() > old.mzxid() && new.mzxid() <= limit {
            self.change(path, position, new.clone(), old.pzxid());
        }
    }

    /// Applies that a znode did not exist when it was read.
    pub(crate) fn absence(&mut self, path: &str, position: Position) {
        // A znode that was created later was created again.
        let is_older = |old: &Record| old.czxid() <= position.read_at;
        if self.store.get(path).is_some_and(is_older) {
            self.remove(path, position.limit());
        }
    }

    /// Applies the event of a deletion.
    pub(crate) fn deletion(&mut self, path: &str, zxid: Zxid) {
        // A state of this transaction or a later one was read after it.
        if self.store.get(path).is_some_and(|old| old.czxid() < zxid) {
            self.remove(path, zxid);
        }
        self.children_known_of_parent(path, zxid);
    }

    fn create(&mut self, path: &str, position: Position, mut new: Record) {
        let czxid = new.czxid();
        // Of a znode without children the cache has them all, and of others none.
        if new.has_children() {
            new.set_pzxid(Zxid(czxid.0 - 1));
        }
        let zxid = position.zxid.unwrap_or(czxid);
        let znode = Arc::new(new.znode(path));
        self.store.insert(path, new);
        self.events.push(CacheEvent::Created { zxid, znode });
        if position.zxid.is_some() {
            self.children_known_of_parent(path, czxid);
        }
    }

    fn children_known_of_parent(&mut self, path: &str, pzxid: Zxid) {
        if let Some(parent) = parent_path(path) {
            self.children_known.push_back(ChildrenKnown { path: parent.into(), pzxid });
        }
    }

    fn change(&mut self, path: &str, position: Position, mut new: Record, known: Zxid) {
        keep_known_pzxid(&mut new, position, known);
        let zxid = position.zxid.unwrap_or_else(|| new.mzxid());
        let znode = Arc::new(new.znode(path));
        if let Some(before) = self.store.insert(path, new) {
            let before = Arc::new(before.znode(path));
            self.events.push(CacheEvent::Changed { zxid, before, znode });
        }
    }

    /// Removes a znode after its descendants, of which no event may have told.
    fn remove(&mut self, path: &str, zxid: Zxid) {
        let below = self.store.descendants(path);
        for path in below.iter().rev().map(|path| &**path).chain([path]) {
            if let Some(removed) = self.store.remove(path) {
                let znode = Arc::new(removed.znode(path));
                self.events.push(CacheEvent::Deleted { zxid, znode });
            }
        }
    }
}

/// Lowers the pzxid of a state that was read to what is certainly in the cache: the changes of
/// children up to `known`, and those before the position. Others stand in the queue, also some of
/// the same multi, and are lost with it when the connection is. If the cache had their zxid, the
/// resync would not list the children.
fn keep_known_pzxid(new: &mut Record, position: Position, known: Zxid) {
    if position.zxid.is_none_or(|zxid| new.pzxid() >= zxid) {
        new.set_pzxid(known);
    }
}
