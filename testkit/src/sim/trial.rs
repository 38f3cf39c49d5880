//! The trial of a machine that still waits when the others have finished: it is started again on a new
//! session. If it has a whole round then, nothing kept it from one, and nothing had woken it.
//!
//! Only a simulation whose programs wait for nothing but locks has trials. In another one the machine may
//! have waited for what nobody sends any more.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::machine::Machine;
use super::record::Lane;
use super::rounds::Stage;
use super::run::Run;
use super::violation::ViolationKind;
use crate::clock::now;

/// After so long without a connection sessions have expired, unless the configuration of the server
/// permits longer ones: 20 ticks, and the tick after that.
pub(super) const SESSIONS_OVER_AFTER: Duration = Duration::from_secs(25);
/// The interval of the looks whether sessions are over.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// There is a trial only if the other machines together have had so many whole rounds without faults:
/// with fewer, the locks may not have passed from one to the other yet.
pub(super) const ROUNDS_OF_OTHERS: u32 = 10;

/// Tries one of the machines that have not finished though all have had their round, if one waits in
/// another. `limit` is how long machines may take to finish after the faults, which have passed.
pub(super) async fn try_one_that_waits(run: &Run, limit: Duration) {
    let waiting = (0..run.machines.len()).filter(|number| is_waiting(run, *number));
    let waiting: Vec<_> = waiting.collect();
    // One that is in no section: the others may wait for it.
    let first = waiting.iter().find(|number| !run.is_inside(**number)).or_else(|| waiting.first());
    let Some(number) = first.copied() else { return };
    if rounds_of_others(run, number) < ROUNDS_OF_OTHERS {
        return;
    }
    let machine = &run.machines[number];
    let state = || (machine.rounds.begun(), run.record.requests_of(number));
    let (waiting_since, before) = (now(), state());
    let within = limit.max(SESSIONS_OVER_AFTER);
    // What others have left is gone, and the machine had the time to notice it.
    let others_are_over = until_over(run, |owner| is_done(run, owner), within).await;
    sleep(within).await;
    if others_are_over && state() == before && passes(run, number, limit).await {
        report(run, number, waiting_since, limit);
    }
}

/// Whether a machine has begun a round and not ended it.
fn is_waiting(run: &Run, machine_number: usize) -> bool {
    let machine = &run.machines[machine_number];
    !machine.is_done() && machine.rounds.stage() == Stage::InRound
}

fn rounds_of_others(run: &Run, machine_number: usize) -> u32 {
    let others = run.machines.iter().enumerate().filter(|(number, _)| *number != machine_number);
    others.map(|(_, machine)| machine.rounds.calm().whole).sum()
}

/// Starts a machine again. Returns whether it has a whole round with a section then.
async fn passes(run: &Run, machine_number: usize, limit: Duration) -> bool {
    let machine = &run.machines[machine_number];
    machine.end_for_trial();
    // Else it would wait for itself, or go on by what it has left.
    let within = limit.max(SESSIONS_OVER_AFTER);
    let is_over = until_over(run, |owner| owner == machine_number, within).await;
    is_over && timeout(limit, machine.rounds.pass_trial()).await.is_ok()
}

fn report(run: &Run, machine_number: usize, waiting_since: Instant, limit: Duration) {
    let machine = &run.machines[machine_number];
    let text = format!(
        "{} waits in vain: it does not finish within {} s after the faults, and started again on a new \
         session it has a whole round",
        machine.name(),
        limit.as_secs(),
    );
    let kind = ViolationKind::WaitsInVain(machine.kind_name.clone());
    // The story is about what happened before.
    run.record.violation_at(waiting_since, Lane::Machine(machine_number), kind, text);
}

/// Whether a machine has finished. What prepared the run has.
fn is_done(run: &Run, machine_number: usize) -> bool {
    run.machines.get(machine_number).is_none_or(Machine::is_done)
}

/// Waits until the servers have none of the sessions of these machines, but no longer than this. Returns
/// whether it is so.
async fn until_over(run: &Run, of: impl Fn(usize) -> bool, within: Duration) -> bool {
    let has_any = || {
        let sessions = run.record.sessions_ever_of(&of);
        sessions.into_iter().any(|session| run.host.may_have_session(session))
    };
    let over = async {
        while has_any() {
            sleep(LOOK_INTERVAL).await;
        }
    };
    timeout(within, over).await.is_ok()
}
