//! Random operations from a seed, sent to two servers side by side.
//!
//! Several sessions use a few names, so that their operations collide. After each step everything
//! that each session received is compared: replies, Stats, errors, events and their order. As in
//! the traces of [`crate::script`], zxids are counted from the start of a seed, sessions have
//! names, and times are left out.
//!
//! The table [`differences::KNOWN`] has all known differences between versions of ZooKeeper.

pub mod differences;
mod generate;
mod side;

use std::fmt;
use std::io;
use std::ops::Range;

use self::generate::{Generator, Step};
use self::side::{Received, Side};
use crate::target::Target;

/// The number of sessions.
const SLOTS: usize = 4;

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seeds.
    pub seeds: Range<u64>,
    /// The number of steps of all seeds together.
    pub operations: u64,
    /// Whether odd seeds have quotas, which both servers must enforce. Our server carries out short writes
    /// together only if it enforces none.
    pub has_quotas: bool,
    /// Whether to print every step.
    pub is_verbose: bool,
    /// Whether our server must send each event with the zxid of the transaction that fired it, as
    /// ZooKeeper does since 3.9. The reference is older.
    pub has_event_zxids: bool,
}

/// The result of a run without a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// The number of seeds.
    pub seeds: u64,
    /// The number of steps.
    pub steps: u64,
    /// The number of requests. A step may have several.
    pub requests: u64,
    /// The number of events that clients received.
    pub events: u64,
}

/// The first step that gave different results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The seed.
    pub seed: u64,
    /// The step within the seed.
    pub step: u64,
    /// Whether the plan had quotas.
    pub has_quotas: bool,
    /// The operation.
    pub operation: String,
    /// What clients received from our server.
    pub ours: String,
    /// What clients received from the reference.
    pub theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, has_quotas, operation, ours, theirs } = self;
        let steps = step + 1;
        let end = seed + 1;
        let quotas = if *has_quotas { "" } else { " --without-quotas" };
        write!(
            f,
            "seed {seed}, operation {step}: {operation}\n\
             ours:\n{ours}reference:\n{theirs}\
             again: cargo run -p zoolet-conformance -- differential \
             --seeds {seed}..{end} --operations {steps}{quotas} --verbose"
        )
    }
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
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
/// [`RunError`] at the first difference, or if a server cannot be reached.
pub fn run(plan: &Plan, ours: &dyn Target, reference: &dyn Target) -> Result<Agreement, RunError> {
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
) -> Result<(), RunError> {
    let mut generator = Generator::new(seed, plan.has_quotas);
    let mut sides = [Side::new(targets[0], plan.has_event_zxids)?, Side::new(targets[1], false)?];
    let mut outcome = Ok(());
    for index in 0..steps {
        let step = generator.next_step();
        let [ours, theirs] = [sides[0].take(&step)?, sides[1].take(&step)?];
        if plan.is_verbose {
            println!("{seed}/{index} {step}\n{ours}");
        }
        if ours != theirs {
            outcome = Err(RunError::Differs(Box::new(difference(
                (seed, index),
                plan,
                &step,
                [&ours, &theirs],
            ))));
            break;
        }
        generator.note_closed(&ours.open);
        agreement.steps += 1;
        agreement.requests += step.requests();
        agreement.events += ours.events;
    }
    for side in &mut sides {
        side.clean()?;
    }
    outcome
}

fn difference(
    (seed, step): (u64, u64),
    plan: &Plan,
    done: &Step,
    [ours, theirs]: [&Received; 2],
) -> Difference {
    Difference {
        seed,
        step,
        has_quotas: plan.has_quotas,
        operation: done.to_string(),
        ours: ours.to_string(),
        theirs: theirs.to_string(),
    }
}
