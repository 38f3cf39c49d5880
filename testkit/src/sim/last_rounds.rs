//! The last rounds of a run whose programs wait for nothing but locks. All machines have had theirs; now
//! all but one finish, and the messages of that one are late.
//!
//! A machine that looks whether a lock is free, and then watches what is gone by then, is woken by
//! nobody but the next one who comes. So it shows only if nobody does.

use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::time::Duration;

use fastrand::Rng;

use super::machine::Machine;
use super::trial::ROUNDS_OF_OTHERS;

/// Another seed than that of the run, of which the machines draw.
const SEED_OF_LAST_ROUNDS: u64 = 0x1a57;
/// How many rounds each of the others begins before it finishes, beside those that a trial needs.
const ROUNDS: RangeInclusive<u32> = 1..=3;
/// How many rounds the last one begins at most while it waits for the others to finish.
const ROUNDS_OF_LAST: u32 = 100;
/// By how many milliseconds its messages are late at most: no client loses its connection by it.
const LATE_MS: [u64; 3] = [20, 50, 100];
/// The others must have time to finish: there are no last rounds after this part of it.
const PART_OF_TIME: u32 = 3;

/// The last rounds of a run, if it has them.
pub(super) struct LastRounds {
    seed: u64,
    /// How long after the faults they begin at the latest.
    within: Duration,
    last: OnceLock<Option<usize>>,
}

impl LastRounds {
    /// `finish_within` is how long machines may take to finish after the faults.
    pub(super) fn new(run_seed: u64, finish_within: Duration) -> Self {
        let seed = run_seed ^ SEED_OF_LAST_ROUNDS;
        Self { seed, within: finish_within / PART_OF_TIME, last: OnceLock::new() }
    }

    /// Whether a machine is to begin one more round. All have had theirs, and there have been no faults
    /// for so long.
    pub(super) fn goes_on(
        &self,
        machines: &[Machine],
        machine_number: usize,
        calm: Duration,
    ) -> bool {
        let last = *self.last.get_or_init(|| self.begin(machines, calm));
        let Some(last) = last else { return false };
        let mut others = (0..machines.len()).filter(|other| *other != last);
        let are_all_done = others.all(|other| machines[other].is_done());
        let is_awaited = machine_number != last || !are_all_done;
        is_awaited && machines[machine_number].rounds.takes_last()
    }

    /// Half of the runs have last rounds, if at least two machines enter sections again and again.
    fn begin(&self, machines: &[Machine], calm: Duration) -> Option<usize> {
        let mut rng = Rng::with_seed(self.seed);
        let enters = |number: &usize| machines[*number].rounds.enters_usually();
        let entering: Vec<_> = (0..machines.len()).filter(enters).collect();
        if rng.bool() || entering.len() < 2 || calm > self.within {
            return None;
        }
        let last = rng.choice(entering)?;
        let late_ms = rng.choice(LATE_MS)?;
        let others = machines.iter().filter(|machine| machine.is_there()).count() - 1;
        let needed = ROUNDS_OF_OTHERS.div_ceil(u32::try_from(others).unwrap_or(u32::MAX).max(1));
        for (number, machine) in machines.iter().enumerate() {
            let (ms_max, rounds) = match number == last {
                true => (late_ms, ROUNDS_OF_LAST),
                // They have stepped back before, for those that had not had their round.
                false => (0, needed + rng.u32(ROUNDS)),
            };
            machine.be_late(ms_max);
            machine.rounds.add_last(rounds);
        }
        Some(last)
    }
}
