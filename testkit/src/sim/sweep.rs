//! Runs many seeds on several threads, and makes a failing run smaller.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The result of many seeds.
#[derive(Debug)]
pub struct Swept<R> {
    /// How many seeds were run.
    pub seeds: u64,
    /// The lowest seed that failed, and its result.
    pub failure: Option<(u64, R)>,
}

/// Runs the seeds in order on this many threads, until one fails. `run` runs one seed; `fails`
/// judges each result.
pub fn sweep<R: Send>(
    seeds: Range<u64>,
    jobs: usize,
    run: impl Fn(u64) -> R + Sync,
    fails: impl Fn(&R) -> bool + Sync,
) -> Swept<R> {
    let most = usize::try_from(seeds.end.saturating_sub(seeds.start)).unwrap_or(usize::MAX);
    let jobs = jobs.min(most).max(1);
    let next = AtomicU64::new(seeds.start);
    let count = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            // Never beyond the end: after `u64::MAX` it would begin again with 0.
            let seed = next.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |seed| {
                (seed < seeds.end).then(|| seed + 1)
            });
            let Ok(seed) = seed else { return };
            let result = run(seed);
            count.fetch_add(1, Ordering::Relaxed);
            if fails(&result) {
                // Smaller seeds are already running; greater ones do not start.
                next.store(seeds.end, Ordering::SeqCst);
                failures.lock().push((seed, result));
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let panics: Vec<_> = workers.into_iter().filter_map(|worker| worker.join().err()).collect();
        if let Some(panic) = panics.into_iter().next() {
            std::panic::resume_unwind(panic);
        }
    });
    let failure = failures.into_inner().into_iter().min_by_key(|(seed, _)| *seed);
    Swept { seeds: count.into_inner(), failure }
}

/// Tries smaller runs, and keeps those that still fail, until none is left or `tries` were made.
/// `smaller` lists the runs that are smaller than one by one step, those with the greatest step
/// first.
pub fn shrink<T, R>(
    mut least: (T, R),
    mut tries: usize,
    smaller: impl Fn(&(T, R)) -> Vec<T>,
    mut run: impl FnMut(&T) -> Option<R>,
) -> (T, R) {
    let mut first = 0;
    loop {
        let candidates = smaller(&least);
        let count = candidates.len();
        // It goes on where it was: what failed to be smaller before mostly still does.
        let in_turn = (0..count).map(|step| (first + step) % count);
        let found = in_turn.into_iter().find_map(|index| {
            tries = tries.checked_sub(1)?;
            let result = run(&candidates[index])?;
            Some((index, result))
        });
        let Some((index, result)) = found else { return least };
        first = index;
        let candidate = candidates.into_iter().nth(index).expect("it was found there");
        least = (candidate, result);
    }
}

/// All lists that have a piece less than this one: halves first, single ones last.
pub fn without_a_piece<T: Clone>(whole: &[T]) -> Vec<Vec<T>> {
    let mut lists = Vec::new();
    let mut length = whole.len();
    while length > 0 {
        for start in (0..whole.len()).step_by(length) {
            let end = whole.len().min(start + length);
            lists.push([&whole[..start], &whole[end..]].concat());
        }
        length /= 2;
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_seed_that_fails_is_found_on_several_threads() {
        let swept = sweep(0..1_000, 4, |seed| seed, |seed| *seed >= 300);
        assert_eq!(swept.failure, Some((300, 300)));
        let swept = sweep(0..100, 4, |seed| seed, |_| false);
        assert_eq!((swept.seeds, swept.failure), (100, None));
        let swept = sweep(0..u64::MAX, 4, |seed| seed, |seed| *seed >= 50);
        assert_eq!(swept.failure, Some((50, 50)), "it does not begin again");
        assert!(swept.seeds < 60, "{}", swept.seeds);
    }

    #[test]
    fn there_are_never_more_threads_than_seeds() {
        let swept = sweep(0..3, 100_000, |seed| seed, |_| false);
        assert_eq!(swept.seeds, 3);
    }

    #[test]
    fn a_list_is_shrunk_to_the_items_that_matter() {
        let fails = |list: &Vec<u32>| (list.contains(&3) && list.contains(&77)).then_some(());
        let smaller = |(list, ()): &(Vec<u32>, ())| without_a_piece(list);
        let all: Vec<u32> = (0..100).collect();
        let (least, ()) = shrink((all.clone(), ()), 1_000, smaller, fails);
        assert_eq!(least, [3, 77]);
        let (some, ()) = shrink((all, ()), 3, smaller, fails);
        assert!(some.len() > 2, "only so many tries are made");
    }
}
