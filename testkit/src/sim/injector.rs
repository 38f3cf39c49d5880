//! Injects the faults of a schedule into a run.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::fault::{Fault, MachineFault, Planned, ServerFault};
use super::record::{Lane, What};
use super::run::Run;

/// Lets all faults happen, and ends them.
pub(super) async fn inject(run: &Arc<Run>, planned: Vec<Planned>, faults_ms: u64) {
    let start_ms = run.record.now_ms();
    let (mut at_once, mut of_server) = (Vec::new(), Vec::new());
    for planned in planned {
        match planned.fault {
            Fault::Machine(machine_number, fault) => {
                let run = Arc::clone(run);
                at_once.push(tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(planned.at_ms)).await;
                    inject_one(&run, machine_number, planned.after_entering, fault).await;
                }));
            }
            Fault::Ensemble(fault) => {
                let run = Arc::clone(run);
                at_once.push(tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(planned.at_ms)).await;
                    run.host.inject_in_ensemble(fault).await;
                }));
            }
            Fault::Server(fault) => of_server.push((planned.at_ms, fault)),
        }
    }
    let server = tokio::spawn(inject_in_turn(Arc::clone(run), of_server, start_ms, faults_ms));
    tokio::time::sleep(Duration::from_millis(faults_ms)).await;
    at_once.iter().for_each(JoinHandle::abort);
    // What has begun goes on until the server serves again.
    let _ = server.await;
    run.host.end_faults();
    for machine in &run.machines {
        machine.end_faults(run.record.now_ms());
    }
    // Not before: a round in which the server is still down is none without faults.
    run.end_faults();
    run.record.add(Lane::Server, || What::State("the faults are over".to_owned()));
}

/// Injects the faults of a single server one after the other: one that is down cannot be killed.
async fn inject_in_turn(
    run: Arc<Run>,
    faults: Vec<(u64, ServerFault)>,
    start_ms: u64,
    faults_ms: u64,
) {
    for (at_ms, fault) in faults {
        let passed_ms = run.record.now_ms() - start_ms;
        tokio::time::sleep(Duration::from_millis(at_ms.saturating_sub(passed_ms))).await;
        // The one before may have lasted until the end.
        if run.record.now_ms() - start_ms >= faults_ms {
            return;
        }
        run.host.inject(fault).await;
    }
}

async fn inject_one(
    run: &Run,
    machine_number: usize,
    after_entering: Option<u64>,
    fault: MachineFault,
) {
    let machine = &run.machines[machine_number];
    if !machine.is_there() {
        return;
    }
    if let Some(after_ms) = after_entering {
        machine.until_entered().await;
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
    }
    let sessions = run.record.sessions_of(machine_number);
    let has_subject = match fault {
        MachineFault::Expire => !sessions.is_empty(),
        MachineFault::ServerCutOff { .. } => !sessions.is_empty() && run.host.can_be_cut(),
        _ => true,
    };
    let is_spared = machine.is_spared(fault) || !has_subject;
    // What changes nothing is not told.
    if machine.is_done() || is_spared {
        return;
    }
    let (text, for_ms) = (fault.to_string(), fault.for_ms());
    run.record.add(Lane::Machine(machine_number), || What::Fault { text, for_ms });
    match fault {
        MachineFault::Expire => {
            sessions.into_iter().for_each(|session| run.host.expire(session));
        }
        MachineFault::ServerCutOff { notice, for_ms } => {
            run.host.cut_off(&sessions, notice, for_ms);
        }
        _ => {}
    }
    machine.inject(fault, &run.record).await;
}
