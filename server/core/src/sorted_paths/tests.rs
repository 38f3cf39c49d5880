//! A set of paths beside one of the standard library, and how many chunks it has.

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
    for path in wanted {
        let key = Key::of::<D>(path);
        let behind_first = paths.chunks.iter().skip(1);
        let begun = behind_first.take_while(|chunk| chunk.begins_at_or_before(key, path)).count();
        assert_eq!(
            paths.chunk_of(path),
            begun,
            "the chunk of {path}, wherever the last change was"
        );
    }
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
                assert!(paths.remove_in(&path(number), &mut ()) && wanted.remove(&path(number)));
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

/// Clients insert some paths each in turn, those of one client one after the other.
#[test]
fn runs_of_several_clients_mostly_need_no_sort() {
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
        // Some clients share a chunk with the few first paths of the next.
        let unsorted = paths.chunks.iter().filter(|chunk| !chunk.is_in_order()).count();
        assert!(turn < turns / 4 || unsorted <= 3, "{unsorted} after turn {turn}");
    }
    check(&paths, &wanted);
    assert_few_chunks(&paths, 4, 3);
}

/// Of so many paths the chunks are at most so many times as many as if all were full.
fn assert_few_chunks<D: Derived>(paths: &SortedPaths<D>, times: usize, of: usize) {
    let most = paths.len() * times / of / CHUNK + 1;
    assert!(paths.chunks.len() <= most, "{} chunks, of at most {most}", paths.chunks.len());
}

/// Numbers without leading zeros: ten of four digits belong behind each one of three.
#[test]
fn short_runs_amid_others_leave_few_small_chunks() {
    let mut paths = SortedPaths::<SeldomAsked>::default();
    let all = (100..10_000).map(|number| ZPath::parse(&format!("/a/{number}")).unwrap());
    let wanted: BTreeSet<_> = all.clone().collect();
    all.for_each(|path| assert!(paths.insert_in(path, &mut ())));
    check(&paths, &wanted);
    assert_few_chunks(&paths, 4, 3);
}

#[test]
fn paths_in_descending_order_behind_a_full_chunk_fill_theirs() {
    let mut paths = SortedPaths::<SeldomAsked>::default();
    let (full, count) = (CHUNK as u32, 10_000);
    let numbers = (0..full).chain((full..count).rev());
    numbers.for_each(|number| assert!(paths.insert_in(path(number), &mut ())));
    check(&paths, &(0..count).map(path).collect());
    assert_few_chunks(&paths, 2, 1);
}

/// Where a chunk is full, two paths come before its last one or behind it, and one of them goes, again and again.
#[test]
fn paths_that_come_and_go_at_the_end_of_a_full_chunk_leave_few_small_chunks() {
    for (is_asked_for, is_behind) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut paths = SortedPaths::<SeldomAsked>::default();
        let last = if is_behind { 126 } else { 99_999 };
        let mut wanted: BTreeSet<_> = (0..CHUNK as u32 - 2).chain([last]).map(path).collect();
        wanted.iter().for_each(|path| assert!(paths.insert_in(path.clone(), &mut ())));
        let mut gone = None;
        for number in 1..400 {
            let ask = |chunk: &mut Chunk<SeldomAsked>| chunk.derived_mut().0 = is_asked_for;
            paths.chunks.iter_mut().for_each(ask);
            let two = [2 * number, 2 * number - 1].map(|before| path(90_000 - before));
            if let Some(gone) = gone.replace(two[0].clone()) {
                assert!(paths.remove_in(&gone, &mut ()) && wanted.remove(&gone));
            }
            for path in two {
                assert!(paths.insert_in(path.clone(), &mut ()) && wanted.insert(path));
            }
        }
        check(&paths, &wanted);
        assert_few_chunks(&paths, CHUNK, FEW);
    }
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
