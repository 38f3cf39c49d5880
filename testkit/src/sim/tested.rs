//! What runs without a violation have tested.

use std::fmt;

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
        all.add(&Tested::of(0, 5, vec![false, false]));
        let paths = ["/a", "/b"];
        let refusal = all.refusal(paths.into_iter()).unwrap();
        assert!(
            refusal.starts_with("the invariant of \"/b\"") && refusal.contains("2 runs"),
            "{refusal}"
        );
        assert_eq!(
            all.to_string(),
            "2 runs without a violation, with 3 faults; sections entered: 7"
        );
        all.add(&Tested::of(0, 0, vec![false, true]));
        assert_eq!(all.refusal(paths.into_iter()), None);
    }
}
