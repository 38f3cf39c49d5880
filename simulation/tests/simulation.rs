//! Tests that the simulation finds no violation, and that a seed gives the same run each time. The
//! test `planted_bugs` proves that it finds violations.
//!
//! `cargo run --release -p zoolet-simulation` runs the same over more seeds.

use zoolet_simulation::{Failure, Options, run, sweep};

const SEEDS: u64 = 1_500;
/// A run of an ensemble takes three times as long.
const ENSEMBLE_SEEDS: u64 = 200;
const JOBS: usize = 2;

/// What must have happened in these runs.
const COUNTED: [&str; 20] = [
    "replies lost",
    "clients closed and replaced",
    "counters incremented",
    "latches that led",
    "exclusive locks held",
    "shared locks held",
    "locks lost",
    "permits held",
    "acquires timed out",
    "power losses at the start",
    "requests in a lost session",
    "requests not sent",
    "requests refused",
    "servers lost",
    "sessions expired",
    "unanswered writes survived",
    "unanswered writes lost",
    "watches fired",
    "watches fired after a reconnect",
    "watches lost with their session",
];

/// What must have happened on the ensembles.
const COUNTED_ON_ENSEMBLES: [&str; 14] = [
    "replies lost",
    "connections cut when a lock was acquired",
    "counters incremented",
    "followers cut off",
    "handshakes refused by a member that was behind",
    "latches that led",
    "leaders cut off",
    "leaders elected",
    "exclusive locks held",
    "shared locks held",
    "permits held",
    "acquires timed out",
    "reads by a holder",
    "sessions expired",
];

fn assert_clean(failure: Option<Failure>) {
    if let Some(failure) = failure {
        panic!("{}\nsmallest run that fails:\n{}", failure.report(), failure.shrink().report());
    }
}

#[test]
fn many_seeds_have_no_violation() {
    let swept = sweep(0..SEEDS, JOBS, &Options::default(), |_| {});
    assert_clean(swept.failure);
    assert_eq!(swept.seeds, SEEDS);
    assert!(swept.messages > 100 * SEEDS, "{} messages", swept.messages);
    // A fault that never happens is not tested.
    for what in COUNTED {
        assert!(swept.counts.get(what).is_some_and(|count| *count >= SEEDS / 40), "{what}");
    }
}

#[test]
fn many_seeds_of_ensembles_have_no_violation() {
    let swept = sweep(0..ENSEMBLE_SEEDS, JOBS, &Options::ensemble(), |_| {});
    assert_clean(swept.failure);
    assert_eq!(swept.seeds, ENSEMBLE_SEEDS);
    for what in COUNTED_ON_ENSEMBLES {
        assert!(
            swept.counts.get(what).is_some_and(|count| *count >= ENSEMBLE_SEEDS / 20),
            "{what}"
        );
    }
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for (seeds, options) in [(0..50, Options::default()), (0..15, Options::ensemble())] {
        for seed in seeds {
            let (first, second) = (run(seed, &options), run(seed, &options));
            assert_eq!(first.hash, second.hash, "seed {seed}{options}");
        }
    }
}
