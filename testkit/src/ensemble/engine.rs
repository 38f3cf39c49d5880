//! The ensemble behind its lock, and the time that passes in it.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Waker;

use fastrand::Rng;
use parking_lot::ReentrantMutex;
use tokio::sync::Notify;
use zoolet_protocol::FrameCodec;

use super::observer::EnsembleObserver;
use super::settings::{EnsembleSettings, Law};
use super::state::State;
use crate::clock::now;

/// An ensemble of servers that clients can connect to.
#[derive(Debug, Clone)]
pub struct Ensemble(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    /// A thread that reads the state may ask for more of it meanwhile.
    state: ReentrantMutex<RefCell<State>>,
    /// Notified when something changed that may change the time of the next step.
    changed: Notify,
    /// Notified after each step, for those who wait for a state.
    stepped: Notify,
    pub(super) codec: FrameCodec,
}

impl Ensemble {
    /// An ensemble, which does nothing by itself until [`Ensemble::live`] is polled.
    #[must_use]
    pub fn new(rng: Rng, settings: EnsembleSettings, observer: Arc<dyn EnsembleObserver>) -> Self {
        Self::with_law(rng, settings.into(), observer)
    }

    pub(super) fn with_law(rng: Rng, law: Law, observer: Arc<dyn EnsembleObserver>) -> Self {
        let codec = FrameCodec::new(law.frame_bytes_max);
        let state = State::new(rng, law, observer, now());
        let state = ReentrantMutex::new(RefCell::new(state));
        let (changed, stepped) = (Notify::new(), Notify::new());
        Self(Arc::new(Shared { state, changed, stepped, codec }))
    }

    /// Changes the state, and does nothing more.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.state.lock().borrow_mut())
    }

    /// Runs an action, and then every step that is due.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let (result, wakers, closed, settled) = self.with(|state| {
            state.now = now();
            let result = act(state);
            state.advance();
            let settled: Vec<_> = match std::mem::take(&mut state.has_sent) {
                true => state.members.iter().filter_map(|member| member.hooks.clone()).collect(),
                false => Vec::new(),
            };
            let (wakers, closed) = (&mut state.wakers, &mut state.closed);
            (result, std::mem::take(wakers), std::mem::take(closed), settled)
        });
        // A woken client may lock the state at once.
        wakers.iter().for_each(Waker::wake_by_ref);
        for (hooks, connection) in closed {
            hooks.closed(connection);
        }
        settled.iter().for_each(|hooks| hooks.settled());
        self.0.changed.notify_one();
        self.0.stepped.notify_waiters();
        result
    }

    /// Runs every step that is due, then an action, and then what follows from it at once.
    pub(super) fn control<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        self.act(|state| {
            state.advance();
            act(state)
        })
    }

    /// Runs each step when it is due, for ever.
    pub async fn live(self) {
        loop {
            let next = self.inspect(State::next_deadline);
            tokio::select! {
                biased;
                () = self.0.changed.notified() => {}
                () = tokio::time::sleep_until(next) => self.act(|_| ()),
            }
        }
    }

    /// Reads the state.
    pub fn inspect<T>(&self, inspect: impl FnOnce(&State) -> T) -> T {
        inspect(&self.0.state.lock().borrow())
    }

    /// Changes the faults between the members.
    pub fn change_faults(&self, change: impl FnOnce(&mut State)) {
        self.act(change);
    }

    /// Waits until a state is reached; looks after each step.
    pub(super) async fn until(&self, mut is_so: impl FnMut() -> bool) {
        loop {
            let stepped = self.0.stepped.notified();
            tokio::pin!(stepped);
            stepped.as_mut().enable();
            if is_so() {
                return;
            }
            stepped.await;
        }
    }

    /// Whether it was stopped for good.
    pub(super) fn is_over(&self) -> bool {
        self.inspect(|state| state.is_over)
    }
}
