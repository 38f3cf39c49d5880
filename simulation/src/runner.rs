//! Runs many seeds on several threads, and shrinks a run that fails.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

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
    let next = AtomicU64::new(seeds.start);
    let (count, messages) = (AtomicU64::new(0), AtomicU64::new(0));
    let counts = Mutex::new(Counts::new());
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= seeds.end {
                return;
            }
            let verdict = run(seed, options);
            messages.fetch_add(verdict.messages, Ordering::Relaxed);
            for (what, count) in &verdict.counts {
                *counts.lock().expect("nobody panics here").entry(what).or_default() += count;
            }
            progress(count.fetch_add(1, Ordering::Relaxed) + 1);
            if verdict.violation.is_some() {
                // Smaller seeds are already running; greater ones do not start.
                next.store(seeds.end, Ordering::SeqCst);
                let failure = Failure { seed, options: options.clone(), verdict };
                failures.lock().expect("nobody panics here").push(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().expect("nobody panics here");
    Swept {
        seeds: count.into_inner(),
        messages: messages.into_inner(),
        counts: counts.into_inner().expect("nobody panics here"),
        failure: failures.into_iter().min_by_key(|failure| failure.seed),
    }
}

impl Failure {
    /// Tries smaller runs of the seed, and keeps those that still fail.
    #[must_use]
    pub fn shrink(mut self) -> Self {
        loop {
            let smaller = self.smaller().into_iter().find_map(|options| {
                let verdict = run(self.seed, &options);
                verdict.violation.is_some().then_some((options, verdict))
            });
            match smaller {
                Some((options, verdict)) => (self.options, self.verdict) = (options, verdict),
                None => return self,
            }
        }
    }

    /// The options of all runs that are smaller by one step.
    fn smaller(&self) -> Vec<Options> {
        let options = &self.options;
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
