//! The tree of znodes.
//!
//! The znodes, with data, Stat and access control list, are kept in copy-on-write shards by a hash
//! of their path. [`Tree::freeze`] copies one reference for each shard. A later change of a frozen
//! shard copies the references of that shard, and only the znode that changes. The sorted names of
//! the children are kept outside the shards: a snapshot does not need them.

mod check;
mod znode;

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use zoolet_protocol::{Acl, Encode, Names, ZPath, Zxid};

pub use self::znode::{StatPersisted, Znode};
use crate::acl::{AclList, AclLists};
use crate::limits::{CACHED_LIST_NAMES_MIN, CACHED_LISTS_BYTES_MAX, WALKED_ZNODES_MAX};
use crate::read::number;

/// With a million znodes, a shard that must be copied has four thousand references. An empty tree
/// with this many shards is small.
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
    /// The bytes of all paths and all data: ZooKeeper's `approximate_data_size`.
    size_bytes: usize,
    /// The bytes of all cached lists of children.
    cached_bytes: AtomicUsize,
}

/// The children of one znode.
#[derive(Debug, Default)]
struct Children {
    paths: BTreeSet<ZPath>,
    /// The bytes of all names, without the lengths that the encoding adds.
    name_bytes: usize,
    /// The cached list of the encoded names. A change of the children drops it.
    list: OnceLock<Names>,
}

impl Children {
    fn encode(&self) -> Names {
        let bytes = self.name_bytes + 4 * self.paths.len();
        Names::with_capacity(bytes, self.paths.iter().map(ZPath::name))
    }

    /// Drops the cached list, because the children change.
    fn drop_cached_list(&mut self, cached_bytes: &mut AtomicUsize) {
        if let Some(list) = self.list.take() {
            *cached_bytes.get_mut() -= list.encoded_len();
        }
    }
}

/// The number of znodes at and below a path, and the bytes of their data.
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

    /// A tree with nothing but a root.
    pub(crate) fn with_root(root: Znode) -> Self {
        assert!(root.path.is_root(), "the root of a tree has the path /, not {}", root.path);
        let mut tree = Self {
            shards: vec![Arc::default(); SHARDS].into(),
            hasher: DefaultHashBuilder::default(),
            children: HashMap::new(),
            acl_lists: AclLists::default(),
            count: 0,
            size_bytes: 0,
            cached_bytes: AtomicUsize::new(0),
        };
        tree.put(root);
        tree
    }

    /// Inserts the built-in znodes that do not exist, and returns how many it inserted.
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

    /// The shared copy of a list, if that was set last and is a list for everyone, which needs no
    /// check.
    pub(crate) fn last_acl_list(&self, entries: Option<&[Acl]>) -> Option<Arc<[Acl]>> {
        self.acl_lists.last_of_everyone(entries?)
    }

    /// The number of znodes.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The znode at `path`. The empty string names the root, as in ZooKeeper.
    pub(crate) fn get(&self, path: &str) -> Option<&Znode> {
        let path = if path.is_empty() { "/" } else { path };
        let (shard, hash) = self.shard_and_hash(path);
        self.shards[shard].find(hash, |znode| &*znode.path == path).map(Arc::as_ref)
    }

    /// The shard of a path, and the hash of the path.
    fn shard_and_hash(&self, path: &str) -> (usize, u64) {
        let hash = self.hasher.hash_one(path);
        // The hash table uses the bits at both ends of the hash; the shard uses bits from the
        // middle.
        ((hash >> 32) as usize % SHARDS, hash)
    }

    /// Changes the znode at `path`, and returns what `change` returns. `None` if there is no such
    /// znode.
    pub(crate) fn update<T>(
        &mut self,
        path: &str,
        change: impl FnOnce(&mut Znode) -> T,
    ) -> Option<T> {
        let path = if path.is_empty() { "/" } else { path };
        let (shard, hash) = self.shard_and_hash(path);
        let shard = Arc::make_mut(&mut self.shards[shard]);
        let znode = Arc::make_mut(shard.find_mut(hash, |znode| &*znode.path == path)?);
        let before = znode.data_length();
        let result = change(znode);
        self.size_bytes = self.size_bytes + znode.data_length() - before;
        Some(result)
    }

    /// Inserts a znode below its parent.
    ///
    /// # Panics
    ///
    /// If the parent does not exist, or if the znode is the root. The caller makes sure that no
    /// znode has the path.
    pub(crate) fn insert(&mut self, znode: Znode) {
        let path = znode.path.clone();
        let parent = path.parent().expect("the root is never inserted");
        let added = self.update(parent, |parent| parent.num_children += 1);
        assert!(added.is_some(), "the parent of {path} exists");
        let siblings = match self.children.get_mut(parent) {
            Some(siblings) => siblings,
            None => {
                let parent = self.get(parent).expect("the parent was just updated").path.clone();
                self.children.entry(parent).or_default()
            }
        };
        siblings.drop_cached_list(&mut self.cached_bytes);
        siblings.name_bytes += path.name().len();
        siblings.paths.insert(path);
        self.put(znode);
    }

    /// Puts a znode into its shard and leaves its parent unchanged.
    fn put(&mut self, znode: Znode) {
        self.count += 1;
        self.size_bytes += znode.path.len() + znode.data_length();
        let (shard, hash) = self.shard_and_hash(&znode.path);
        let hasher = &self.hasher;
        Arc::make_mut(&mut self.shards[shard])
            .insert_unique(hash, Arc::new(znode), |znode| hasher.hash_one(znode.path.as_str()));
    }

    /// Removes a znode without children. `None` if there is no znode at `path`.
    ///
    /// # Panics
    ///
    /// If the znode has children.
    pub(crate) fn remove(&mut self, path: &str) -> Option<Arc<Znode>> {
        let (shard, hash) = self.shard_and_hash(path);
        let entry = Arc::make_mut(&mut self.shards[shard])
            .find_entry(hash, |znode| &*znode.path == path)
            .ok()?;
        assert_eq!(entry.get().num_children, 0, "{path} has no children when it is removed");
        let (znode, _) = entry.remove();
        self.count -= 1;
        self.size_bytes -= znode.path.len() + znode.data_length();
        let parent = znode.path.parent().expect("the root is never removed");
        self.update(parent, |parent| parent.num_children -= 1);
        if let Some(siblings) = self.children.get_mut(parent) {
            siblings.drop_cached_list(&mut self.cached_bytes);
            siblings.paths.remove(path);
            siblings.name_bytes -= znode.path.name().len();
            if siblings.paths.is_empty() {
                self.children.remove(parent);
            }
        }
        Some(znode)
    }

    /// Removes znodes and returns those that it removed: it leaves znodes that have children. It
    /// changes each parent once for all consecutive children, and sets the parent's pzxid to
    /// `zxid`.
    pub(crate) fn remove_all(&mut self, paths: &BTreeSet<ZPath>, zxid: Zxid) -> Vec<Arc<Znode>> {
        let mut gone = Vec::with_capacity(paths.len());
        let mut paths = paths.iter().peekable();
        while let Some(first) = paths.next() {
            let parent = first.parent().expect("the root is never removed");
            let since = gone.len();
            gone.extend(self.take_childless(first));
            while let Some(next) = paths.next_if(|next| next.parent() == Some(parent)) {
                gone.extend(self.take_childless(next));
            }
            self.unlist(parent, &gone[since..], zxid);
        }
        gone
    }

    /// Takes a znode without children out of its shard and leaves its parent unchanged.
    fn take_childless(&mut self, path: &str) -> Option<Arc<Znode>> {
        let (shard, hash) = self.shard_and_hash(path);
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

    /// Takes removed znodes, which are in the order of their paths, off the children of their
    /// parent.
    fn unlist(&mut self, parent: &str, gone: &[Arc<Znode>], zxid: Zxid) {
        self.update(parent, |znode| {
            znode.num_children -=
                i32::try_from(gone.len()).expect("the number of children was an i32 before");
            znode.stat.pzxid = znode.stat.pzxid.max(zxid);
        });
        let Some(siblings) = self.children.get_mut(parent) else { return };
        siblings.drop_cached_list(&mut self.cached_bytes);
        if siblings.paths.len() == gone.len() {
            self.children.remove(parent);
            return;
        }
        siblings.name_bytes -= gone.iter().map(|znode| znode.path.name().len()).sum::<usize>();
        // If many are removed, going through all siblings is faster than looking each of them up.
        if gone.len() >= siblings.paths.len() / 8 {
            let mut gone = gone.iter().map(|znode| &znode.path).peekable();
            siblings.paths.retain(|path| gone.next_if(|next| *next == path).is_none());
        } else {
            for znode in gone {
                siblings.paths.remove(&znode.path);
            }
        }
    }

    /// The names of the children of `path`, in order. A long list is encoded once and cached until
    /// the children change.
    pub(crate) fn child_names(&self, path: &str) -> Names {
        let path = if path.is_empty() { "/" } else { path };
        let Some(children) = self.children.get(path) else { return Names::EMPTY };
        if children.paths.len() < CACHED_LIST_NAMES_MIN {
            return children.encode();
        }
        if let Some(list) = children.list.get() {
            return list.clone();
        }
        let list = children.encode();
        let bytes = list.encoded_len();
        let cached_bytes = self.cached_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Another thread may have cached the same list since.
        if cached_bytes > CACHED_LISTS_BYTES_MAX || children.list.set(list.clone()).is_err() {
            self.cached_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        list
    }

    /// Calls `visit` with the znode at `path` and all its descendants, each before its children,
    /// until `visit` returns false. Returns whether it never did.
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

    /// Counts the znodes at and below `path`. `None` if they are too many to be looked up one by
    /// one.
    pub(crate) fn few_below(&self, path: &str) -> Option<Below> {
        let mut below = Below::default();
        let is_all = self.visit(path, &mut |znode| {
            below.add(znode);
            below.znodes < WALKED_ZNODES_MAX
        });
        is_all.then_some(below)
    }

    /// Counts the znodes at and below `path`.
    pub(crate) fn below(&self, path: &str) -> Below {
        self.few_below(path).unwrap_or_else(|| below(&self.shards, path))
    }

    /// All znodes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Znode> {
        self.shards.iter().flat_map(|shard| shard.iter()).map(Arc::as_ref)
    }

    /// All znodes as they are now, in no order. Later changes do not show in the result.
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

    /// The number of descendants of the znode at `path`, which must not be the root. 0 if there is
    /// no such znode.
    #[must_use]
    pub fn descendants(&self, path: &str) -> i32 {
        number(below(&self.shards, path).znodes.saturating_sub(1))
    }
}

/// Counts the znodes at and below `path` by going through all znodes. For many znodes this is ten
/// times as fast as looking each of them up.
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
    use crate::ephemeral_owner::EphemeralOwner;

    fn path(path: &str) -> ZPath {
        ZPath::parse(path).unwrap()
    }

    fn insert(tree: &mut Tree, at: &str, data: &'static [u8]) {
        let data = Some(bytes::Bytes::from_static(data));
        let owner = EphemeralOwner::default();
        tree.insert(Znode::created(path(at), data, AclList::OPEN, owner, Zxid(1), 0));
    }

    /// A tree in which `/wide` has this many children.
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
    fn a_long_list_of_children_is_cached_until_it_changes() {
        let mut tree = wide(CACHED_LIST_NAMES_MIN);
        let (first, second) = (tree.child_names("/wide"), tree.child_names("/wide"));
        let address = |names: &Names| names.iter().next().unwrap().as_ptr();
        assert_eq!(address(&first), address(&second));
        assert_eq!(*tree.cached_bytes.get_mut(), first.encoded_len());

        insert(&mut tree, "/wide/new", b"");
        assert_eq!(*tree.cached_bytes.get_mut(), 0);
        assert_eq!(tree.child_names("/wide").len(), CACHED_LIST_NAMES_MIN + 1);
        tree.remove("/wide/new").unwrap();
        assert_eq!(tree.child_names("/wide"), first);
    }

    #[test]
    fn the_cached_lists_have_a_limit() {
        let mut tree = wide(CACHED_LIST_NAMES_MIN);
        *tree.cached_bytes.get_mut() = CACHED_LISTS_BYTES_MAX;
        assert_eq!(tree.child_names("/wide").len(), CACHED_LIST_NAMES_MIN);
        assert_eq!(*tree.cached_bytes.get_mut(), CACHED_LISTS_BYTES_MAX);
    }

    #[test]
    fn few_and_many_znodes_are_counted_alike() {
        let few = wide(100).below("/wide");
        assert_eq!(few, Below { znodes: 101, data_bytes: 400 });
        let tree = wide(WALKED_ZNODES_MAX);
        assert_eq!(tree.few_below("/wide"), None);
        let many = Below { znodes: WALKED_ZNODES_MAX + 1, data_bytes: 4 * WALKED_ZNODES_MAX };
        assert_eq!(tree.below("/wide"), many);
        assert_eq!(tree.freeze().descendants("/wide"), WALKED_ZNODES_MAX as i32);
    }

    #[test]
    fn removing_many_znodes_at_once_equals_removing_them_one_by_one() {
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
