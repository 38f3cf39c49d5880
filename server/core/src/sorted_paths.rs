//! A sorted set of paths that compares few of them.
//!
//! Each comparison reads the text of a path, which in a large tree no cache holds. So a path that
//! comes after all others, as that of a new sequential znode does, is compared with the last one
//! only. The chunks of a set that grows at its end are full, so that it takes about half the memory
//! of a `BTreeSet`. A small set that becomes empty keeps its memory: the next path needs no
//! allocation.
//!
//! Beside its paths a chunk can keep what is derived from them, until they change.

use std::cmp::Ordering;

use zoolet_protocol::ZPath;

/// The paths of a chunk. An insertion moves those after it within the chunk, which takes some
/// nanoseconds.
const CHUNK: usize = 128;

/// An empty set keeps the memory of this many paths. A session that locks and unlocks owns one or
/// two ephemerals, again and again.
const KEPT_PATHS_MAX: usize = 4;

/// What is derived from the paths of a chunk.
pub(crate) trait Derived: Default {
    /// What all that is derived has in common.
    type Shared: Default;

    /// Forgets everything, because the paths change.
    fn forget(&mut self, shared: &mut Self::Shared);
}

/// Nothing.
impl Derived for () {
    type Shared = ();

    fn forget(&mut self, (): &mut ()) {}
}

/// The paths, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct SortedPaths<D = ()> {
    /// No chunk is empty, but for the only one of an empty set.
    chunks: Vec<Chunk<D>>,
    len: usize,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Chunk<D> {
    pub(crate) paths: Vec<ZPath>,
    pub(crate) derived: D,
}

impl<D: Derived> Chunk<D> {
    fn new(paths: Vec<ZPath>) -> Self {
        Self { paths, derived: D::default() }
    }

    /// The paths, to be changed.
    fn paths_mut(&mut self, shared: &mut D::Shared) -> &mut Vec<ZPath> {
        self.derived.forget(shared);
        &mut self.paths
    }
}

impl SortedPaths {
    /// Inserts a path. Returns whether it is new.
    pub(crate) fn insert(&mut self, path: ZPath) -> bool {
        self.insert_in(path, &mut ())
    }

    /// Removes a path. Returns whether it was in the set.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
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
        if self.chunks.len() < 2 {
            return 0;
        }
        match search(self.chunks.len(), |index| self.chunks[index].paths[0].as_str().cmp(path)) {
            Ok(index) => index,
            Err(after) => after.saturating_sub(1),
        }
    }

    /// [`SortedPaths::insert`] with what all chunks share.
    pub(crate) fn insert_in(&mut self, path: ZPath, shared: &mut D::Shared) -> bool {
        let Some(last) = self.chunks.last_mut() else {
            self.chunks = vec![Chunk::new(vec![path])];
            self.len = 1;
            return true;
        };
        if last.paths.last().is_none_or(|last| *last < path) {
            match last.paths.len() {
                CHUNK => self.chunks.push(Chunk::new(vec![path])),
                _ => last.paths_mut(shared).push(path),
            }
            self.len += 1;
            return true;
        }
        let mut index = self.chunk_of(&path);
        let Err(mut place) = search_in(&self.chunks[index].paths, &path) else { return false };
        let paths = self.chunks[index].paths_mut(shared);
        if paths.len() == CHUNK {
            let upper = paths.split_off(CHUNK / 2);
            self.chunks.insert(index + 1, Chunk::new(upper));
            if place > CHUNK / 2 {
                (index, place) = (index + 1, place - CHUNK / 2);
            }
        }
        self.chunks[index].paths.insert(place, path);
        self.len += 1;
        true
    }

    /// [`SortedPaths::remove`] with what all chunks share.
    pub(crate) fn remove_in(&mut self, path: &str, shared: &mut D::Shared) -> bool {
        let Some((index, place)) = self.at_an_end(path).or_else(|| self.place_of(path)) else {
            return false;
        };
        let paths = self.chunks[index].paths_mut(shared);
        if place + 1 == paths.len() {
            paths.pop();
        } else {
            paths.remove(place);
        }
        self.len -= 1;
        match paths.len() {
            0 if self.len == 0 => self.clear(shared),
            0 => drop(self.chunks.remove(index)),
            few if few <= CHUNK / 4 => self.merge(index, shared),
            _ => {}
        }
        true
    }

    /// Where a path is, if it is the first or the last one, as the znodes of those that hold a lock
    /// and of those that give up are.
    fn at_an_end(&self, path: &str) -> Option<(usize, usize)> {
        let (first, last) = (&self.chunks.first()?.paths, &self.chunks.last()?.paths);
        if last.last()?.as_str() == path {
            return Some((self.chunks.len() - 1, last.len() - 1));
        }
        (first.first()?.as_str() == path).then_some((0, 0))
    }

    fn place_of(&self, path: &str) -> Option<(usize, usize)> {
        let index = self.chunk_of(path);
        Some((index, search_in(&self.chunks.get(index)?.paths, path).ok()?))
    }

    /// Removes all paths. Of the memory it keeps that of a few.
    pub(crate) fn clear(&mut self, shared: &mut D::Shared) {
        self.forget(shared);
        self.len = 0;
        self.chunks.truncate(1);
        match self.chunks.first_mut() {
            Some(only) if only.paths.capacity() <= KEPT_PATHS_MAX => only.paths.clear(),
            _ => self.chunks = Vec::new(),
        }
    }

    /// Forgets what is derived from the paths.
    fn forget(&mut self, shared: &mut D::Shared) {
        self.chunks.iter_mut().for_each(|chunk| chunk.derived.forget(shared));
    }

    /// Merges a chunk that has few paths with a neighbour, if that has few too, so that a set that
    /// becomes smaller takes less memory.
    fn merge(&mut self, index: usize, shared: &mut D::Shared) {
        for lower in [index.checked_sub(1), Some(index)].into_iter().flatten() {
            let (Some(chunk), Some(next)) = (self.chunks.get(lower), self.chunks.get(lower + 1))
            else {
                continue;
            };
            if chunk.paths.len() + next.paths.len() <= CHUNK / 2 {
                let mut next = self.chunks.remove(lower + 1);
                let next = next.paths_mut(shared);
                self.chunks[lower].paths_mut(shared).append(next);
                return;
            }
        }
    }

    /// Keeps the paths for which `keep` returns true, which is asked in their order.
    pub(crate) fn retain(&mut self, shared: &mut D::Shared, mut keep: impl FnMut(&ZPath) -> bool) {
        self.forget(shared);
        let mut kept = Self::default();
        for path in std::mem::take(&mut self.chunks).into_iter().flat_map(|chunk| chunk.paths) {
            if keep(&path) {
                kept.insert_in(path, shared);
            }
        }
        *self = kept;
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.place_of(path).is_some()
    }

    /// The paths from `path` on, which need not be in the set, in their order.
    pub(crate) fn since<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a ZPath> + use<'a, D> {
        let index = self.chunk_of(path);
        let (first, others) = match self.chunks.get(index) {
            Some(chunk) => {
                let place = search_in(&chunk.paths, path).unwrap_or_else(|place| place);
                (&chunk.paths[place..], &self.chunks[index + 1..])
            }
            None => Default::default(),
        };
        first.iter().chain(others.iter().flat_map(|chunk| &chunk.paths))
    }

    /// The paths in their order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &ZPath> {
        self.chunks.iter().flat_map(|chunk| &chunk.paths)
    }

    /// The paths in their order, in chunks.
    pub(crate) fn chunks(&self) -> &[Chunk<D>] {
        &self.chunks
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
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn path(number: u32) -> ZPath {
        ZPath::parse(&format!("/a/{number:05}")).unwrap()
    }

    /// Compares with the set of the standard library.
    fn check(paths: &SortedPaths, wanted: &BTreeSet<ZPath>) {
        assert!(paths.iter().eq(wanted) && paths.iter().rev().eq(wanted.iter().rev()));
        assert_eq!((paths.len(), paths.is_empty()), (wanted.len(), wanted.is_empty()));
        let is_right = |chunk: &Chunk<_>| (1..=CHUNK).contains(&chunk.paths.len());
        assert!(paths.chunks.iter().all(is_right) || (paths.is_empty() && paths.chunks.len() == 1));
    }

    #[test]
    fn it_agrees_with_a_set_of_the_standard_library() {
        // A fixed sequence of pseudo-random numbers.
        let mut state = 7_u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for range in [3, CHUNK as u32, 3_000] {
            let (mut paths, mut wanted) = (SortedPaths::<()>::default(), BTreeSet::new());
            for step in 0..4 * range {
                // The set grows at first, and shrinks later.
                let path = path(next(range));
                if next(4 * range) > step {
                    assert_eq!(paths.insert(path.clone()), wanted.insert(path));
                } else {
                    assert_eq!(paths.remove(&path), wanted.remove(&path));
                }
                let path = self::path(next(range));
                assert_eq!(paths.contains(&path), wanted.contains(&path));
                if step % 16 == 0 {
                    check(&paths, &wanted);
                    assert!(paths.since(&path).eq(wanted.range(path..)));
                }
            }
            check(&paths, &wanted);
        }
    }

    #[test]
    fn paths_in_order_fill_their_chunks() {
        let (mut paths, count) = (SortedPaths::<()>::default(), 10 * CHUNK as u32);
        (0..count).for_each(|number| assert!(paths.insert(path(number))));
        assert_eq!(paths.chunks.len(), 10);
        check(&paths, &(0..count).map(path).collect());
        (0..count).rev().for_each(|number| assert!(!paths.insert(path(number))));
        (0..count).for_each(|number| assert!(paths.remove(&path(number))));
        check(&paths, &BTreeSet::new());
    }

    #[test]
    fn a_set_that_becomes_smaller_has_fewer_chunks() {
        let (mut paths, count) = (SortedPaths::<()>::default(), 100 * CHUNK as u32);
        (0..count).for_each(|number| assert!(paths.insert(path(number))));
        (0..count).filter(|number| number % 64 != 0).for_each(|n| assert!(paths.remove(&path(n))));
        check(&paths, &(0..count).step_by(64).map(path).collect());
        assert!(paths.chunks.len() <= 10, "{}", paths.chunks.len());
    }

    #[test]
    fn a_set_that_had_few_paths_keeps_its_memory_and_one_that_had_many_does_not() {
        let mut paths = SortedPaths::<()>::default();
        assert!(paths.insert(path(1)) && paths.remove(&path(1)));
        let kept = paths.chunks[0].paths.as_ptr();
        assert!(paths.insert(path(2)));
        assert_eq!(paths.chunks[0].paths.as_ptr(), kept);
        (3..9).for_each(|number| assert!(paths.insert(path(number))));
        (2..9).for_each(|number| assert!(paths.remove(&path(number))));
        assert!(paths.is_empty() && paths.chunks.is_empty());
        check(&paths, &BTreeSet::new());
    }

    #[test]
    fn what_is_kept_is_asked_for_in_order() {
        let (mut paths, count) = (SortedPaths::<()>::default(), 3 * CHUNK as u32);
        (0..count).for_each(|number| assert!(paths.insert(path(number))));
        let mut asked = Vec::new();
        paths.retain(&mut (), |path| {
            asked.push(path.clone());
            asked.len() % 3 == 0
        });
        assert_eq!(asked, (0..count).map(path).collect::<Vec<_>>());
        check(&paths, &(2..count).step_by(3).map(path).collect());
    }
}
