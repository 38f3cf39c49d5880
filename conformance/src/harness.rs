//! The test harness: tests that need peers, and many tests that wait side by side.
//!
//! Most tests wait: for a Java virtual machine, a session timeout, an election or another client. So
//! all of them are in one program, in which [`run`] starts more of them than there are cores.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::peers::{self, Peer};

/// How many tests run at a time, as counted by [`Section::new`]. Those of servers that are shared come
/// on top of them: there is one at a time for each of these servers.
const PLACES: usize = 6;

/// How many tests have a thread. Most of them wait for a place, or for their turn on a server.
const THREADS: usize = 256;

/// The tests of one subject, in a program that has several.
pub struct Section {
    name: &'static str,
    places: usize,
    trials: Vec<Trial>,
}

impl Section {
    /// Tests whose names begin with `name`. Each of them takes so many of the places for tests that
    /// run at a time: one for each core that it keeps busy, and at least one.
    #[must_use]
    pub fn new(name: &'static str, places: usize) -> Self {
        assert!((1..=PLACES).contains(&places), "{name}: a test takes 1 to {PLACES} places");
        Self { name, places, trials: Vec::new() }
    }

    /// Adds a test that has all it needs for itself.
    pub fn test(
        &mut self,
        peers: &[Peer],
        name: &str,
        test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    ) {
        let places = self.places;
        self.add(peers, name, move || {
            let _place = Place::take(places);
            test()
        });
    }

    /// Adds a test of a thing that serves one test at a time, such as a server. Its tests run in the
    /// order in which they were added. They take no place.
    pub fn test_in_turn<T: Send + 'static>(
        &mut self,
        turns: &Arc<InTurn<T>>,
        peers: &[Peer],
        name: &str,
        test: impl FnOnce(&mut T) -> Result<(), Failed> + Send + 'static,
    ) {
        let turn = Turn::new(turns);
        self.add(peers, name, move || turn.run(test));
    }

    fn add(
        &mut self,
        peers: &[Peer],
        name: &str,
        test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    ) {
        self.trials.push(needs(peers, &format!("{}::{name}", self.name), test));
    }
}

/// Runs the tests of all sections side by side. Those of the first sections begin first: the longest
/// ones belong there.
#[must_use]
pub fn run(sections: Vec<Section>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let trials = sections.into_iter().flat_map(|section| section.trials).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Something that serves one test at a time. It is dropped with the last of its tests.
#[derive(Debug)]
pub struct InTurn<T> {
    thing: Mutex<T>,
    /// The numbers of the tests that have not ended, and the number of the next one.
    open: Mutex<(BTreeSet<usize>, usize)>,
    changed: Condvar,
}

impl<T> InTurn<T> {
    /// A thing that has no tests yet.
    #[must_use]
    pub fn new(thing: T) -> Arc<Self> {
        Arc::new(Self { thing: Mutex::new(thing), open: Mutex::default(), changed: Condvar::new() })
    }
}

/// The turn of a test. Dropping it, also without a run, lets the next test have its turn.
struct Turn<T> {
    of: Arc<InTurn<T>>,
    number: usize,
}

impl<T> Turn<T> {
    fn new(of: &Arc<InTurn<T>>) -> Self {
        let mut open = locked(&of.open);
        let number = open.1;
        open.0.insert(number);
        open.1 += 1;
        Self { of: Arc::clone(of), number }
    }

    /// Runs a test when all tests before it have ended. They have begun: tests begin in their order.
    fn run(self, test: impl FnOnce(&mut T) -> Result<(), Failed>) -> Result<(), Failed> {
        let is_early = |open: &mut (BTreeSet<usize>, _)| open.0.first() != Some(&self.number);
        let open = self.of.changed.wait_while(locked(&self.of.open), is_early);
        drop(open);
        test(&mut locked(&self.of.thing))
    }
}

impl<T> Drop for Turn<T> {
    fn drop(&mut self) {
        locked(&self.of.open).0.remove(&self.number);
        self.of.changed.notify_all();
    }
}

/// Locks a mutex. A test that failed has not spoilt what is in it for the others.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place among the tests that run at a time. Dropping it lets another test have it.
struct Place(usize);

/// The tickets of the tests that wait for places, and how many places are free.
struct Free {
    next_ticket: u64,
    served: u64,
    places: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free { next_ticket: 0, served: 0, places: PLACES });
static CHANGED: Condvar = Condvar::new();

impl Place {
    /// Waits for places, in the order of coming.
    fn take(places: usize) -> Self {
        let mut free = locked(&FREE);
        let ticket = free.next_ticket;
        free.next_ticket += 1;
        let waits = |free: &mut Free| free.served != ticket || free.places < places;
        let mut free = CHANGED.wait_while(free, waits).unwrap_or_else(PoisonError::into_inner);
        free.served += 1;
        free.places -= places;
        drop(free);
        // The next one may find enough places left.
        CHANGED.notify_all();
        Self(places)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&FREE).places += self.0;
        CHANGED.notify_all();
    }
}

/// A test that needs peers. If one is missing, the test is ignored with the reason in its name, or
/// fails if peers are required.
pub fn needs(
    peers: &[Peer],
    name: &str,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let Err(missing) = peers.iter().try_for_each(|peer| peer.find()) else {
        return Trial::test(name, test);
    };
    let reason = missing.to_string();
    let fails = move || Err(Failed::from(missing));
    if peers::are_required() {
        Trial::test(name, fails)
    } else {
        Trial::test(format!("{name} (ignored: {reason})"), fails).with_ignored_flag(true)
    }
}
