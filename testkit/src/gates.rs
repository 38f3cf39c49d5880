//! The gates of all connections of one server.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use zoolet_core::ConnectionId;

use crate::faults::rules::RuleBook;
use crate::gate::{Gate, Running};
use crate::observe::observations::Observations;

/// The gates of all connections of one server.
pub(crate) struct Gates {
    rules: Arc<RuleBook>,
    observations: Arc<Observations>,
    gates: Mutex<BTreeMap<ConnectionId, Arc<Gate>>>,
    /// The server, once it has started.
    running: OnceLock<Running>,
}

impl Gates {
    pub(crate) fn new(rules: Arc<RuleBook>, observations: Arc<Observations>) -> Self {
        Self { rules, observations, gates: Mutex::default(), running: OnceLock::new() }
    }

    pub(crate) fn started(&self, running: Running) {
        let is_first = self.running.set(running).is_ok();
        assert!(is_first, "each server needs hooks of its own");
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        self.running.get()
    }

    pub(crate) fn rules(&self) -> &RuleBook {
        &self.rules
    }

    /// The gate of a connection, made on first use.
    pub(crate) fn gate(&self, connection: ConnectionId) -> Arc<Gate> {
        let new = || {
            let (rules, observations) = (Arc::clone(&self.rules), Arc::clone(&self.observations));
            Arc::new(Gate::new(connection, rules, observations))
        };
        Arc::clone(self.gates.lock().entry(connection).or_insert_with(new))
    }

    /// All gates, in the order of their connections.
    pub(crate) fn all(&self) -> Vec<Arc<Gate>> {
        self.gates.lock().values().cloned().collect()
    }

    /// Forgets a connection that is closed.
    pub(crate) fn remove(&self, connection: ConnectionId) {
        self.gates.lock().remove(&connection);
    }
}
