//! The tree of znodes.
//!
//! What a snapshot holds, the znodes with data, Stat and access control list, is kept in
//! copy-on-write shards by a hash of the path: [`Tree::freeze`] takes one reference a shard, and a
//! change to a frozen shard copies its references, not its znodes. What a snapshot does not hold
//! stands beside the shards: the names of children, in order.

mod znode;

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use zoolet_protocol::{Encode, Names, ZPath, Zxid};

pub use self::znode::{Persisted, Znode};
use crate::acl::{AclList, AclLists};
use crate::limits::{LIST_KEPT_NAMES_MIN, LISTS_KEPT_BYTES_MAX, WALKED_ZNODES_MAX};
use crate::read::number;

/// As many that a copied shard of a tree of a million znodes has four thousand references, and
/// that an empty tree costs little.
const SHARDS: usize = 256;

type Shard = HashTable<Arc<Znode>>;

/// All znodes.
#[derive(Debug)]
pub(crate) struct Tree {
    shards: Box<[Arc<Shard>]>,
    hasher: DefaultHashBuilder,
    /// The children of each znode that has some.
    children: HashMap<ZPath, Children>,
    acl_lists: AclLists,
    count: usize,
    /// The bytes of all paths and data: ZooKeeper's `approximate_data_size`.
    size_bytes: usize,
    /// The bytes of the lists of children that are kept.
    kept_bytes: AtomicUsize,
}

/// The children of one znode.
#[derive(Debug, Default)]
struct Children {
    paths: BTreeSet<ZPath>,
    /// The bytes of the names, without what the encoding adds.
    name_bytes: usize,
    /// The encoded names, for all who ask until the next change; only of many names.
    list: OnceLock<Names>,
}

impl Children {
    fn encode(&self) -> Names {
        let bytes = self.name_bytes + 4 * self.paths.len();
        Names::with_capacity(bytes, self.paths.iter().map(ZPath::name))
    }

    /// The children change: the encoded names are no longer theirs.
    fn forget_list(&mut self, kept_bytes: &mut AtomicUsize) {
        if let Some(list) = self.list.take() {
            *kept_bytes.get_mut() -= list.encoded_len();
        }
    }
}

/// How many znodes there are at and below a path, and the bytes of their data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Below {
    pub(crate) znodes: usize,
    pub(crate) data_bytes: usize,
}

impl Below {
    fn add(&mut self, znode: &Znode) {
        self.znodes += 1;
        self.data_bytes += znode.data_length();
    }
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
            kept_bytes: AtomicUsize::new(0),
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
        siblings.forget_list(&mut self.kept_bytes);
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
            siblings.forget_list(&mut self.kept_bytes);
            siblings.paths.remove(path);
            siblings.name_bytes -= znode.path.name().len();
            if siblings.paths.is_empty() {
                self.children.remove(parent);
            }
        }
        Some(znode)
    }

    /// Takes znodes without children out of the tree, whose paths are in order, and returns them: each
    /// parent and its list are changed once for all that follow one another.
    pub(crate) fn remove_all(&mut self, paths: &BTreeSet<ZPath>, zxid: Zxid) -> Vec<Arc<Znode>> {
        let mut gone = Vec::with_capacity(paths.len());
        let mut paths = paths.iter().peekable();
        while let Some(first) = paths.next() {
            let parent = first.parent().expect("the root is never removed");
            let since = gone.len();
            gone.extend(self.unhash(first));
            while let Some(next) = paths.next_if(|next| next.parent() == Some(parent)) {
                gone.extend(self.unhash(next));
            }
            self.unlist(parent, &gone[since..], zxid);
        }
        gone
    }

    /// Takes a znode without children out of its shard, and leaves its parent as it is.
    fn unhash(&mut self, path: &str) -> Option<Arc<Znode>> {
        let (shard, hash) = self.place(path);
        let entry = Arc::make_mut(&mut self.shards[shard])
            .find_entry(hash, |znode| &*znode.path == path)
            .ok()?;
        if entry.get().num_children > 0 {
            return None;
        }
        let (znode, _) = entry.remove();
        self.count -= 1;
        self.size_bytes -= znode.path.len() + znode.data_length();
        Some(znode)
    }

    /// Takes znodes off the list of their parent, in whose order they are.
    fn unlist(&mut self, parent: &str, gone: &[Arc<Znode>], zxid: Zxid) {
        self.update(parent, |znode| {
            znode.num_children -= i32::try_from(gone.len()).expect("as many were counted");
            znode.stat.pzxid = znode.stat.pzxid.max(zxid);
        });
        let Some(siblings) = self.children.get_mut(parent) else { return };
        siblings.forget_list(&mut self.kept_bytes);
        if siblings.paths.len() == gone.len() {
            self.children.remove(parent);
            return;
        }
        siblings.name_bytes -= gone.iter().map(|znode| znode.path.name().len()).sum::<usize>();
        // To go through all is faster than to look for each, if there are many.
        if gone.len() >= siblings.paths.len() / 8 {
            let mut gone = gone.iter().map(|znode| &znode.path).peekable();
            siblings.paths.retain(|path| gone.next_if(|next| *next == path).is_none());
        } else {
            for znode in gone {
                siblings.paths.remove(&znode.path);
            }
        }
    }

    /// The names of the children of `path`, in order; empty if there are none. Many names are encoded
    /// once, and kept for whoever asks before they change.
    pub(crate) fn child_names(&self, path: &str) -> Names {
        let path = if path.is_empty() { "/" } else { path };
        let Some(children) = self.children.get(path) else { return Names::EMPTY };
        if children.paths.len() < LIST_KEPT_NAMES_MIN {
            return children.encode();
        }
        if let Some(list) = children.list.get() {
            return list.clone();
        }
        let list = children.encode();
        let bytes = list.encoded_len();
        let kept_bytes = self.kept_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Somebody else may have been faster.
        if kept_bytes > LISTS_KEPT_BYTES_MAX || children.list.set(list.clone()).is_err() {
            self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        list
    }

    /// Calls `visit` with the znode at `path` and all its descendants, each before its children, as
    /// long as it returns true, and tells whether it always did.
    fn visit(&self, path: &str, visit: &mut impl FnMut(&Znode) -> bool) -> bool {
        let mut ahead: Vec<&str> = vec![path];
        while let Some(path) = ahead.pop() {
            let Some(znode) = self.get(path) else { continue };
            if !visit(znode) {
                return false;
            }
            if znode.num_children > 0
                && let Some(children) = self.children.get(&*znode.path)
            {
                ahead.extend(children.paths.iter().rev().map(ZPath::as_str));
            }
        }
        true
    }

    /// What there is at and below `path`, if those are a few.
    pub(crate) fn few_below(&self, path: &str) -> Option<Below> {
        let mut below = Below::default();
        let is_all = self.visit(path, &mut |znode| {
            below.add(znode);
            below.znodes < WALKED_ZNODES_MAX
        });
        is_all.then_some(below)
    }

    /// What there is at and below `path`.
    pub(crate) fn below(&self, path: &str) -> Below {
        self.few_below(path).unwrap_or_else(|| below(&self.shards, path))
    }

    /// Lets the numbers of new children begin at how many there are.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn forget_numbers(&mut self) {
        let mut paths = Vec::new();
        self.visit("/", &mut |znode| {
            paths.push(znode.path.clone());
            true
        });
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
///
/// ```
/// use zoolet_core::{Core, Settings};
///
/// let frozen = Core::new(Settings::default()).freeze_tree();
/// assert_eq!(frozen.descendants("/zookeeper"), 2);
/// ```
#[derive(Debug, Clone)]
pub struct FrozenTree {
    shards: Box<[Arc<Shard>]>,
    pub(crate) count: usize,
}

impl FrozenTree {
    /// All znodes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Znode> {
        self.shards.iter().flat_map(|shard| shard.iter()).map(Arc::as_ref)
    }

    /// How many descendants the znode at `path` has, which is not the root; 0 where there is none.
    #[must_use]
    pub fn descendants(&self, path: &str) -> i32 {
        number(below(&self.shards, path).znodes.saturating_sub(1))
    }
}

/// Looks at all znodes one after the other for those at and below `path`: of many, that is ten times as
/// fast as to look each of them up.
fn below(shards: &[Arc<Shard>], path: &str) -> Below {
    let mut below = Below::default();
    for znode in shards.iter().flat_map(|shard| shard.iter()) {
        if let Some(rest) = znode.path.strip_prefix(path)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            below.add(znode);
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::EphemeralOwner;

    fn path(path: &str) -> ZPath {
        ZPath::parse(path).unwrap()
    }

    fn insert(tree: &mut Tree, at: &str, data: &'static [u8]) {
        let data = Some(bytes::Bytes::from_static(data));
        let owner = EphemeralOwner::default();
        tree.insert(Znode::created(path(at), data, AclList::OPEN, owner, Zxid(1), 0));
    }

    /// A directory of as many znodes.
    fn wide(znodes: usize) -> Tree {
        let mut tree = Tree::new();
        insert(&mut tree, "/wide", b"");
        insert(&mut tree, "/wider", b"not below it");
        for number in 0..znodes {
            insert(&mut tree, &format!("/wide/{number:05}"), b"four");
        }
        tree
    }

    #[test]
    fn the_list_of_many_children_is_encoded_once_until_it_changes() {
        let mut tree = wide(LIST_KEPT_NAMES_MIN);
        let (first, second) = (tree.child_names("/wide"), tree.child_names("/wide"));
        let address = |names: &Names| names.iter().next().unwrap().as_ptr();
        assert_eq!(address(&first), address(&second));
        assert_eq!(*tree.kept_bytes.get_mut(), first.encoded_len());

        insert(&mut tree, "/wide/new", b"");
        assert_eq!(*tree.kept_bytes.get_mut(), 0);
        assert_eq!(tree.child_names("/wide").len(), LIST_KEPT_NAMES_MIN + 1);
        tree.remove("/wide/new").unwrap();
        assert_eq!(tree.child_names("/wide"), first);
    }

    #[test]
    fn no_more_lists_are_kept_than_fit() {
        let mut tree = wide(LIST_KEPT_NAMES_MIN);
        *tree.kept_bytes.get_mut() = LISTS_KEPT_BYTES_MAX;
        assert_eq!(tree.child_names("/wide").len(), LIST_KEPT_NAMES_MIN);
        assert_eq!(*tree.kept_bytes.get_mut(), LISTS_KEPT_BYTES_MAX);
    }

    #[test]
    fn few_and_many_are_counted_alike() {
        let few = wide(100).below("/wide");
        assert_eq!(few, Below { znodes: 101, data_bytes: 400 });
        let tree = wide(WALKED_ZNODES_MAX);
        assert_eq!(tree.few_below("/wide"), None);
        let many = Below { znodes: WALKED_ZNODES_MAX + 1, data_bytes: 4 * WALKED_ZNODES_MAX };
        assert_eq!(tree.below("/wide"), many);
        assert_eq!(tree.freeze().descendants("/wide"), WALKED_ZNODES_MAX as i32);
    }

    #[test]
    fn many_are_removed_as_each_of_them_would_be() {
        for share in [1, 3, 50] {
            let (mut at_once, mut one_by_one) = (wide(300), wide(300));
            let numbers = (0..300).step_by(share);
            let gone: BTreeSet<_> =
                numbers.map(|number| path(&format!("/wide/{number:05}"))).collect();
            assert_eq!(at_once.remove_all(&gone, Zxid(9)).len(), gone.len());
            for path in &gone {
                one_by_one.remove(path).unwrap();
                one_by_one.update("/wide", |znode| znode.stat.pzxid = Zxid(9));
            }
            assert_eq!(at_once.get("/wide"), one_by_one.get("/wide"));
            assert_eq!(at_once.child_names("/wide"), one_by_one.child_names("/wide"));
            assert_eq!(at_once.below("/wide"), one_by_one.below("/wide"));
            assert_eq!(
                (at_once.count, at_once.size_bytes),
                (one_by_one.count, one_by_one.size_bytes)
            );
        }
    }
}
