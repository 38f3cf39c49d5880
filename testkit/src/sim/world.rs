//! What the program of a machine sees of its world.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::task::{self, AbortHandle};
use zoolet_client::{Builder, Client, Error, RetryPolicy};
use zoolet_protocol::Dial;

use super::gate::Gate;
use super::machine::Machine;
use super::network::Link;
use super::play::take_panic_of;
use super::record::{Lane, What};
use super::run::{Asker, Run};
use super::sections::{Access, Exit, Held, Section};
use super::violation::{ViolationKind, one_line};
use crate::clock::WALL_START_MS;
use crate::limits::SIM_ROUNDS_AT_ONCE_MAX;

/// The world of one machine, from when it is started until it crashes: its clients, its clocks, and
/// what it tells the checks. Clones are the same.
///
/// Whatever a program does must follow from its world, so that a run repeats: random numbers come
/// from [`World::random`], the time from [`World::wall_clock`] and tokio's clock, a [`tokio::select!`]
/// polls in order (`biased`), and no two tasks wait for one [`tokio::sync::watch`], which wakes them in a
/// random order. What clients and recipes return to be awaited wakes them in the order in which they began
/// to wait, and so does [`tokio::sync::Notify`].
///
/// Time passes only while all programs await something. Work is [`World::sleep`]: a
/// [`tokio::time::sleep`] takes no longer while the machine has slow work, and a
/// [`std::thread::sleep`] takes no time of the run at all, but makes the test slow.
///
/// ```
/// use zoolet_testkit::sim::Sim;
///
/// Sim::new()
///     .machine("worker", 2, |world| async move {
///         let client = world.connect().await?;
///         client.create(&format!("/{}", world.name())).or_set().await?;
///         Ok(())
///     })
///     .sweep(0..3);
/// ```
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    run: Arc<Run>,
    machine_number: usize,
    name: String,
    index: usize,
    link: Link,
    gate: Arc<Gate>,
    rng: Mutex<Rng>,
    /// A time in milliseconds, and how many rounds were begun then.
    rounds_at: Mutex<(u64, u32)>,
    /// The task of tokio that runs the program.
    program: OnceLock<task::Id>,
    /// What its program has spawned.
    tasks: Arc<Mutex<Vec<AbortHandle>>>,
}

impl World {
    pub(super) fn new(
        run: &Arc<Run>,
        machine_number: usize,
        name: String,
        index: usize,
        seed: u64,
        link: Link,
    ) -> Self {
        let gate = run.machines.get(machine_number).map(Machine::gate);
        Self(Arc::new(Inner {
            run: Arc::clone(run),
            machine_number,
            name,
            index,
            link,
            gate: gate.unwrap_or_default(),
            rng: Mutex::new(Rng::with_seed(seed)),
            rounds_at: Mutex::default(),
            program: OnceLock::new(),
            tasks: Arc::default(),
        }))
    }

    pub(super) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.0.gate)
    }

    pub(super) fn tasks(&self) -> Arc<Mutex<Vec<AbortHandle>>> {
        Arc::clone(&self.0.tasks)
    }

    /// The program runs in the present task.
    pub(super) fn be_program(&self) {
        self.0.program.get_or_init(task::id);
    }

    /// Who asks: the program, or a task that it has started.
    fn asker(&self) -> Asker {
        match task::try_id() == self.0.program.get().copied() {
            true => Asker::Program,
            false => Asker::Task,
        }
    }

    fn lane(&self) -> Lane {
        Lane::Machine(self.0.machine_number)
    }

    fn kind_name(&self) -> String {
        let machine = self.0.run.machines.get(self.0.machine_number);
        machine.map_or_else(|| self.name().to_owned(), |machine| machine.kind_name.clone())
    }

    /// The name of the machine: `worker-0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The number of the machine among those with the same program, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Connects a client. Its timeouts and its retry policy are drawn. It waits for the first
    /// connection as long as necessary.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::connect`], except that no server could be connected to.
    pub async fn connect(&self) -> Result<Client, Error> {
        let session_timeout = Duration::from_millis(self.random(1_000..4_000));
        let connection_timeout = Duration::from_millis(self.random(1_000..5_000));
        let retry = match self.random(0..3) {
            0 => RetryPolicy::never(),
            1 => RetryPolicy::n_times(3, Duration::from_millis(100)),
            _ => RetryPolicy::exponential_backoff(Duration::from_millis(50), 4),
        };
        loop {
            let builder = self.client_builder().session_timeout(session_timeout);
            let builder = builder.connection_timeout(connection_timeout);
            match builder.retry_policy(retry.clone()).connect(self.dialer()).await {
                Err(Error::Unreachable(_)) if !self.0.link.is_over() => {}
                result => return result,
            }
        }
    }

    /// The options of a client that runs on this machine, for one that needs other options than
    /// [`World::connect`] draws. Connect it to [`World::dialer`].
    pub fn client_builder(&self) -> Builder {
        Client::builder()
            // The clocks of the real machine must not influence a run.
            .suspended_time(|| Duration::ZERO)
            .task_gate(self.gate())
    }

    /// The network of this machine, to connect clients to.
    #[must_use]
    pub fn dialer(&self) -> impl Dial + 'static {
        self.0.link.clone()
    }

    /// Whether the program is to begin another round of what it does again and again: while faults
    /// happen, and then until each machine has had a whole round without faults. A round that ends with
    /// an error is no whole one. So a lock that nobody can acquire any more is found if its waiters wait:
    /// the last rounds do not end. Fairness is not checked: a machine that has had its round steps back,
    /// which means that its messages are up to 20 ms late. More is found of programs that wait for
    /// nothing but locks: [`Sim::nobody_waits_in_vain`](super::Sim::nobody_waits_in_vain).
    ///
    /// The rounds are those of the program itself. A task that it has started may ask too: it goes on
    /// until the program was told to begin no other round. Only if the program itself never asks do
    /// the rounds of its tasks count.
    ///
    /// # Panics
    ///
    /// If it is called 100,000 times at the same moment: a loop that awaits nothing that takes time
    /// would never end.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.count_at_this_moment();
        // A task that does not end with its machine must not go on for it.
        !self.0.gate.is_shut() && self.0.run.goes_on(self.0.machine_number, self.asker())
    }

    /// Panics if rounds are begun again and again while no time passes.
    fn count_at_this_moment(&self) {
        let now_ms = self.0.run.record.now_ms();
        let mut rounds = self.0.rounds_at.lock();
        let (ms, count) = *rounds;
        let count = if ms == now_ms { count + 1 } else { 1 };
        *rounds = (now_ms, count);
        drop(rounds);
        assert!(
            count < SIM_ROUNDS_AT_ONCE_MAX,
            "goes_on() was called {count} times at the same moment: the loop awaits nothing that takes \
             time, for example because a request fails at once; sleep before another attempt"
        );
    }

    /// Whether faults still happen.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        !self.0.run.are_faults_over()
    }

    /// Sleeps, or works for this long: it takes longer while the machine has
    /// [`FaultKind::SlowWork`](super::FaultKind::SlowWork).
    pub async fn sleep(&self, time: Duration) {
        match self.0.run.machines.get(self.0.machine_number) {
            Some(machine) => machine.work(time).await,
            None => tokio::time::sleep(time).await,
        }
    }

    /// As [`World::sleep`], for a time that is drawn, from nothing up to this.
    pub async fn sleep_up_to(&self, time: Duration) {
        let ms_max = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let ms = self.0.rng.lock().u64(..=ms_max);
        self.sleep(Duration::from_millis(ms)).await;
    }

    /// Draws a number.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    #[must_use]
    pub fn random(&self, range: Range<u64>) -> u64 {
        self.0.rng.lock().u64(range)
    }

    /// Draws whether something happens, with the chance of one in so many.
    ///
    /// # Panics
    ///
    /// If `many` is 0.
    #[must_use]
    pub fn one_in(&self, many: u64) -> bool {
        self.random(0..many) == 0
    }

    /// The wall clock of this machine, which jumps
    /// ([`FaultKind::ClockJumps`](super::FaultKind::ClockJumps)). Each machine has its own.
    #[must_use]
    pub fn wall_clock(&self) -> SystemTime {
        let run = &self.0.run;
        let skew_ms =
            run.machines.get(self.0.machine_number).map_or(0, |machine| machine.skew_ms());
        let passed_ms = i64::try_from(run.record.now_ms()).unwrap_or(i64::MAX);
        let ms = WALL_START_MS.saturating_add(passed_ms).saturating_add(skew_ms);
        SystemTime::UNIX_EPOCH + Duration::from_millis(ms.max(0).unsigned_abs())
    }

    /// The time since the start of the run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.run.record.now_ms())
    }

    /// Starts another task on this machine. It stands still with the machine, and ends when the
    /// machine crashes or its program ends. A task that is started with [`tokio::spawn`] does not. A
    /// panic is a violation.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = tokio::spawn(self.gate().pass(task));
        self.0.tasks.lock().push(task.abort_handle());
        let world = self.clone();
        tokio::spawn(async move {
            if let Err(error) = task.await
                && error.is_panic()
            {
                let text = format!("a task of {} {}", world.name(), take_panic_of(error.id()));
                let kind = ViolationKind::Panic(world.kind_name());
                world.0.run.violation(world.lane(), kind, text);
            }
        });
    }

    /// The value of this type that all machines of a run share, for what they observe of each other
    /// outside ZooKeeper. Each run begins with the default.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use zoolet_testkit::sim::Sim;
    ///
    /// Sim::new()
    ///     .machine("worker", 3, |world| async move {
    ///         world.shared::<AtomicU32>().fetch_add(1, Ordering::Relaxed);
    ///         Ok(())
    ///     })
    ///     .at_end(|world| async move {
    ///         assert!(world.shared::<AtomicU32>().load(Ordering::Relaxed) >= 3);
    ///         Ok(())
    ///     })
    ///     .sweep(0..3);
    /// ```
    #[must_use]
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.0.run.shared()
    }

    /// Adds a line to the story of a run that fails.
    pub fn note(&self, text: impl Into<String>) {
        let text = one_line(&text.into());
        if let Some(machine) = self.0.run.machines.get(self.0.machine_number) {
            machine.say(text.clone());
        }
        self.0.run.record.add(self.lane(), || What::Note(text));
    }

    /// Checks something, and reports a violation if it is not so. A sweep counts it: one of programs that
    /// enter no sections has [tested](super::Sim::search) something then.
    ///
    /// ```
    /// use zoolet_testkit::sim::Sim;
    ///
    /// let sim = Sim::new().machine("reader", 1, |world| async move {
    ///     let version = world.connect().await?.exists("/").await?.map(|stat| stat.version);
    ///     world.check(version == Some(0), || format!("the version of / is {version:?}"));
    ///     Ok(())
    /// });
    /// sim.sweep(0..3);
    /// ```
    pub fn check(&self, is_so: bool, wrong: impl FnOnce() -> String) {
        self.0.run.count_check();
        if !is_so {
            self.fail(wrong());
        }
    }

    /// Reports a violation, which ends the run.
    pub fn fail(&self, text: impl Into<String>) {
        let kind = ViolationKind::Failed(self.kind_name());
        let text = format!("{}: {}", self.name(), text.into());
        self.0.run.violation(self.lane(), kind, text);
    }

    /// Enters a critical section in which no other machine may be at the same time. `held` is what
    /// permits it: a guard of zoolet's recipes, any [`Held`], a closure that tells whether the lock
    /// is held, or `()` for a lock that does not tell.
    ///
    /// It is a violation if two machines that run are in the section and both of them believe that
    /// they hold the lock, if a fencing token is not greater than all before, and if a machine
    /// [leaves](Section::leave) a section in that belief which another has entered meanwhile.
    pub fn enter<H: Held + 'static>(&self, section: &str, held: H) -> Section<H> {
        self.enter_with(section, Access::Alone, held)
    }

    /// Enters a section that others may share.
    pub fn enter_shared<H: Held + 'static>(&self, section: &str, held: H) -> Section<H> {
        self.enter_with(section, Access::Shared, held)
    }

    /// Enters a section with `count` permits of at most `max` in total. The order of fencing tokens is
    /// not checked: several holders have a permit at the same time.
    pub fn enter_with_permits<H: Held + 'static>(
        &self,
        section: &str,
        (count, max): (usize, usize),
        held: H,
    ) -> Section<H> {
        self.enter_with(section, Access::Permits { count, max }, held)
    }

    fn enter_with<H: Held + 'static>(&self, section: &str, access: Access, held: H) -> Section<H> {
        let held = Arc::new(held);
        let number = self.0.run.enter(self.0.machine_number, section, access, &held);
        let (run, machine_number) = (Arc::clone(&self.0.run), self.0.machine_number);
        let door = Door { run, machine_number, section: section.to_owned() };
        Section { held: Some(held), exit: Arc::new(door), number }
    }
}

/// The way out of a section.
struct Door {
    run: Arc<Run>,
    machine_number: usize,
    section: String,
}

impl Exit for Door {
    fn leaves(&self, number: u64) {
        self.run.leaves(self.machine_number, &self.section, number);
    }

    fn left(&self, number: u64) {
        self.run.left(self.machine_number, &self.section, number);
    }
}
