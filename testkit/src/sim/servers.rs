//! Which servers a simulation has.

/// What serves the machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Servers {
    /// One, with a disk.
    One,
    /// An ensemble of three, in memory.
    Ensemble,
}
