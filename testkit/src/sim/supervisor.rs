//! Runs the programs of machines: starts them, and starts them again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinError, JoinHandle};

use super::play::take_panic_of;
use super::program::{Faults, MachineResult, Program, Programs};
use super::record::{Lane, What};
use super::run::Run;
use super::violation::{ViolationKind, one_line};
use super::world::World;

/// How long a supervisor waits before it starts a program again that ended with an error.
const RESTART_PAUSE_MS: std::ops::Range<u64> = 50..500;

/// How a program ended.
enum Ended {
    Crashed,
    Returned(Result<MachineResult, JoinError>),
}

/// Runs the program of a machine until it has finished, and starts it again after a crash, and after
/// an error that faults explain.
pub(super) async fn supervise(run: Arc<Run>, programs: Arc<Programs>, machine_number: usize) {
    let machine = &run.machines[machine_number];
    let lane = Lane::Machine(machine_number);
    let state = |text: String| run.record.add(lane, || What::State(text));
    let program = programs.kinds[machine.kind].program.clone();
    loop {
        let (seed, link) = (machine.next_seed(), machine.link());
        let world = World::new(&run, machine_number, machine.name(), machine.index, seed, link);
        let tasks = world.tasks();
        machine.rounds.start();
        let mut task = spawn(&program, world);
        let ended = tokio::select! {
            biased;
            () = machine.until_crashed() => Ended::Crashed,
            returned = &mut task => Ended::Returned(returned),
        };
        task.abort();
        tasks.lock().drain(..).for_each(|task: AbortHandle| task.abort());
        match ended {
            Ended::Crashed => {
                // Its memory is gone before it is started again.
                let _ = task.await;
                run.left_all(machine_number);
                machine.be_down().await;
                state("starts again".to_owned());
            }
            Ended::Returned(Ok(Ok(()))) => {
                state("has finished".to_owned());
                break;
            }
            Ended::Returned(Ok(Err(error))) => {
                machine.say(one_line(&error.to_string()));
                let faults = Faults::of(run.record.faults());
                if !faults.explain(&*error) {
                    let text = format!("{} returned: {error}", machine.name());
                    let kind = ViolationKind::Error(machine.kind_name.clone());
                    run.violation(lane, kind, text);
                    break;
                }
                machine.rounds.fail();
                state(format!("ends with the error: {error}"));
                let pause_ms = machine.drawn(RESTART_PAUSE_MS);
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                state("starts again".to_owned());
            }
            Ended::Returned(Err(error)) => {
                let text = format!("{} {}", machine.name(), take_panic_of(error.id()));
                run.violation(lane, ViolationKind::Panic(machine.kind_name.clone()), text);
                break;
            }
        }
    }
    machine.finish();
}

fn spawn(program: &Program, world: World) -> JoinHandle<MachineResult> {
    let (program, gate) = (program.clone(), world.gate());
    tokio::spawn(async move {
        world.be_program();
        // The program itself may panic before it returns its future.
        gate.pass(async move { program.run(world).await }).await
    })
}

/// Runs the programs of the setup or the checks at the end one after the other, without faults, each
/// for so long at most.
pub(super) async fn run_each_once(
    run: &Arc<Run>,
    programs: &[Program],
    limit: Duration,
    kind: ViolationKind,
) {
    for program in programs {
        if !run.record.has_violation() {
            run_once(run, program, limit, kind.clone()).await;
        }
    }
}

async fn run_once(run: &Arc<Run>, program: &Program, limit: Duration, kind: ViolationKind) {
    let name = match kind {
        ViolationKind::Setup => "setup",
        _ => "the check at the end",
    };
    let machine_number = run.machines.len();
    let link = run.quiet_link.clone();
    let world = World::new(run, machine_number, name.to_owned(), 0, run.seed, link);
    let tasks = world.tasks();
    let ended = tokio::time::timeout(limit, spawn(program, world)).await;
    tasks.lock().drain(..).for_each(|task: AbortHandle| task.abort());
    let wrong = match ended {
        Ok(Ok(Ok(()))) => return,
        Ok(Ok(Err(error))) => format!("{name}: {error}"),
        Ok(Err(error)) => format!("{name} {}", take_panic_of(error.id())),
        Err(_) => format!("{name} does not end within {} s", limit.as_secs()),
    };
    run.violation(Lane::Server, kind, wrong);
}
