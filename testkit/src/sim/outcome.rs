//! The result of one run.

use super::fault::Planned;
use super::record::Entry;
use super::tested::Tested;
use super::violation::{Violation, ViolationKind};

/// The result of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) hash: u64,
    pub(super) messages: u64,
    pub(super) violation: Option<Violation>,
    pub(super) entries: Vec<Entry>,
    /// The faults of the schedule, with those that were left out.
    pub(super) planned: Vec<Planned>,
    pub(super) rounds: u32,
    pub(super) names: Vec<String>,
    pub(super) tested: Tested,
}

impl Outcome {
    /// Nothing was run, since it cannot be.
    pub(super) fn refused(text: String) -> Self {
        let violation = Some(Violation { kind: ViolationKind::Refused, text, ms: 0 });
        Self { violation, ..Self::default() }
    }

    pub(super) fn is_refused(&self) -> bool {
        self.violation.as_ref().is_some_and(|it| it.kind == ViolationKind::Refused)
    }
}
