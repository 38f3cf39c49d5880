//! The checker records which clients report which locks as held, and checks each millisecond that
//! these locks do not exclude each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use zoolet_protocol::Zxid;

/// The time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// How many violations are printed one by one.
const PRINTED_MAX: usize = 20;

/// Whether something is held, as its holder reports.
pub(crate) type IsHeld = Box<dyn Fn() -> bool + Send + Sync>;

/// A lock, permits or a leadership, with the sum of the weights that its holders may have.
#[derive(Default)]
struct Resource {
    capacity: usize,
    holders: BTreeMap<u64, Holder>,
    /// The token of the last holder with the whole capacity.
    last_token: Option<Zxid>,
}

struct Holder {
    name: String,
    weight: usize,
    is_held: IsHeld,
}

/// What a client holds, or held.
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) weight: usize,
    pub(crate) token: Zxid,
    pub(crate) is_held: IsHeld,
}

/// Blocks this thread.
#[expect(clippy::disallowed_methods, reason = "the servers have clocks of their own")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

#[derive(Default)]
pub(crate) struct Checker {
    resources: Mutex<BTreeMap<&'static str, Resource>>,
    violations: Mutex<Vec<String>>,
    last_holder: AtomicU64,
    /// The version of the protected value after the last acknowledged write.
    pub(crate) version: AtomicI32,
    checks: AtomicU64,
}

/// Records a holder until it is dropped.
pub(crate) struct Hold {
    checker: Arc<Checker>,
    resource: &'static str,
    id: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(resource) = self.checker.resources().get_mut(self.resource) {
            resource.holders.remove(&self.id);
        }
    }
}

impl Checker {
    fn resources(&self) -> MutexGuard<'_, BTreeMap<&'static str, Resource>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a holder.
    pub(crate) fn enter(
        self: &Arc<Self>,
        resource: &'static str,
        capacity: usize,
        claim: Claim,
    ) -> Hold {
        let id = self.last_holder.fetch_add(1, Ordering::SeqCst);
        let Claim { name, weight, token, is_held } = claim;
        let mut resources = self.resources();
        let entry = resources.entry(resource).or_default();
        entry.capacity = capacity;
        if weight == capacity {
            let last = entry.last_token.replace(token);
            if last.is_some_and(|last| last >= token) && is_held() {
                self.report(format!(
                    "{resource}: {name} has the token {token} after the token {last:?}"
                ));
            }
        }
        entry.holders.insert(id, Holder { name, weight, is_held });
        self.check(resource, entry);
        Hold { checker: Arc::clone(self), resource, id }
    }

    fn check(&self, name: &str, resource: &Resource) {
        let hold = |holder: &&Holder| (holder.is_held)();
        let first: Vec<_> = resource.holders.values().filter(hold).collect();
        let weight =
            |holders: &[&Holder]| holders.iter().map(|holder| holder.weight).sum::<usize>();
        if weight(&first) <= resource.capacity {
            return;
        }
        // Holders that report it both times held it at the same time.
        let both: Vec<_> = first.into_iter().filter(hold).collect();
        if weight(&both) > resource.capacity {
            let names: Vec<_> = both.iter().map(|holder| holder.name.as_str()).collect();
            self.report(format!("{name} is held at the same time by {names:?}"));
        }
    }

    pub(crate) fn report(&self, violation: String) {
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        if violations.len() < PRINTED_MAX {
            eprintln!("violation: {violation}");
        }
        violations.push(violation);
    }

    /// Checks all resources on a thread of its own until `is_over` is set.
    pub(crate) fn check_until(
        self: &Arc<Self>,
        is_over: &Arc<AtomicBool>,
    ) -> thread::JoinHandle<()> {
        let (checker, is_over) = (Arc::clone(self), Arc::clone(is_over));
        thread::spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                for (name, resource) in &*checker.resources() {
                    checker.check(name, resource);
                }
                checker.checks.fetch_add(1, Ordering::SeqCst);
                pause(CHECK_INTERVAL);
            }
        })
    }

    /// The violations, and the number of checks.
    pub(crate) fn verdict(&self) -> (Vec<String>, u64) {
        let violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        (violations.clone(), self.checks.load(Ordering::SeqCst))
    }
}
