//! The judge records which clients report which locks as held, and checks each millisecond that
//! they do not exclude each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use zoolet_protocol::Zxid;

/// How often the judge looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// How many violations are told one by one.
const TOLD_MAX: usize = 20;

/// Whether something is held, as its holder says.
pub(crate) type IsHeld = Box<dyn Fn() -> bool + Send + Sync>;

/// A thing of which holders may have so much in all.
#[derive(Default)]
struct Thing {
    capacity: usize,
    holders: BTreeMap<u64, Holder>,
    /// Of the last one who had all of it.
    last_token: Option<Zxid>,
}

struct Holder {
    name: String,
    weight: usize,
    is_held: IsHeld,
}

/// What somebody has, or has had.
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) weight: usize,
    pub(crate) token: Zxid,
    pub(crate) is_held: IsHeld,
}

/// Holds this thread up.
#[expect(clippy::disallowed_methods, reason = "the servers have clocks of their own")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

#[derive(Default)]
pub(crate) struct Judge {
    things: Mutex<BTreeMap<&'static str, Thing>>,
    violations: Mutex<Vec<String>>,
    last_holder: AtomicU64,
    /// The version of the value that is written under a lock, as far as a write was acknowledged.
    pub(crate) version: AtomicI32,
    looks: AtomicU64,
}

/// Somebody who holds something, until this is dropped.
pub(crate) struct Stay {
    judge: Arc<Judge>,
    thing: &'static str,
    id: u64,
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(thing) = self.judge.things().get_mut(self.thing) {
            thing.holders.remove(&self.id);
        }
    }
}

impl Judge {
    fn things(&self) -> MutexGuard<'_, BTreeMap<&'static str, Thing>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody holds something from now on.
    pub(crate) fn enter(
        self: &Arc<Self>,
        thing: &'static str,
        capacity: usize,
        claim: Claim,
    ) -> Stay {
        let id = self.last_holder.fetch_add(1, Ordering::SeqCst);
        let Claim { name, weight, token, is_held } = claim;
        let mut things = self.things();
        let of_thing = things.entry(thing).or_default();
        of_thing.capacity = capacity;
        if weight == capacity {
            let last = of_thing.last_token.replace(token);
            if last.is_some_and(|last| last >= token) && is_held() {
                self.violate(format!("{thing}: {name} has the token {token} after {last:?}"));
            }
        }
        of_thing.holders.insert(id, Holder { name, weight, is_held });
        self.look_at(thing, of_thing);
        Stay { judge: Arc::clone(self), thing, id }
    }

    fn look_at(&self, name: &str, thing: &Thing) {
        let hold = |holder: &&Holder| (holder.is_held)();
        let first: Vec<_> = thing.holders.values().filter(hold).collect();
        let weight =
            |holders: &[&Holder]| holders.iter().map(|holder| holder.weight).sum::<usize>();
        if weight(&first) <= thing.capacity {
            return;
        }
        // Whoever says so before and after says so at one time.
        let both: Vec<_> = first.into_iter().filter(hold).collect();
        if weight(&both) > thing.capacity {
            let names: Vec<_> = both.iter().map(|holder| holder.name.as_str()).collect();
            self.violate(format!("{name} is held together by {names:?}"));
        }
    }

    pub(crate) fn violate(&self, violation: String) {
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        if violations.len() < TOLD_MAX {
            eprintln!("violation: {violation}");
        }
        violations.push(violation);
    }

    /// Looks at everybody, on a thread of its own, until it is over.
    pub(crate) fn look_until(
        self: &Arc<Self>,
        is_over: &Arc<AtomicBool>,
    ) -> thread::JoinHandle<()> {
        let (judge, is_over) = (Arc::clone(self), Arc::clone(is_over));
        thread::spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                for (name, thing) in &*judge.things() {
                    judge.look_at(name, thing);
                }
                judge.looks.fetch_add(1, Ordering::SeqCst);
                pause(LOOK_INTERVAL);
            }
        })
    }

    /// What was violated, and how often the judge looked.
    pub(crate) fn verdict(&self) -> (Vec<String>, u64) {
        let violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        (violations.clone(), self.looks.load(Ordering::SeqCst))
    }
}
