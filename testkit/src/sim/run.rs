//! What all parts of a run share: its machines, what serves them, and its checks.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_core::Core;

use super::host::Host;
use super::invariants::Invariants;
use super::last_rounds::LastRounds;
use super::machine::Machine;
use super::network::Link;
use super::play::{run_user_code, take_panic, untold_panics};
use super::record::{Lane, Record, Requests, What};
use super::rounds::{Activity, RoundEnd, Stage};
use super::schedule::Schedule;
use super::sections::{Access, Conflict, Held, Sections};
use super::tested::Tested;
use super::violation::ViolationKind;
use super::znode;

/// The interval of the checks that do not follow from an event.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A machine that stood still and has run again for less than this had no time to notice it.
const NOTICE_MS: u64 = 50;

/// Who asks whether to begin another round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Program,
    /// A task that the program has started.
    Task,
}

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
    /// Whether machines that wait in vain are looked for, and the last rounds in which they show.
    last_rounds: Option<LastRounds>,
    /// When all faults had ended, in milliseconds of the run.
    calm_since_ms: OnceLock<u64>,
    /// How often programs have checked something.
    checks: AtomicU64,
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
        last_rounds: Option<LastRounds>,
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
            last_rounds,
            calm_since_ms: OnceLock::new(),
            checks: AtomicU64::new(0),
            shared: Mutex::default(),
        }
    }

    pub(super) fn are_faults_over(&self) -> bool {
        self.calm_since_ms.get().is_some()
    }

    /// All faults have ended.
    pub(super) fn end_faults(&self) {
        self.calm_since_ms.get_or_init(|| self.record.now_ms());
    }

    pub(super) fn violation(&self, lane: Lane, kind: ViolationKind, text: impl AsRef<str>) {
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

    /// Whether machines that wait in vain are looked for.
    pub(super) fn looks_for_vain_waits(&self) -> bool {
        self.last_rounds.is_some()
    }

    /// Whether a machine is to begin another round. A task of a program that asks itself goes on as long
    /// as that, and its rounds are none of the machine: they would hide that the program is stuck.
    pub(super) fn goes_on(&self, machine_number: usize, asker: Asker) -> bool {
        let Some(machine) = self.machines.get(machine_number) else { return false };
        let rounds = &machine.rounds;
        match asker {
            Asker::Program => rounds.hear_program(),
            Asker::Task if rounds.is_program_heard() => return rounds.stage() != Stage::Ending,
            Asker::Task => {}
        }
        let goes_on = self.begins_round(machine_number, machine);
        machine.rounds.tell(goes_on);
        goes_on
    }

    /// Whether a machine is to begin another round: while faults last, then until each machine has had a
    /// whole round without faults, and in the last rounds.
    fn begins_round(&self, machine_number: usize, machine: &Machine) -> bool {
        let requests = self.record.requests_of(machine_number);
        let is_any_inside = (0..self.machines.len()).any(|number| self.is_inside(number));
        let seen = Activity { entries: self.entries(), is_any_inside, requests };
        let (rounds, end) = machine.rounds.begin(self.is_inside(machine_number), seen);
        let Some(calm_since_ms) = self.calm_since_ms.get() else {
            return self.rounds_max.is_none_or(|max| rounds <= max);
        };
        machine.rounds.begin_calm(end, self.is_whole(end));
        if machine.rounds.begins_round_of_trial(end) {
            return true;
        }
        if self.machines.iter().all(Machine::has_had_its_round) {
            let calm = Duration::from_millis(self.record.now_ms() - calm_since_ms);
            let last_rounds = self.last_rounds.as_ref();
            return last_rounds.is_some_and(|it| it.goes_on(&self.machines, machine_number, calm));
        }
        if machine.has_had_its_round() {
            machine.step_back();
        }
        true
    }

    /// Whether a round was a whole one. With an error it was not: else a program that fails each time, and
    /// is started again, would have had its round.
    fn is_whole(&self, end: RoundEnd) -> bool {
        match end {
            RoundEnd::WithSection | RoundEnd::WithoutSection => true,
            RoundEnd::InVain => !self.looks_for_vain_waits(),
            RoundEnd::WithError => false,
        }
    }

    /// Whether a machine is in a section.
    pub(super) fn is_inside(&self, machine_number: usize) -> bool {
        self.sections.has(machine_number)
    }

    /// A program checks something.
    pub(super) fn count_check(&self) {
        self.checks.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn enter<H: Held + 'static>(
        &self,
        machine_number: usize,
        section: &str,
        access: Access,
        held: &Arc<H>,
    ) -> u64 {
        let lane = Lane::Machine(machine_number);
        match run_user_code(|| self.sections.enter(section, machine_number, access, held)) {
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
        if let Err(conflict) = run_user_code(|| self.sections.check_alone(section, number)) {
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
        // What a program tells of its lock may catch a panic of its own.
        if let Err(conflict) = run_user_code(|| self.sections.check(runs)) {
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
            was_panic = untold_panics() > 0;
        }
    }

    /// Checks that no task has panicked that is no part of a machine.
    pub(super) fn check_panics(&self) {
        if let Some(panic) = take_panic() {
            let kind = ViolationKind::Panic("a task".to_owned());
            let text = text_of_panic(&panic.text);
            self.record.violation_at(panic.at, Lane::Server, kind, text);
        }
    }

    /// How often machines have entered sections without faults.
    pub(super) fn entries(&self) -> u32 {
        self.machines.iter().map(|machine| machine.rounds.calm().entries).sum()
    }

    /// What has happened, for its checks to check. `is_checked_at_end` tells whether a program does so.
    pub(super) fn tested(&self, is_checked_at_end: bool) -> Tested {
        let requests = (0..self.machines.len()).map(|number| self.record.requests_of(number));
        let requests: Vec<_> = requests.collect();
        let sum = |of: fn(&Requests) -> u32| requests.iter().map(|it| u64::from(of(it))).sum();
        Tested {
            runs: 1,
            faults: self.record.faults(),
            entries: self.sections.entries(),
            ephemerals: sum(|requests| requests.ephemerals),
            ephemerals_created: sum(|requests| requests.ephemerals_created),
            checks: self.checks.load(Ordering::Relaxed),
            // What machines share, they compare.
            has_other_checks: is_checked_at_end || !self.shared.lock().is_empty(),
            seen: self.invariants.have_seen(),
        }
    }

    /// The run is over: nothing keeps its servers and its clients.
    pub(super) fn end(&self) {
        self.quiet_link.end_network();
        // A shared value may have a world.
        let shared = std::mem::take(&mut *self.shared.lock());
        drop(shared);
    }
}

/// What is said of a panic in a task that no machine waits for, so that it may also be handled.
pub(super) fn text_of_panic(panic: &str) -> String {
    format!("a task that was not started by World::spawn {panic}")
}
