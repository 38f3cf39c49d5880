//! Runs many seeds on several threads, and shrinks a run that fails.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use zoolet_testkit::sim::parts;

use super::options::{Options, Part};
use super::oracle::{Counts, Verdict};
use super::world::run;

/// The result of many seeds.
#[derive(Debug)]
pub struct Swept {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many messages were compared with the model.
    pub messages: u64,
    /// How often each kind of event happened, over all runs.
    pub counts: Counts,
    /// The failure of the lowest seed that failed.
    pub failure: Option<Failure>,
}

/// A seed that failed.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The options of the run.
    pub options: Options,
    /// The result of the run.
    pub verdict: Verdict,
}

/// Runs the seeds in order on several threads, until one fails.
pub fn sweep(
    seeds: Range<u64>,
    jobs: usize,
    options: &Options,
    progress: impl Fn(u64) + Sync,
) -> Swept {
    let (count, messages) = (AtomicU64::new(0), AtomicU64::new(0));
    let counts = Mutex::new(Counts::new());
    let run = |seed| {
        let verdict = run(seed, options);
        messages.fetch_add(verdict.messages, Ordering::Relaxed);
        for (what, count) in &verdict.counts {
            *counts.lock().expect("nobody panics here").entry(what).or_default() += count;
        }
        progress(count.fetch_add(1, Ordering::Relaxed) + 1);
        verdict
    };
    let swept = parts::sweep(seeds, jobs, run, |verdict| verdict.violation.is_some());
    let failure = swept.failure.map(|(seed, verdict)| {
        let options = options.clone();
        Failure { seed, options, verdict }
    });
    Swept {
        seeds: swept.seeds,
        messages: messages.into_inner(),
        counts: counts.into_inner().expect("nobody panics here"),
        failure,
    }
}

impl Failure {
    /// Tries smaller runs of the seed, and keeps those that still fail.
    #[must_use]
    pub fn shrink(self) -> Self {
        let Self { seed, options, verdict } = self;
        let fails = |options: &Options| {
            let verdict = run(seed, options);
            verdict.violation.is_some().then_some(verdict)
        };
        let smaller = |(options, _): &(Options, Verdict)| smaller(options);
        let (options, verdict) = parts::shrink((options, verdict), usize::MAX, smaller, fails);
        Self { seed, options, verdict }
    }

    /// The command that runs the seed again.
    #[must_use]
    pub fn command(&self) -> String {
        let Self { seed, options, .. } = self;
        format!("cargo run --release -p zoolet-simulation -- --seed {seed}{options} --trace")
    }

    /// The violation, the hash of the trace and the command.
    #[must_use]
    pub fn report(&self) -> String {
        let Self { seed, verdict, .. } = self;
        let violation = verdict.violation.as_deref().unwrap_or_default();
        let (hash, command) = (verdict.hash, self.command());
        format!(
            "seed {seed} fails {violation}\nits trace has the hash {hash:016x}; again: {command}"
        )
    }
}

/// The options of all runs that are smaller by one step.
fn smaller(options: &Options) -> Vec<Options> {
    let mut smaller = Vec::new();
    for part in Part::ALL.into_iter().filter(|part| options.has(*part)) {
        let mut without = options.clone();
        without.without.insert(part);
        smaller.push(without);
    }
    if options.clients > 1 {
        smaller.push(Options { clients: options.clients - 1, ..options.clone() });
    }
    for operations in [options.operations / 2, options.operations.saturating_sub(1)] {
        if operations > 0 && operations < options.operations {
            smaller.push(Options { operations, ..options.clone() });
        }
    }
    if options.seconds > 1 {
        smaller.push(Options { seconds: options.seconds / 2, ..options.clone() });
    }
    smaller
}
