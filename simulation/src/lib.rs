//! Simulation: a server on a simulated disk, clients over a network that fails, and the lock
//! recipes. All of it runs from one seed, on one thread and under a clock that advances only when
//! no task can run, so that a run can be repeated message by message.
//!
//! - `world` is one run: first with faults, then without, until all clients have finished.
//! - `ensemble_world` is the same with an ensemble of three servers, of which some lag or are cut
//!   off; `ensemble_judge` sees what the leader commits.
//! - `clients` are all clients of a run. `worker`, `plain` and `locks` are what each does; `log_tap`
//!   sees what the server writes.
//! - `model`, `connection` and `tree` compute what the server should send; `oracle` compares.
//!   `registers`, `exclusion` and `counter` check what clients observe.
//! - `users` is a simulation as a user of `zoolet::sim` writes it.
//! - `runner` runs many seeds, and shrinks a failing run.
//!
//! The network, the clock, the critical sections and the runner are those of `zoolet::sim`.

mod clients;
mod connection;
mod counter;
mod ensemble_judge;
mod ensemble_world;
mod exclusion;
mod locks;
mod log_tap;
mod model;
mod observer;
mod options;
mod oracle;
mod plain;
mod registers;
mod runner;
mod tree;
mod users;
mod worker;
mod world;

pub use self::options::{Bug, Options, Part};
pub use self::oracle::{Counts, Verdict};
pub use self::runner::{Failure, Swept, sweep};
pub use self::users::workers;
pub use self::world::run;
