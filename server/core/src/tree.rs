//! The tree of znodes.
//!
//! The znodes, with data, Stat and access control list, are in slots, which are copy-on-write
//! (`slots.rs`): [`Tree::freeze`] takes microseconds. An index finds the slot of a path. The index and
//! the names of the children are not frozen: a snapshot does not need them.
//!
//! In a large tree no cache holds what a look-up reads. So a decision hands on where it has found the
//! znode and its parent ([`LookedUp`]), and the change looks up neither again.

mod check;
mod children;
mod data;
mod names;
mod place;
mod slots;
mod znode;

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use zoolet_protocol::{Acl, Names, Permissions, ZPath, Zxid};

use self::children::AllChildren;
pub use self::data::Data;
use self::names::CachedBytes;
pub(crate) use self::place::{InMulti, LookedUp, Place, Places};
use self::slots::{Groups, Slot, Slots};
pub use self::znode::{StatPersisted, Znode};
use crate::acl::{AclList, AclLists};
use crate::limits::WALKED_ZNODES_MAX;
use crate::parts::Parts;
use crate::path_hash::PathHasher;
use crate::read::number;
use crate::sorted_paths::SortedPaths;

/// All znodes.
#[derive(Debug)]
pub(crate) struct Tree {
    slots: Slots,
    /// The slot of each path.
    index: Parts<Slot>,
    hasher: PathHasher,
    /// Changes whenever a znode comes or goes, and begins with a random number: what was looked up
    /// is right as long as this is the same, and never right in another tree.
    edition: u64,
    /// Where the znode is below which the last one was created or deleted: one that locks and unlocks
    /// does both in the same directory.
    last_parent: Option<Place>,
    /// The children of each znode that has some.
    children: AllChildren,
    acl_lists: AclLists,
    count: usize,
    /// The bytes of all paths and all data: ZooKeeper's `approximate_data_size`.
    size_bytes: usize,
    /// The bytes of all cached lists of children.
    cached_bytes: CachedBytes,
}

/// The path, or that of the root, of which the empty one is a second name in ZooKeeper.
#[inline]
pub(crate) fn or_root(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"/" } else { path }
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
        let root = Znode::built_in(ZPath::root(), AclList::OPEN);
        let mut tree = Self::with_root(root, PathHasher::default());
        tree.insert_built_ins();
        tree
    }

    /// A tree with nothing but a root.
    pub(crate) fn with_root(root: Znode, hasher: PathHasher) -> Self {
        assert!(root.path.is_root(), "the root of a tree has the path /, not {}", root.path);
        let mut tree = Self {
            slots: Slots::default(),
            index: Parts::default(),
            edition: DefaultHashBuilder::default().hash_one(0),
            last_parent: None,
            hasher,
            children: AllChildren::default(),
            acl_lists: AclLists::default(),
            count: 0,
            size_bytes: 0,
            cached_bytes: CachedBytes::default(),
        };
        tree.put(tree.find(&root.path), || root);
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

    /// What the hashes of the places are made with.
    pub(crate) fn hasher(&self) -> &PathHasher {
        &self.hasher
    }

    pub(crate) fn acl_lists(&mut self) -> &mut AclLists {
        &mut self.acl_lists
    }

    /// The shared copy of a list, if that was set last and is a list for everyone, which needs no
    /// check.
    pub(crate) fn last_acl_list(&self, entries: Option<&[Acl]>) -> Option<Arc<[Acl]>> {
        self.acl_lists.last_of_everyone(entries?)
    }

    /// The list that gives everyone these permissions, and nobody else any.
    pub(crate) fn list_of_everyone(&self, permissions: Permissions) -> Arc<[Acl]> {
        let own = || [Acl::open().with_permissions(permissions)].into();
        self.acl_lists.last_that_gives_everyone(permissions).unwrap_or_else(own)
    }

    /// The number of znodes.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Where `path` is. The empty string names the root, as in ZooKeeper.
    pub(crate) fn find(&self, path: &str) -> Place {
        self.find_bytes(path.as_bytes())
    }

    /// [`Tree::find`] of a path with these bytes.
    pub(crate) fn find_bytes(&self, path: &[u8]) -> Place {
        let path = or_root(path);
        let hash = self.hasher.hash_bytes(path);
        let is_it =
            |slot: &Slot| self.slots.get(*slot).is_some_and(|znode| znode.path.as_bytes() == path);
        Place::new(hash, self.index.find(hash, is_it).copied())
    }

    /// [`Tree::find_bytes`] of a znode below which one is to be created or deleted.
    pub(crate) fn find_parent(&self, path: &[u8]) -> Place {
        let is_it =
            |last: &Place| self.at(*last).is_some_and(|znode| znode.path.as_bytes() == path);
        self.last_parent.filter(is_it).unwrap_or_else(|| self.find_bytes(path))
    }

    /// The znode at a place.
    pub(crate) fn at(&self, place: Place) -> Option<&Znode> {
        self.slots.get(place.slot()?)
    }

    /// The znode at `path`. The empty string names the root, as in ZooKeeper.
    pub(crate) fn get(&self, path: &str) -> Option<&Znode> {
        self.at(self.find(path))
    }

    /// The znode whose path has these bytes.
    pub(crate) fn get_bytes(&self, path: &[u8]) -> Option<&Znode> {
        let path = or_root(path);
        // Not by `find_bytes`: so the slot is looked into once.
        let mut found = None;
        let is_it = |slot: &Slot| {
            found = self.slots.get(*slot).filter(|znode| znode.path.as_bytes() == path);
            found.is_some()
        };
        self.index.find(self.hasher.hash_bytes(path), is_it);
        found
    }

    /// What a decision hands on of the places that it has looked up.
    pub(crate) fn looked_up(&self, znode: Option<Place>, parent: Option<Place>) -> LookedUp {
        LookedUp::new(znode, parent, self.edition)
    }

    /// Where the znode at `path` is, as it was looked up, or looked up again if a znode came or went
    /// since.
    pub(crate) fn place(&self, looked_up: &LookedUp, path: &str) -> Place {
        self.place_of(looked_up.znode_in(self.edition), || path)
    }

    /// Where the znode at `path` is and its parent, as [`Tree::place`]. `None` for the root.
    #[inline]
    pub(crate) fn places(&self, looked_up: &LookedUp, path: &ZPath) -> Option<Places> {
        if path.is_root() {
            return None;
        }
        let parent = || path.parent().expect("every other path has a parent");
        let parent = self.place_of(looked_up.parent_in(self.edition), parent);
        Some(Places { znode: self.place(looked_up, path), parent })
    }

    fn place_of<'a>(&self, known: Option<Place>, path: impl FnOnce() -> &'a str) -> Place {
        let Some(place) = known else { return self.find(path()) };
        if cfg!(debug_assertions) {
            let path = path();
            assert_eq!(place, self.find(path), "{path} is where it was looked up");
        }
        place
    }

    /// Changes the znode at `path`, and returns what `change` returns. `None` if there is no such
    /// znode.
    pub(crate) fn update<T>(
        &mut self,
        path: &str,
        change: impl FnOnce(&mut Znode) -> T,
    ) -> Option<T> {
        self.update_at(self.find(path), change)
    }

    /// [`Tree::update`] of the znode at a place.
    pub(crate) fn update_at<T>(
        &mut self,
        place: Place,
        change: impl FnOnce(&mut Znode) -> T,
    ) -> Option<T> {
        let znode = self.slots.get_mut(place.slot()?)?;
        let before = znode.data_length();
        let result = change(znode);
        let after = znode.data_length();
        self.size_bytes = self.size_bytes + after - before;
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
        let places = self.places(&LookedUp::default(), &path).expect("the root is never inserted");
        let inserted = self.insert_at(places, &path, || znode, |_| {});
        assert!(inserted.is_some(), "the parent of {path} exists");
    }

    /// Inserts the znode that `make` makes below its parent, which `change` changes, but not its data.
    /// Returns where it is; `None` if there is no parent: then nothing changes. The caller makes sure that no
    /// znode has the path, and that the places are those of the path and its parent. `make` must not panic:
    /// the parent lists the znode already.
    #[inline]
    pub(crate) fn insert_at(
        &mut self,
        places: Places,
        path: &ZPath,
        make: impl FnOnce() -> Znode,
        change: impl FnOnce(&mut Znode),
    ) -> Option<Place> {
        let parent = self.slots.get_mut(places.parent.slot()?)?;
        change(parent);
        parent.num_children += 1;
        let siblings = self.children.get_or_add(&mut parent.children);
        siblings.insert(path.clone(), &mut self.cached_bytes);
        self.last_parent = Some(places.parent);
        Some(self.put(places.znode, make))
    }

    /// Makes a znode in a slot and leaves its parent unchanged. Returns its place. `make` must not panic.
    #[inline]
    fn put(&mut self, place: Place, make: impl FnOnce() -> Znode) -> Place {
        self.edition = self.edition.wrapping_add(1);
        self.count += 1;
        let (slot, znode) = self.slots.insert_with(make);
        self.size_bytes += znode.path.len() + znode.data_length();
        self.index.insert(place.hash(), slot);
        Place::new(place.hash(), Some(slot))
    }

    /// Removes a znode without children, and changes its parent with `change`, but not its data. Returns
    /// what `look` has seen of it; `None` if there is no znode, or if it has children; the parent, if there
    /// is one, is changed all the same. The caller makes sure that the places are those of `path` and its
    /// parent.
    pub(crate) fn remove_at<T>(
        &mut self,
        places: Places,
        path: &ZPath,
        look: impl FnOnce(&Znode) -> T,
        change: impl FnOnce(&mut Znode),
    ) -> Option<T> {
        // The children have a clone of the znode's own path. That of a log is none.
        let is_other = |znode: &&Znode| !znode.path.is_clone_of(path);
        let own_path = self.at(places.znode).filter(is_other).map(|znode| znode.path.clone());
        let removed = self.drop_childless(places.znode, look);
        let Some(parent) = places.parent.slot().and_then(|slot| self.slots.get_mut(slot)) else {
            return removed;
        };
        change(parent);
        self.last_parent = Some(places.parent);
        let removed = removed?;
        parent.num_children -= 1;
        if let Some(siblings) = self.children.get_mut(parent.children) {
            siblings.remove(own_path.as_ref().unwrap_or(path), &mut self.cached_bytes);
            if siblings.is_empty() {
                self.children.remove(&mut parent.children, &mut self.cached_bytes);
            }
        }
        Some(removed)
    }

    /// Removes znodes and returns those that it removed: it leaves znodes that have children. It
    /// changes each parent once for all consecutive children, and sets the parent's pzxid to
    /// `zxid`.
    pub(crate) fn remove_all(&mut self, paths: &SortedPaths, zxid: Zxid) -> Vec<Znode> {
        let mut gone = Vec::with_capacity(paths.len());
        let mut paths = paths.iter().peekable();
        while let Some(first) = paths.next() {
            let parent = first.parent().expect("the root is never removed");
            let since = gone.len();
            gone.extend(self.take_childless(self.find(first)));
            while let Some(next) = paths.next_if(|next| next.parent() == Some(parent)) {
                gone.extend(self.take_childless(self.find(next)));
            }
            self.unlist(parent, &gone[since..], zxid);
        }
        gone
    }

    /// The slot of a znode without children, the znode, and how many bytes its path and data have.
    fn childless(&self, place: Place) -> Option<(Slot, &Znode, usize)> {
        let slot = place.slot()?;
        let znode = self.slots.get(slot).filter(|znode| znode.num_children == 0)?;
        Some((slot, znode, znode.path.len() + znode.data_length()))
    }

    /// Takes a znode without children out of its slot and leaves its parent unchanged.
    fn take_childless(&mut self, place: Place) -> Option<Znode> {
        let (slot, _, bytes) = self.childless(place)?;
        let znode = self.slots.remove(slot)?;
        self.forget(place, slot, bytes);
        Some(znode)
    }

    /// Drops a znode without children and leaves its parent unchanged. Returns what `look` has seen of it.
    fn drop_childless<T>(&mut self, place: Place, look: impl FnOnce(&Znode) -> T) -> Option<T> {
        let (slot, znode, bytes) = self.childless(place)?;
        let seen = look(znode);
        self.slots.clear(slot);
        self.forget(place, slot, bytes);
        Some(seen)
    }

    /// Forgets where a znode was that has left its slot.
    fn forget(&mut self, place: Place, slot: Slot, bytes: usize) {
        self.index.remove(place.hash(), |other| *other == slot);
        self.edition = self.edition.wrapping_add(1);
        self.count -= 1;
        self.size_bytes -= bytes;
    }

    /// Takes removed znodes, which are in the order of their paths, off the children of their
    /// parent.
    fn unlist(&mut self, parent: &str, gone: &[Znode], zxid: Zxid) {
        let parent = self.find(parent).slot().and_then(|slot| self.slots.get_mut(slot));
        let Some(parent) = parent else { return };
        parent.num_children -=
            i32::try_from(gone.len()).expect("the number of children was an i32 before");
        parent.stat.pzxid = parent.stat.pzxid.max(zxid);
        let Some(siblings) = self.children.get_mut(parent.children) else { return };
        if siblings.len() == gone.len() {
            self.children.remove(&mut parent.children, &mut self.cached_bytes);
            return;
        }
        // If many are removed, going through all siblings is faster than looking each of them up.
        if gone.len() >= siblings.len() / 8 {
            let mut gone = gone.iter().map(|znode| &znode.path).peekable();
            let is_kept = |path: &ZPath| gone.next_if(|next| *next == path).is_none();
            siblings.retain(&mut self.cached_bytes, is_kept);
        } else {
            for znode in gone {
                siblings.remove(&znode.path, &mut self.cached_bytes);
            }
        }
    }

    /// The names of the children of `path`, in order. A list is encoded once; after a change of the
    /// children only the names beside those that changed are encoded again.
    pub(crate) fn child_names(&self, path: &str) -> Names {
        let children = self.get(path).and_then(|znode| self.children.get(znode.children));
        children.map_or(Names::EMPTY, |children| children.names(&self.cached_bytes))
    }

    /// Counts the znodes at and below `path`. `None` if they are too many to be looked up one by
    /// one.
    pub(crate) fn few_below(&self, path: &str) -> Option<Below> {
        self.count_few(&mut vec![path])
    }

    /// Counts the znodes at these paths and below them. It stops as soon as they are known to be too
    /// many: how many children a znode has is known before any of them is looked up.
    fn count_few<'a>(&'a self, ahead: &mut Vec<&'a str>) -> Option<Below> {
        let mut below = Below::default();
        while let Some(path) = ahead.pop() {
            let Some(znode) = self.get(path) else { continue };
            below.add(znode);
            let Some(children) = self.children.get(znode.children) else { continue };
            if below.znodes + ahead.len() + children.len() >= WALKED_ZNODES_MAX {
                return None;
            }
            ahead.extend(children.iter().map(ZPath::as_str));
        }
        Some(below)
    }

    /// Counts the znodes at and below `path`.
    pub(crate) fn below(&self, path: &str) -> Below {
        self.few_below(path).unwrap_or_else(|| below(self.iter(), path))
    }

    /// All znodes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Znode> {
        self.slots.iter()
    }

    /// All znodes as they are now, in no order. Later changes do not show in the result.
    pub(crate) fn freeze(&self) -> FrozenTree {
        FrozenTree { znodes: self.slots.freeze(), count: self.count }
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
    znodes: Groups,
    pub(crate) count: usize,
}

impl FrozenTree {
    /// All znodes, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Znode> {
        self.znodes.iter()
    }

    /// The number of descendants of the znode at `path`, which must not be the root. 0 if there is
    /// no such znode.
    #[must_use]
    pub fn descendants(&self, path: &str) -> i32 {
        number(below(self.iter(), path).znodes.saturating_sub(1))
    }
}

/// Counts the znodes at and below `path` by going through all znodes. For many znodes this is ten
/// times as fast as looking each of them up.
fn below<'a>(znodes: impl Iterator<Item = &'a Znode>, path: &str) -> Below {
    let mut below = Below::default();
    for znode in znodes {
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
    use crate::limits::{CACHED_LISTS_BYTES_MAX, CACHED_SHORT_LISTS_BYTES_MAX};

    fn path(path: &str) -> ZPath {
        ZPath::parse(path).unwrap()
    }

    fn insert(tree: &mut Tree, at: &str, data: &'static [u8]) {
        let data = Some(Data::copied(data));
        let owner = EphemeralOwner::default();
        tree.insert(Znode::created(path(at), data, AclList::OPEN, owner, Zxid(1), 0));
    }

    fn remove(tree: &mut Tree, path: &ZPath, zxid: Zxid) {
        let places = tree.places(&LookedUp::default(), path).unwrap();
        tree.remove_at(places, path, |_| (), |parent| parent.stat.pzxid = zxid).unwrap();
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
    fn a_list_of_children_is_encoded_once_until_it_changes() {
        for znodes in [1, 10, 1_000] {
            let mut tree = wide(znodes);
            let first = tree.child_names("/wide");
            assert!(first.shares_bytes_with(&tree.child_names("/wide")));
            let name_bytes: usize = first.iter().map(str::len).sum();
            assert!(tree.cached_bytes.get() >= name_bytes);

            insert(&mut tree, "/wide/new", b"");
            assert_eq!(tree.child_names("/wide").len(), znodes + 1);
            remove(&mut tree, &path("/wide/new"), Zxid(9));
            assert_eq!(tree.child_names("/wide"), first);
            let mut all = SortedPaths::default();
            for number in 0..znodes {
                all.insert(path(&format!("/wide/{number:05}")));
            }
            tree.remove_all(&all, Zxid(2));
            assert_eq!(tree.child_names("/wide"), Names::EMPTY);
            assert_eq!(tree.cached_bytes.get(), 0);
        }
    }

    #[test]
    fn the_cached_lists_have_a_limit_and_short_ones_leave_room_for_long_ones() {
        let is_cached = |znodes, bytes| {
            let mut tree = wide(znodes);
            tree.cached_bytes.set(bytes);
            let first = tree.child_names("/wide");
            assert_eq!(first.len(), znodes);
            let is_cached = first.shares_bytes_with(&tree.child_names("/wide"));
            assert_eq!(tree.cached_bytes.get() > bytes, is_cached);
            is_cached
        };
        assert!(is_cached(100, 0) && is_cached(1_000, 0));
        assert!(!is_cached(100, CACHED_SHORT_LISTS_BYTES_MAX));
        assert!(is_cached(1_000, CACHED_SHORT_LISTS_BYTES_MAX));
        assert!(!is_cached(1_000, CACHED_LISTS_BYTES_MAX));
    }

    #[test]
    fn few_and_many_znodes_are_counted_alike() {
        let few = wide(100).below("/wide");
        assert_eq!(few, Below { znodes: 101, data_bytes: 400 });
        let most = wide(WALKED_ZNODES_MAX - 2);
        assert_eq!(most.few_below("/wide").map(|below| below.znodes), Some(WALKED_ZNODES_MAX - 1));
        assert_eq!(wide(WALKED_ZNODES_MAX - 1).few_below("/wide"), None);
        let tree = wide(WALKED_ZNODES_MAX);
        assert_eq!(tree.few_below("/wide"), None);
        let many = Below { znodes: WALKED_ZNODES_MAX + 1, data_bytes: 4 * WALKED_ZNODES_MAX };
        assert_eq!(tree.below("/wide"), many);
        assert_eq!(tree.freeze().descendants("/wide"), WALKED_ZNODES_MAX as i32);
    }

    #[test]
    fn the_children_of_a_large_directory_are_too_many_before_they_are_listed() {
        let mut tree = wide(3 * WALKED_ZNODES_MAX);
        let mut ahead = vec!["/wide"];
        assert_eq!(tree.count_few(&mut ahead), None);
        assert!(ahead.len() < WALKED_ZNODES_MAX, "{} are listed", ahead.len());

        // Also if they are in directories of which each has few.
        insert(&mut tree, "/deep", b"");
        for parent in 0..100 {
            insert(&mut tree, &format!("/deep/{parent:02}"), b"");
            for child in 0..100 {
                insert(&mut tree, &format!("/deep/{parent:02}/{child:02}"), b"");
            }
        }
        let mut ahead = vec!["/deep"];
        assert_eq!(tree.count_few(&mut ahead), None);
        assert!(ahead.len() < WALKED_ZNODES_MAX, "{} are listed", ahead.len());
    }

    #[test]
    fn removing_many_znodes_at_once_equals_removing_them_one_by_one() {
        for share in [1, 3, 50] {
            let (mut at_once, mut one_by_one) = (wide(300), wide(300));
            let numbers = (0..300).step_by(share);
            let mut gone = SortedPaths::default();
            for number in numbers {
                gone.insert(path(&format!("/wide/{number:05}")));
            }
            assert_eq!(at_once.remove_all(&gone, Zxid(9)).len(), gone.len());
            for path in gone.iter() {
                remove(&mut one_by_one, path, Zxid(9));
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

    #[test]
    fn what_was_looked_up_is_used_until_a_znode_comes_or_goes() {
        let mut tree = wide(1);
        let (known, absent) = ("/wide/00000", "/wide/new");
        let handed_on =
            |tree: &Tree, path| tree.looked_up(Some(tree.find(path)), Some(tree.find("/wide")));
        let (of_known, of_absent) = (handed_on(&tree, known), handed_on(&tree, absent));
        let is_used = |tree: &Tree| of_absent.znode_in(tree.edition).is_some();
        tree.update("/wide", |znode| znode.data = None);
        assert!(is_used(&tree), "a change leaves each znode where it is");
        let places = tree.places(&of_known, &path(known)).unwrap();
        assert_eq!((places.znode, places.parent), (tree.find(known), tree.find("/wide")));

        insert(&mut tree, absent, b"");
        assert!(!is_used(&tree));
        assert!(tree.place(&of_absent, absent).has_znode());
        remove(&mut tree, &path(known), Zxid(9));
        assert!(!tree.place(&of_known, known).has_znode());
        insert(&mut tree, "/wide/other", b"");
        assert!(!tree.place(&of_known, known).has_znode(), "another znode is in its slot");
    }

    #[test]
    fn what_one_tree_has_looked_up_is_not_used_in_another() {
        let (one, other) = (wide(2), wide(2));
        assert_ne!(one.edition, other.edition);
    }
}
