//! What all parts of a run share: its machines, what serves them, and its checks.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_core::Core;

use super::host::Host;
use super::invariants::Invariants;
use super::machine::{Activity, Machine};
use super::network::Link;
use super::play::{has_panic, take_panic};
use super::record::{Lane, Record, What};
use super::schedule::Schedule;
use super::sections::{Access, Conflict, Held, Sections};
use super::tested::Tested;
use super::violation::ViolationKind;
use super::znode;

/// The interval of the checks that do not follow from an event.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A machine that stood still and has run again for less than this had no time to notice it.
const NOTICE_MS: u64 = 50;
/// What all parts of one run share.
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) record: Arc<Record>,
    pub(super) host: Host,
    pub(super) machines: Vec<Machine>,
    /// The link of `setup` and `at_end`, which has no faults.
    pub(super) quiet_link: Link,
    sections: Sections,
    invariants: Invariants,
    rounds_max: Option<u32>,
    are_faults_over: AtomicBool,
    shared: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Run {
    pub(super) fn new(
        schedule: &Schedule,
        record: Arc<Record>,
        host: Host,
        machines: Vec<Machine>,
        quiet_link: Link,
        invariants: Invariants,
    ) -> Self {
        Self {
            seed: schedule.run_seed(),
            record,
            host,
            machines,
            quiet_link,
            sections: Sections::default(),
            invariants,
            rounds_max: schedule.rounds,
            are_faults_over: AtomicBool::new(false),
            shared: Mutex::default(),
        }
    }

    pub(super) fn are_faults_over(&self) -> bool {
        self.are_faults_over.load(Ordering::Relaxed)
    }

    /// All faults have ended.
    pub(super) fn end_faults(&self) {
        self.are_faults_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn violation(&self, lane: Lane, kind: ViolationKind, text: impl Into<String>) {
        self.record.violation(lane, kind, text);
    }

    pub(super) fn name(&self, machine_number: usize) -> String {
        self.machines
            .get(machine_number)
            .map_or_else(|| "zoolet".to_owned(), |machine| machine.name())
    }

    /// The value of this type that all machines of the run share.
    pub(super) fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.shared.lock();
        let value = shared.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(value).downcast().expect("a value has the type of its key")
    }

    /// Whether a machine is to begin another round: while faults last, and then until each machine
    /// has had a whole round without faults.
    pub(super) fn goes_on(&self, machine_number: usize) -> bool {
        let Some(machine) = self.machines.get(machine_number) else { return false };
        let writes = self.record.writes_of(machine_number);
        let seen = Activity { entries: self.entries(), writes };
        let (rounds, was_whole) = machine.begin_round(self.sections.has(machine_number), seen);
        if !self.are_faults_over() {
            return self.rounds_max.is_none_or(|max| rounds <= max);
        }
        machine.begin_calm_round(was_whole);
        let goes_on = !self.machines.iter().all(Machine::has_had_its_round);
        if goes_on && machine.has_had_its_round() {
            machine.step_back();
        }
        goes_on
    }

    pub(super) fn enter<H: Held + 'static>(
        &self,
        machine_number: usize,
        section: &str,
        access: Access,
        held: &Arc<H>,
    ) -> u64 {
        let lane = Lane::Machine(machine_number);
        match self.sections.enter(section, machine_number, access, held) {
            Ok(number) => {
                let token = held.fencing_token().map(|token| token.0);
                let section = section.to_owned();
                self.record.add(lane, || What::Entered { section, number, token });
                self.check_sections(lane);
                if let Some(machine) = self.machines.get(machine_number) {
                    machine.has_entered(self.are_faults_over());
                }
                number
            }
            Err(conflict) => {
                self.conflict(lane, &conflict);
                0
            }
        }
    }

    /// A machine leaves a section in the belief that it was alone in it.
    pub(super) fn leaves(&self, machine_number: usize, section: &str, number: u64) {
        if let Err(conflict) = self.sections.check_alone(section, number) {
            self.conflict(Lane::Machine(machine_number), &conflict);
        }
    }

    pub(super) fn left(&self, machine_number: usize, section: &str, number: u64) {
        if self.sections.leave(section, number) {
            let section = section.to_owned();
            self.record.add(Lane::Machine(machine_number), || What::Left { section, number });
        }
    }

    /// A machine has crashed.
    pub(super) fn left_all(&self, machine_number: usize) {
        for (section, number) in self.sections.leave_all(machine_number) {
            self.record.add(Lane::Machine(machine_number), || What::Left { section, number });
        }
    }

    fn conflict(&self, lane: Lane, conflict: &Conflict) {
        let text = conflict.describe(|machine_number| self.name(machine_number));
        self.violation(lane, ViolationKind::Exclusion(conflict.section.clone()), text);
    }

    fn check_sections(&self, lane: Lane) {
        let now_ms = self.record.now_ms();
        let runs = |machine_number: usize| {
            let machine = self.machines.get(machine_number);
            machine.is_some_and(|machine| machine.has_run_for(now_ms, NOTICE_MS))
        };
        if let Err(conflict) = self.sections.check(runs) {
            self.conflict(lane, &conflict);
        }
    }

    /// Checks the invariants in each state from now on.
    pub(super) fn check_states(self: &Arc<Self>) {
        if self.invariants.is_empty() {
            return;
        }
        let run = Arc::downgrade(self);
        self.record.look_at_states(Arc::new(move |state: Option<&Core>| {
            run.upgrade().inspect(|run| run.check_invariants(state));
        }));
    }

    /// Checks the invariants in this state, or in the present one.
    fn check_invariants(&self, state: Option<&Core>) {
        let read = |path: &str| match state {
            Some(state) => Some(znode::read(state, path)),
            None => self.host.znode(path),
        };
        if let Some((path, text)) = self.invariants.check(read) {
            self.violation(Lane::Server, ViolationKind::Invariant(path), text);
        }
    }

    pub(super) async fn check_regularly(self: Arc<Self>) {
        let mut was_panic = false;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.check_sections(Lane::Server);
            self.check_invariants(None);
            // A machine tells the panic of its program at once. One that is still there is nobody's.
            if was_panic {
                self.check_panics();
            }
            was_panic = has_panic();
        }
    }

    /// Checks that no task has panicked that nobody waits for.
    pub(super) fn check_panics(&self) {
        if let Some(panic) = take_panic() {
            let kind = ViolationKind::Panic("a task".to_owned());
            self.violation(Lane::Server, kind, format!("a task that nobody waits for {panic}"));
        }
    }

    /// How often machines have entered sections without faults.
    pub(super) fn entries(&self) -> u32 {
        self.machines.iter().map(Machine::calm_entries).sum()
    }

    /// What has happened, for its checks to check.
    pub(super) fn tested(&self) -> Tested {
        let (faults, entries) = (self.record.faults(), self.sections.entries());
        Tested::of(faults, entries, self.invariants.have_seen())
    }

    /// The run is over: nothing keeps its servers and its clients.
    pub(super) fn end(&self) {
        self.quiet_link.end_network();
        // A shared value may have a world.
        let shared = std::mem::take(&mut *self.shared.lock());
        drop(shared);
    }
}
