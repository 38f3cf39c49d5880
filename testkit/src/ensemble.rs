//! A ZooKeeper ensemble as its clients see it: a test double.
//!
//! Each server applies the committed transactions to a `zoolet_core::Core` of its own, with a lag
//! that the test chooses. A server answers reads, watches and pings from its own state. Writes and
//! `sync` go to the leader, and the server answers them when it has applied the transactions that
//! they wait for. There is no agreement protocol: one list contains the committed transactions, and
//! the leader appends to it while it has a quorum.
//!
//! - `test_ensemble` is what a test uses: [`TestEnsemble`] and its `builder`; `server` is one of its
//!   servers. All handles share what is `running`.
//! - `engine` has the lock around `state`, which is the list (`log`) and the members. `leader` appends
//!   to the list, `connection` is one client's, `connections` opens and ends them, `requests` takes in
//!   what clients send, and `step` is what a connection waits for.
//! - `tracker` is what the leader knows about sessions.
//! - `links` tell which servers hear of each other, and whom they elect; `faults` change that, and
//!   `lag` is how far a server is behind.
//! - `transport` and `tcp` carry frames, `hooked` lets the faults of a test take effect, and `words`
//!   answers four-letter words.

mod builder;
mod connection;
mod connections;
mod engine;
mod error;
mod faults;
mod hooked;
mod lag;
mod leader;
mod links;
mod log;
mod observer;
mod requests;
mod running;
mod server;
mod settings;
mod state;
mod step;
mod tcp;
mod test_ensemble;
mod tracker;
mod transport;
mod words;

pub use self::builder::TestEnsembleBuilder;
pub use self::engine::Ensemble;
pub use self::error::TestEnsembleError;
pub use self::faults::{CutOff, Notice};
pub use self::observer::{EnsembleEvent, EnsembleObserver};
pub use self::server::{EnsembleServer, ServerRole};
pub use self::settings::{EnsembleSettings, MEMBERS};
pub use self::state::State;
pub use self::test_ensemble::TestEnsemble;
pub use self::transport::EnsembleDialer;
