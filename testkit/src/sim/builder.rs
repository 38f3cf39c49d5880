//! A simulation, as its user describes it.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_protocol::Stat;
use zoolet_server::Config;

use super::driver;
use super::failure::Failure;
use super::fault::FaultKind;
use super::invariants::{Invariant, InvariantCheck};
use super::outcome::Outcome;
use super::plan::Terms;
use super::program::{Kind, MachineResult, Program, Programs, Waits};
use super::report::Report;
use super::schedule::{Schedule, number};
use super::servers::Servers;
use super::sweep;
use super::tested::Tested;
use super::violation::{Violation, ViolationKind};
use super::world::World;

/// How long machines may take to finish by default.
const FINISH_WITHIN: Duration = Duration::from_secs(60);
/// The least time that a message takes, in milliseconds. With none, a program that tries the same
/// request again and again would never let time pass.
const LATENCY_MS: u64 = 1;
/// How often a kind of fault happens in a minute that a test chooses and that never happens by default.
const RATE_IF_CHOSEN: f64 = 3.0;
/// Seeds, as `FIRST..END`, that take the place of those in the test.
const SEEDS_VARIABLE: &str = "ZOOLET_SIM_SEEDS";
/// A schedule that takes the place of the seeds in the test.
const REPLAY_VARIABLE: &str = "ZOOLET_SIM_REPLAY";

/// A simulation: machines that run programs, what may go wrong, and what must be true.
///
/// ```
/// use std::time::Duration;
/// use zoolet_recipes::InterProcessMutex;
/// use zoolet_testkit::sim::{FaultKind, Sim};
///
/// Sim::new()
///     .machine("worker", 3, |world| async move {
///         let client = world.connect().await?;
///         let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
///         while world.goes_on() {
///             let section = world.enter("stock", mutex.acquire().await?);
///             world.sleep_up_to(Duration::from_millis(500)).await;
///             section.leave().release().await?;
///         }
///         Ok(())
///     })
///     .rate(FaultKind::Pauses, 10.0)
///     .sweep(0..20);
/// ```
#[derive(Clone)]
#[must_use = "a simulation does nothing until it is run"]
pub struct Sim {
    programs: Programs,
    page_directory: Option<PathBuf>,
    jobs: Option<usize>,
}

/// The result of one run.
///
/// ```
/// use zoolet_testkit::sim::Sim;
///
/// let sim = Sim::new().machine("idle", 1, |_world| async { Ok(()) });
/// assert_eq!(sim.run(3).hash, sim.run(3).hash, "a seed repeats");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunResult {
    /// A hash of all messages, events and times: equal runs have equal hashes.
    pub hash: u64,
    /// How many messages were sent.
    pub messages: u64,
    /// The first violation, which ended the run.
    pub violation: Option<Violation>,
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// A simulation of one server, without machines, with faults for 12 seconds.
    pub fn new() -> Self {
        let config = Config { tick_time_ms: 500, max_client_connections: 0, ..Config::default() };
        Self {
            programs: Programs {
                kinds: Vec::new(),
                setup: Vec::new(),
                at_end: Vec::new(),
                invariants: Vec::new(),
                terms: Terms::default(),
                waits: Waits::default(),
                config,
                is_configured: false,
                latency_ms: LATENCY_MS,
                finish_within: FINISH_WITHIN,
            },
            page_directory: None,
            jobs: None,
        }
    }

    /// Serves the machines by an ensemble of three servers, which lag and are cut off from each other,
    /// instead of one server with a disk. It is a test double of an ensemble: clients see what they
    /// see of a real one. It has no disk, and its servers do not crash.
    pub fn ensemble(mut self) -> Self {
        self.programs.terms.servers = Servers::Ensemble;
        self
    }

    /// Adds `count` machines with the same program, named `name-0`, `name-1` and so on.
    ///
    /// The program begins again when its machine was started after a crash. An error that faults
    /// explain (a lost connection, session or lock, or a time limit) ends it as it ends a process,
    /// whose supervisor starts it again; any other error is a violation, and so is a connection that is
    /// lost before any fault has happened. A panic is one unless the program catches it itself, by
    /// [`std::panic::catch_unwind`]. In a task of [`tokio::spawn`] it is one also if the program handles
    /// the error of the task.
    ///
    /// The error, or one of its [sources](std::error::Error::source), must be one of zoolet's. A wrapper
    /// that is no source of what it contains hides it: a variant of thiserror with `transparent`, where
    /// `#[source]` does not, and an error of anyhow, but for
    /// `reallocate_into_boxed_dyn_error_without_backtrace`.
    pub fn machine<F>(
        mut self,
        name: &str,
        count: usize,
        program: impl Fn(World) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = MachineResult> + Send + 'static,
    {
        let program = Program::new(program);
        self.programs.kinds.push(Kind { name: name.to_owned(), count, program });
        self
    }

    /// Runs this before the machines start, without faults, for example to create znodes. Several are run
    /// in turn.
    pub fn setup<F>(mut self, program: impl Fn(World) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = MachineResult> + Send + 'static,
    {
        self.programs.setup.push(Program::new(program));
        self
    }

    /// Runs this when all machines have finished, without faults, to check what is left. An error or
    /// a panic is a violation. Several are run in turn. A machine that had its whole round and waits for
    /// what does not come any more has crashed before, and its session has expired, unless its timeout is
    /// above 20 seconds.
    pub fn at_end<F>(mut self, program: impl Fn(World) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = MachineResult> + Send + 'static,
    {
        self.programs.at_end.push(Program::new(program));
        self
    }

    /// Checks a znode in each state from the end of the [setup](Sim::setup) on, in their order. `check`
    /// gets its data and its Stat, or `None` if it does not exist, and returns what is wrong. A panic is
    /// a violation, too. A path at which no run of a [search](Sim::search) has a znode is refused, since
    /// it may be misspelt.
    ///
    /// A state is what clients can be shown: one that is durable on the disk of a single server, or
    /// committed by an ensemble. A write whose sync fails, and which is gone when the server starts again,
    /// was never in one. `check` may get the same state several times.
    ///
    /// What it keeps from one run to the next makes runs differ: [`Sim::invariant_with_state`] has a
    /// state for each run.
    ///
    /// ```
    /// use zoolet_testkit::sim::Sim;
    ///
    /// let sim = Sim::new()
    ///     .machine("writer", 1, |world| async move {
    ///         world.connect().await?.create("/limit").data("12").or_set().await?;
    ///         Ok(())
    ///     })
    ///     .invariant("/limit", |znode| match znode {
    ///         Some((data, _stat)) if data.len() > 1 => Err(format!("{} digits", data.len())),
    ///         _ => Ok(()),
    ///     });
    /// let violation = sim.run(0).violation.expect("it has two digits");
    /// assert_eq!(violation.text, "/limit: 2 digits");
    /// ```
    pub fn invariant(
        self,
        path: &str,
        check: impl Fn(Option<(&[u8], &Stat)>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.invariant_with_state(path, move |_: &mut (), znode| check(znode))
    }

    /// As [`Sim::invariant`], with a value for what `check` has seen before. Each run begins with the
    /// default.
    ///
    /// ```
    /// use zoolet_testkit::sim::Sim;
    ///
    /// let sim = Sim::new()
    ///     .machine("writer", 1, |world| async move {
    ///         let client = world.connect().await?;
    ///         for version in 0..3 {
    ///             client.create("/epoch").data(version.to_string()).or_set().await?;
    ///         }
    ///         Ok(())
    ///     })
    ///     .invariant_with_state("/epoch", |last: &mut i32, znode| {
    ///         let version = znode.map_or(0, |(_data, stat)| stat.version);
    ///         let before = std::mem::replace(last, version);
    ///         if version < before { Err(format!("{version} after {before}")) } else { Ok(()) }
    ///     });
    /// sim.sweep(0..3);
    /// ```
    pub fn invariant_with_state<S: Default + Send + 'static>(
        mut self,
        path: &str,
        check: impl Fn(&mut S, Option<(&[u8], &Stat)>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let check = Arc::new(check);
        let begin = move || -> Box<InvariantCheck> {
            let (check, mut state) = (Arc::clone(&check), S::default());
            Box::new(move |znode: Option<(&[u8], &Stat)>| check(&mut state, znode))
        };
        self.programs.invariants.push(Invariant { path: path.to_owned(), begin: Arc::new(begin) });
        self
    }

    /// How often a kind of fault happens in a minute, to each machine or to the server; 0 for never.
    /// Each run has about half of the kinds only, and those more often. To one machine, a kind happens
    /// at most 200 times in a run.
    pub fn rate(mut self, kind: FaultKind, per_minute: f64) -> Self {
        self.programs.terms.rates.insert(kind, per_minute);
        self
    }

    /// Leaves out a kind of fault.
    pub fn without(self, kind: FaultKind) -> Self {
        self.rate(kind, 0.0)
    }

    /// Leaves out all other kinds of faults. Of these, one that would never happen, as
    /// [`FaultKind::Expiries`] by default, happens three times a minute.
    pub fn only(mut self, kinds: &[FaultKind]) -> Self {
        let rates = &mut self.programs.terms.rates;
        rates.retain(|kind, _| kinds.contains(kind));
        for kind in kinds {
            let rate = rates.entry(*kind).or_insert_with(|| kind.default_rate());
            if *rate <= 0.0 {
                *rate = RATE_IF_CHOSEN;
            }
        }
        self
    }

    /// How long faults last; 12 seconds by default.
    pub fn faults_for(mut self, time: Duration) -> Self {
        self.programs.terms.faults_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// How long machines may take to finish after the faults, and each of [`Sim::setup`] and
    /// [`Sim::at_end`]; a minute by default. It should be longer than a session timeout, which is at
    /// most 10 seconds, and 20 on an [ensemble](Sim::ensemble). A machine that calls
    /// [`World::goes_on`] needs to finish one whole round only.
    pub fn finish_within(mut self, time: Duration) -> Self {
        self.programs.finish_within = time;
        self
    }

    /// Looks also for machines that wait in vain. This is for programs in whose rounds nothing but locks
    /// is waited for, that enter a section in each round in which they acquire a lock or create any other
    /// ephemeral znode, and in which each program that waits for a lock is sure to go on within
    /// [`Sim::finish_within`] when nobody holds it. One that waits for a barrier, for a job or for news
    /// may wait for ever, since the others finish, and one that looks for work under a lock and enters
    /// a section if there is some may find none: they would be reported though they are right.
    ///
    /// Three things are [`ViolationKind::WaitsInVain`] then, or show it:
    ///
    /// - In half of the runs in which several machines enter sections, some more rounds follow. All
    ///   machines but one finish, and the messages of that one are up to 100 ms late. If a machine still
    ///   waits in a round after as long as machines may take to finish, and the sessions of all that have
    ///   finished are over, it is ended, and started again when its own session is over. If it has a whole
    ///   round with a section then, nobody held what it waited for, and nothing had woken it. There is no
    ///   such trial unless the other machines together have had ten whole rounds without faults.
    /// - A round without faults is no whole one in which a machine that has entered sections in several
    ///   rounds creates an ephemeral znode, as for a lock, and nobody is in a section from its beginning to
    ///   its end. So a lock that is dead is found also if each attempt gives up after a while.
    /// - [`Sim::search`] fails if machines have asked for ephemeral znodes, as for a lock, always in vain,
    ///   and none has entered a section in any of ten runs or more, while nothing else is checked. Without
    ///   this option [`Sim::sweep`] warns of it.
    ///
    /// Sections count together: a lock that is dead beside one that is used is found only if its waiters
    /// wait for ever. Give each lock a simulation of its own.
    ///
    /// ```
    /// use zoolet_recipes::InterProcessMutex;
    /// use zoolet_testkit::sim::Sim;
    ///
    /// Sim::new()
    ///     .machine("worker", 2, |world| async move {
    ///         let mutex = InterProcessMutex::new(&world.connect().await?, "/locks/stock")?;
    ///         while world.goes_on() {
    ///             let section = world.enter("stock", mutex.acquire().await?);
    ///             section.leave().release().await?;
    ///         }
    ///         Ok(())
    ///     })
    ///     .nobody_waits_in_vain()
    ///     .sweep(0..3);
    /// ```
    pub fn nobody_waits_in_vain(mut self) -> Self {
        self.programs.waits = Waits::ForLocks;
        self
    }

    /// Changes the configuration of the server, which has a tick of 500 ms by default. Where it listens
    /// and where its data is cannot be changed. An [ensemble](Sim::ensemble) has no configuration: the
    /// two together are refused.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.programs.config);
        self.programs.is_configured = true;
        self
    }

    /// Where [`Sim::sweep`] writes the page about a failure; `target/zoolet-sim` by default.
    pub fn page_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.page_directory = Some(directory.into());
        self
    }

    /// How many threads run seeds; all cores by default.
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = Some(jobs);
        self
    }

    /// Runs a seed, or a part of its faults and machines.
    #[must_use]
    pub fn run(&self, schedule: impl Into<Schedule>) -> RunResult {
        let outcome = self.outcome(&schedule.into(), false);
        let Outcome { hash, messages, violation, .. } = outcome;
        RunResult { hash, messages, violation }
    }

    #[cfg(test)]
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    pub(super) fn outcome(&self, schedule: &Schedule, keeps_entries: bool) -> Outcome {
        // A run has programs of its own, so that it may end on any thread.
        driver::run(&Arc::new(self.programs.clone()), schedule, keeps_entries)
    }

    /// Runs the seeds on all cores until one fails, and then searches for the smallest run of that
    /// seed that still fails in the same way.
    ///
    /// # Errors
    ///
    /// [`Failure`] with that run. Also if nothing can be run: there are no seeds or no machines, a rate
    /// is no number, or none of the chosen faults can happen. Also if ten runs or more have passed, and
    /// none had the znode of an [invariant](Sim::invariant). With [`Sim::nobody_waits_in_vain`] also if
    /// nobody has ever acquired a lock in them, while nothing else is checked ([`World::check`],
    /// [`World::shared`], [`Sim::at_end`]).
    pub fn search(&self, seeds: Range<u64>) -> Result<(), Failure> {
        self.test(seeds).map(drop)
    }

    fn test(&self, seeds: Range<u64>) -> Result<Tested, Failure> {
        if seeds.is_empty() {
            let text = format!("the range {}..{} has no seed", seeds.start, seeds.end);
            return Err(Failure::new(seeds.start.into(), Outcome::refused(text)));
        }
        self.check_that_it_repeats(seeds.start)?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or_else(cores);
        let (first, tested) = (seeds.start, Mutex::new(Tested::default()));
        let run = |seed: u64| {
            let outcome = self.outcome(&seed.into(), false);
            tested.lock().add(&outcome.tested);
            outcome
        };
        let swept = sweep::sweep(seeds, jobs, run, |outcome| outcome.violation.is_some());
        if let Some((seed, outcome)) = swept.failure {
            let run = |schedule: &Schedule, keeps_entries| self.outcome(schedule, keeps_entries);
            return Err(Failure::shrink(run, seed.into(), outcome));
        }
        let tested = tested.into_inner();
        let paths = self.programs.invariants.iter().map(|invariant| &*invariant.path);
        match tested.refusal(paths, self.programs.waits) {
            Some(text) => {
                let violation = Some(Violation { kind: ViolationKind::Untested, text, ms: 0 });
                Err(Failure::new(first.into(), Outcome { violation, ..Outcome::default() }))
            }
            None => Ok(tested),
        }
    }

    /// A program that takes chance or time from elsewhere makes seeds useless.
    fn check_that_it_repeats(&self, seed: u64) -> Result<(), Failure> {
        let schedule = Schedule::from(seed);
        let (first, second) = (self.outcome(&schedule, true), self.outcome(&schedule, true));
        if first.is_refused() {
            // Other threads might run what this one cannot, and nothing would be repeated.
            Err(Failure::new(schedule, first))
        } else if first.hash == second.hash {
            Ok(())
        } else {
            Err(Failure::unrepeatable(seed, &first, &second))
        }
    }

    /// Runs the seeds, and panics with the report if one fails: for tests. Otherwise it prints how many
    /// faults happened, and how often machines entered sections: with few, little was tested. A test
    /// shows it with `--nocapture`.
    ///
    /// The variable `ZOOLET_SIM_SEEDS` (`0..100000`) takes the place of the seeds, and
    /// `ZOOLET_SIM_REPLAY` runs one schedule, as the report of a failure shows it.
    ///
    /// # Panics
    ///
    /// If a run has a violation, with its report: the seed, the story of the smallest run that fails
    /// in the same way, how to repeat it, and the path of a page with its timeline. Also if one of the
    /// variables cannot be read.
    pub fn sweep(&self, seeds: Range<u64>) {
        if let Some(schedule) = variable(REPLAY_VARIABLE) {
            let schedule: Result<Schedule, String> = schedule.parse();
            let schedule = schedule.unwrap_or_else(|error| panic!("{REPLAY_VARIABLE}: {error}"));
            let text = format!("{REPLAY_VARIABLE}={schedule} has no violation");
            self.replay(schedule);
            tell_at_once(&format!("{text}: it is of another test, or what it found is mended"));
            return;
        }
        let seeds = match variable(SEEDS_VARIABLE) {
            Some(text) => {
                seeds_of(&text).unwrap_or_else(|error| panic!("{SEEDS_VARIABLE}: {error}"))
            }
            None => seeds,
        };
        match self.test(seeds) {
            Ok(tested) => {
                println!("{tested}");
                tested.warning().iter().for_each(|warning| tell_at_once(warning));
            }
            Err(failure) => panic!("{}", self.report(&failure)),
        }
    }

    /// Runs one schedule, and panics with the report if it fails.
    ///
    /// # Panics
    ///
    /// As [`Sim::sweep`].
    pub fn replay(&self, schedule: impl Into<Schedule>) {
        if let Err(failure) = self.try_replay(schedule) {
            panic!("{}", self.report(&failure));
        }
    }

    /// Runs one schedule as it is, without a search for a smaller one.
    ///
    /// ```
    /// use zoolet_testkit::sim::Sim;
    ///
    /// let sim = Sim::new().machine("worker", 1, |world| async move {
    ///     world.fail("it is broken");
    ///     Ok(())
    /// });
    /// let failure = sim.search(0..1).unwrap_err();
    /// let again = sim.try_replay(failure.schedule().clone()).unwrap_err();
    /// assert_eq!(again.to_string(), failure.to_string());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Failure`] with that run.
    pub fn try_replay(&self, schedule: impl Into<Schedule>) -> Result<(), Failure> {
        let schedule = schedule.into();
        let outcome = self.outcome(&schedule, true);
        match outcome.violation {
            Some(_) => Err(Failure::new(schedule, outcome)),
            None => Ok(()),
        }
    }

    fn report(&self, failure: &Failure) -> Report {
        Report::write(failure, self.page_directory.clone())
    }
}

/// A test that [sweeps](Sim::sweep) seeds of a simulation.
///
/// ```
/// use zoolet_testkit::sim::{MachineResult, Sim, World};
/// use zoolet_testkit::sim_test;
///
/// async fn worker(world: World) -> MachineResult {
///     world.connect().await?.create(&format!("/{}", world.name())).or_set().await?;
///     Ok(())
/// }
///
/// sim_test!(workers_do_not_disturb_each_other, 0..1_000, Sim::new().machine("worker", 3, worker));
/// ```
#[macro_export]
macro_rules! sim_test {
    ($name:ident, $seeds:expr, $sim:expr $(,)?) => {
        #[test]
        fn $name() {
            $sim.sweep($seeds);
        }
    };
}

/// Tells what a person must see though the test passes, which keeps what `println!` prints. If nobody can
/// be told, nothing else is lost.
fn tell_at_once(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}

/// The value of an environment variable. An empty one is none.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Seeds as `FIRST..END`.
fn seeds_of(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is not a range of seeds; write FIRST..END");
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| number(text).ok_or_else(wrong);
    let seeds = number(first)?..number(end)?;
    // A test that runs nothing would pass.
    if seeds.is_empty() {
        return Err(format!("{text:?} has no seed; write FIRST..END, with END above FIRST"));
    }
    Ok(seeds)
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machines: Vec<_> =
            self.programs.kinds.iter().map(|kind| (&kind.name, kind.count)).collect();
        f.debug_struct("Sim").field("machines", &machines).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_and_a_range_without_one_is_refused() {
        assert_eq!(seeds_of("0..100_000"), Ok(0..100_000));
        assert_eq!(seeds_of(" 3 .. 5 "), Ok(3..5));
        for text in ["", "5", "a..b", "5..5", "100..0", "0..=5"] {
            assert!(seeds_of(text).is_err(), "{text:?}");
        }
    }
}
