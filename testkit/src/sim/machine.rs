//! A machine: it runs its program, stands still, crashes and is started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::fault::MachineFault;
use super::gate::Gate;
use super::network::Link;
use super::play::take_panic;
use super::program::{MachineResult, Program, is_explained};
use super::record::{Lane, Record, What};
use super::run::Run;
use super::violation::ViolationKind;
use super::world::World;
use crate::clock::now;

/// How long a supervisor waits before it starts a program again that ended with an error.
const RESTART_PAUSE_MS: std::ops::Range<u64> = 50..500;

/// The state of one machine.
pub(super) struct Machine {
    pub(super) kind_name: String,
    pub(super) kind: usize,
    pub(super) index: usize,
    is_there: bool,
    link: Mutex<Link>,
    rng: Mutex<Rng>,
    pub(super) gate: Arc<Gate>,
    /// Since when it runs after it stood still, in milliseconds of the run.
    runs_since_ms: AtomicU64,
    /// By how much its wall clock has jumped, in milliseconds.
    skew_ms: AtomicI64,
    /// Until when its work is slow.
    slow_until: Mutex<Option<Instant>>,
    /// Notified when its work is no longer slow.
    fast_again: Notify,
    /// Notified when it enters a section.
    entered: Notify,
    /// Notified when it crashes.
    crashed: Notify,
    down_ms: AtomicU64,
    rounds: AtomicU32,
    calm_rounds: AtomicU32,
    is_done: AtomicBool,
    /// Its last note or error.
    last_words: Mutex<Option<String>>,
}

impl Machine {
    pub(super) fn new(
        kind_name: &str,
        kind: usize,
        index: usize,
        is_there: bool,
        link: Link,
        rng: Rng,
    ) -> Self {
        Self {
            kind_name: kind_name.to_owned(),
            kind,
            index,
            is_there,
            link: Mutex::new(link),
            rng: Mutex::new(rng),
            gate: Arc::default(),
            runs_since_ms: AtomicU64::new(0),
            skew_ms: AtomicI64::new(0),
            slow_until: Mutex::default(),
            fast_again: Notify::new(),
            entered: Notify::new(),
            crashed: Notify::new(),
            down_ms: AtomicU64::new(0),
            rounds: AtomicU32::new(0),
            calm_rounds: AtomicU32::new(0),
            is_done: AtomicBool::new(!is_there),
            last_words: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.kind_name, self.index)
    }

    /// Whether it takes part in this run.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether its program has finished.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// Whether it runs, and has done so for this long.
    pub(super) fn has_run_for(&self, now_ms: u64, ms: u64) -> bool {
        let since = self.runs_since_ms.load(Ordering::Relaxed);
        !self.gate.is_closed() && (since == 0 || now_ms.saturating_sub(since) >= ms)
    }

    pub(super) fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
    }

    /// Counts a round, and returns how many there were.
    pub(super) fn begin_round(&self) -> u32 {
        self.rounds.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    pub(super) fn begin_calm_round(&self) {
        self.calm_rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of rounds that it has begun without faults.
    pub(super) fn calm_rounds(&self) -> u32 {
        self.calm_rounds.load(Ordering::Relaxed)
    }

    pub(super) fn has_entered(&self) {
        self.entered.notify_waiters();
    }

    pub(super) async fn until_entered(&self) {
        self.entered.notified().await;
    }

    /// Works for this long, and for longer while its work is slow.
    pub(super) async fn work(&self, time: Duration) {
        tokio::time::sleep(time).await;
        loop {
            let until = *self.slow_until.lock();
            let Some(until) = until.filter(|until| *until > now()) else { return };
            tokio::select! {
                biased;
                () = self.fast_again.notified() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    fn end_slow_work(&self) {
        *self.slow_until.lock() = None;
        self.fast_again.notify_waiters();
    }

    pub(super) fn say(&self, words: String) {
        *self.last_words.lock() = Some(words);
    }

    /// What it said last, to be added to a sentence.
    pub(super) fn last_words(&self) -> String {
        let words = self.last_words.lock().clone();
        words.map_or_else(String::new, |words| format!("; its last words: {words}"))
    }

    /// Carries out a fault, and returns when it is over.
    pub(super) async fn suffer(&self, fault: MachineFault, record: &Record) {
        let link = self.link.lock().clone();
        let ms = Duration::from_millis;
        match fault {
            MachineFault::Cut { noticed_after_ms } => link.cut(ms(noticed_after_ms)),
            MachineFault::LoseReply { requests } => link.cut_after(requests),
            MachineFault::Delay { ms_max, for_ms } => {
                link.delay(ms_max);
                tokio::time::sleep(ms(for_ms)).await;
                link.delay(0);
            }
            MachineFault::Silence { for_ms } => link.hold(ms(for_ms)),
            MachineFault::LateReplies { for_ms } => link.hold_replies(ms(for_ms)),
            MachineFault::Refuse { for_ms } => link.refuse(ms(for_ms)),
            // Its server does that.
            MachineFault::Expire | MachineFault::ServerCutOff { .. } => {}
            MachineFault::Pause { for_ms } => {
                if self.gate.is_closed() {
                    return;
                }
                self.gate.close();
                link.pause();
                tokio::time::sleep(ms(for_ms)).await;
                self.resume(record.now_ms());
            }
            MachineFault::Crash { down_ms, noticed_after_ms } => {
                link.end(noticed_after_ms.map(ms));
                self.down_ms.store(down_ms, Ordering::Relaxed);
                self.crashed.notify_one();
            }
            MachineFault::SlowWork { for_ms } => *self.slow_until.lock() = Some(now() + ms(for_ms)),
            MachineFault::ClockJump { ms } => {
                self.skew_ms.fetch_add(ms, Ordering::Relaxed);
            }
        }
    }

    fn resume(&self, now_ms: u64) {
        if !self.gate.is_closed() {
            return;
        }
        self.runs_since_ms.store(now_ms, Ordering::Relaxed);
        let mut rng = self.rng.lock().fork();
        let link = self.link.lock().clone();
        // Its own tasks, and what has arrived meanwhile, in any order.
        if rng.bool() {
            self.gate.open(&mut rng);
            link.resume();
        } else {
            link.resume();
            self.gate.open(&mut rng);
        }
    }

    pub(super) fn end_faults(&self, now_ms: u64) {
        self.resume(now_ms);
        self.end_slow_work();
        self.link.lock().clear();
    }

    /// It has crashed: it waits until it is started again.
    async fn be_down(&self, now_ms: u64) {
        self.resume(now_ms);
        self.end_slow_work();
        let down = Duration::from_millis(self.down_ms.load(Ordering::Relaxed));
        tokio::time::sleep(down).await;
        let mut link = self.link.lock();
        *link = link.successor();
    }
}

/// How a program ended.
enum Ended {
    Crashed,
    Returned(Result<MachineResult, JoinError>),
}

/// Runs the program of a machine until it has finished, and starts it again after a crash, and after
/// an error that faults explain.
pub(super) async fn supervise(run: Arc<Run>, place: usize) {
    let machine = &run.machines[place];
    let lane = Lane::Machine(place);
    let state = |text: String| run.record.add(lane, || What::State(text));
    let program = run.programs.kinds[machine.kind].program.clone();
    loop {
        let (seed, link) = (machine.rng.lock().u64(..), machine.link.lock().clone());
        let world = World::new(&run, place, machine.name(), machine.index, seed, link);
        let tasks = world.tasks();
        let mut task = spawn(&program, world);
        let ended = tokio::select! {
            biased;
            () = machine.crashed.notified() => Ended::Crashed,
            returned = &mut task => Ended::Returned(returned),
        };
        task.abort();
        tasks.lock().drain(..).for_each(|task: JoinHandle<()>| task.abort());
        match ended {
            Ended::Crashed => {
                // Its memory is gone before it is started again.
                let _ = task.await;
                run.left_all(place);
                machine.be_down(run.record.now_ms()).await;
                state("starts again".to_owned());
            }
            Ended::Returned(Ok(Ok(()))) => {
                state("has finished".to_owned());
                break;
            }
            Ended::Returned(Ok(Err(error))) => {
                machine.say(error.to_string());
                if !is_explained(&*error) {
                    let text = format!("{} returned: {error}", machine.name());
                    let kind = ViolationKind::Error(machine.kind_name.clone());
                    run.violation(lane, kind, text);
                    break;
                }
                state(format!("ends with the error: {error}"));
                let pause_ms = machine.rng.lock().u64(RESTART_PAUSE_MS);
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                state("starts again".to_owned());
            }
            Ended::Returned(Err(_)) => {
                let panic = take_panic().unwrap_or_default();
                let text = format!("{} panicked: {panic}", machine.name());
                run.violation(lane, ViolationKind::Panic(machine.kind_name.clone()), text);
                break;
            }
        }
    }
    machine.is_done.store(true, Ordering::Relaxed);
}

fn spawn(program: &Program, world: World) -> JoinHandle<MachineResult> {
    let (program, gate) = (program.clone(), world.gate());
    tokio::spawn(async move {
        // The program itself may panic before it returns its future.
        gate.pass(async move { program.run(world).await }).await
    })
}

/// Runs a program once, without faults.
pub(super) async fn run_once(run: &Arc<Run>, program: Option<&Program>, name: &str) {
    let Some(program) = program.filter(|_| !run.record.has_violation()) else { return };
    let place = run.machines.len();
    let link = run.quiet_link.clone();
    let world = World::new(run, place, name.to_owned(), 0, run.seed, link);
    let wrong = match spawn(program, world).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => format!("{name}: {error}"),
        Err(_) => format!("{name} panicked: {}", take_panic().unwrap_or_default()),
    };
    run.violation(Lane::Server, ViolationKind::End, wrong);
}
