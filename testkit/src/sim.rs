//! Runs programs that use ZooKeeper in a simulated world: many machines, a server with its disk, a
//! network and clocks, in which everything may go wrong, all from one seed.
//!
//! - [`Sim`] is a simulation: machines with their programs, the faults, the checks. [`Sim::sweep`]
//!   runs it for many seeds.
//! - [`World`] is what a program sees.
//! - [`Failure`] is a run that fails, made as small as possible.
//!
//! All of a run is on one thread, under a clock that advances only when no task can run.

mod builder;
mod connection;
mod driver;
mod ensemble_host;
mod failure;
mod fault;
mod gate;
mod hash;
mod hooks;
mod host;
mod html;
mod injector;
mod invariants;
mod last_rounds;
mod link_faults;
mod machine;
mod network;
mod outcome;
mod page;
mod plan;
mod play;
mod program;
mod record;
mod report;
mod request_text;
mod rounds;
mod run;
mod schedule;
mod sections;
mod server_host;
mod servers;
mod smaller;
mod story;
mod supervisor;
mod sweep;
mod tap;
mod tested;
mod timeline;
mod trial;
mod violation;
mod warnings;
mod watchdog;
mod world;
mod znode;

/// The parts of the simulator, for the simulation of zoolet itself.
#[doc(hidden)]
pub mod parts {
    pub use super::network::{Link, Network};
    pub use super::play::{Played, play};
    pub use super::sections::{Access, Conflict, Sections, Wrong};
    pub use super::sweep::{Swept, shrink, sweep, without_a_piece};
    pub use super::tap::{ConnectionNumber, Tap};
}

pub use self::builder::{RunResult, Sim};
pub use self::failure::Failure;
pub use self::fault::FaultKind;
pub use self::program::MachineResult;
pub use self::schedule::Schedule;
pub use self::sections::{Held, Section};
pub use self::violation::{Violation, ViolationKind};
pub use self::world::World;
