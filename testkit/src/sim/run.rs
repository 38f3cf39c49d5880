//! One run: machines work on a server while faults happen; then no faults, until all machines have
//! finished.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

use super::fault::{Fault, MachineFault, Planned};
use super::host::Host;
use super::invariants::Invariants;
use super::machine::{self, Machine};
use super::network::{Link, Network};
use super::plan;
use super::play::{has_panic, take_panic};
use super::program::Programs;
use super::record::{Entry, Lane, Record, What};
use super::schedule::Schedule;
use super::sections::{Access, Conflict, Held, Sections};
use super::tested::Tested;
use super::violation::{Violation, ViolationKind};

/// The interval of the checks that do not follow from an event.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// A machine that stood still and has run again for less than this had no time to notice it.
const NOTICE_MS: u64 = 50;
/// How much longer a run may take by its own clock than all its parts may: a server that was started
/// again and again.
const RUN_LIMIT_ADDED: Duration = Duration::from_secs(3_600);

/// What all parts of one run share.
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) record: Arc<Record>,
    pub(super) host: Host,
    pub(super) programs: Arc<Programs>,
    pub(super) machines: Vec<Machine>,
    /// The link of `setup` and `at_end`, which has no faults.
    pub(super) quiet_link: Link,
    sections: Sections,
    invariants: Invariants,
    rounds_max: Option<u32>,
    are_faults_over: AtomicBool,
    shared: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// The result of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) hash: u64,
    pub(super) messages: u64,
    pub(super) violation: Option<Violation>,
    pub(super) entries: Vec<Entry>,
    /// The faults of the schedule, with those that were left out.
    pub(super) planned: Vec<Planned>,
    pub(super) rounds: u32,
    pub(super) names: Vec<String>,
    pub(super) tested: Tested,
}

impl Outcome {
    /// Nothing was run, since it cannot be.
    pub(super) fn refused(text: String) -> Self {
        let violation = Some(Violation { kind: ViolationKind::Refused, text, ms: 0 });
        Self { violation, ..Self::default() }
    }
}

impl Run {
    fn new(programs: &Arc<Programs>, schedule: &Schedule, keeps_entries: bool) -> Arc<Self> {
        let mut rng = Rng::with_seed(schedule.run_seed());
        let record = Arc::new(Record::new(keeps_entries));
        let network = Network::new(Arc::clone(&record) as _);
        let servers = programs.terms.servers;
        let host = Host::new(servers, &record, &network, &programs.config, rng.u64(..));
        let machines = programs.places().enumerate().map(|(place, (kind, index))| {
            let link = network.link(place, rng.fork().u64(..), programs.latency_ms);
            let is_there = schedule.has_machine(place);
            Machine::new(&programs.kinds[kind].name, kind, index, is_there, link, rng.fork())
        });
        let machines: Vec<_> = machines.collect();
        let quiet_link = network.link(machines.len(), rng.u64(..), programs.latency_ms);
        Arc::new(Self {
            seed: schedule.run_seed(),
            record,
            host,
            programs: Arc::clone(programs),
            machines,
            quiet_link,
            sections: Sections::default(),
            invariants: Invariants::new(&programs.invariants),
            rounds_max: schedule.rounds,
            are_faults_over: AtomicBool::new(false),
            shared: Mutex::default(),
        })
    }

    pub(super) fn are_faults_over(&self) -> bool {
        self.are_faults_over.load(Ordering::Relaxed)
    }

    pub(super) fn violation(&self, lane: Lane, kind: ViolationKind, text: impl Into<String>) {
        self.record.violation(lane, kind, text);
    }

    pub(super) fn name(&self, place: usize) -> String {
        self.machines.get(place).map_or_else(|| "zoolet".to_owned(), |machine| machine.name())
    }

    /// The value of this type that all machines of the run share.
    pub(super) fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.shared.lock();
        let value = shared.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(value).downcast().expect("a value has the type of its key")
    }

    /// Whether a machine is to begin another round: while faults last, and then until each machine
    /// has had a whole round without faults.
    pub(super) fn goes_on(&self, place: usize) -> bool {
        let Some(machine) = self.machines.get(place) else { return false };
        let (rounds, was_whole) = machine.begin_round(self.sections.has(place), self.entries());
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
        place: usize,
        section: &str,
        access: Access,
        held: &Arc<H>,
    ) -> u64 {
        let lane = Lane::Machine(place);
        match self.sections.enter(section, place, access, held) {
            Ok(number) => {
                let token = held.fencing_token().map(|token| token.0);
                let section = section.to_owned();
                self.record.add(lane, || What::Entered { section, number, token });
                self.check_sections(lane);
                if let Some(machine) = self.machines.get(place) {
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
    pub(super) fn leaves(&self, place: usize, section: &str, number: u64) {
        if let Err(conflict) = self.sections.check_alone(section, number) {
            self.conflict(Lane::Machine(place), &conflict);
        }
    }

    pub(super) fn left(&self, place: usize, section: &str, number: u64) {
        if self.sections.leave(section, number) {
            let section = section.to_owned();
            self.record.add(Lane::Machine(place), || What::Left { section, number });
        }
    }

    /// A machine has crashed.
    pub(super) fn left_all(&self, place: usize) {
        for (section, number) in self.sections.leave_all(place) {
            self.record.add(Lane::Machine(place), || What::Left { section, number });
        }
    }

    fn conflict(&self, lane: Lane, conflict: &Conflict) {
        let text = conflict.describe(|place| self.name(place));
        self.violation(lane, ViolationKind::Exclusion(conflict.section.clone()), text);
    }

    fn check_sections(&self, lane: Lane) {
        let now_ms = self.record.now_ms();
        let runs = |place: usize| {
            let machine = self.machines.get(place);
            machine.is_some_and(|machine| machine.has_run_for(now_ms, NOTICE_MS))
        };
        if let Err(conflict) = self.sections.check(runs) {
            self.conflict(lane, &conflict);
        }
    }

    fn check_invariants(&self) {
        if let Some((path, text)) = self.invariants.check(|path| self.host.znode(path)) {
            self.violation(Lane::Server, ViolationKind::Invariant(path), text);
        }
    }

    async fn check_regularly(self: Arc<Self>) {
        let mut was_panic = false;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.check_sections(Lane::Server);
            self.check_invariants();
            // A machine tells the panic of its program at once. One that is still there is nobody's.
            if was_panic {
                self.check_panics();
            }
            was_panic = has_panic();
        }
    }

    /// Checks that no task has panicked that nobody waits for.
    fn check_panics(&self) {
        if let Some(panic) = take_panic() {
            let kind = ViolationKind::Panic("a task".to_owned());
            self.violation(Lane::Server, kind, format!("a task that nobody waits for {panic}"));
        }
    }

    /// Plays the whole run.
    async fn play(self: Arc<Self>, planned: Vec<Planned>) {
        self.host.start().await;
        machine::run_once(&self, self.programs.setup.as_ref(), ViolationKind::Setup).await;
        if !self.invariants.is_empty() {
            let run = Arc::downgrade(&self);
            self.record.after_requests(Arc::new(move || {
                run.upgrade().inspect(|run| run.check_invariants());
            }));
        }
        let checks = tokio::spawn(Arc::clone(&self).check_regularly());
        let there = (0..self.machines.len()).filter(|place| self.machines[*place].is_there());
        let machines: Vec<_> =
            there.map(|place| tokio::spawn(machine::supervise(Arc::clone(&self), place))).collect();
        self.inject(planned).await;
        self.finish(machines).await;
        checks.abort();
        machine::run_once(&self, self.programs.at_end.as_ref(), ViolationKind::End).await;
        self.check_panics();
    }

    /// Lets all faults happen, and ends them.
    async fn inject(self: &Arc<Self>, planned: Vec<Planned>) {
        let start_ms = self.record.now_ms();
        let (mut at_once, mut of_server) = (Vec::new(), Vec::new());
        for planned in planned {
            match planned.fault {
                Fault::Machine(place, fault) => {
                    let run = Arc::clone(self);
                    at_once.push(tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(planned.at_ms)).await;
                        run.inject_one(place, planned.after_entering, fault).await;
                    }));
                }
                Fault::Ensemble(fault) => {
                    let run = Arc::clone(self);
                    at_once.push(tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(planned.at_ms)).await;
                        run.host.inject_in_ensemble(fault).await;
                    }));
                }
                Fault::Server(fault) => of_server.push((planned.at_ms, fault)),
            }
        }
        let run = Arc::clone(self);
        // One after the other: a server that is down cannot be killed.
        let server = tokio::spawn(async move {
            for (at_ms, fault) in of_server {
                let passed_ms = run.record.now_ms() - start_ms;
                tokio::time::sleep(Duration::from_millis(at_ms.saturating_sub(passed_ms))).await;
                if run.are_faults_over() {
                    return;
                }
                run.host.inject(fault).await;
            }
        });
        tokio::time::sleep(Duration::from_millis(self.programs.terms.faults_ms)).await;
        self.are_faults_over.store(true, Ordering::Relaxed);
        at_once.iter().for_each(JoinHandle::abort);
        // What has begun goes on until the server serves again.
        let _ = server.await;
        self.host.end_faults();
        for machine in &self.machines {
            machine.end_faults(self.record.now_ms());
        }
        self.record.add(Lane::Server, || What::State("the faults are over".to_owned()));
    }

    async fn inject_one(&self, place: usize, after_entering: Option<u64>, fault: MachineFault) {
        let machine = &self.machines[place];
        if !machine.is_there() {
            return;
        }
        if let Some(after_ms) = after_entering {
            machine.until_entered().await;
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
        }
        let is_cut = matches!(fault, MachineFault::ServerCutOff { .. });
        let is_spared = machine.is_spared(fault) || (is_cut && !self.host.can_be_cut());
        // What changes nothing is not told.
        if machine.is_done() || is_spared {
            return;
        }
        let (text, for_ms) = (fault.to_string(), fault.for_ms());
        self.record.add(Lane::Machine(place), || What::Fault { text, for_ms });
        let sessions = || self.record.sessions_of(place);
        match fault {
            MachineFault::Expire => {
                sessions().into_iter().for_each(|session| self.host.expire(session));
            }
            MachineFault::ServerCutOff { notice, for_ms } => {
                self.host.cut_off(&sessions(), notice, for_ms);
            }
            _ => {}
        }
        machine.inject(fault, &self.record).await;
    }

    /// Waits until all machines have finished. Those that have had a whole round without faults need
    /// not: they crash.
    async fn finish(&self, machines: Vec<JoinHandle<()>>) {
        let limit = self.programs.finish_within;
        let supervisors: Vec<_> = machines.iter().map(JoinHandle::abort_handle).collect();
        let all = async {
            for machine in machines {
                // A supervisor does not panic.
                let _ = machine.await;
            }
        };
        if tokio::time::timeout(limit, all).await.is_ok() {
            return;
        }
        if let Some(place) = self.machines.iter().position(|it| !it.has_had_its_round()) {
            return self.does_not_finish(place);
        }
        // What they hold must not stand in the way of the check at the end.
        supervisors.iter().for_each(AbortHandle::abort);
        let behind = (0..self.machines.len()).filter(|place| !self.machines[*place].is_done());
        for place in behind {
            self.machines[place].crash(Some(Duration::ZERO));
            self.left_all(place);
        }
    }

    /// How often machines have entered sections without faults.
    fn entries(&self) -> u32 {
        self.machines.iter().map(Machine::calm_entries).sum()
    }

    fn does_not_finish(&self, place: usize) {
        let machine = &self.machines[place];
        let entries = self.entries() - machine.calm_entries();
        let tried = match (machine.calm_tries(), entries) {
            _ if machine.rounds() == 0 => {
                "; it has never called `goes_on`, which tells when to end".to_owned()
            }
            (_, 0) => String::new(),
            // The lock is alive, but it does not come to this one.
            (tries, entries) => format!(
                "; it has begun {tries} rounds since, and the others have entered sections {entries} times"
            ),
        };
        let text = format!(
            "{} does not finish within {} s after the faults{tried}{}",
            machine.name(),
            self.programs.finish_within.as_secs(),
            machine.last_words(),
        );
        let kind = ViolationKind::Unfinished(machine.kind_name.clone());
        self.violation(Lane::Machine(place), kind, text);
    }

    /// The run is over: nothing keeps its servers and its clients.
    fn end(&self) {
        self.quiet_link.network.end();
        // A shared value may have a world.
        let shared = std::mem::take(&mut *self.shared.lock());
        drop(shared);
    }
}

/// The longest run by its own clock.
fn run_limit(programs: &Programs) -> Duration {
    let faults = Duration::from_millis(programs.terms.faults_ms);
    // The setup, the machines after the faults, and the check at the end.
    let others = programs.finish_within.saturating_mul(3);
    RUN_LIMIT_ADDED.saturating_add(faults).saturating_add(others)
}

/// Runs a schedule.
pub(super) fn run(programs: &Arc<Programs>, schedule: &Schedule, keeps_entries: bool) -> Outcome {
    if let Some(text) = programs.refusal() {
        return Outcome::refused(text);
    }
    let places = programs.places().count();
    let planned = plan::draw(&programs.terms, places, schedule.seed);
    if let Some(text) = schedule.refusal(planned.len(), places) {
        return Outcome::refused(text);
    }
    let kept: Vec<_> = schedule.kept(&planned);
    let limit = run_limit(programs);
    let played = super::play::play(schedule.seed, async || {
        fastrand::seed(schedule.run_seed());
        let run = Run::new(programs, schedule, keeps_entries);
        let ended = tokio::select! {
            biased;
            () = run.record.stop.notified() => true,
            () = tokio::time::sleep(limit) => false,
            () = Arc::clone(&run).play(kept) => true,
        };
        if !ended {
            run.violation(Lane::Server, ViolationKind::Server, "the run does not end");
        }
        let rounds = run.machines.iter().map(Machine::rounds).max().unwrap_or(0);
        let names = run.machines.iter().map(Machine::name).collect();
        let tested =
            Tested::of(run.record.faults(), run.sections.entries(), run.invariants.have_seen());
        let (hash, messages, violation, entries) = run.record.finish();
        // After the hash: what follows from it is no part of the run.
        run.end();
        Outcome { hash, messages, violation, entries, planned: Vec::new(), rounds, names, tested }
    });
    let mut outcome = played.result.unwrap_or_default();
    outcome.planned = planned;
    if let (Some(panic), None) = (played.panic, &outcome.violation) {
        // In no machine: in a task that nobody waits for.
        let kind = ViolationKind::Panic("a task".to_owned());
        let text = format!("a task that nobody waits for {panic}");
        outcome.violation = Some(Violation { kind, text, ms: 0 });
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::sim::Sim;

    #[test]
    fn a_run_that_is_over_keeps_nothing() {
        let connected = Sim::new().machine("worker", 2, |world| async move {
            let _client = world.connect().await?;
            world.shared::<Mutex<Vec<crate::sim::World>>>().lock().push(world.clone());
            std::future::pending().await
        });
        for sim in [connected.clone(), connected.ensemble()] {
            let (programs, schedule) = (Arc::new(sim.programs().clone()), Schedule::from(1));
            let mut left: Weak<Record> = Weak::new();
            super::super::play::play(1, async || {
                let run = Run::new(&programs, &schedule, true);
                left = Arc::downgrade(&run.record);
                let played = Arc::clone(&run).play(Vec::new());
                let _ = tokio::time::timeout(Duration::from_secs(5), played).await;
                run.end();
            });
            assert_eq!(left.strong_count(), 0, "the servers have the record");
        }
    }
}
