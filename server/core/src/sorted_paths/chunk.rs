//! A chunk of a set of paths, and the key by which it is found.

use zoolet_protocol::ZPath;

use super::search_in;

/// So many changes of a chunk after somebody asked for its order it stays in order: somebody may ask again.
const CHANGES_IN_ORDER: u8 = 16;

/// A path that is gone stays the least of its chunk if it is not longer: the next would have to be looked for.
const LEAST_BYTES_KEPT_MAX: usize = 256;

/// What is derived from the paths of a chunk.
pub(crate) trait Derived: Default {
    /// What all that is derived has in common.
    type Shared: Default;

    /// The part of a path by which it differs from the others of its set. It is in their order.
    fn distinct_part(path: &str) -> &str {
        path
    }

    /// Whether somebody has asked for the paths in their order since [`Derived::forget`]. Where this is
    /// always so, they are always in order.
    fn is_asked_for(&self) -> bool;

    /// Forgets everything, because the paths change.
    fn forget(&mut self, shared: &mut Self::Shared);
}

/// Nothing.
impl Derived for () {
    type Shared = ();

    fn is_asked_for(&self) -> bool {
        true
    }

    fn forget(&mut self, (): &mut ()) {}
}

/// The first bytes of the distinct part of a path, in the order of the paths. Two paths may have the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key([u64; 2]);

impl Key {
    pub(super) fn of<D: Derived>(path: &str) -> Self {
        let part = D::distinct_part(path).as_bytes();
        let mut bytes = [0; 16];
        let len = part.len().min(bytes.len());
        bytes[..len].copy_from_slice(&part[..len]);
        let number = u128::from_be_bytes(bytes);
        Self([(number >> 64) as u64, number as u64])
    }
}

/// Some paths of a set: all those from its least path up to that of the next chunk.
#[derive(Debug, Clone)]
pub(crate) struct Chunk<D> {
    /// The key of the least path. That of the first chunk says nothing.
    key: Key,
    /// Not beside those of the other chunks: a new chunk among thousands moves little.
    content: Box<Content<D>>,
}

#[derive(Debug, Clone)]
struct Content<D> {
    paths: Vec<ZPath>,
    derived: D,
    is_in_order: bool,
    /// How many times the paths have changed since somebody asked for their order; at most 255.
    unasked_changes: u8,
    /// The place of the path that came last, unless some were put in order or have gone since.
    newest: Option<u8>,
    /// No path of the chunk is less, and all paths of the chunks before it are; `None` for the first chunk.
    /// It may have been removed.
    least: Option<ZPath>,
}

impl<D: Derived> Chunk<D> {
    /// The first chunk, with one path.
    pub(super) fn first(path: ZPath) -> Self {
        Self::of_all(vec![path], None, 0)
    }

    /// A chunk with one path behind another.
    pub(super) fn of(path: ZPath) -> Self {
        Self::in_order_of(vec![path], 0)
    }

    /// A chunk of paths in order, of which there is one.
    fn in_order_of(paths: Vec<ZPath>, unasked_changes: u8) -> Self {
        let least = paths[0].clone();
        Self::of_all(paths, Some(least), unasked_changes)
    }

    fn of_all(paths: Vec<ZPath>, least: Option<ZPath>, unasked_changes: u8) -> Self {
        let key = least.as_deref().map_or_else(Key::default, Key::of::<D>);
        let derived = D::default();
        let newest = if paths.len() == 1 { Some(0) } else { None };
        let is_in_order = true;
        let content = Content { paths, derived, is_in_order, unasked_changes, newest, least };
        Self { key, content: Box::new(content) }
    }

    /// The paths, in their order if they are kept in it.
    pub(crate) fn paths(&self) -> &[ZPath] {
        &self.content.paths
    }

    pub(crate) fn derived(&self) -> &D {
        &self.content.derived
    }

    /// How many paths there is room for without another allocation.
    pub(super) fn capacity(&self) -> usize {
        self.content.paths.capacity()
    }

    pub(super) fn is_in_order(&self) -> bool {
        self.content.is_in_order
    }

    pub(super) fn least(&self) -> Option<&ZPath> {
        self.content.least.as_ref()
    }

    /// Whether a path with this key belongs into this chunk or one behind it. Of the first chunk this is not
    /// asked.
    pub(super) fn begins_at_or_before(&self, key: Key, path: &str) -> bool {
        self.key.cmp(&key).then_with(|| self.least().map(ZPath::as_str).cmp(&Some(path))).is_le()
    }

    /// Makes a path the least, which is the first one of the chunk or about to be.
    fn begin_at(&mut self, path: ZPath) {
        self.key = Key::of::<D>(&path);
        self.content.least = Some(path);
    }

    /// Makes it the first chunk.
    pub(super) fn become_first(&mut self) {
        self.content.least = None;
    }

    /// Whether a path that is inserted is put into its place. If not, nobody has asked for the order for
    /// some changes, and it comes behind the others.
    pub(super) fn is_kept_in_order(&self) -> bool {
        self.content.unasked_changes < CHANGES_IN_ORDER || self.derived().is_asked_for()
    }

    /// Whether a path is known to be after all paths of the chunk.
    pub(super) fn is_after_all(&self, path: &ZPath) -> bool {
        self.content.is_in_order && self.paths().last().is_none_or(|last| last < path)
    }

    /// The place of a path.
    pub(super) fn place_of(&self, path: &str) -> Option<usize> {
        if self.content.is_in_order {
            search_in(self.paths(), path).ok()
        } else {
            self.paths().iter().position(|other| other.as_str() == path)
        }
    }

    /// The paths in their order.
    pub(crate) fn in_order(&self) -> impl DoubleEndedIterator<Item = &ZPath> + use<'_, D> {
        let (paths, sorted) = if self.content.is_in_order {
            (self.paths(), Vec::new())
        } else {
            let mut sorted: Vec<_> = self.paths().iter().collect();
            sorted.sort();
            (&[][..], sorted)
        };
        paths.iter().chain(sorted)
    }

    /// The paths from `path` on in their order.
    pub(super) fn since(&self, path: &str) -> impl Iterator<Item = &ZPath> + use<'_, D> {
        let less = if self.content.is_in_order {
            search_in(self.paths(), path).unwrap_or_else(|place| place)
        } else {
            self.paths().iter().filter(|other| other.as_str() < path).count()
        };
        self.in_order().skip(less)
    }

    pub(super) fn sort(&mut self) {
        if !self.content.is_in_order {
            self.content.paths.sort();
            self.content.is_in_order = true;
            self.content.newest = None;
        }
    }

    /// The path that came last, if that is known.
    pub(super) fn newest(&self) -> Option<&ZPath> {
        self.paths().get(usize::from(self.content.newest?))
    }

    /// Forgets which path came last: the one after it came elsewhere.
    pub(super) fn forget_newest(&mut self) {
        self.content.newest = None;
    }

    pub(super) fn into_sorted(mut self) -> Vec<ZPath> {
        self.sort();
        self.content.paths
    }

    /// Forgets what is derived from the paths, and not that somebody asked for their order.
    pub(super) fn forget(&mut self, shared: &mut D::Shared) {
        self.content.derived.forget(shared);
    }

    /// The paths, to be changed. At `newest` there will be the one that came last.
    #[inline]
    fn change(&mut self, newest: Option<usize>, shared: &mut D::Shared) -> &mut Vec<ZPath> {
        let is_asked_for = self.content.derived.is_asked_for();
        self.content.unasked_changes =
            if is_asked_for { 0 } else { self.content.unasked_changes.saturating_add(1) };
        self.content.newest = newest.and_then(|place| u8::try_from(place).ok());
        self.forget(shared);
        &mut self.content.paths
    }

    /// Inserts a path which is after all others, or into a chunk that is not kept in order.
    #[inline]
    pub(super) fn push(&mut self, path: ZPath, is_after_all: bool, shared: &mut D::Shared) {
        self.content.is_in_order &= is_after_all;
        self.change(Some(self.paths().len()), shared).push(path);
    }

    /// Inserts a path into its place.
    pub(super) fn insert(&mut self, place: usize, path: ZPath, shared: &mut D::Shared) {
        self.change(Some(place), shared).insert(place, path);
    }

    /// Inserts a path that is before all others, and behind the chunk before.
    pub(super) fn insert_first(&mut self, path: ZPath, shared: &mut D::Shared) {
        self.begin_at(path.clone());
        self.insert(0, path, shared);
    }

    /// Removes the path at a place.
    pub(super) fn remove(&mut self, place: usize, shared: &mut D::Shared) {
        let is_in_order = self.content.is_in_order;
        let paths = self.change(None, shared);
        let is_last = place + 1 == paths.len();
        let removed =
            if is_in_order && !is_last { paths.remove(place) } else { paths.swap_remove(place) };
        let is_long = removed.len() > LEAST_BYTES_KEPT_MAX;
        let must_go = is_long && self.least().is_some_and(|least| least.is_clone_of(&removed));
        if must_go || self.is_kept_in_order() {
            self.sort();
        }
        if must_go && let Some(first) = self.paths().first().cloned() {
            self.begin_at(first);
        }
    }

    /// Keeps the first `len` paths in their order, and returns a chunk of the others.
    pub(super) fn split_off(&mut self, len: usize, shared: &mut D::Shared) -> Self {
        self.sort();
        let upper = self.change(None, shared).split_off(len);
        Self::in_order_of(upper, self.content.unasked_changes)
    }

    /// Takes all paths of the next chunk.
    pub(super) fn append(&mut self, mut next: Self, shared: &mut D::Shared) {
        next.forget(shared);
        self.content.is_in_order &= next.content.is_in_order;
        self.change(None, shared).append(&mut next.content.paths);
    }

    /// Removes all paths, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.content.paths.clear();
        self.become_first();
        self.content.is_in_order = true;
        self.content.unasked_changes = 0;
    }

    #[cfg(test)]
    pub(super) fn derived_mut(&mut self) -> &mut D {
        &mut self.content.derived
    }
}
