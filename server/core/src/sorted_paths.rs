//! A sorted set of paths that compares few of them.
//!
//! Each comparison reads the text of a path, which in a large tree no cache holds. So a path that
//! comes after all others, as that of a new sequential znode does, is compared with the last one
//! only, and the chunk of any other is found by keys that are beside each other. A path that follows the
//! one before it, as the znodes of one of several clients do, is looked for there first. The chunks of a set
//! that grows at its end are full, so that it takes about half the memory of a `BTreeSet`. A small
//! set that becomes empty keeps its memory: the next path needs no allocation.
//!
//! Beside its paths a chunk can keep what is derived from them, until they change. What is derived tells
//! whether anybody asks for the order of the paths. Where nobody does, a chunk takes new paths as they come,
//! and mostly compares none ([`Chunk::is_kept_in_order`]).

mod chunk;

use std::cmp::Ordering;

use zoolet_protocol::ZPath;

use self::chunk::Key;
pub(crate) use self::chunk::{Chunk, Derived};

/// The paths of a chunk. An insertion moves those after it within the chunk, which takes some
/// nanoseconds.
const CHUNK: usize = 128;

/// A chunk with fewer paths is small.
const FEW: usize = CHUNK / 16;

/// An empty set keeps the memory of this many paths, 256 bytes. A session that locks and unlocks owns some
/// ephemerals, again and again: mostly one or two.
const KEPT_PATHS_MAX: usize = 16;

/// The paths, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct SortedPaths<D = ()> {
    /// No chunk is empty, but for the only one of an empty set.
    chunks: Vec<Chunk<D>>,
    len: usize,
    /// Where a path was last inserted, other than at the end, or removed. What is there now is compared before it
    /// is used.
    last: LastPlace,
}

/// The index of a chunk, and a place in it.
#[derive(Debug, Clone, Copy, Default)]
struct LastPlace {
    chunk: u32,
    place: u32,
}

impl LastPlace {
    fn new(chunk: usize, place: usize) -> Self {
        // A number that is cut off leads to another place, where something else is found.
        Self { chunk: chunk as u32, place: place as u32 }
    }
}

impl SortedPaths {
    /// Inserts a path. Returns whether it is new.
    pub(crate) fn insert(&mut self, path: ZPath) -> bool {
        self.insert_in(path, &mut ())
    }

    /// Removes a path. Returns whether it was in the set.
    pub(crate) fn remove(&mut self, path: &ZPath) -> bool {
        self.remove_in(path, &mut ())
    }
}

impl<D: Derived> SortedPaths<D> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The chunk in which a path is, if it is in the set, or into which it belongs; 0 if there is
    /// none.
    fn chunk_of(&self, path: &str) -> usize {
        let Some((_, others)) = self.chunks.split_first() else { return 0 };
        if others.is_empty() {
            return 0;
        }
        let key = Key::of::<D>(path);
        let begins = |chunk: &Chunk<D>| chunk.begins_at_or_before(key, path);
        // Mostly several paths of one client come or go one after the other, in one chunk.
        let last = self.last.chunk as usize;
        let is_there = match (self.chunks.get(last), self.chunks.get(last + 1)) {
            (None, _) => false,
            (Some(chunk), next) => (last == 0 || begins(chunk)) && !next.is_some_and(begins),
        };
        if is_there { last } else { others.partition_point(begins) }
    }

    /// [`SortedPaths::insert`] with what all chunks share. Where the chunk is not kept in order, the caller
    /// makes sure that the path is new.
    pub(crate) fn insert_in(&mut self, path: ZPath, shared: &mut D::Shared) -> bool {
        let Some(last) = self.chunks.last_mut() else {
            self.chunks = vec![Chunk::first(path)];
            self.len = 1;
            return true;
        };
        if last.is_after_all(&path) {
            match last.paths().len() {
                CHUNK => self.chunks.push(Chunk::of(path)),
                _ => last.push(path, true, shared),
            }
        } else if let Some((index, place)) = self.after_last(&path) {
            self.insert_at(index, place, true, path, shared);
        } else {
            let index = self.chunk_of(&path);
            let chunk = &mut self.chunks[index];
            // A full chunk is put in order, so that its parts are.
            if chunk.is_kept_in_order() || chunk.paths().len() == CHUNK {
                let newest = chunk.newest().cloned();
                chunk.sort();
                let Err(place) = search_in(chunk.paths(), &path) else { return false };
                let before = place.checked_sub(1).map(|before| &chunk.paths()[before]);
                let is_run = newest.is_some_and(|newest| before == Some(&newest));
                self.insert_at(index, place, is_run, path, shared);
            } else {
                debug_assert!(chunk.place_of(&path).is_none(), "{path} is new");
                self.last = LastPlace::new(index, chunk.paths().len());
                let is_after_all = chunk.is_after_all(&path);
                chunk.push(path, is_after_all, shared);
            }
        }
        self.len += 1;
        true
    }

    /// The place behind the path that was inserted last, if this path belongs there.
    fn after_last(&self, path: &ZPath) -> Option<(usize, usize)> {
        let (index, place) = (self.last.chunk as usize, self.last.place as usize);
        let paths = self.chunks.get(index).filter(|chunk| chunk.is_in_order())?.paths();
        if paths.get(place)? >= path {
            return None;
        }
        let is_before_next = match (paths.get(place + 1), self.chunks.get(index + 1)) {
            (Some(next), _) => path < next,
            (None, Some(next)) => !next.begins_at_or_before(Key::of::<D>(path), path),
            (None, None) => true,
        };
        is_before_next.then_some((index, place + 1))
    }

    /// Inserts a path at its place in a chunk, which may be full. `is_run` tells that the path before it seems to
    /// have come last: then more are to be expected here.
    fn insert_at(
        &mut self,
        mut index: usize,
        mut place: usize,
        is_run: bool,
        path: ZPath,
        shared: &mut D::Shared,
    ) {
        if self.chunks[index].paths().len() == CHUNK {
            // A run begins a chunk of its own, or ends one, unless two chunks side by side had few paths then: no
            // order of insertion makes many small ones.
            let next = self.chunks.get(index + 1);
            let next_len = next.map_or(CHUNK, |next| next.paths().len());
            if place == CHUNK {
                self.chunks[index].forget_newest();
                self.last = LastPlace::new(index + 1, 0);
                let has_room = if is_run { FEW } else { CHUNK };
                return match next_len < has_room {
                    true => self.chunks[index + 1].insert_first(path, shared),
                    false => self.chunks.insert(index + 1, Chunk::of(path)),
                };
            }
            let fills_chunk =
                is_run && place >= CHUNK / 4 && (CHUNK - place >= FEW || next_len >= FEW);
            let lower = if fills_chunk { place } else { CHUNK / 2 };
            let upper = self.chunks[index].split_off(lower, shared);
            self.chunks.insert(index + 1, upper);
            if place > lower {
                (index, place) = (index + 1, place - lower);
            }
        }
        self.last = LastPlace::new(index, place);
        self.chunks[index].insert(place, path, shared);
    }

    /// [`SortedPaths::remove`] with what all chunks share.
    pub(crate) fn remove_in(&mut self, path: &ZPath, shared: &mut D::Shared) -> bool {
        let Some((index, place)) = self.place_of(path) else { return false };
        self.last = LastPlace::new(index, place);
        let chunk = &mut self.chunks[index];
        chunk.remove(place, shared);
        self.len -= 1;
        match chunk.paths().len() {
            0 if self.len == 0 => self.clear(shared),
            0 => {
                self.chunks.remove(index);
                self.chunks[0].become_first();
            }
            few if few <= CHUNK / 4 => self.merge(index, shared),
            _ => {}
        }
        true
    }

    /// Where a path is. Mostly it is a clone of the one in the set, which is found by its pointer, without a
    /// look at the texts of others, which in a large tree no cache holds.
    fn place_of(&self, path: &ZPath) -> Option<(usize, usize)> {
        let place = self.at_an_end(path).or_else(|| self.at_last(path));
        place.or_else(|| {
            let index = self.chunk_of(path);
            let chunk = self.chunks.get(index)?;
            // From the end: what came last often goes first.
            let clone = chunk.paths().iter().rposition(|other| other.is_clone_of(path));
            Some((index, clone.or_else(|| chunk.place_of(path))?))
        })
    }

    /// Where the clone of a path is, if it is the first or the last one, as the znodes of those that hold a
    /// lock and of those that give up are.
    fn at_an_end(&self, path: &ZPath) -> Option<(usize, usize)> {
        let (first, last) = (self.chunks.first()?.paths(), self.chunks.last()?.paths());
        if last.last()?.is_clone_of(path) {
            return Some((self.chunks.len() - 1, last.len() - 1));
        }
        first.first()?.is_clone_of(path).then_some((0, 0))
    }

    /// Where the clone of a path is, if that is where the last one was removed, or inserted.
    fn at_last(&self, path: &ZPath) -> Option<(usize, usize)> {
        let (index, place) = (self.last.chunk as usize, self.last.place as usize);
        let last = self.chunks.get(index)?.paths().get(place)?;
        last.is_clone_of(path).then_some((index, place))
    }

    /// Removes all paths. Of the memory it keeps that of a few.
    pub(crate) fn clear(&mut self, shared: &mut D::Shared) {
        self.forget(shared);
        self.len = 0;
        self.chunks.truncate(1);
        match self.chunks.first_mut() {
            Some(only) if only.capacity() <= KEPT_PATHS_MAX => only.clear(),
            _ => self.chunks = Vec::new(),
        }
    }

    /// Forgets what is derived from the paths.
    fn forget(&mut self, shared: &mut D::Shared) {
        self.chunks.iter_mut().for_each(|chunk| chunk.forget(shared));
    }

    /// Merges a chunk that has few paths with a neighbour, if that has few too, so that a set that
    /// becomes smaller takes less memory.
    fn merge(&mut self, index: usize, shared: &mut D::Shared) {
        for lower in [index.checked_sub(1), Some(index)].into_iter().flatten() {
            let (Some(chunk), Some(next)) = (self.chunks.get(lower), self.chunks.get(lower + 1))
            else {
                continue;
            };
            if chunk.paths().len() + next.paths().len() <= CHUNK / 2 {
                let next = self.chunks.remove(lower + 1);
                self.chunks[lower].append(next, shared);
                return;
            }
        }
    }

    /// Keeps the paths for which `keep` returns true, which is asked in their order.
    pub(crate) fn retain(&mut self, shared: &mut D::Shared, mut keep: impl FnMut(&ZPath) -> bool) {
        self.forget(shared);
        let mut kept = Self::default();
        let chunks = std::mem::take(&mut self.chunks).into_iter();
        for path in chunks.flat_map(Chunk::into_sorted) {
            if keep(&path) {
                kept.insert_in(path, shared);
            }
        }
        *self = kept;
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        let chunk = self.chunks.get(self.chunk_of(path));
        chunk.is_some_and(|chunk| chunk.place_of(path).is_some())
    }

    /// The paths from `path` on, which need not be in the set, in their order.
    pub(crate) fn since<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a ZPath> + use<'a, D> {
        let index = self.chunk_of(path);
        let (first, others) = match self.chunks.get(index) {
            Some(chunk) => (Some(chunk.since(path)), &self.chunks[index + 1..]),
            None => Default::default(),
        };
        first.into_iter().flatten().chain(others.iter().flat_map(Chunk::in_order))
    }

    /// The paths in no order.
    pub(crate) fn in_no_order(&self) -> impl Iterator<Item = &ZPath> {
        self.chunks.iter().flat_map(Chunk::paths)
    }

    /// The paths in their order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &ZPath> {
        self.chunks.iter().flat_map(Chunk::in_order)
    }

    /// The paths in their order, in chunks.
    pub(crate) fn chunks(&self) -> impl ExactSizeIterator<Item = &Chunk<D>> {
        self.chunks.iter()
    }
}

/// The place of a path in a chunk, or where it belongs.
fn search_in(chunk: &[ZPath], path: &str) -> Result<usize, usize> {
    search(chunk.len(), |place| chunk[place].as_str().cmp(path))
}

/// Finds the place among `len` places for which `compare` returns `Equal`, or the first for which it
/// returns `Greater`.
///
/// Each step compares with some places in their order and not with the one in the middle, as a
/// B-tree does: a processor foresees that the next of them is compared, and reads it at the same
/// time. Halving compares fewer, but waits for the memory each time.
fn search(len: usize, compare: impl Fn(usize) -> Ordering) -> Result<usize, usize> {
    const STEPS: usize = 11;
    let (mut low, mut high) = (0, len);
    while high - low > STEPS {
        let stride = (high - low).div_ceil(STEPS);
        let mut place = low + stride;
        while place < high {
            match compare(place) {
                Ordering::Less => low = place + 1,
                Ordering::Equal => return Ok(place),
                Ordering::Greater => high = place,
            }
            place += stride;
        }
    }
    for place in low..high {
        match compare(place) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(place),
            Ordering::Greater => return Err(place),
        }
    }
    Err(high)
}

#[cfg(test)]
mod tests;
