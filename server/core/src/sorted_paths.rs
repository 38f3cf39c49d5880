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

/// An empty set keeps the memory of this many paths, 256 bytes. A session that locks and unlocks owns some
/// ephemerals, again and again: mostly one or two.
const KEPT_PATHS_MAX: usize = 16;

/// The paths, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct SortedPaths<D = ()> {
    /// No chunk is empty, but for the only one of an empty set.
    chunks: Vec<Chunk<D>>,
    len: usize,
    /// Where the last path was inserted or removed; what is there now is compared before it is used.
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
        // Mostly several of a client come or go one after the other.
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
                let follows_newest = newest.is_some_and(|it| before == Some(&it));
                self.insert_at(index, place, follows_newest, path, shared);
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

    /// Inserts a path at its place in a chunk, which may be full. The caller tells whether the path before it
    /// came into this chunk last: then more are to be expected here.
    fn insert_at(
        &mut self,
        mut index: usize,
        mut place: usize,
        follows_newest: bool,
        path: ZPath,
        shared: &mut D::Shared,
    ) {
        if self.chunks[index].paths().len() == CHUNK {
            if place == CHUNK {
                self.last = LastPlace::new(index + 1, 0);
                return self.chunks.insert(index + 1, Chunk::of(path));
            }
            // Paths that come one after the other fill their chunks also amid others, and are in order there
            // without comparisons. Whoever inserts in another way gets no small chunks thereby.
            let is_run = follows_newest && place >= CHUNK / 4;
            let lower = if is_run { place } else { CHUNK / 2 };
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
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn path(number: u32) -> ZPath {
        ZPath::parse(&format!("/a/{number:05}")).unwrap()
    }

    /// Paths of which what distinguishes them is the last part, as in a directory.
    #[derive(Debug, Clone, Default)]
    struct OfDirectory;

    impl Derived for OfDirectory {
        type Shared = ();

        fn distinct_part(path: &str) -> &str {
            path.rsplit('/').next().unwrap_or_default()
        }

        fn is_asked_for(&self) -> bool {
            true
        }

        fn forget(&mut self, (): &mut ()) {}
    }

    /// Paths for whose order somebody asks now and then.
    #[derive(Debug, Clone, Default)]
    struct SeldomAsked(bool);

    impl Derived for SeldomAsked {
        type Shared = ();

        fn distinct_part(path: &str) -> &str {
            OfDirectory::distinct_part(path)
        }

        fn is_asked_for(&self) -> bool {
            self.0
        }

        fn forget(&mut self, (): &mut ()) {
            self.0 = false;
        }
    }

    /// Compares with the set of the standard library.
    fn check<D: Derived<Shared = ()>>(paths: &SortedPaths<D>, wanted: &BTreeSet<ZPath>) {
        assert!(paths.iter().eq(wanted) && paths.iter().rev().eq(wanted.iter().rev()));
        assert_eq!((paths.len(), paths.is_empty()), (wanted.len(), wanted.is_empty()));
        let is_right = |chunk: &Chunk<D>| (1..=CHUNK).contains(&chunk.paths().len());
        assert!(paths.chunks.iter().all(is_right) || (paths.is_empty() && paths.chunks.len() == 1));
        for (index, chunk) in paths.chunks.iter().enumerate() {
            assert!(!chunk.is_in_order() || chunk.paths().is_sorted());
            let Some(least) = chunk.least() else {
                assert_eq!(index, 0, "a chunk without a least path");
                continue;
            };
            assert!(index > 0 && chunk.paths().iter().all(|path| path >= least), "chunk {index}");
            assert!(least.len() <= 256 || chunk.paths().contains(least), "chunk {index}");
            let lower = &paths.chunks[..index];
            assert!(lower.iter().flat_map(Chunk::paths).all(|path| path < least), "chunk {index}");
        }
    }

    /// Changes a set and one of the standard library in the same way, and compares them.
    fn compare<D: Derived<Shared = ()>>(range: u32, path: impl Fn(u32) -> ZPath) {
        compare_and_ask::<D>(range, path, |_| {});
    }

    /// [`compare`], where now and then somebody asks for the order of some paths.
    fn compare_and_ask<D: Derived<Shared = ()>>(
        range: u32,
        path: impl Fn(u32) -> ZPath,
        ask: impl Fn(&mut D),
    ) {
        // A fixed sequence of pseudo-random numbers.
        let mut state = range;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let (mut paths, mut wanted) = (SortedPaths::<D>::default(), BTreeSet::new());
        for round in 0..3 {
            for step in 0..4 * range {
                // The set grows at first, and shrinks later.
                let path_of_step = path(next(range));
                if next(4 * range) > step {
                    let is_new = wanted.insert(path_of_step.clone());
                    // Whether it is new is known where the order is.
                    if is_new || D::default().is_asked_for() {
                        assert_eq!(paths.insert_in(path_of_step, &mut ()), is_new);
                    }
                } else {
                    // Mostly the path that is removed is a clone of the one in the set.
                    let clone = wanted.get(&path_of_step).filter(|_| next(4) > 0).cloned();
                    let path_of_step = clone.unwrap_or(path_of_step);
                    let was_there = wanted.remove(&path_of_step);
                    assert_eq!(paths.remove_in(&path_of_step, &mut ()), was_there);
                }
                let path = path(next(range));
                assert_eq!(paths.contains(&path), wanted.contains(&path));
                if step % (range / 40).max(16) == 0 {
                    check(&paths, &wanted);
                    assert!(paths.since(&path).eq(wanted.range(path..)));
                    let chunks = paths.chunks.iter_mut().filter(|_| next(8) == 0);
                    chunks.for_each(|chunk| ask(chunk.derived_mut()));
                }
            }
            check(&paths, &wanted);
            // A run of paths that are in order, in the middle of the others, and one out of order.
            for number in (range / 3..range / 2).chain((0..range / 4).rev()) {
                if wanted.insert(path(number)) {
                    assert!(paths.insert_in(path(number), &mut ()));
                }
            }
            check(&paths, &wanted);
            // Runs of several clients, each in order, which come and go in turn. What was the first path of
            // a chunk is among those that go.
            for run in 0..8 {
                let numbers = (0..range / 8).map(|step| step * 8 + run);
                for number in numbers.clone() {
                    if wanted.insert(path(number)) {
                        assert!(paths.insert_in(path(number), &mut ()));
                    }
                }
                check(&paths, &wanted);
                for number in numbers.filter(|number| number % 3 == run % 3) {
                    assert!(
                        paths.remove_in(&path(number), &mut ()) && wanted.remove(&path(number))
                    );
                }
                check(&paths, &wanted);
            }
            // The first ones go, and then all, so that the next round begins with kept memory.
            let gone: Vec<_> = match round {
                0 => wanted.iter().take(wanted.len() / 2).cloned().collect(),
                _ => wanted.iter().cloned().collect(),
            };
            for path in gone {
                assert!(paths.remove_in(&path, &mut ()) && wanted.remove(&path));
            }
            check(&paths, &wanted);
        }
    }

    #[test]
    fn it_agrees_with_a_set_of_the_standard_library() {
        for range in [3, CHUNK as u32, 3_000] {
            compare::<()>(range, path);
            compare::<OfDirectory>(range, path);
            compare::<SeldomAsked>(range, path);
            compare_and_ask::<SeldomAsked>(range, path, |derived| derived.0 = true);
        }
    }

    #[test]
    fn a_chunk_is_in_order_while_somebody_asks_for_it() {
        let mut paths = SortedPaths::<SeldomAsked>::default();
        let is_in_order = |paths: &SortedPaths<SeldomAsked>| paths.chunks[0].is_in_order();
        (0..16).rev().for_each(|number| assert!(paths.insert_in(path(number), &mut ())));
        assert!(is_in_order(&paths), "nobody has asked since it was new, which is not long ago");
        (20..24).rev().for_each(|number| assert!(paths.insert_in(path(number), &mut ())));
        assert!(!is_in_order(&paths), "nobody has asked for long");
        paths.chunks[0].derived_mut().0 = true;
        assert!(paths.insert_in(path(18), &mut ()) && is_in_order(&paths), "somebody has asked");
        (30..60).for_each(|number| assert!(paths.insert_in(path(number), &mut ())));
        assert!(is_in_order(&paths), "what comes after all others needs no comparison");
        assert!(paths.insert_in(path(29), &mut ()) && !is_in_order(&paths));
        paths.chunks[0].derived_mut().0 = true;
        assert!(paths.remove_in(&path(40), &mut ()) && is_in_order(&paths), "also when one goes");
    }

    #[test]
    fn a_chunk_is_not_put_in_order_because_its_least_path_goes() {
        let mut paths = SortedPaths::<SeldomAsked>::default();
        let count = 2 * CHUNK as u32;
        let numbers = (0..count).filter(|number| number % 2 == 0).chain([201, 203, 205]);
        numbers.for_each(|number| assert!(paths.insert_in(path(number), &mut ())));
        (0..200).filter(|n| n % 2 == 1).for_each(|n| assert!(paths.insert_in(path(n), &mut ())));
        let least = paths.chunks[1].least().cloned().unwrap();
        assert!(!paths.chunks[1].is_in_order());
        assert!(paths.remove_in(&least, &mut ()) && !paths.chunks[1].is_in_order());
        assert!(paths.chunks[1].least() == Some(&least) && paths.iter().is_sorted());
    }

    #[test]
    fn one_path_out_of_order_leaves_the_chunks_behind_it_full() {
        let mut paths = SortedPaths::<SeldomAsked>::default();
        let early = 17;
        let numbers = (0..20).filter(|number| *number != early).chain([early]);
        let count = 10 * CHUNK as u32;
        numbers.chain(20..count).for_each(|n| assert!(paths.insert_in(path(n), &mut ())));
        assert_eq!(paths.chunks.len(), 10);
        check(&paths, &(0..count).map(path).collect());
    }

    /// Clients insert some paths each in turn, those of one client one after the other: some chunks are sorted at
    /// first, and none afterwards.
    #[test]
    fn runs_of_several_clients_fill_their_chunks_in_order() {
        let (clients, turns) = (16, 60);
        let mut next = [0; 16];
        let (mut paths, mut wanted) = (SortedPaths::<SeldomAsked>::default(), BTreeSet::new());
        for turn in 0..turns {
            for client in 0..clients {
                let count = 5 + (client * 7 + turn * 3) % 13;
                for _ in 0..count {
                    let path = path(client * 5_000 + next[client as usize]);
                    next[client as usize] += 1;
                    wanted.insert(path.clone());
                    assert!(paths.insert_in(path, &mut ()));
                }
            }
            let unsorted = paths.chunks.iter().filter(|chunk| !chunk.is_in_order()).count();
            assert!(turn < turns / 4 || unsorted == 0, "{unsorted} after turn {turn}");
        }
        check(&paths, &wanted);
        let full = wanted.len() / CHUNK;
        assert!(paths.chunks.len() <= full * 4 / 3, "{} chunks", paths.chunks.len());
    }

    /// Numbers without leading zeros: ten of four digits belong behind each one of three.
    #[test]
    fn short_runs_amid_others_leave_no_small_chunks() {
        let mut paths = SortedPaths::<SeldomAsked>::default();
        let numbers: Vec<_> = (100..10_000).collect();
        for number in &numbers {
            let path = ZPath::parse(&format!("/a/{number}")).unwrap();
            assert!(paths.insert_in(path, &mut ()));
        }
        let full = numbers.len() / CHUNK;
        assert!(paths.chunks.len() <= full * 4 / 3, "{} chunks", paths.chunks.len());
    }

    #[test]
    fn paths_whose_keys_are_equal_are_in_order() {
        let parse = |path: String| ZPath::parse(&path).unwrap();
        // A key has sixteen bytes: all are equal, or those of a hundred paths, or names of which one is
        // the beginning of another.
        let equal = |n: u32| parse(format!("/a/a-long-name-that-is-the-same-{n:05}"));
        let hundreds = |n: u32| parse(format!("/a/{:04}-and-eleven-more-{:02}", n / 100, n % 100));
        // So long that a path that is gone must not stay.
        let long = |n: u32| parse(format!("/a/{}{n:05}", "long".repeat(100)));
        let beginnings = |n: u32| parse(format!("/a/{}{}", "b".repeat(n as usize % 40), n / 40));
        for range in [40, 1_000] {
            compare::<OfDirectory>(range, equal);
            compare::<SeldomAsked>(range, equal);
            compare::<SeldomAsked>(range, hundreds);
            compare::<SeldomAsked>(range, long);
            compare::<OfDirectory>(range, long);
            compare::<OfDirectory>(range, hundreds);
            compare::<OfDirectory>(range, beginnings);
            compare::<()>(range, equal);
            compare::<()>(range, beginnings);
        }
        // Bytes beyond those of ASCII, and paths of different depths, as a session may own.
        let depths = |n: u32| {
            let name = ["ä", "€", "z", "-"][n as usize % 4];
            parse(format!("{}/{name}{}", "/a".repeat(n as usize / 4 % 9), n / 36))
        };
        compare::<()>(1_000, depths);
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
        let kept = paths.chunks[0].paths().as_ptr();
        assert!(paths.insert(path(2)));
        assert_eq!(paths.chunks[0].paths().as_ptr(), kept);
        let many = 3 + KEPT_PATHS_MAX as u32;
        (3..many).for_each(|number| assert!(paths.insert(path(number))));
        (2..many).for_each(|number| assert!(paths.remove(&path(number))));
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
