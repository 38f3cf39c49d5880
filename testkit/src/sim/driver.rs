//! Drives a run: machines work on a server while faults happen; then no faults, until all machines
//! have finished.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::{AbortHandle, JoinHandle};

use super::fault::Planned;
use super::host::Host;
use super::invariants::Invariants;
use super::last_rounds::LastRounds;
use super::machine::Machine;
use super::network::Network;
use super::outcome::Outcome;
use super::plan;
use super::program::{Programs, Waits};
use super::record::{Entry, Lane, Record, What};
use super::run::{Run, text_of_panic};
use super::schedule::Schedule;
use super::trial::{self, SESSIONS_OVER_AFTER};
use super::violation::{Violation, ViolationKind};
use super::{injector, supervisor, warnings};

/// How much longer a run may take by its own clock than all its parts may: a server that was started
/// again and again.
const RUN_LIMIT_ADDED: Duration = Duration::from_secs(3_600);

/// Runs a schedule.
pub(super) fn run(programs: &Arc<Programs>, schedule: &Schedule, keeps_entries: bool) -> Outcome {
    if let Some(text) = programs.refusal() {
        return Outcome::refused(text);
    }
    let machines = programs.machines().count();
    let planned = plan::draw(&programs.terms, machines, schedule.seed);
    if let Some(text) = schedule.refusal(planned.len(), machines) {
        return Outcome::refused(text);
    }
    let kept: Vec<_> = schedule.kept(&planned);
    let limit = run_limit(programs);
    let ended_ms = Cell::new(0);
    let played = super::play::play(schedule.seed, async || {
        fastrand::seed(schedule.run_seed());
        let run = prepared(programs, schedule, keeps_entries);
        let _listening = warnings::listen(&run.record);
        let ended = tokio::select! {
            biased;
            () = run.record.stop.notified() => true,
            () = tokio::time::sleep(limit) => false,
            () = play(Arc::clone(&run), Arc::clone(programs), kept) => true,
        };
        if !ended {
            run.violation(Lane::Server, ViolationKind::Server, "the run does not end");
        }
        let rounds = run.machines.iter().map(|machine| machine.rounds.begun()).max().unwrap_or(0);
        let names = run.machines.iter().map(Machine::name).collect();
        let tested = run.tested(!programs.at_end.is_empty());
        let (hash, messages, violation, entries) = run.record.finish();
        // After the hash: what follows from it is no part of the run.
        run.end();
        ended_ms.set(run.record.now_ms());
        Outcome { hash, messages, violation, entries, planned: Vec::new(), rounds, names, tested }
    });
    let Some(mut outcome) = played.result else {
        let panic = played.panic.unwrap_or_default();
        return Outcome::refused(format!(
            "the simulation itself {panic}; it has a runtime of its own, so that an asynchronous function \
             must call it within spawn_blocking"
        ));
    };
    outcome.planned = planned;
    if let (Some(panic), None) = (played.panic, &outcome.violation) {
        // In no machine: in a task that nobody waits for.
        let kind = ViolationKind::Panic("a task".to_owned());
        let text = text_of_panic(&panic);
        let ms = ended_ms.get();
        if keeps_entries {
            let what = What::Violation(text.clone());
            outcome.entries.push(Entry { ms, lane: Lane::Server, what });
        }
        outcome.violation = Some(Violation { kind, text, ms });
    }
    outcome
}

/// The longest run by its own clock.
fn run_limit(programs: &Programs) -> Duration {
    let faults = Duration::from_millis(programs.terms.faults_ms);
    // The setup, the machines after the faults, and the check at the end.
    let others = programs.finish_within.saturating_mul(3);
    RUN_LIMIT_ADDED.saturating_add(faults).saturating_add(others)
}

/// A run that has not begun.
fn prepared(programs: &Programs, schedule: &Schedule, keeps_entries: bool) -> Arc<Run> {
    let mut rng = Rng::with_seed(schedule.run_seed());
    let record = Arc::new(Record::new(keeps_entries));
    let network = Network::new(Arc::clone(&record) as _);
    let servers = programs.terms.servers;
    let host = Host::new(servers, &record, &network, &programs.config, rng.u64(..));
    let machines = programs.machines().enumerate().map(|(machine_number, (kind, index))| {
        let link = network.link(machine_number, rng.fork().u64(..), programs.latency_ms);
        let is_there = schedule.has_machine(machine_number);
        Machine::new(&programs.kinds[kind].name, kind, index, is_there, link, rng.fork())
    });
    let machines: Vec<_> = machines.collect();
    let quiet_link = network.link(machines.len(), rng.u64(..), programs.latency_ms);
    let invariants = Invariants::new(&programs.invariants);
    let last_rounds = match programs.waits {
        Waits::ForAnything => None,
        Waits::ForLocks => Some(LastRounds::new(schedule.run_seed(), programs.finish_within)),
    };
    Arc::new(Run::new(schedule, record, host, machines, quiet_link, invariants, last_rounds))
}

/// Plays the whole run.
async fn play(run: Arc<Run>, programs: Arc<Programs>, planned: Vec<Planned>) {
    let limit = programs.finish_within;
    run.host.start().await;
    supervisor::run_each_once(&run, &programs.setup, limit, ViolationKind::Setup).await;
    run.check_states();
    let checks = tokio::spawn(Arc::clone(&run).check_regularly());
    let there =
        (0..run.machines.len()).filter(|machine_number| run.machines[*machine_number].is_there());
    let supervise = |machine_number| {
        supervisor::supervise(Arc::clone(&run), Arc::clone(&programs), machine_number)
    };
    let machines: Vec<_> =
        there.map(|machine_number| tokio::spawn(supervise(machine_number))).collect();
    injector::inject(&run, planned, programs.terms.faults_ms).await;
    finish(&run, machines, limit).await;
    checks.abort();
    supervisor::run_each_once(&run, &programs.at_end, limit, ViolationKind::End).await;
    run.check_panics();
}

/// Waits until all machines have finished. Those that have had a whole round without faults need
/// not: they crash, and their sessions expire.
async fn finish(run: &Run, machines: Vec<JoinHandle<()>>, limit: Duration) {
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
    if let Some(machine_number) = run.machines.iter().position(|it| !it.has_had_its_round()) {
        return does_not_finish(run, machine_number, limit);
    }
    if run.looks_for_vain_waits() {
        trial::try_one_that_waits(run, limit).await;
    }
    let behind = (0..run.machines.len()).filter(|number| !run.machines[*number].is_done());
    // What they hold must not stand in the way of the check at the end.
    supervisors.iter().for_each(AbortHandle::abort);
    for machine_number in behind {
        run.machines[machine_number].crash(Some(Duration::ZERO));
        run.left_all(machine_number);
    }
    tokio::time::sleep(SESSIONS_OVER_AFTER).await;
}

fn does_not_finish(run: &Run, machine_number: usize, limit: Duration) {
    let machine = &run.machines[machine_number];
    let (calm, name, limit) = (machine.rounds.calm(), machine.name(), limit.as_secs());
    let (kind, text) = if run.looks_for_vain_waits() && calm.in_vain > 0 {
        let text = format!(
            "{name} waits in vain: it does not finish within {limit} s after the faults; in {} rounds since it \
             has asked for an ephemeral znode, and nobody was in a section",
            calm.in_vain
        );
        (ViolationKind::WaitsInVain(machine.kind_name.clone()), text)
    } else {
        let tried = match (calm.begun, run.entries() - calm.entries) {
            _ if machine.rounds.begun() == 0 => {
                "; it has never called `goes_on`, which tells when to end".to_owned()
            }
            (_, 0) => String::new(),
            // The lock is alive, but it does not come to this one.
            (tries, entries) => format!(
                "; it has begun {tries} rounds since, and the others have entered sections {entries} times"
            ),
        };
        let text = format!("{name} does not finish within {limit} s after the faults{tried}");
        (ViolationKind::Unfinished(machine.kind_name.clone()), text)
    };
    let text = format!("{text}{}", machine.last_words());
    run.violation(Lane::Machine(machine_number), kind, text);
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use parking_lot::Mutex;

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
                let run = prepared(&programs, &schedule, true);
                left = Arc::downgrade(&run.record);
                let played = play(Arc::clone(&run), Arc::clone(&programs), Vec::new());
                let _ = tokio::time::timeout(Duration::from_secs(5), played).await;
                run.end();
            });
            assert_eq!(left.strong_count(), 0, "the servers have the record");
        }
    }
}
