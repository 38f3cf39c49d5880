//! An ensemble that runs in the process of a test: its state, its servers and its tasks.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use zoolet_core::{Core, Txn};
use zoolet_server::hooks::{HookedServer, Hooks};

use super::engine::Ensemble;
use super::hooked::HookedMember;
use super::observer::{EnsembleEvent, EnsembleObserver};
use super::state::State;
use crate::faults::Faults;
use crate::hooks::TestHooks;
use crate::limits::RECORDED_MESSAGES_MAX;
use crate::observe::Observer;

/// An ensemble that runs, as all handles of it share it. It ends when the last one is dropped.
pub(super) struct Running {
    pub(super) engine: Ensemble,
    pub(super) servers: Vec<Parts>,
    pub(super) history: Arc<History>,
    /// The server with which the next dialer begins.
    pub(super) next_first: AtomicUsize,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

/// What belongs to one server.
pub(super) struct Parts {
    pub(super) faults: Faults,
    pub(super) observer: Observer,
    pub(super) address: Option<SocketAddr>,
    hooks: Arc<TestHooks>,
    _hooked: Arc<dyn HookedServer>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.servers.iter().for_each(|server| server.hooks.stopping());
        self.engine.act(State::end);
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What has happened.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<Vec<EnsembleEvent>>);

impl History {
    /// What has happened so far, in order.
    pub(super) fn events(&self) -> Vec<EnsembleEvent> {
        self.0.lock().clone()
    }
}

impl EnsembleObserver for History {
    fn happened(&self, event: EnsembleEvent) {
        let mut events = self.0.lock();
        if events.len() < RECORDED_MESSAGES_MAX {
            events.push(event);
        }
    }

    fn committing(&self, _txn: &Txn, _before: &Core) {}
}

impl Parts {
    pub(super) fn new(engine: &Ensemble, index: usize) -> Self {
        let (faults, observer) = (Faults::default(), Observer::default());
        let hooks = TestHooks::new(&faults, &observer);
        let hooked: Arc<dyn HookedServer> =
            Arc::new(HookedMember { ensemble: engine.clone(), index });
        hooks.started(Arc::downgrade(&hooked));
        engine.act(|state| state.members[index].hooks = Some(Arc::clone(&hooks) as _));
        Self { faults, observer, address: None, hooks, _hooked: hooked }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leader = self.engine.inspect(|state| state.leader);
        f.debug_struct("TestEnsemble")
            .field("servers", &self.servers.len())
            .field("leader", &leader)
            .finish_non_exhaustive()
    }
}
