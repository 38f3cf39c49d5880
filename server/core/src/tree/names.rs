//! The encoded names of children, which replies share.
//!
//! The names of each chunk of children are kept encoded until the chunk changes. So the list of a
//! directory of which one child has changed encodes one chunk, and shares the others.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use zoolet_protocol::{Encode, Names, ZPath, last_slash};

use crate::limits::{CACHED_LISTS_BYTES_MAX, CACHED_SHORT_LISTS_BYTES_MAX};
use crate::sorted_paths::{Chunk, Derived, SortedPaths};

/// The paths of the children of one znode.
pub(super) type ChildPaths = SortedPaths<CachedNames>;

/// The cached names of a chunk.
#[derive(Debug, Default)]
pub(crate) struct CachedNames {
    names: OnceLock<Names>,
    /// Whether the names were listed since they last changed, also where the cache had no room for them.
    is_asked_for: AtomicBool,
}

impl Derived for CachedNames {
    type Shared = CachedBytes;

    /// The name: the paths of all children begin with that of their parent.
    fn distinct_part(path: &str) -> &str {
        let slash = last_slash(path);
        slash.map_or(path, |slash| &path[slash + 1..])
    }

    fn is_asked_for(&self) -> bool {
        self.is_asked_for.load(Ordering::Relaxed)
    }

    fn forget(&mut self, cached: &mut CachedBytes) {
        *self.is_asked_for.get_mut() = false;
        if let Some(names) = self.names.take() {
            *cached.0.get_mut() -= CachedBytes::of(&names);
        }
    }
}

/// The bytes of all cached names.
#[derive(Debug, Default)]
pub(crate) struct CachedBytes(AtomicUsize);

impl CachedBytes {
    /// What cached names take beside their text: the counter of those who share them, and what the
    /// allocator adds.
    const BESIDE_NAMES: usize = 64;

    fn of(names: &Names) -> usize {
        names.encoded_len() + Self::BESIDE_NAMES
    }

    /// Puts names into the cache, if there is room or another thread has put them there, and
    /// returns whether they are in it.
    fn keep(&self, cache: &OnceLock<Names>, names: &Names, bytes_max: usize) -> bool {
        let bytes = Self::of(names);
        let after = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let has_room = after <= bytes_max;
        if !has_room || cache.set(names.clone()).is_err() {
            self.0.fetch_sub(bytes, Ordering::Relaxed);
        }
        has_room
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, bytes: usize) {
        *self.0.get_mut() = bytes;
    }
}

/// The encoded names of all children in their order, and whether all of them are cached by now.
pub(super) fn of(paths: &ChildPaths, cached: &CachedBytes) -> (Names, bool) {
    let mut chunks = paths.chunks();
    match (chunks.len(), chunks.next()) {
        (_, None) => (Names::EMPTY, true),
        (1, Some(chunk)) => of_chunk(chunk, cached, CACHED_SHORT_LISTS_BYTES_MAX),
        _ => {
            let mut all_cached = true;
            let names: Vec<_> = paths
                .chunks()
                .map(|chunk| {
                    let (names, is_cached) = of_chunk(chunk, cached, CACHED_LISTS_BYTES_MAX);
                    all_cached &= is_cached;
                    names
                })
                .collect();
            (Names::joined(&names), all_cached)
        }
    }
}

fn of_chunk(chunk: &Chunk<CachedNames>, cached: &CachedBytes, bytes_max: usize) -> (Names, bool) {
    if let Some(names) = chunk.derived().names.get() {
        return (names.clone(), true);
    }
    chunk.derived().is_asked_for.store(true, Ordering::Relaxed);
    let Some(first) = chunk.paths().first() else { return (Names::EMPTY, true) };
    // All begin with the path of the parent. Looking for the name in each would take longer than the
    // rest.
    let before_name = first.len() - first.name().len();
    let name_bytes = |path: &ZPath| path.len() - before_name;
    let bytes = chunk.paths().iter().map(|path| name_bytes(path) + 4).sum();
    let names = Names::with_capacity(bytes, chunk.in_order().map(|path| &path[before_name..]));
    let is_cached = cached.keep(&chunk.derived().names, &names, bytes_max);
    (names, is_cached)
}

/// The bytes of the cached names, and whether they are the names of the paths.
pub(super) fn check(paths: &ChildPaths) -> (usize, bool) {
    let (mut bytes, mut agree) = (0, true);
    for chunk in paths.chunks() {
        let Some(names) = chunk.derived().names.get() else { continue };
        bytes += CachedBytes::of(names);
        agree &= names.iter().eq(chunk.in_order().map(ZPath::name));
    }
    (bytes, agree)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn path(number: u32) -> ZPath {
        ZPath::parse(&format!("/a/{number:05}")).unwrap()
    }

    /// Changes a set of paths, asks for the names after each of so many changes, and compares them.
    fn compare_names(changes_per_list: u32) {
        // A fixed sequence of pseudo-random numbers.
        let mut state = changes_per_list;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let (mut paths, mut wanted) = (ChildPaths::default(), BTreeSet::new());
        let mut cached = CachedBytes::default();
        for step in 0..8_000 {
            // The set grows at first, and shrinks later.
            let path = path(next(2_000));
            if next(8_000) <= step {
                assert_eq!(paths.remove_in(&path, &mut cached), wanted.remove(&path));
            } else if wanted.insert(path.clone()) {
                assert!(paths.insert_in(path, &mut cached));
            }
            if step % changes_per_list == 0 {
                let (names, is_cached) = of(&paths, &cached);
                assert!(is_cached && names.iter().eq(wanted.iter().map(ZPath::name)));
            }
            assert_eq!(check(&paths), (cached.get(), true));
        }
        assert!(paths.iter().eq(&wanted));
        paths.retain(&mut cached, |path| path.as_str() < "/a/01000");
        assert_eq!(check(&paths), (cached.get(), true));
        paths.clear(&mut cached);
        assert_eq!(cached.get(), 0);
    }

    #[test]
    fn the_names_agree_with_the_paths_after_any_change() {
        [1, 16, 500].into_iter().for_each(compare_names);
    }

    #[test]
    fn names_for_which_the_cache_has_no_room_are_in_order_while_they_are_listed() {
        let (mut paths, mut cached) = (ChildPaths::default(), CachedBytes::default());
        cached.set(CACHED_SHORT_LISTS_BYTES_MAX);
        (0..40).rev().for_each(|number| assert!(paths.insert_in(path(number), &mut cached)));
        let mut is_in_order = |number| {
            assert!(paths.insert_in(path(number), &mut cached));
            let (names, is_cached) = of(&paths, &cached);
            assert!(!is_cached && names.iter().is_sorted());
            paths.chunks().all(|chunk| chunk.paths().is_sorted())
        };
        assert!(!is_in_order(70), "nobody has listed it before");
        assert!(is_in_order(60) && is_in_order(50));
    }

    #[test]
    fn a_list_after_a_change_shares_the_names_that_did_not_change() {
        let (mut paths, mut cached) = (ChildPaths::default(), CachedBytes::default());
        let count = 1_280;
        (0..count).for_each(|number| assert!(paths.insert_in(path(number), &mut cached)));
        assert_eq!(paths.chunks().len(), 10);
        let lists = |paths: &ChildPaths, cached: &CachedBytes| {
            let names = |chunk: &_| of_chunk(chunk, cached, CACHED_LISTS_BYTES_MAX).0;
            paths.chunks().map(names).collect::<Vec<_>>()
        };
        let before = lists(&paths, &cached);
        assert!(paths.remove_in(&path(5 * 128 + 7), &mut cached));
        assert!(paths.insert_in(path(count), &mut cached));
        let after = lists(&paths, &cached);
        let shared =
            before.iter().zip(&after).map(|(before, after)| before.shares_bytes_with(after));
        let is_shared: Vec<_> = shared.collect();
        assert_eq!(is_shared, (0..10).map(|chunk| chunk != 5).collect::<Vec<_>>());
    }
}
