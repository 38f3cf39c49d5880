//! All runs with a fault, some at a time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::failure::Failure;
use super::job::Show;
use super::kind::PointFault;
use super::run::{Run, Runner};
use crate::bench::clock;
use crate::signals::Signals;

/// What became of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The command passed.
    Passed,
    /// The command failed.
    Broke,
    /// The request did not come, so there was no fault, and the command passed.
    NotReached,
    /// The request did not come, so there was no fault, and yet the command failed.
    FailedByItself,
}

/// A fault, and the run with it.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) fault: PointFault,
    pub(super) run: Run,
}

impl Trial {
    pub(super) fn outcome(&self) -> Outcome {
        match (self.run.requests.is_reached, self.run.ending.is_success()) {
            (true, true) => Outcome::Passed,
            (true, false) => Outcome::Broke,
            (false, true) => Outcome::NotReached,
            (false, false) => Outcome::FailedByItself,
        }
    }

    /// A sweep has many runs, and a run may have many requests.
    fn forget_what_no_report_shows(&mut self) {
        let Run { output, requests, ending, .. } = &mut self.run;
        if ending.is_success() {
            *output = String::new();
            requests.seen = Vec::new();
        } else {
            requests.seen = requests.around_fault().to_vec();
        }
    }
}

/// The runs of a sweep.
#[derive(Debug)]
pub(super) struct Trials {
    /// In the order of the faults, without those that were not run.
    pub(super) trials: Vec<Trial>,
    pub(super) took: Duration,
    /// What stopped the sweep before its end, if something did.
    pub(super) stopped_by: Option<Stop>,
}

/// What stops a sweep before its end.
#[derive(Debug)]
pub(super) enum Stop {
    Signal(&'static str),
    /// A run that could not be made.
    Failure(Failure),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => f.write_str(signal),
            Self::Failure(failure) => failure.fmt(f),
        }
    }
}

/// How a sweep is carried out.
#[derive(Debug)]
pub(super) struct Campaign {
    pub(super) runner: Arc<Runner>,
    pub(super) faults: Vec<PointFault>,
    /// The runs at a time.
    pub(super) jobs: usize,
    /// The time limit of a run, without what a fault takes by itself.
    pub(super) limit: Duration,
}

type Finished = (usize, Result<Run, Failure>);

impl Campaign {
    /// Runs the command with each of the faults, until a signal comes or a run cannot be made.
    pub(super) async fn run(self, signals: &mut Signals) -> Trials {
        let started = clock::now();
        let bar = bar(self.faults.len());
        let jobs = self.jobs.min(self.faults.len());
        let campaign = Arc::new(self);
        let (finished, mut runs) = mpsc::channel(jobs);
        let next = Arc::new(AtomicUsize::new(0));
        // Dropping the set kills the commands that still run.
        let mut workers = JoinSet::new();
        for _ in 0..jobs {
            let campaign = Arc::clone(&campaign);
            workers.spawn(campaign.work(Arc::clone(&next), finished.clone()));
        }
        drop(finished);
        let mut done = Vec::new();
        let mut broken = 0;
        let stopped_by = loop {
            let (index, run) = tokio::select! {
                run = runs.recv() => match run {
                    Some(run) => run,
                    None => break None,
                },
                signal = signals.next() => break Some(Stop::Signal(signal)),
            };
            let run = match run {
                Ok(run) => run,
                Err(failure) => break Some(Stop::Failure(failure)),
            };
            let mut trial = Trial { fault: campaign.faults[index].clone(), run };
            trial.forget_what_no_report_shows();
            if trial.outcome() == Outcome::Broke {
                broken += 1;
                bar.set_message(format!("{broken} broke it"));
                bar.println(format!("{}: the {}", trial.fault.kind, trial.fault.point));
            }
            bar.inc(1);
            done.push((index, trial));
        };
        bar.finish_and_clear();
        workers.shutdown().await;
        done.sort_unstable_by_key(|(index, _)| *index);
        let trials = done.into_iter().map(|(_, trial)| trial).collect();
        Trials { trials, took: started.elapsed(), stopped_by }
    }

    /// Takes one fault after the other.
    async fn work(self: Arc<Self>, next: Arc<AtomicUsize>, finished: mpsc::Sender<Finished>) {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(fault) = self.faults.get(index) else { return };
            let limit = self.limit.saturating_add(fault.kind.takes(self.runner.times));
            let run = self.runner.run(Some(fault), limit, Show::Keep).await;
            if finished.send((index, run)).await.is_err() {
                return;
            }
        }
    }
}

/// A progress bar on stderr, if that is a terminal.
fn bar(faults: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(faults as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {per_sec} {eta} {msg}");
    bar.with_style(style.expect("the template is right"))
}
