//! The runs that are smaller than one that fails, by one step.

use std::collections::BTreeSet;

use super::outcome::Outcome;
use super::schedule::Schedule;
use super::sweep::without_a_piece;

/// From this divisor of the faults' times on, no greater one is tried.
const HURRY_MAX: u32 = 64;
/// How many runs that are much smaller are tried, each with other chances. What is left out changes
/// when the rest happens, so that most runs that could fail do not.
const MUCH_SMALLER: usize = 150;
/// By what the times of the faults are divided in these.
const HURRIES: [u32; 2] = [1, 8];
/// The rounds that are enough for most bugs.
const FEW_ROUNDS: std::ops::RangeInclusive<u32> = 1..=3;

/// The schedules that are smaller by one step than one that fails with this outcome. Those that most
/// probably fail as well come first.
pub(super) fn smaller((schedule, outcome): &(Schedule, Outcome)) -> Vec<Schedule> {
    let failing = Failing::new(schedule, outcome);
    let mut smaller = failing.with_fewer_machines();
    smaller.extend(failing.with_fewer_faults());
    smaller.extend(failing.with_fewer_rounds());
    smaller.extend(failing.with_earlier_faults());
    smaller.extend(failing.much_smaller());
    smaller
}

/// A run that fails.
struct Failing<'a> {
    schedule: &'a Schedule,
    outcome: &'a Outcome,
    /// The faults of its schedule, and those of them that happen before it fails.
    all: BTreeSet<usize>,
    faults: Vec<usize>,
    rounds: u32,
}

impl<'a> Failing<'a> {
    fn new(schedule: &'a Schedule, outcome: &'a Outcome) -> Self {
        let all = schedule.faults.clone();
        let all = all.unwrap_or_else(|| (0..outcome.planned.len()).collect());
        let end_ms = outcome.violation.as_ref().map_or(u64::MAX, |violation| violation.ms);
        // All of a schedule's milliseconds that a hurried run has in its last one.
        let end_ms = end_ms.saturating_add(1).saturating_mul(u64::from(schedule.hurry)) - 1;
        let is_before = |number: &usize| {
            outcome.planned.get(*number).is_some_and(|fault| fault.at_ms <= end_ms)
        };
        let faults = all.iter().copied().filter(is_before).collect();
        let rounds = schedule.rounds.unwrap_or(outcome.rounds).min(outcome.rounds);
        Self { schedule, outcome, all, faults, rounds }
    }

    fn of_faults(&self, faults: impl IntoIterator<Item = usize>) -> Schedule {
        Schedule { faults: Some(faults.into_iter().collect()), ..self.schedule.clone() }
    }

    fn of_rounds(&self, rounds: u32) -> Schedule {
        Schedule { rounds: Some(rounds), ..self.schedule.clone() }
    }

    fn with_fewer_machines(&self) -> Vec<Schedule> {
        let machines = 0..self.outcome.names.len();
        let machines: Vec<_> =
            machines.filter(|machine| self.schedule.has_machine(*machine)).collect();
        if machines.len() < 2 {
            return Vec::new();
        }
        let without = |left_out: &usize| {
            let rest = machines.iter().copied().filter(|machine| machine != left_out);
            Schedule { machines: Some(rest.collect()), ..self.schedule.clone() }
        };
        machines.iter().rev().map(without).collect()
    }

    fn with_fewer_faults(&self) -> Vec<Schedule> {
        let mut smaller = Vec::new();
        if self.faults.len() < self.all.len() {
            smaller.push(self.of_faults(self.faults.clone()));
        }
        smaller.extend(without_a_piece(&self.faults).into_iter().map(|list| self.of_faults(list)));
        smaller
    }

    fn with_fewer_rounds(&self) -> Vec<Schedule> {
        let fewer = [self.rounds / 2, self.rounds - self.rounds / 4];
        let fewer = fewer.into_iter().filter(|fewer| *fewer > 0 && *fewer < self.rounds);
        fewer.map(|rounds| self.of_rounds(rounds)).collect()
    }

    fn with_earlier_faults(&self) -> Vec<Schedule> {
        if self.faults.is_empty() || self.schedule.hurry >= HURRY_MAX {
            return Vec::new();
        }
        let hurry = self.schedule.hurry;
        [16, 4, 2].map(|times| Schedule { hurry: hurry * times, ..self.schedule.clone() }).into()
    }

    /// At most one fault, or few rounds, with several chances.
    fn much_smaller(&self) -> Vec<Schedule> {
        let mut wanted = Vec::new();
        if !self.faults.is_empty() {
            wanted.push(self.of_faults([]));
        }
        if self.faults.len() > 1 {
            wanted.extend(self.faults.iter().map(|fault| self.of_faults([*fault])));
        }
        wanted.extend(FEW_ROUNDS.filter(|few| *few < self.rounds).map(|few| self.of_rounds(few)));
        let others = (0..).flat_map(|chance| HURRIES.map(|times| (chance, times)));
        let others = others.flat_map(|(chance, times)| {
            let chance = self.schedule.chance.saturating_add(chance);
            let hurry = self.schedule.hurry.saturating_mul(times);
            wanted.iter().map(move |it| Schedule { chance, hurry, ..it.clone() })
        });
        let is_tried = |it: &Schedule| it.hurry == self.schedule.hurry || it.hurry <= HURRY_MAX;
        match wanted.is_empty() {
            true => Vec::new(),
            false => others.take(MUCH_SMALLER).filter(is_tried).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::{Fault, MachineFault, Planned};
    use super::super::violation::{Violation, ViolationKind};
    use super::*;

    #[test]
    fn each_schedule_is_smaller_and_keeps_to_what_fails() {
        let fault = Fault::Machine(0, MachineFault::Expire);
        let at = |at_ms: u64| Planned { at_ms, after_entering: None, fault };
        let violation = Violation { kind: ViolationKind::End, text: String::new(), ms: 500 };
        let outcome = Outcome {
            violation: Some(violation),
            planned: [100, 200, 300, 400, 9_000].map(at).into(),
            rounds: 20,
            names: ["a", "b", "c"].map(str::to_owned).into(),
            ..Outcome::default()
        };
        let size = |schedule: &Schedule| {
            let machines = schedule.machines.as_ref().map_or(3, BTreeSet::len);
            let faults = schedule.faults.as_ref().map_or(5, BTreeSet::len);
            (machines, faults, schedule.rounds.unwrap_or(20), schedule.hurry)
        };
        let mut present = Schedule::from(7);
        let mut steps = 0;
        loop {
            let smaller = smaller(&(present.clone(), outcome.clone()));
            let (machines, faults, rounds, hurry) = size(&present);
            for schedule in &smaller {
                let one = size(schedule);
                assert!(one.0 <= machines && one.1 <= faults && one.2 <= rounds, "{schedule}");
                assert!(one.3 >= hurry && one != (machines, faults, rounds, hurry), "{schedule}");
            }
            // The one that changes least.
            let Some(next) = smaller.into_iter().max_by_key(|it| (size(it).0, size(it).1)) else {
                break;
            };
            (present, steps) = (next, steps + 1);
            assert!(steps < 100, "it ends");
        }
        assert_eq!(size(&present).0, 1, "{present}");
        assert_eq!(size(&present).1, 0, "{present}");
    }
}
