//! What runs without a violation have tested.

use std::fmt;

/// In so many runs a znode that the programs create exists in one, as a rule. A seed that somebody runs
/// alone may be one in which they do not come to it.
const RUNS_THAT_TELL: u64 = 10;

/// What happened in runs: without it, their checks have checked nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tested {
    runs: u64,
    faults: u64,
    /// How often machines have entered critical sections.
    entries: u64,
    /// Whether the znode of each invariant has existed.
    seen: Vec<bool>,
}

impl Tested {
    /// In one run.
    pub(super) fn of(faults: u64, entries: u64, seen: Vec<bool>) -> Self {
        Self { runs: 1, faults, entries, seen }
    }

    /// Adds another run.
    pub(super) fn add(&mut self, run: &Self) {
        self.runs += run.runs;
        self.faults += run.faults;
        self.entries += run.entries;
        self.seen.resize(self.seen.len().max(run.seen.len()), false);
        self.seen.iter_mut().zip(&run.seen).for_each(|(all, one)| *all |= one);
    }

    /// What is wrong if none of the runs has a znode at one of these paths, which the invariants are
    /// of.
    pub(super) fn refusal<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Option<String> {
        if self.runs < RUNS_THAT_TELL {
            return None;
        }
        let mut unseen = paths.zip(&self.seen).filter(|(_, seen)| !**seen);
        let (path, _) = unseen.next()?;
        Some(format!(
            "the invariant of {path:?} has seen no znode: none has existed there in any of {} runs; give \
             the path of one that is created, and check in Sim::at_end that one is not",
            self.runs
        ))
    }
}

impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, faults, entries, .. } = self;
        write!(
            f,
            "{runs} runs without a violation, with {faults} faults; sections entered: {entries}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_at_which_no_run_has_a_znode_is_named() {
        let mut all = Tested::default();
        all.add(&Tested::of(3, 2, vec![true, false]));
        let paths = ["/a", "/b"];
        assert_eq!(all.refusal(paths.into_iter()), None, "one run tells nothing");
        all.add(&Tested { runs: RUNS_THAT_TELL - 1, ..Tested::of(0, 5, vec![false, false]) });
        let refusal = all.refusal(paths.into_iter()).unwrap();
        assert!(
            refusal.starts_with("the invariant of \"/b\"") && refusal.contains("10 runs"),
            "{refusal}"
        );
        assert_eq!(
            all.to_string(),
            "10 runs without a violation, with 3 faults; sections entered: 7"
        );
        all.add(&Tested::of(0, 0, vec![false, true]));
        assert_eq!(all.refusal(paths.into_iter()), None);
    }
}
