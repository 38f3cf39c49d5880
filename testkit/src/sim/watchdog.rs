//! Tells which runs take very long by the clock of the real machine.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// How often it checks them.
const INTERVAL: Duration = Duration::from_secs(10);
/// After how many intervals a run is told. As a rule a run takes milliseconds.
const INTERVALS_MAX: u32 = 3;

static RUNS: Mutex<Runs> =
    Mutex::new(Runs { last: 0, running: BTreeMap::new(), is_watched: false });

struct Runs {
    last: u64,
    /// The runs that have not ended: their seeds, and how often they were seen.
    running: BTreeMap<u64, (u64, u32)>,
    /// Whether there is a thread that watches them.
    is_watched: bool,
}

/// A run that has not ended; it ends when this is dropped.
pub(super) struct Watched(u64);

impl Watched {
    pub(super) fn begin(seed: u64) -> Self {
        let mut runs = RUNS.lock();
        runs.last += 1;
        let number = runs.last;
        runs.running.insert(number, (seed, 0));
        if !runs.is_watched {
            let thread = thread::Builder::new().name("zoolet-sim-watchdog".to_owned());
            // Without a thread nothing is told, and nothing else is lost.
            runs.is_watched = thread.spawn(watch).is_ok();
        }
        Self(number)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        RUNS.lock().running.remove(&self.0);
    }
}

/// Watches the runs until there are none.
#[expect(clippy::disallowed_methods, reason = "it watches the time of the real machine")]
fn watch() {
    loop {
        thread::sleep(INTERVAL);
        let mut runs = RUNS.lock();
        if runs.running.is_empty() {
            runs.is_watched = false;
            return;
        }
        let late = count_interval(&mut runs.running);
        drop(runs);
        // Not `eprintln!`, which a test captures until it ends. If this cannot be told, nobody can be.
        late.iter().for_each(|seed| drop(writeln!(io::stderr(), "{}", warning(*seed))));
    }
}

/// Counts one interval, and returns the seeds of the runs that have been seen often enough now.
fn count_interval(running: &mut BTreeMap<u64, (u64, u32)>) -> Vec<u64> {
    let mut late = Vec::new();
    for (seed, intervals) in running.values_mut() {
        *intervals += 1;
        if *intervals == INTERVALS_MAX {
            late.push(*seed);
        }
    }
    late
}

fn warning(seed: u64) -> String {
    let seconds = INTERVAL.as_secs() * u64::from(INTERVALS_MAX);
    format!(
        "seed {seed} has been running for {seconds} s of real time, and nothing can end it from outside. \
         Perhaps a loop of a program awaits nothing that takes time (a request that fails at once, or \
         yield_now), or a program blocks its thread; World::sleep lets time pass."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_once_when_it_was_seen_often_enough() {
        let mut running = BTreeMap::from([(1, (17, 0)), (2, (18, 1))]);
        let told: Vec<_> = (0..4).map(|_| count_interval(&mut running)).collect();
        assert_eq!(told, [vec![], vec![18], vec![17], vec![]]);
        assert!(warning(17).contains("seed 17 has been running for 30 s"));
    }
}
