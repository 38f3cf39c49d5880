//! Random operations from a seed, sent to two servers side by side.
//!
//! Several sessions work on a few names, so that their operations collide. After each step
//! everything that each session received is compared: replies, Stats, errors, events, their order;
//! zxids are counted from the begin of a seed, sessions named, and times left out, as in the
//! traces of [`crate::script`].
//!
//! What is known to differ between versions of ZooKeeper is in the table [`differences::KNOWN`],
//! and nowhere else.

pub mod differences;
mod generate;
mod side;

use std::fmt;
use std::io;
use std::ops::Range;

use self::generate::{Generator, Step};
use self::side::{Heard, Side};
use crate::target::Target;

/// How many sessions take part.
const SLOTS: usize = 4;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which seeds.
    pub seeds: Range<u64>,
    /// How many steps all seeds have together.
    pub operations: u64,
    /// Whether every step is printed.
    pub is_verbose: bool,
    /// Whether our server must give each event the zxid of its cause, as the newest ZooKeeper does
    /// and the reference at hand does not.
    pub has_event_zxids: bool,
}

/// What was run without a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// How many seeds.
    pub seeds: u64,
    /// How many steps.
    pub steps: u64,
    /// How many requests; a step may be several.
    pub requests: u64,
    /// How many events were heard of.
    pub events: u64,
}

/// The two servers did not do the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In which seed.
    pub seed: u64,
    /// In which step of the seed.
    pub step: u64,
    /// What was done.
    pub operation: String,
    /// What our server said.
    pub ours: String,
    /// What the other said.
    pub theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, operation, ours, theirs } = self;
        let steps = step + 1;
        let end = seed + 1;
        write!(
            f,
            "seed {seed}, operation {step}: {operation}\n\
             ours:\n{ours}reference:\n{theirs}\
             again: cargo run -p zoolet-conformance -- differential \
             --seeds {seed}..{end} --operations {steps} --verbose"
        )
    }
}

/// What ended a run.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The servers differ.
    #[error("{0}")]
    Differs(Box<Difference>),
    /// A server could not be reached.
    #[error(transparent)]
    Unreachable(#[from] io::Error),
}

/// Runs a plan against our server and a reference.
///
/// # Errors
///
/// [`Fault`] at the first difference.
pub fn run(plan: &Plan, ours: &dyn Target, reference: &dyn Target) -> Result<Agreement, Fault> {
    let seeds = plan.seeds.end.saturating_sub(plan.seeds.start).max(1);
    let (each, rest) = (plan.operations / seeds, plan.operations % seeds);
    let mut agreement = Agreement::default();
    for seed in plan.seeds.clone() {
        let steps = each + u64::from(seed - plan.seeds.start < rest);
        run_seed(seed, steps, plan, [ours, reference], &mut agreement)?;
        agreement.seeds += 1;
    }
    Ok(agreement)
}

fn run_seed(
    seed: u64,
    steps: u64,
    plan: &Plan,
    targets: [&dyn Target; 2],
    agreement: &mut Agreement,
) -> Result<(), Fault> {
    let mut generator = Generator::new(seed);
    let mut sides = [Side::new(targets[0], plan.has_event_zxids)?, Side::new(targets[1], false)?];
    let mut outcome = Ok(());
    for index in 0..steps {
        let step = generator.next_step();
        let [ours, theirs] = [sides[0].take(&step)?, sides[1].take(&step)?];
        if plan.is_verbose {
            println!("{seed}/{index} {step}\n{ours}");
        }
        if ours != theirs {
            outcome = Err(Fault::Differs(Box::new(difference(seed, index, &step, &ours, &theirs))));
            break;
        }
        generator.heed(&ours.open);
        agreement.steps += 1;
        agreement.requests += step.requests();
        agreement.events += ours.events;
    }
    for side in &mut sides {
        side.clean()?;
    }
    outcome
}

fn difference(seed: u64, step: u64, done: &Step, ours: &Heard, theirs: &Heard) -> Difference {
    Difference {
        seed,
        step,
        operation: done.to_string(),
        ours: ours.to_string(),
        theirs: theirs.to_string(),
    }
}
