//! The rules of a test, and the server that they apply to.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use zoolet_server::hooks::HookedServer;

use super::rules::{Action, Rule, RuleBook};
use super::{FaultError, Scope};
use crate::gates::Gates;

/// The rules of a test, and the server that they apply to.
#[derive(Default)]
pub(crate) struct Control {
    rules: Arc<RuleBook>,
    /// The gates of the server that was started last.
    gates: Mutex<Weak<Gates>>,
    /// Locked while faults are lifted.
    lifting: Mutex<()>,
}

/// A running server and its gates.
pub(crate) struct Target {
    pub(crate) server: Arc<dyn HookedServer>,
    pub(crate) gates: Arc<Gates>,
}

impl Control {
    pub(crate) fn rules(&self) -> &Arc<RuleBook> {
        &self.rules
    }

    /// A server has started.
    pub(crate) fn started(&self, gates: &Arc<Gates>) {
        *self.gates.lock() = Arc::downgrade(gates);
    }

    /// A server stops, and with it the faults of its process and of its connections: frames that
    /// wait never come in, and messages that were held back never leave.
    pub(crate) fn stopping(&self, gates: &Gates) {
        if !std::ptr::eq(self.gates.lock().as_ptr(), gates) {
            return;
        }
        let Some(target) = self.target() else { return };
        let mut held = target.server.connections();
        held.retain(|connection| gates.gate(connection.id).is_held());
        self.rules.with(|rules| {
            rules.remove(|rule| match rule.scope {
                Scope::Server => matches!(rule.action, Action::Freeze),
                Scope::Session(_) => false,
                Scope::Connection(_) => true,
            });
        });
        gates.all().iter().for_each(|gate| gate.discard_frames());
        held.iter().for_each(|connection| target.server.cut(connection.id));
        self.rules.changed().notify_waiters();
    }

    /// The server, if it runs.
    pub(crate) fn running(&self) -> Result<Target, FaultError> {
        let running = self.target().filter(|target| !target.server.is_shut_down());
        running.ok_or(FaultError::Stopped)
    }

    fn target(&self) -> Option<Target> {
        let gates = self.gates.lock().upgrade()?;
        let server = gates.running()?.server.upgrade()?;
        Some(Target { server, gates })
    }

    /// Ends faults, and lets what they held back go on.
    pub(crate) fn lift(&self, is_lifted: impl Fn(&Rule) -> bool) {
        let _one_at_a_time = self.lifting.lock();
        let target = self.target();
        let thaws = self.rules.is_server_frozen()
            && !self.rules.with(|rules| rules.is_server_frozen(|rule| !is_lifted(rule)));
        if thaws && let Some(target) = &target {
            // A session whose timeout has passed expires whatever its client has sent since.
            target.server.tick();
        }
        let lifted = self.rules.with(|rules| rules.remove(is_lifted));
        if let Some(Target { server, gates }) = target {
            gates.all().iter().for_each(|gate| gate.let_in(&server));
            for gate in gates.all() {
                let ends_delay = |rule: &Rule| {
                    matches!(rule.action, Action::Delay(_)) && rule.covers(gate.client())
                };
                if lifted.iter().any(ends_delay) {
                    gate.end_delays();
                }
                server.wake(gate.connection());
            }
        }
        self.rules.changed().notify_waiters();
    }
}
