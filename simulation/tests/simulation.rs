//! The simulation finds nothing wrong, and finds what is made wrong; and what a seed brings about is the
//! same each time.
//!
//! `cargo run --release -p zoolet-simulation` runs the same over more seeds.

use zoolet_planted_bugs::PlantedBug;
use zoolet_simulation::{Bug, Failure, Options, run, sweep};

const SEEDS: u64 = 1_500;
/// A run of an ensemble takes three times as long.
const ENSEMBLE_SEEDS: u64 = 200;
/// Among how many a bug must be found.
const BUG_SEEDS: u64 = 2_000;
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
fn a_seed_that_fails_is_made_smaller_and_fails_in_the_same_way_again() {
    let bug = Bug(PlantedBug::EventLostOnReconnect);
    let options = Options { bug: Some(bug), ..Options::default() };
    let failure = sweep(0..SEEDS, 1, &options, |_| {}).failure.expect("it is found");
    let whole = run(failure.seed, &Options { bug: None, ..options.clone() }).messages;
    let least = failure.shrink();
    assert!(least.options.without.len() > 3, "{}", least.options);
    assert!(least.verdict.messages < whole / 2, "{} of {whole}", least.verdict.messages);
    let again = run(least.seed, &least.options);
    assert_eq!(again.hash, least.verdict.hash);
    assert_eq!(again.violation, least.verdict.violation);
    let options = least.options.to_string();
    assert!(least.command().contains(&format!("--seed {}{options}", least.seed)));
    assert!(options.contains("--without ") && options.contains("--bug EventLostOnReconnect"));
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

#[test]
fn each_planted_bug_is_found() {
    for bug in PlantedBug::ALL {
        let options = Options::with_bug(Bug(bug));
        let swept = sweep(0..BUG_SEEDS, JOBS, &options, |_| {});
        let failure = swept.failure.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?} is found by {}", failure.report());
    }
}
