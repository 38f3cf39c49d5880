//! Tells which runs take very long by the clock of the real machine.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// How often it looks.
const LOOK: Duration = Duration::from_secs(10);
/// After how many looks a run is told. As a rule a run takes milliseconds.
const LOOKS: u32 = 3;

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
        thread::sleep(LOOK);
        let mut runs = RUNS.lock();
        if runs.running.is_empty() {
            runs.is_watched = false;
            return;
        }
        let late = look(&mut runs.running);
        drop(runs);
        late.iter().for_each(|seed| eprintln!("{}", warning(*seed)));
    }
}

/// Counts one look, and returns the seeds of the runs that have been seen often enough now.
fn look(running: &mut BTreeMap<u64, (u64, u32)>) -> Vec<u64> {
    let mut late = Vec::new();
    for (seed, looks) in running.values_mut() {
        *looks += 1;
        if *looks == LOOKS {
            late.push(*seed);
        }
    }
    late
}

fn warning(seed: u64) -> String {
    let seconds = LOOK.as_secs() * u64::from(LOOKS);
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
        let told: Vec<_> = (0..4).map(|_| look(&mut running)).collect();
        assert_eq!(told, [vec![], vec![18], vec![17], vec![]]);
        assert!(warning(17).contains("seed 17 has been running for 30 s"));
    }
}
