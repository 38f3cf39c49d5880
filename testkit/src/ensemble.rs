//! A ZooKeeper ensemble of three servers, as its clients see it: a test double.
//!
//! Each member applies the committed transactions to a `zoolet_core::Core` of its own, with a lag
//! that the run chooses. A member answers reads, watches and pings from its own state. Writes and
//! `sync` go to the leader, and the member answers them when it has applied the transactions that
//! they wait for. There is no agreement protocol: one list contains the committed transactions, and
//! the leader appends to it while it has a quorum.
//!
//! - `state` is the list and the members, `leader` what appends to the list, `step` what one
//!   connection waits for.
//! - `tracker` is what the leader knows about sessions.
//! - `faults` are the lag of a member, the cut between members, and the election that follows.

mod faults;
mod leader;
mod observer;
mod state;
mod step;
mod tracker;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use fastrand::Rng;
use tokio::sync::Notify;
use zoolet_core::ConnectionId;
use zoolet_protocol::{Dial, Dialing, Disconnected, Transport};

pub use self::faults::{CutOff, Notice};
pub use self::observer::{EnsembleEvent, EnsembleObserver};
pub use self::state::{MEMBERS, State, Terms};
use crate::clock::now;

/// An ensemble of three servers that clients can connect to.
#[derive(Clone)]
pub struct Ensemble(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Notified when something changed that may change the time of the next step.
    changed: Notify,
}

impl Ensemble {
    /// An ensemble, which does nothing by itself until [`Ensemble::live`] is polled.
    #[must_use]
    pub fn new(rng: Rng, terms: Terms, observer: Arc<dyn EnsembleObserver>) -> Self {
        let state = Mutex::new(State::new(rng, terms, observer, now()));
        Self(Arc::new(Shared { state, changed: Notify::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an action, and then every step that is due.
    fn act<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let (result, wakers) = {
            let mut state = self.state();
            state.now = now();
            let result = act(&mut state);
            state.advance();
            (result, std::mem::take(&mut state.wakers))
        };
        // A woken client may lock the state at once.
        wakers.iter().for_each(std::task::Waker::wake_by_ref);
        self.0.changed.notify_one();
        result
    }

    /// Runs each step when it is due, for ever.
    pub async fn live(self) {
        loop {
            let next = self.state().next_deadline();
            tokio::select! {
                biased;
                () = self.0.changed.notified() => {}
                () = tokio::time::sleep_until(next) => self.act(|_| ()),
            }
        }
    }

    /// Reads the state.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state())
    }

    /// Changes the faults between the members.
    pub fn change_faults(&self, change: impl FnOnce(&mut State)) {
        self.act(change);
    }
}

impl Dial for Ensemble {
    fn dial(&self) -> Dialing {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let opened = self.act(|state| state.open()).ok_or_else(refused);
        let side = opened.map(|id| ClientSide { ensemble: self.clone(), id });
        let dialed = side.map(|side| -> Box<dyn Transport> { Box::new(side) });
        Box::pin(std::future::ready(dialed))
    }

    fn servers(&self) -> usize {
        MEMBERS
    }
}

/// The client's side of a connection to a member.
struct ClientSide {
    ensemble: Ensemble,
    id: ConnectionId,
}

impl Transport for ClientSide {
    fn is_local(&self) -> bool {
        true
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        self.ensemble.act(|state| state.take_in(self.id, &frame))
    }

    fn flush(&self) -> Result<(), Disconnected> {
        Ok(())
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.ensemble.state().poll_receive(self.id, context)
    }
}

impl Drop for ClientSide {
    fn drop(&mut self) {
        self.ensemble.act(|state| state.forget(self.id));
    }
}
