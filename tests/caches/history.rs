//! A checker of events: whether a tree could have had the history that they tell.

use std::collections::BTreeMap;

use zoolet::protocol::Zxid;
use zoolet::recipes::{CacheEvent, CachedZnode};

use super::Tree;

/// What the events of a cache have told so far.
pub(crate) struct History {
    root: &'static str,
    tree: BTreeMap<String, CachedZnode>,
    last: Option<Zxid>,
    has_zxids: bool,
}

impl History {
    /// The history of a cache that begins empty. Without zxids in events the order is that of their
    /// arrival.
    pub(crate) fn new(root: &'static str, has_zxids: bool) -> Self {
        Self { root, tree: BTreeMap::new(), last: None, has_zxids }
    }

    /// Takes the next event, which must be possible.
    pub(crate) fn take(&mut self, event: &CacheEvent) {
        if let (Some(zxid), true) = (event.zxid(), self.has_zxids) {
            assert!(self.last <= Some(zxid), "{event:?} after {:?}", self.last);
            self.last = Some(zxid);
        }
        match event {
            CacheEvent::Created { znode, .. } => {
                let parent = znode.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                assert!(znode.path == self.root || self.tree.contains_key(parent), "{event:?}");
                let before = self.tree.insert(znode.path.clone(), (**znode).clone());
                assert!(before.is_none(), "{event:?} of {before:?}");
            }
            CacheEvent::Changed { before, znode, .. } => {
                let known = self.tree.insert(znode.path.clone(), (**znode).clone());
                let known = known.expect("a znode that changes is there");
                assert_eq!((&known.data, known.stat.mzxid), (&before.data, before.stat.mzxid));
                assert!(known.stat.mzxid < znode.stat.mzxid, "{event:?}");
            }
            CacheEvent::Deleted { znode, .. } => {
                let known = self.tree.remove(&znode.path).expect("a deleted znode was there");
                assert_eq!(known.data, znode.data, "the last data");
                let below = format!("{}/", znode.path);
                assert!(!self.tree.keys().any(|other| other.starts_with(&below)), "{event:?}");
            }
            _ => {}
        }
    }

    /// What the events lead to.
    pub(crate) fn tree(&self) -> Tree {
        let znode = |it: &CachedZnode| (it.data.to_vec(), it.stat.czxid, it.stat.mzxid);
        self.tree.iter().map(|(path, it)| (path.clone(), znode(it))).collect()
    }
}
