//! A run that fails, as small as possible.

use std::fmt;

use super::outcome::Outcome;
use super::schedule::Schedule;
use super::smaller::smaller;
use super::story::{self, Story};
use super::sweep::shrink;
use super::violation::{Violation, ViolationKind};

/// How many smaller runs are tried.
const TRIES: usize = 1_000;

/// A run that fails.
///
/// ```
/// use zoolet_testkit::sim::Sim;
///
/// let sim = Sim::new().machine("worker", 2, |world| async move {
///     let client = world.connect().await?;
///     client.create("/only-once").await?; // the second worker fails
///     Ok(())
/// });
/// let failure = sim.search(0..10).unwrap_err();
/// assert!(failure.violation().text.contains("NodeExists"), "{failure}");
/// assert!(failure.story().len() < 30);
/// ```
pub struct Failure(pub(super) Box<FailedRun>);

pub(super) struct FailedRun {
    pub(super) schedule: Schedule,
    pub(super) outcome: Outcome,
    /// What differs between two runs, if the program does not repeat.
    unrepeatable: Option<Vec<String>>,
}

impl Failure {
    pub(super) fn new(schedule: Schedule, outcome: Outcome) -> Self {
        Self(Box::new(FailedRun { schedule, outcome, unrepeatable: None }))
    }

    /// Searches for the smallest run that fails in the same way.
    /// `run` runs a schedule, and keeps its entries if it is told so.
    pub(super) fn shrink(
        run: impl Fn(&Schedule, bool) -> Outcome,
        schedule: Schedule,
        outcome: Outcome,
    ) -> Self {
        let kind = outcome.violation.clone().map(|violation| violation.kind);
        let fails = |schedule: &Schedule| {
            let outcome = run(schedule, false);
            let is_same =
                outcome.violation.as_ref().map(|violation| &violation.kind) == kind.as_ref();
            is_same.then_some(outcome)
        };
        let (schedule, found) = shrink((schedule, outcome), TRIES, smaller, fails);
        let outcome = run(&schedule, true);
        if outcome.violation == found.violation {
            return Self::new(schedule, outcome);
        }
        // Only the first seed was run twice before the search.
        let told = |outcome: &Outcome| {
            outcome
                .violation
                .as_ref()
                .map_or_else(|| "no violation".to_owned(), ToString::to_string)
        };
        let lines = vec![told(&found), told(&outcome)];
        Self::differing(schedule, outcome, lines)
    }

    /// A seed of which two runs differ.
    pub(super) fn unrepeatable(seed: u64, first: &Outcome, second: &Outcome) -> Self {
        let pairs = first.entries.iter().zip(&second.entries);
        let same = pairs.take_while(|(one, other)| format!("{one:?}") == format!("{other:?}"));
        let index = same.count();
        let line = |outcome: &Outcome| {
            let entry = outcome.entries.get(index);
            entry.map_or_else(|| "the end".to_owned(), |entry| story::line(entry, &outcome.names))
        };
        let lines = vec![line(first), line(second)];
        Self::differing(seed.into(), first.clone(), lines)
    }

    /// What differs takes the place of what is wrong: it could be anything.
    fn differing(schedule: Schedule, mut outcome: Outcome, lines: Vec<String>) -> Self {
        let text = format!("two runs of seed {schedule} differ");
        let ms = outcome.violation.map_or(0, |violation| violation.ms);
        outcome.violation = Some(Violation { kind: ViolationKind::Unrepeatable, text, ms });
        Self(Box::new(FailedRun { schedule, outcome, unrepeatable: Some(lines) }))
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.0.schedule.seed
    }

    /// The smallest run of the seed that was found to fail.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.0.schedule
    }

    /// What is wrong.
    #[must_use]
    pub fn violation(&self) -> &Violation {
        self.0.outcome.violation.as_ref().expect("a run that fails has a violation")
    }

    /// Whether anything of the seed is left out.
    pub(super) fn which_run(&self) -> &'static str {
        match self.0.schedule == Schedule::from(self.seed()) {
            true => "the whole run",
            false => "the smallest run that fails in the same way",
        }
    }

    /// Whether there is no run that fails.
    fn is_without_run(&self) -> bool {
        matches!(self.violation().kind, ViolationKind::Refused | ViolationKind::Untested)
    }

    /// What happened, one event a line: as much as fits into less than 30 lines.
    #[must_use]
    pub fn story(&self) -> Vec<String> {
        self.told().lines
    }

    pub(super) fn told(&self) -> Story {
        story::tell(&self.0.outcome.entries, &self.0.outcome.names)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(lines) = &self.0.unrepeatable {
            writeln!(
                f,
                "two runs of seed {} differ, so that a failure could not be repeated.",
                self.0.schedule,
            )?;
            writeln!(f, "The first difference:")?;
            lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
            return write!(
                f,
                "A program takes chance or time from outside its world: a `select!` without `biased`, \
                 several tasks that wait for one `tokio::sync::watch`, the order of a HashMap, another \
                 source of random numbers, `Instant::now` of the standard library, a thread, or a value \
                 that a program or an invariant keeps from one run to the next (`World::shared` and \
                 `Sim::invariant_with_state` begin anew)."
            );
        }
        if self.is_without_run() {
            let Violation { kind, text, .. } = self.violation();
            return write!(f, "{kind}: {text}");
        }
        writeln!(f, "seed {} fails: {}", self.seed(), self.violation())?;
        let story = self.told();
        writeln!(f, "{}{}:", self.which_run(), story.share())?;
        story.lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "hash {:016x}; again: ZOOLET_SIM_REPLAY={}", self.0.outcome.hash, self.0.schedule)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
