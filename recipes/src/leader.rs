//! Curator's recipes for leader election.

pub(crate) mod election;
pub(crate) mod latch;
pub(crate) mod selector;

pub use self::election::{ErrorPolicy, Participant, Term};
pub use self::latch::{LeaderLatch, LeaderLatchBuilder};
pub use self::selector::{LeaderSelector, LeaderSelectorBuilder, Requeue};
