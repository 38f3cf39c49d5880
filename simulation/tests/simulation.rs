//! The simulation finds no violation, and a seed gives the same run each time. `planted_bugs`
//! proves that it would find one.
//!
//! `cargo run --release -p zoolet-simulation` runs the same over more seeds.

use zoolet_simulation::{Failure, Options, run, sweep};

const SEEDS: u64 = 1_500;
/// A run of an ensemble takes three times as long.
const ENSEMBLE_SEEDS: u64 = 200;
const JOBS: usize = 2;

/// What must have happened among all those seeds.
const COUNTED: [&str; 20] = [
    "answers lost",
    "clients closed and connected anew",
    "counters incremented",
    "leaders",
    "locks held alone",
    "locks held with others",
    "locks lost",
    "permits had",
    "places given up",
    "power lost at the start",
    "requests in a lost session",
    "requests not sent",
    "requests refused",
    "server lost",
    "sessions expired",
    "unanswered writes survived",
    "unanswered writes undone",
    "watches fired",
    "watches fired after a reconnect",
    "watches lost with their session",
];

/// What must have happened on the ensembles.
const COUNTED_ON_ENSEMBLES: [&str; 14] = [
    "answers lost",
    "connections cut when a lock was acquired",
    "counters incremented",
    "followers cut off",
    "handshakes refused by a member that was behind",
    "leaders",
    "leaders cut off",
    "leaders elected",
    "locks held alone",
    "locks held with others",
    "permits had",
    "places given up",
    "reads by a holder",
    "sessions expired",
];

fn assert_clean(failure: Option<Failure>) {
    if let Some(failure) = failure {
        panic!("{}\nand less of it:\n{}", failure.report(), failure.shrink().report());
    }
}

#[test]
fn nothing_is_wrong_with_thousands_of_seeds() {
    let swept = sweep(0..SEEDS, JOBS, &Options::default(), |_| {});
    assert_clean(swept.failure);
    assert_eq!(swept.seeds, SEEDS);
    assert!(swept.messages > 100 * SEEDS, "{} messages", swept.messages);
    // What never happens proves nothing.
    for what in COUNTED {
        assert!(swept.counts.get(what).is_some_and(|count| *count >= SEEDS / 40), "{what}");
    }
}

#[test]
fn nothing_is_wrong_on_ensembles_that_lag_and_are_cut() {
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
