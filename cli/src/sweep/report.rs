//! What a sweep found: as text, and as files for CI servers, programs and browsers.

mod destination;
pub(super) mod json;
pub(super) mod junit;
pub(super) mod page;
pub(super) mod text;

use std::ffi::OsString;
use std::time::Duration;

pub(super) use self::destination::Destination;
use super::campaign::{Outcome, Trial, Trials};
use super::kind::Times;
use super::run::Run;
use super::tracker::Seen;

/// A sweep that has not come to its faults: what a report says that would otherwise be that of another
/// sweep, or missing.
#[derive(Debug)]
pub(super) struct NotMade<'a> {
    pub(super) command: &'a [OsString],
    /// What stopped it, in a sentence.
    pub(super) why: String,
    /// The same, or only the name of a signal: for programs.
    pub(super) stopped_by: String,
    /// The last lines that the command printed.
    pub(super) output: String,
}

/// What a sweep found.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) command: &'a [OsString],
    /// The options that change what a fault does, as they were given.
    pub(super) options: String,
    pub(super) times: Times,
    pub(super) limit: Duration,
    /// The faults that were to be injected.
    pub(super) planned: usize,
    /// The run without a fault.
    pub(super) first: Run,
    pub(super) points: Vec<Seen>,
    pub(super) trials: Trials,
}

impl Report<'_> {
    /// The command as a shell takes it.
    pub(super) fn command_line(&self) -> String {
        command_line(self.command)
    }

    /// The shell command that repeats a fault.
    pub(super) fn replay(&self, trial: &Trial) -> String {
        let (id, options) = (trial.fault.id(), &self.options);
        format!("zoolet sweep --replay {id} {options}-- {}", self.command_line())
    }

    /// How many faults had this outcome.
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.all(outcome).count()
    }

    /// The faults with this outcome.
    pub(super) fn all(&self, outcome: Outcome) -> impl Iterator<Item = &Trial> {
        self.trials.trials.iter().filter(move |trial| trial.outcome() == outcome)
    }

    /// The time limit of a run.
    pub(super) fn limit_of(&self, trial: &Trial) -> Duration {
        self.limit.saturating_add(trial.fault.kind.takes(self.times))
    }
}

/// A command as a shell takes it.
fn command_line(command: &[OsString]) -> String {
    shell_words::join(command.iter().map(|word| word.to_string_lossy()))
}

/// The last lines of what a command printed.
pub(super) fn last_lines(run: &Run, most: usize) -> Vec<&str> {
    let lines: Vec<_> = run.output.trim_end().lines().collect();
    lines[lines.len().saturating_sub(most)..].to_vec()
}
