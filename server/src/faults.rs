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
mod fault;
mod filter;
mod gate;
mod rules;
mod scope;
mod time;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;
use zoolet_core::ConnectionId;

pub use self::aim::Aim;
pub use self::error::FaultError;
pub use self::fault::Fault;
pub use self::filter::RequestFilter;
pub(crate) use self::gate::{Admitted, Gate, Stamp, receive};
use self::rules::{Action, Rule, Rules};
pub use self::scope::{ConnectionInfo, Scope};
pub(crate) use self::time::TimeShift;
use crate::engine::lock::Engine;
use crate::engine::ticker;

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
    /// Where that server was started.
    runtime: Mutex<Option<Handle>>,
    rules: Mutex<Rules>,
    /// Whether there are any. Looked at for every frame.
    is_active: AtomicBool,
    /// Held while faults are lifted.
    lifting: Mutex<()>,
    changed: Notify,
    time: TimeShift,
}

impl Faults {
    /// Faults for whom `scope` says.
    #[must_use]
    pub fn at(&self, scope: impl Into<Scope>) -> Aim {
        Aim::new(self.clone(), scope.into())
    }

    /// Ends all faults, and the skew of the wall time. What they held goes on its way, in its order.
    /// What was lost stays lost, and the server's clock where it was moved to.
    pub fn heal(&self) {
        self.0.time.put_right();
        self.lift(|_| true);
    }

    /// The connections that there are, in the order in which they came.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn connections(&self) -> Result<Vec<ConnectionInfo>, FaultError> {
        let mut peers = self.engine()?.registry.peers();
        // One that was cut may still be there, with what waits in it.
        peers.retain(|peer| peer.outbox.is_open());
        Ok(peers.iter().map(|peer| ConnectionInfo::of(peer)).collect())
    }

    /// Moves the server's clock on, to the millisecond, and the wall time with it. Before this returns,
    /// sessions that were not heard of for their timeouts have expired, whether they are connected or
    /// not, and, if it is time to look at them, containers and TTL znodes are gone whose time has come.
    ///
    /// The clocks of clients stay where they are: none of their timeouts pass, and they send no pings
    /// for the time that is skipped. So it is as if all of them had been silent for so long. For time
    /// that passes for everyone use tokio's paused clock.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`]; [`FaultError::TooLong`].
    pub fn advance(&self, duration: Duration) -> Result<(), FaultError> {
        let engine = self.engine()?;
        self.0.time.advance(duration)?;
        if !self.is_stopped() {
            ticker::tick_now(&engine);
        }
        self.0.changed.notify_waiters();
        Ok(())
    }

    /// Lets the wall time, that of a Stat and of TTL znodes, differ by so many milliseconds, as a
    /// clock that was set does, in place of any difference that there was. Sessions do not mind.
    ///
    /// # Errors
    ///
    /// [`FaultError::TooLong`].
    pub fn skew_wall_time(&self, ms: i64) -> Result<(), FaultError> {
        self.0.time.skew(ms)
    }

    /// Deletes the containers and TTL znodes now whose time has come by the wall time, all of them.
    ///
    /// # Errors
    ///
    /// [`FaultError::Stopped`].
    pub fn sweep(&self) -> Result<(), FaultError> {
        self.engine()?.sweep(usize::MAX);
        Ok(())
    }

    /// A server runs with these faults from now on.
    pub(crate) fn attach(&self, engine: &Arc<Engine>) {
        *self.0.engine.lock() = Arc::downgrade(engine);
        *self.0.runtime.lock() = Some(Handle::current());
    }

    /// A server ends, and with it what was done to its process and its connections: what waits never
    /// comes, and what was held back never leaves.
    pub(crate) fn detach(&self, engine: &Engine) {
        if !std::ptr::eq(self.0.engine.lock().as_ptr(), engine) {
            return;
        }
        let mut cut = engine.registry.peers();
        cut.retain(|peer| peer.outbox.gate().is_shut());
        let mut rules = self.rules();
        let held = rules.take_held();
        rules.remove(|rule| match rule.scope {
            Scope::Server => matches!(rule.action, Action::Freeze),
            Scope::Session(_) => false,
            Scope::Connection(_) => true,
        });
        drop(rules);
        self.note();
        for connection in held {
            connection.peer.outbox.gate().forget();
        }
        cut.iter().for_each(|peer| peer.outbox.cut());
        self.0.changed.notify_waiters();
    }

    pub(crate) fn time(&self) -> TimeShift {
        self.0.time.clone()
    }

    /// Ready when a fault was lifted or time was moved after this was called.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.0.changed.notified()
    }

    /// Whether new connections are turned away.
    pub(crate) fn refuse(&self) -> bool {
        self.is_active() && self.rules().refuses_all()
    }

    /// Whether the server stands still.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_active() && self.rules().is_stopped(|_| true)
    }

    fn is_active(&self) -> bool {
        self.0.is_active.load(Ordering::Acquire)
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.0.rules.lock()
    }

    /// Notes whether there are faults.
    fn note(&self) {
        let rules = self.rules();
        self.0.is_active.store(!rules.is_empty(), Ordering::Release);
    }

    fn engine(&self) -> Result<Arc<Engine>, FaultError> {
        let engine = self.0.engine.lock().upgrade();
        engine.filter(|engine| !engine.is_shut_down()).ok_or(FaultError::Stopped)
    }

    /// Looks at what waits for a client again, at some time.
    fn wake_at(&self, due: Instant, connection: ConnectionId) {
        let Some(runtime) = self.0.runtime.lock().clone() else { return };
        let faults = self.clone();
        runtime.spawn(async move {
            tokio::time::sleep_until(due).await;
            let engine = faults.0.engine.lock().upgrade();
            if let Some(peer) = engine.and_then(|engine| engine.registry.peer(connection)) {
                peer.outbox.wake();
            }
        });
    }

    /// Ends faults, and lets go on what they held.
    fn lift(&self, is_lifted: impl Fn(&Rule) -> bool) {
        let _one_by_one = self.0.lifting.lock();
        let engine = self.0.engine.lock().upgrade();
        let goes_on = self.is_stopped() && !self.rules().is_stopped(|rule| !is_lifted(rule));
        if goes_on && let Some(engine) = &engine {
            // Whose time ran out is not saved by what it has sent meanwhile.
            ticker::tick_now(engine);
        }
        let mut rules = self.rules();
        let lifted = rules.remove(is_lifted);
        let held = rules.take_held();
        drop(rules);
        self.note();
        held.iter().for_each(gate::let_in);
        for peer in engine.iter().flat_map(|engine| engine.registry.peers()) {
            let is_hurried = |rule: &Rule| {
                matches!(rule.action, Action::Delay(_)) && rule.covers(peer.outbox.gate().whom())
            };
            if lifted.iter().any(is_hurried) {
                peer.outbox.hurry();
            }
            peer.outbox.wake();
        }
        self.0.changed.notify_waiters();
    }
}
