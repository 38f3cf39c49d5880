//! The invariants of one run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_protocol::Stat;

use super::play::{run_user_code, take_last_panic};

/// What is wrong with a znode, given its data and Stat if it exists.
pub(super) type InvariantCheck = dyn FnMut(Option<(&[u8], &Stat)>) -> Result<(), String> + Send;

/// What must be true of a znode at any time.
#[derive(Clone)]
pub(super) struct Invariant {
    pub(super) path: String,
    /// Begins a run, which has a state of its own.
    pub(super) begin: Arc<dyn Fn() -> Box<InvariantCheck> + Send + Sync>,
}

/// The checks of all invariants, each with its state.
pub(super) struct Invariants(Mutex<Vec<Begun>>);

/// An invariant in one run.
struct Begun {
    path: String,
    check: Box<InvariantCheck>,
    /// Whether its znode has existed.
    has_seen: bool,
}

impl Invariants {
    pub(super) fn new(invariants: &[Invariant]) -> Self {
        let begin = |it: &Invariant| {
            let (path, check) = (it.path.clone(), (it.begin)());
            Begun { path, check, has_seen: false }
        };
        Self(Mutex::new(invariants.iter().map(begin).collect()))
    }

    /// Whether the znode of each invariant has existed.
    pub(super) fn have_seen(&self) -> Vec<bool> {
        self.0.lock().iter().map(|it| it.has_seen).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Checks all. `znode` reads one, or returns `None` if nothing can be read now. Returns the first
    /// that does not hold: its path, and what is wrong.
    pub(super) fn check(
        &self,
        znode: impl Fn(&str) -> Option<Option<(Bytes, Stat)>>,
    ) -> Option<(String, String)> {
        for Begun { path, check, has_seen } in self.0.lock().iter_mut() {
            let Some(znode) = znode(path) else { continue };
            *has_seen |= znode.is_some();
            let znode = znode.as_ref().map(|(data, stat)| (&data[..], stat));
            // A panic would end a task of the server, which nobody would notice.
            let wrong = match catch_unwind(AssertUnwindSafe(|| run_user_code(|| check(znode)))) {
                Ok(Ok(())) => continue,
                Ok(Err(text)) => format!("{path}: {text}"),
                Err(_) => format!("the invariant of {path} {}", take_last_panic()),
            };
            return Some((path.clone(), wrong));
        }
        None
    }
}
