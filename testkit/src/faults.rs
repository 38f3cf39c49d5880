//! The faults that a test injects into a server: it expires sessions and closes connections, loses,
//! delays and corrupts what passes, freezes the server and moves its time.
//!
//! [`Faults::at`] chooses a scope: all clients, a session or a connection. The methods of [`Aim`]
//! are the faults. The effect of a method is complete when it returns: no request within the scope
//! is being carried out any more as if the fault were not there.

mod aim;
mod control;
mod decision;
mod error;
mod fault;
mod filter;
mod hits;
mod time;

pub(crate) mod rules;
pub(crate) mod scope;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zoolet_server::hooks::ResetError;

pub use self::aim::Aim;
pub(crate) use self::control::Control;
pub use self::decision::{Fate, RequestInfo};
pub use self::error::FaultError;
pub use self::fault::Fault;
pub use self::filter::RequestFilter;
pub use self::scope::Scope;
use crate::ConnectionInfo;

/// The faults that a test injects into a server. Clones act on the same server. When a server is
/// started again with the same faults, those that are set go on.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_testkit::{Faults, Observer, Scope, TestHooks};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let faults = Faults::default();
/// let hooks = TestHooks::new(&faults, &Observer::default());
/// let server = Server::builder().hooks(hooks).start().await?;
/// assert_eq!(faults.at(Scope::Server).cut()?, 0, "there is no connection");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Faults(pub(crate) Arc<Control>);

impl Faults {
    /// Chooses what the next faults apply to.
    #[must_use]
    pub fn at(&self, scope: impl Into<Scope>) -> Aim {
        Aim::new(Arc::clone(&self.0), scope.into())
    }

    /// Ends all faults, and the skew of the wall time. What they held back goes on, in its order.
    /// What was lost stays lost, and the server's clock stays where it was moved to.
    pub fn heal(&self) {
        self.0.rules().end_skew();
        self.0.lift(|_| true);
    }

    /// The open connections, in the order in which they were opened.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn connections(&self) -> Result<Vec<ConnectionInfo>, FaultError> {
        let server = self.0.running()?.server;
        let mut connections = server.connections();
        connections.retain(|connection| server.is_open(connection.id));
        Ok(connections)
    }

    /// Moves the server's clock on by `duration`, to the millisecond, and the wall time with it.
    /// When this returns, the sessions whose timeouts have passed are expired, whether they are
    /// connected or not, and, if the container check is due, so are containers and TTL znodes.
    ///
    /// The clocks of the clients stay where they are: none of their timeouts pass, and they send no
    /// pings for the skipped time. So it is as if all of them had been silent for so long. For time
    /// that passes for everyone use tokio's paused clock.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`]; [`FaultError::TooLong`].
    pub fn advance(&self, duration: Duration) -> Result<(), FaultError> {
        let server = self.0.running()?.server;
        self.0.rules().advance(duration)?;
        if !self.0.rules().is_server_frozen() {
            server.tick();
        }
        self.0.rules().changed().notify_waiters();
        Ok(())
    }

    /// Sets the wall time `ms` milliseconds apart from the machine's, in place of an earlier skew.
    /// The times in a Stat and the expiry of TTL znodes follow it; sessions do not.
    ///
    /// # Errors
    ///
    /// [`FaultError::TooLong`].
    pub fn skew_wall_time(&self, ms: i64) -> Result<(), FaultError> {
        self.0.rules().skew(ms)
    }

    /// Makes the server's state that of a new one, and ends all faults ([`Faults::heal`]): for the
    /// next test with the same server. It takes a fraction of a millisecond in memory, and with a
    /// data directory as long as two syncs.
    ///
    /// When this returns all znodes but `/zookeeper` and the built-in ones below it are gone, with
    /// quotas and access control lists, and so are all sessions. All connections are closed: a
    /// client that comes back learns that its session has expired, and opens another. No watch
    /// fires, and no recording shows it.
    ///
    /// The zxid and the ids of sessions go on, so that a client never takes the new state for the
    /// old one. The server's clock stays where it was moved to, and what was counted is kept.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`]; [`FaultError::Reset`] if the new state cannot be made durable. Then
    /// the faults stay.
    pub fn reset(&self) -> Result<(), FaultError> {
        self.0.running()?.server.reset().map_err(|error| match error {
            ResetError::ShutDown => FaultError::Stopped,
            error => FaultError::Reset(error.to_string()),
        })?;
        self.heal();
        Ok(())
    }

    /// Deletes all containers and TTL znodes now whose time has come by the wall time.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn sweep(&self) -> Result<(), FaultError> {
        self.0.running()?.server.sweep();
        Ok(())
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}
