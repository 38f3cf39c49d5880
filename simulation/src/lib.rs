//! Simulation: a server on a simulated disk, clients over a network that fails, and the lock recipes, all
//! of it from one seed and on one thread, under a clock that stands still while something is to be done.
//! So a run can be repeated message by message.
//!
//! - `world` is one run: trouble first, then calm, in which all must come to its end.
//! - `ensemble_world` is the same with an `ensemble` of three servers, of which some lag or are cut off.
//! - `clients` are all clients of a run. `worker`, `plain` and `locks` are what each does; `network` and `log_tap` carry it.
//! - `model`, `connection` and `tree` say what the server should send; `oracle` compares. `registers`, `exclusion`
//!   and `counter` judge what clients see.
//! - `runner` runs many seeds, and makes a failing run smaller.

mod clients;
mod connection;
mod counter;
mod ensemble;
mod ensemble_world;
mod exclusion;
mod locks;
mod log_tap;
mod model;
mod network;
mod observer;
mod options;
mod oracle;
mod plain;
mod registers;
mod runner;
mod tree;
mod worker;
mod world;

pub use self::options::{Bug, Options, Part};
pub use self::oracle::{Counts, Verdict};
pub use self::runner::{Failure, Swept, sweep};
pub use self::world::run;
