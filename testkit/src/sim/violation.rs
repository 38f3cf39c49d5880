//! What can be wrong with a run.

use std::fmt;

/// Which check a run violates.
///
/// ```
/// use zoolet_testkit::sim::ViolationKind;
///
/// let kind = ViolationKind::Exclusion("stock".to_owned());
/// assert_eq!(kind.to_string(), "exclusion of \"stock\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViolationKind {
    /// More machines than may be were in the section of this name at the same time, or the fencing
    /// tokens of its holders did not increase.
    Exclusion(String),
    /// The znode at this path was not as its invariant says, or the invariant panicked.
    Invariant(String),
    /// A machine of this kind panicked.
    Panic(String),
    /// A machine of this kind returned an error that no fault explains.
    Error(String),
    /// A machine of this kind had no whole round when the faults were over.
    Unfinished(String),
    /// A machine of this kind waited though nobody was in a section, and went on when it was started
    /// again, or tried in vain in all of its rounds:
    /// [`Sim::nobody_waits_in_vain`](super::Sim::nobody_waits_in_vain).
    WaitsInVain(String),
    /// A machine of this kind said so: [`World::fail`](super::World::fail).
    Failed(String),
    /// What prepares the run failed: [`Sim::setup`](super::Sim::setup).
    Setup,
    /// The check at the end failed: [`Sim::at_end`](super::Sim::at_end).
    End,
    /// Nothing was run, because the simulation or the schedule cannot be: there is no machine, or a
    /// fault that the seed does not give.
    Refused,
    /// The runs of all seeds passed, and none had a znode at the path of an invariant.
    Untested,
    /// Two runs of a seed differ, so that a failure cannot be repeated.
    Unrepeatable,
    /// The server did not start or did not answer: a defect of zoolet.
    Server,
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusion(section) => write!(f, "exclusion of {section:?}"),
            Self::Invariant(path) => write!(f, "invariant of {path}"),
            Self::Panic(machine) => write!(f, "{machine} panics"),
            Self::Error(machine) => write!(f, "{machine} fails"),
            Self::Unfinished(machine) => write!(f, "{machine} does not finish"),
            Self::WaitsInVain(machine) => write!(f, "{machine} waits in vain"),
            Self::Failed(machine) => write!(f, "{machine} reports a failure"),
            Self::Setup => f.write_str("setup"),
            Self::End => f.write_str("check at the end"),
            Self::Refused => f.write_str("nothing was run"),
            Self::Untested => f.write_str("nothing was tested"),
            Self::Unrepeatable => f.write_str("does not repeat"),
            Self::Server => f.write_str("server"),
        }
    }
}

/// The first violation of a run.
///
/// ```
/// use zoolet_testkit::sim::Sim;
///
/// let sim = Sim::new().machine("worker", 1, |world| async move {
///     world.fail("it is broken");
///     Ok(())
/// });
/// let violation = sim.run(7).violation.expect("the machine fails");
/// assert_eq!(violation.text, "worker-0: it is broken");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The check that it violates.
    pub kind: ViolationKind,
    /// What was wrong.
    pub text: String,
    /// When, in milliseconds since the start of the run.
    pub ms: u64,
}

/// A text in one line: a story has one for each event.
pub(super) fn one_line(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, at {} ms)", self.text, self.kind, self.ms)
    }
}
