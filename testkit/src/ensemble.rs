//! A ZooKeeper ensemble as its clients see it: a test double.
//!
//! Each server applies the committed transactions to a `zoolet_core::Core` of its own, with a lag
//! that the test chooses. A server answers reads, watches and pings from its own state. Writes and
//! `sync` go to the leader, and the server answers them when it has applied the transactions that
//! they wait for. There is no agreement protocol: one list contains the committed transactions, and
//! the leader appends to it while it has a quorum.
//!
//! - `test_ensemble` is what a test uses: [`TestEnsemble`] and its `builder`; `server` is one of its
//!   servers.
//! - `engine` has the lock around `state`, which is the list and the members. `leader` appends to the
//!   list, `connection` is one client's, and `step` what a connection waits for.
//! - `tracker` is what the leader knows about sessions.
//! - `links` tell which servers hear of each other, and whom they elect; `faults` change that.
//! - `transport` and `tcp` carry frames, `hooked` lets the faults of a test take effect, and `words`
//!   answers four-letter words.

mod builder;
mod connection;
mod engine;
mod error;
mod faults;
mod hooked;
mod leader;
mod links;
mod observer;
mod server;
mod state;
mod step;
mod tcp;
mod terms;
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
pub use self::state::State;
pub use self::terms::{MEMBERS, Terms};
pub use self::test_ensemble::TestEnsemble;
pub use self::transport::EnsembleDialer;
