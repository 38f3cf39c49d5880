//! Servers for tests, the faults that a test injects, and what it observes.
//!
//! The crate `zoolet` re-exports everything here as `zoolet::testing`, whose docs are the guide.
//!
//! - [`TestServer`] is a server in this process that a test restarts, crashes and interferes with.
//! - [`Faults`] expire sessions, and lose, delay, refuse and corrupt requests and replies.
//! - [`Observer`] counts requests, events and watches, draws the graph of watches, and records the
//!   trace of a run.
//! - [`TestHooks`] connect the last two with any server, through [`zoolet_server::hooks`]. Nothing
//!   in the server depends on this crate.

mod clock;
#[doc(hidden)]
pub mod ensemble;
mod faults;
mod gate;
mod gates;
mod hooks;
mod limits;
mod observe;
mod request_paths;
mod server;
pub mod sim;

pub use zoolet_core::ConnectionId;
pub use zoolet_server::hooks::ConnectionInfo;

pub use self::ensemble::{
    EnsembleDialer, EnsembleEvent, EnsembleServer, ServerRole, TestEnsemble, TestEnsembleBuilder,
    TestEnsembleError,
};
pub use self::faults::{Aim, Fate, Fault, FaultError, Faults, RequestFilter, RequestInfo, Scope};
pub use self::hooks::TestHooks;
#[doc(hidden)]
pub use self::observe::words as script_words;
pub use self::observe::{
    Contender, Observer, PathStats, Recorder, Requests, SessionStats, Stats, Trace, WatchGraph,
    WatchedPath, Watcher, hex,
};
pub use self::server::{TestDialer, TestServer, TestServerBuilder, TestServerError};
