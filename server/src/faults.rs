//! What a test does to a server: it ends sessions and connections, loses, delays and falsifies what
//! passes, stops the server and moves its time.
//!
//! [`Faults`] is given to [`Builder::faults`](crate::Builder::faults) and stays with whoever tests; a
//! server that is started again with it goes on with the same faults. [`Faults::at`] aims at
//! everything, at a session or at a connection, and the methods of [`Aim`] are the faults.
//!
//! What a method says holds when it returns: no request is being carried out then that it concerns.

mod aim;
mod error;
mod scope;
mod time;

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub use self::aim::Aim;
pub use self::error::FaultError;
pub use self::scope::{ConnectionInfo, Scope};
pub(crate) use self::time::TimeShift;
use crate::engine::Engine;

/// What a test does to a server. Clones do the same to the same server.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_server::faults::{Faults, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let faults = Faults::default();
/// let server = Server::builder().faults(&faults).start().await?;
/// assert_eq!(faults.at(Scope::Server).cut()?, 0, "nobody is connected");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The server that runs with these faults, if one does.
    engine: Mutex<Weak<Engine>>,
    time: TimeShift,
}

impl Faults {
    /// Faults for whom `scope` says.
    #[must_use]
    pub fn at(&self, scope: impl Into<Scope>) -> Aim {
        Aim::new(self.clone(), scope.into())
    }

    /// The connections that there are, in the order in which they came.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn connections(&self) -> Result<Vec<ConnectionInfo>, FaultError> {
        let peers = self.engine()?.registry.peers();
        Ok(peers.iter().map(|peer| ConnectionInfo::of(peer)).collect())
    }

    /// A server runs with these faults from now on.
    pub(crate) fn attach(&self, engine: &Arc<Engine>) {
        *self.0.engine.lock() = Arc::downgrade(engine);
    }

    pub(crate) fn time(&self) -> TimeShift {
        self.0.time.clone()
    }

    fn engine(&self) -> Result<Arc<Engine>, FaultError> {
        let engine = self.0.engine.lock().upgrade();
        engine.filter(|engine| !engine.is_shut_down()).ok_or(FaultError::Stopped)
    }
}
