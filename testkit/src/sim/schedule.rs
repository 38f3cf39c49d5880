//! Which run of a seed: with all faults and machines, or with some left out.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::fault::{Fault, Planned};

/// A run: a seed, and what is left out of its faults, machines and rounds. Its text is for
/// [`Sim::replay`](super::Sim::replay) and the variable `ZOOLET_SIM_REPLAY`.
///
/// `faults` and `machines` are the numbers of those that are left. `rounds` is the most that a machine
/// begins while faults last. `hurry` divides the times of the faults. With `chance` all but the faults
/// is drawn otherwise: who is quicker, how long work takes, the timeouts.
///
/// A seed gives the same run again with the same program and the same version of zoolet, on the same
/// platform. Another version may draw other faults.
///
/// ```
/// use zoolet_testkit::sim::Schedule;
///
/// let schedule: Schedule = "17:faults=3,8:machines=0,2:rounds=1:hurry=4".parse()?;
/// assert_eq!(schedule.to_string(), "17:faults=3,8:machines=0,2:rounds=1:hurry=4");
/// assert_eq!(Schedule::from(17).to_string(), "17");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The seed.
    pub(super) seed: u64,
    /// The faults that happen, by their numbers in the list that the seed gives; all if `None`.
    pub(super) faults: Option<BTreeSet<usize>>,
    /// The machines that are there; all if `None`.
    pub(super) machines: Option<BTreeSet<usize>>,
    /// The most rounds that a machine begins while faults last.
    pub(super) rounds: Option<u32>,
    /// By how much the times of the faults are divided.
    pub(super) hurry: u32,
    /// Other chances than those of the seed, 0 for its own: the faults are the same, and what else is
    /// drawn is not.
    pub(super) chance: u32,
}

/// The distance between the generators of two chances of a seed: an odd number, so that none is met
/// twice.
const CHANCE_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl From<u64> for Schedule {
    /// The whole run of a seed.
    fn from(seed: u64) -> Self {
        Self { seed, faults: None, machines: None, rounds: None, hurry: 1, chance: 0 }
    }
}

impl Schedule {
    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Why there is no such run of a seed that gives so many faults and machines: it would be another
    /// one than the text says.
    pub(super) fn refusal(&self, faults: usize, machines: usize) -> Option<String> {
        let beyond = |numbers: &Option<BTreeSet<usize>>, count: usize| {
            numbers.as_ref()?.last().copied().filter(|last| *last >= count)
        };
        let what = if let Some(fault) = beyond(&self.faults, faults) {
            format!("it names fault {fault}, and the seed gives {faults}, from 0")
        } else if let Some(machine) = beyond(&self.machines, machines) {
            format!("it names machine {machine}, and there are {machines}, from 0")
        } else if self.machines.as_ref().is_some_and(BTreeSet::is_empty) {
            "it leaves out all machines".to_owned()
        } else {
            return None;
        };
        Some(format!(
            "the schedule {self} is not of this simulation: {what}; perhaps it is of another program, or \
             of another version of zoolet"
        ))
    }

    /// The seed of all that is drawn during the run. The faults are drawn before, from the seed.
    pub(super) fn run_seed(&self) -> u64 {
        self.seed.wrapping_add(CHANCE_STEP.wrapping_mul(self.chance.into()))
    }

    pub(super) fn has_machine(&self, machine_number: usize) -> bool {
        self.machines.as_ref().is_none_or(|machines| machines.contains(&machine_number))
    }

    /// The faults that happen, of those that the seed gives.
    pub(super) fn kept(&self, planned: &[Planned]) -> Vec<Planned> {
        let is_kept = |(number, planned): &(usize, &Planned)| {
            let is_there = match planned.fault {
                Fault::Machine(machine_number, _) => self.has_machine(machine_number),
                Fault::Server(_) | Fault::Ensemble(_) => true,
            };
            is_there && self.faults.as_ref().is_none_or(|faults| faults.contains(number))
        };
        let at = |at_ms: u64| at_ms / u64::from(self.hurry.max(1));
        let kept = planned.iter().enumerate().filter(is_kept);
        kept.map(|(_, planned)| Planned { at_ms: at(planned.at_ms), ..*planned }).collect()
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        for (name, numbers) in [("faults", &self.faults), ("machines", &self.machines)] {
            if let Some(numbers) = numbers {
                let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
                write!(f, ":{name}={}", numbers.join(","))?;
            }
        }
        if let Some(rounds) = self.rounds {
            write!(f, ":rounds={rounds}")?;
        }
        if self.hurry > 1 {
            write!(f, ":hurry={}", self.hurry)?;
        }
        if self.chance > 0 {
            write!(f, ":chance={}", self.chance)?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "{text:?} is not a schedule: {what}; copy it from a report, where it is SEED, perhaps \
                 with :faults=N,.. :machines=N,.. :rounds=N :hurry=N :chance=N behind it"
            )
        };
        let mut parts = text.trim().split(':');
        let seed = parts.next().unwrap_or_default();
        let seed: u64 =
            number(seed).ok_or_else(|| wrong("it does not begin with the number of a seed"))?;
        let (mut schedule, mut names) = (Self::from(seed), BTreeSet::new());
        for part in parts {
            let (name, value) =
                part.split_once('=').ok_or_else(|| wrong(&format!("{part:?} has no =")))?;
            let no_number = |text: &str| wrong(&format!("{name}={text} is no number in its range"));
            let numbers = || -> Result<BTreeSet<usize>, String> {
                let numbers = value.split(',').filter(|number| !number.is_empty());
                numbers.map(|text| number(text).ok_or_else(|| no_number(text))).collect()
            };
            if !names.insert(name) {
                return Err(wrong(&format!("it has {name} twice")));
            }
            match name {
                "faults" => schedule.faults = Some(numbers()?),
                "machines" => schedule.machines = Some(numbers()?),
                "hurry" => {
                    let hurry = number::<u32>(value).filter(|hurry| *hurry > 0);
                    schedule.hurry = hurry.ok_or_else(|| no_number(value))?;
                }
                "chance" => {
                    schedule.chance = number(value).ok_or_else(|| no_number(value))?;
                }
                "rounds" => {
                    let rounds = number::<u32>(value).filter(|rounds| *rounds > 0);
                    schedule.rounds = Some(rounds.ok_or_else(|| no_number(value))?);
                }
                _ => return Err(wrong(&format!("there is no {name:?}"))),
            }
        }
        Ok(schedule)
    }
}

/// A number as a person writes it: `100000` or `100_000`.
pub(super) fn number<T: FromStr>(text: &str) -> Option<T> {
    text.trim().replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_written() {
        for text in [
            "0",
            "5:faults=",
            "5:machines=1",
            "18446744073709551615:faults=0,7:rounds=3",
            "5:hurry=2:chance=4",
        ] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_the_reason() {
        for text in [
            "",
            "x",
            "-1",
            "5:faults",
            "5:faults=a",
            "5:what=1",
            "5:rounds=",
            "5:rounds=0",
            "5:faults=1:faults=2",
            "5:hurry=0",
            "5:chance=-1",
        ] {
            let error = text.parse::<Schedule>().unwrap_err();
            assert!(error.contains("is not a schedule"), "{error}");
        }
        let error = "5:faults=1,a".parse::<Schedule>().unwrap_err();
        assert!(error.contains("faults=a is no number"), "{error}");
    }

    #[test]
    fn a_schedule_of_another_simulation_is_refused() {
        let refusal = |text: &str| text.parse::<Schedule>().unwrap().refusal(10, 3);
        assert_eq!(refusal("5:faults=0,9:machines=0,2"), None);
        assert_eq!(refusal("5:faults="), None, "a run without faults");
        for (text, why) in [("5:faults=3,10", "fault 10"), ("5:machines=3", "machine 3")] {
            let refusal = refusal(text).unwrap();
            assert!(refusal.contains(why), "{refusal}");
        }
        assert!(refusal("5:machines=").is_some(), "it would check nothing");
    }
}
