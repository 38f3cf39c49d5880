//! The tree of znodes.
//!
//! What a snapshot holds, the znodes with data, Stat and access control list, is kept in
//! copy-on-write shards by a hash of the path: [`Tree::freeze`] takes one reference a shard, and a
//! change to a frozen shard copies its references, not its znodes. What a snapshot does not hold
//! stands beside the shards: the names of children, in order.

mod znode;

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use zoolet_protocol::{Names, ZPath};

pub use self::znode::{Persisted, Znode};
use crate::acl::{AclList, AclLists};

/// As many that a copied shard of a tree of a million znodes has four thousand references, and
/// that an empty tree costs little.
const SHARDS: usize = 256;

type Shard = HashTable<Arc<Znode>>;

/// All znodes.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    shards: Box<[Arc<Shard>]>,
    hasher: DefaultHashBuilder,
    /// The children of each znode that has some.
    children: HashMap<ZPath, Children>,
    acl_lists: AclLists,
    count: usize,
    /// The bytes of all paths and data: ZooKeeper's `approximate_data_size`.
    size_bytes: usize,
}

/// The children of one znode.
#[derive(Debug, Clone, Default)]
struct Children {
    paths: BTreeSet<ZPath>,
    /// The bytes of the names, without what the encoding adds.
    name_bytes: usize,
}

impl Tree {
    /// A tree with the built-in znodes.
    pub(crate) fn new() -> Self {
        let mut tree = Self::with_root(Znode::built_in(ZPath::root(), AclList::OPEN));
        tree.insert_built_ins();
        tree
    }

    /// A tree of one znode.
    pub(crate) fn with_root(root: Znode) -> Self {
        assert!(root.path.is_root(), "{} is no root", root.path);
        let mut tree = Self {
            shards: vec![Arc::default(); SHARDS].into(),
            hasher: DefaultHashBuilder::default(),
            children: HashMap::new(),
            acl_lists: AclLists::default(),
            count: 0,
            size_bytes: 0,
        };
        tree.put(root);
        tree
    }

    /// Adds those built-in znodes that are not there, and tells how many that are.
    pub(crate) fn insert_built_ins(&mut self) -> usize {
        let before = self.count;
        for (path, acl) in Znode::built_ins(&mut self.acl_lists) {
            if self.get(&path).is_none() {
                self.insert(Znode::built_in(path, acl));
            }
        }
        self.count - before
    }

    pub(crate) fn acl_lists(&mut self) -> &mut AclLists {
        &mut self.acl_lists
    }

    /// How many znodes there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The znode at `path`. The empty string names the root, as in ZooKeeper.
    pub(crate) fn get(&self, path: &str) -> Option<&Znode> {
        let path = if path.is_empty() { "/" } else { path };
        let (shard, hash) = self.place(path);
        self.shards[shard].find(hash, |znode| &*znode.path == path).map(Arc::as_ref)
    }

    fn place(&self, path: &str) -> (usize, u64) {
        let hash = self.hasher.hash_one(path);
        // The table takes its bits from both ends of the hash; these are from the middle.
        ((hash >> 32) as usize % SHARDS, hash)
    }

    /// Changes the znode at `path`, if it is there, and returns what `change` returns.
    pub(crate) fn update<T>(
        &mut self,
        path: &str,
        change: impl FnOnce(&mut Znode) -> T,
    ) -> Option<T> {
        let path = if path.is_empty() { "/" } else { path };
        let (shard, hash) = self.place(path);
        let shard = Arc::make_mut(&mut self.shards[shard]);
        let znode = Arc::make_mut(shard.find_mut(hash, |znode| &*znode.path == path)?);
        let before = znode.data_length();
        let result = change(znode);
        self.size_bytes = self.size_bytes + znode.data_length() - before;
        Some(result)
    }

    /// Adds a znode under its parent. Both must be sound: the parent there, the znode not.
    pub(crate) fn insert(&mut self, znode: Znode) {
        let path = znode.path.clone();
        let parent = path.parent().expect("the root is never inserted");
        let added = self.update(parent, |parent| parent.num_children += 1);
        assert!(added.is_some(), "{path} is inserted below a parent that is there");
        let siblings = match self.children.get_mut(parent) {
            Some(siblings) => siblings,
            None => {
                let parent = self.get(parent).expect("it was just updated").path.clone();
                self.children.entry(parent).or_default()
            }
        };
        siblings.name_bytes += path.name().len();
        siblings.paths.insert(path);
        self.put(znode);
    }

    fn put(&mut self, znode: Znode) {
        self.count += 1;
        self.size_bytes += znode.path.len() + znode.data_length();
        let (shard, hash) = self.place(&znode.path);
        let hasher = &self.hasher;
        Arc::make_mut(&mut self.shards[shard])
            .insert_unique(hash, Arc::new(znode), |znode| hasher.hash_one(znode.path.as_str()));
    }

    /// Takes a znode without children out of the tree.
    pub(crate) fn remove(&mut self, path: &str) -> Option<Arc<Znode>> {
        let (shard, hash) = self.place(path);
        let entry = Arc::make_mut(&mut self.shards[shard])
            .find_entry(hash, |znode| &*znode.path == path)
            .ok()?;
        assert_eq!(entry.get().num_children, 0, "{path} is removed without its children");
        let (znode, _) = entry.remove();
        self.count -= 1;
        self.size_bytes -= znode.path.len() + znode.data_length();
        let parent = znode.path.parent().expect("the root is never removed");
        self.update(parent, |parent| parent.num_children -= 1);
        if let Some(siblings) = self.children.get_mut(parent) {
            siblings.paths.remove(path);
            siblings.name_bytes -= znode.path.name().len();
            if siblings.paths.is_empty() {
                self.children.remove(parent);
            }
        }
        Some(znode)
    }

    /// The names of the children of `path`, in order; empty if there are none.
    pub(crate) fn child_names(&self, path: &str) -> Names {
        let path = if path.is_empty() { "/" } else { path };
        self.children.get(path).map_or(Names::EMPTY, |children| {
            let bytes = children.name_bytes + 4 * children.paths.len();
            Names::with_capacity(bytes, children.paths.iter().map(ZPath::name))
        })
    }

    /// Calls `visit` with the znode at `path` and all its descendants, each before its children.
    pub(crate) fn visit(&self, path: &str, visit: &mut impl FnMut(&Znode)) {
        let mut ahead: Vec<&str> = vec![path];
        while let Some(path) = ahead.pop() {
            let Some(znode) = self.get(path) else { continue };
            visit(znode);
            if let Some(children) = self.children.get(&*znode.path) {
                ahead.extend(children.paths.iter().rev().map(ZPath::as_str));
            }
        }
    }

    /// Lets the numbers of new children begin at how many there are.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn forget_numbers(&mut self) {
        let mut paths = Vec::new();
        self.visit("/", &mut |znode| paths.push(znode.path.clone()));
        for path in paths {
            self.update(&path, |znode| znode.stat.cversion = znode.num_children);
        }
    }

    /// All znodes as they are now, in no order, untouched by what comes.
    pub(crate) fn freeze(&self) -> FrozenTree {
        FrozenTree { shards: self.shards.clone(), count: self.count }
    }
}

/// The znodes of a tree at one moment.
#[derive(Debug, Clone)]
pub(crate) struct FrozenTree {
    shards: Box<[Arc<Shard>]>,
    pub(crate) count: usize,
}

impl FrozenTree {
    /// All znodes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Znode> {
        self.shards.iter().flat_map(|shard| shard.iter()).map(Arc::as_ref)
    }
}
