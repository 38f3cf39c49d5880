//! What a test observes of a server: the requests and watches of each client, and the exact trace
//! of a run.
//!
//! - [`Observer`] answers the queries of a test from what `observations` has counted.
//! - [`Stats`] are the numbers, by session and by path.
//! - [`WatchGraph`] shows which session watches which path.
//! - [`Recorder`] keeps what passes; `script` writes it as a golden script, of `command`s and the
//!   [`Trace`] of what came back. `words` are the words of such a script.

mod command;
mod graph;
mod observer;
mod recorder;
mod script;
mod stats;
mod trace;

pub(crate) mod observations;
pub(crate) mod recording;
pub mod words;

pub use self::graph::{Contender, WatchGraph, WatchedPath, Watcher};
pub use self::observer::Observer;
pub use self::recorder::Recorder;
pub use self::stats::{PathStats, Requests, SessionStats, Stats};
pub use self::trace::{Trace, hex};
