//! Which run of a seed: with all faults and machines, or with some left out.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::fault::{Fault, Planned};

/// A run: a seed, and what is left out of its faults, machines and rounds. Its text is for
/// [`Sim::replay`](super::Sim::replay) and the variable `ZOOLET_SIM_REPLAY`.
///
/// A seed gives the same run again with the same program and the same version of zoolet. Another
/// version may draw other faults.
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
    /// The faults that happen, by their places in the list that the seed gives; all if `None`.
    pub(super) faults: Option<BTreeSet<usize>>,
    /// The machines that are there; all if `None`.
    pub(super) machines: Option<BTreeSet<usize>>,
    /// The most rounds that a machine begins while faults last.
    pub(super) rounds: Option<u32>,
    /// By how much the times of the faults are divided.
    pub(super) hurry: u32,
}

impl From<u64> for Schedule {
    /// The whole run of a seed.
    fn from(seed: u64) -> Self {
        Self { seed, faults: None, machines: None, rounds: None, hurry: 1 }
    }
}

impl Schedule {
    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn has_machine(&self, place: usize) -> bool {
        self.machines.as_ref().is_none_or(|machines| machines.contains(&place))
    }

    /// The faults that happen, of those that the seed gives.
    pub(super) fn kept(&self, planned: &[Planned]) -> Vec<Planned> {
        let is_kept = |(number, planned): &(usize, &Planned)| {
            let is_there = match planned.fault {
                Fault::Machine(place, _) => self.has_machine(place),
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
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "{text:?} is not a schedule: {what}; write SEED, and perhaps :faults=N,.. \
                 :machines=N,.. :rounds=N :hurry=N, as a report shows it"
            )
        };
        let mut parts = text.trim().split(':');
        let seed = parts.next().unwrap_or_default();
        let seed: u64 = seed.parse().map_err(|_| wrong("it does not begin with a number"))?;
        let mut schedule = Self::from(seed);
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let numbers = || -> Result<BTreeSet<usize>, String> {
                let numbers = value.split(',').filter(|number| !number.is_empty());
                numbers.map(|number| number.parse().map_err(|_| wrong(number))).collect()
            };
            match name {
                "faults" => schedule.faults = Some(numbers()?),
                "machines" => schedule.machines = Some(numbers()?),
                "hurry" => schedule.hurry = value.parse().map_err(|_| wrong(value))?,
                "rounds" => schedule.rounds = Some(value.parse().map_err(|_| wrong(value))?),
                _ => return Err(wrong(name)),
            }
        }
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_written() {
        for text in ["0", "5:faults=", "5:machines=1", "18446744073709551615:faults=0,7:rounds=3"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_the_reason() {
        for text in ["", "x", "-1", "5:faults", "5:faults=a", "5:what=1", "5:rounds="] {
            let error = text.parse::<Schedule>().unwrap_err();
            assert!(error.contains("is not a schedule"), "{error}");
        }
    }
}
