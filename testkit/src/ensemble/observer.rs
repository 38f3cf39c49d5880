//! What an ensemble tells about itself while it runs.

use std::fmt;

use zoolet_core::{Core, Txn};
use zoolet_protocol::SessionId;

/// What happens between the servers of an ensemble. Servers are counted from 0.
///
/// ```
/// use zoolet_testkit::{EnsembleEvent, TestEnsemble};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ensemble = TestEnsemble::start().await?;
/// ensemble.server(2).cut_off();
/// assert_eq!(ensemble.events(), [EnsembleEvent::FollowerCutOff(2)]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnsembleEvent {
    /// The leader is cut off from its followers.
    LeaderCutOff(usize),
    /// A follower is cut off from the leader.
    FollowerCutOff(usize),
    /// A server has given its leader up, or its leadership, and serves no client.
    LooksForLeader(usize),
    /// A server was elected.
    Leads(usize),
    /// The process of a server has ended.
    Stopped(usize),
    /// The leader ends a session whose timeout has passed.
    SessionExpired(SessionId),
    /// A server closed the connection of a client that has seen more than the server.
    ClientAhead(usize),
}

impl fmt::Display for EnsembleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaderCutOff(server) => write!(f, "leader {server} is cut off"),
            Self::FollowerCutOff(server) => write!(f, "follower {server} is cut off"),
            Self::LooksForLeader(server) => write!(f, "server {server} looks for a leader"),
            Self::Leads(server) => write!(f, "server {server} leads"),
            Self::Stopped(server) => write!(f, "server {server} stops"),
            Self::SessionExpired(session) => write!(f, "session {session} expires"),
            Self::ClientAhead(server) => {
                write!(f, "server {server} refuses a client that is ahead")
            }
        }
    }
}

/// Follows an ensemble. Its methods run under the lock of the ensemble, and must not call it back.
pub trait EnsembleObserver: fmt::Debug + Send + Sync {
    /// Something has happened.
    fn happened(&self, event: EnsembleEvent);

    /// A transaction is about to be committed. `before` is the state after all those before it.
    fn committing(&self, txn: &Txn, before: &Core);
}
