//! What runs without a violation have tested.

use std::fmt;

use super::program::Waits;

/// In so many runs a znode that the programs create exists in one, as a rule, and a machine enters a
/// section. A seed that somebody runs alone may be one in which they do not come to it.
const RUNS_THAT_TELL: u64 = 10;

/// What happened in runs: without it, their checks have checked nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tested {
    pub(super) runs: u64,
    pub(super) faults: u64,
    /// How often machines have entered critical sections.
    pub(super) entries: u64,
    /// How often machines have asked for an ephemeral znode, as for a lock.
    pub(super) ephemerals: u64,
    pub(super) ephemerals_created: u64,
    /// How often programs have checked something themselves.
    pub(super) checks: u64,
    /// Whether something else is checked: what is left at the end, or what machines share.
    pub(super) has_other_checks: bool,
    /// Whether the znode of each invariant has existed.
    pub(super) seen: Vec<bool>,
}

impl Tested {
    /// Adds another run.
    pub(super) fn add(&mut self, run: &Self) {
        self.runs += run.runs;
        self.faults += run.faults;
        self.entries += run.entries;
        self.ephemerals += run.ephemerals;
        self.ephemerals_created += run.ephemerals_created;
        self.checks += run.checks;
        self.has_other_checks |= run.has_other_checks;
        self.seen.resize(self.seen.len().max(run.seen.len()), false);
        self.seen.iter_mut().zip(&run.seen).for_each(|(all, one)| *all |= one);
    }

    /// What is wrong if these runs have tested nothing, or not what they seem to: none of them has a
    /// znode at one of these paths, which the invariants are of, or nobody has ever acquired a lock, where
    /// programs wait for locks.
    pub(super) fn refusal<'a>(
        &self,
        paths: impl Iterator<Item = &'a str>,
        waits: Waits,
    ) -> Option<String> {
        if self.runs < RUNS_THAT_TELL {
            return None;
        }
        let mut unseen = paths.zip(&self.seen).filter(|(_, seen)| !**seen);
        if let Some((path, _)) = unseen.next() {
            return Some(format!(
                "the invariant of {path:?} has seen no znode: none has existed there in any of {} runs; \
                 give the path of one that is created, and check in Sim::at_end that one is not",
                self.runs
            ));
        }
        match waits {
            Waits::ForLocks => self.never_acquired(),
            Waits::ForAnything => None,
        }
    }

    /// That nobody has ever acquired a lock, as it seems, if it does.
    fn never_acquired(&self) -> Option<String> {
        let has_tried = self.ephemerals > 0 && self.ephemerals_created == 0;
        (self.has_checked_nothing() && has_tried).then(|| {
            format!(
                "nobody has ever acquired a lock: machines have asked for an ephemeral znode {} times in {} \
                 runs, never with success, and have entered no section; if that is as it should be, \
                 check it by World::check or Sim::at_end",
                self.ephemerals, self.runs
            )
        })
    }

    /// What a person must know of these runs though all have passed: machines have acquired something, as
    /// it seems, and have entered no section with it, or have acquired nothing.
    pub(super) fn warning(&self) -> Option<String> {
        let tells =
            self.runs >= RUNS_THAT_TELL && self.ephemerals > 0 && self.has_checked_nothing();
        tells.then(|| match self.never_acquired() {
            Some(text) => format!("warning: {text}"),
            None => format!(
                "warning: in {} runs machines have asked for {} ephemeral znodes, as for a lock, and none has \
                 entered a section. Only panics, errors and machines that do not finish were found; what a \
                 program checks itself counts by World::check",
                self.runs, self.ephemerals
            ),
        })
    }

    /// Whether these runs could have found nothing but panics, errors, and machines that do not finish.
    fn has_checked_nothing(&self) -> bool {
        self.entries == 0 && self.checks == 0 && !self.has_other_checks && self.seen.is_empty()
    }
}

impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, faults, entries, checks, .. } = self;
        write!(
            f,
            "{runs} runs without a violation, with {faults} faults; sections entered: {entries}"
        )?;
        if *checks > 0 {
            write!(f, "; checks of programs: {checks}")?;
        }
        if self.has_checked_nothing() {
            f.write_str(
                "; nothing but panics, errors and machines that do not finish was looked for",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_at_which_no_run_has_a_znode_is_named() {
        let one = Tested { runs: 1, entries: 2, ..Tested::default() };
        let mut all = Tested::default();
        all.add(&Tested { faults: 3, seen: vec![true, false], ..one.clone() });
        let paths = ["/a", "/b"];
        assert_eq!(
            all.refusal(paths.into_iter(), Waits::ForAnything),
            None,
            "one run tells nothing"
        );
        all.add(&Tested { runs: RUNS_THAT_TELL - 1, seen: vec![false, false], ..one.clone() });
        let refusal = all.refusal(paths.into_iter(), Waits::ForAnything).unwrap();
        assert!(
            refusal.starts_with("the invariant of \"/b\"") && refusal.contains("10 runs"),
            "{refusal}"
        );
        assert_eq!(
            all.to_string(),
            "10 runs without a violation, with 3 faults; sections entered: 4"
        );
        all.add(&Tested { seen: vec![false, true], ..one });
        assert_eq!(all.refusal(paths.into_iter(), Waits::ForAnything), None);
    }

    #[test]
    fn a_lock_that_nobody_acquires_is_refused_where_programs_wait_for_locks_only() {
        let nothing = Tested { runs: RUNS_THAT_TELL, ephemerals: 7, ..Tested::default() };
        let refusal = nothing.refusal([].into_iter(), Waits::ForLocks).unwrap();
        assert!(refusal.contains("an ephemeral znode 7 times in 10 runs"), "{refusal}");
        assert_eq!(nothing.refusal([].into_iter(), Waits::ForAnything), None, "it may be right");
        assert_eq!(nothing.warning(), Some(format!("warning: {refusal}")));
        assert!(nothing.to_string().ends_with("was looked for"), "{nothing}");
        let created = Tested { ephemerals_created: 1, ..nothing.clone() };
        assert_eq!(
            created.refusal([].into_iter(), Waits::ForLocks),
            None,
            "they may have no sections"
        );
        assert!(created.warning().is_some());
        for tested in [
            Tested { runs: RUNS_THAT_TELL - 1, ..nothing.clone() },
            Tested { entries: 1, ..nothing.clone() },
            Tested { checks: 1, ..nothing.clone() },
            Tested { has_other_checks: true, ..nothing.clone() },
            Tested { seen: vec![true], ..nothing.clone() },
            Tested { ephemerals: 0, ..nothing },
        ] {
            assert_eq!(tested.refusal(["/a"].into_iter(), Waits::ForLocks), None, "{tested:?}");
            assert_eq!(tested.warning(), None, "{tested:?}");
        }
    }
}
