//! The simulation finds nothing wrong, and finds what is made wrong; and what a seed brings about is the
//! same each time.
//!
//! `cargo run --release --example zoolet-sim` runs the same over more seeds.

#[allow(dead_code, unused_imports, reason = "the program uses other parts of it")]
#[path = "simulation/mod.rs"]
mod simulation;

use simulation::{Bug, Failure, Options, run, sweep};
use zoolet_planted_bugs::PlantedBug;

const SEEDS: u64 = 2_000;
const JOBS: usize = 2;

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
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for seed in 0..50 {
        let (first, second) = (run(seed, &Options::default()), run(seed, &Options::default()));
        assert_eq!(first.hash, second.hash, "seed {seed}");
    }
}

#[test]
fn each_planted_bug_is_found() {
    for bug in PlantedBug::ALL {
        let options = Options { bug: Some(Bug(bug)), ..Options::default() };
        let swept = sweep(0..SEEDS, JOBS, &options, |_| {});
        let failure = swept.failure.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?} is found by {}", failure.report());
    }
}
