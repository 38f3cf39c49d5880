//! `zoolet sweep`: runs a test again and again, each time with another fault at another request.

mod campaign;
mod failure;
mod front;
mod job;
mod kind;
mod limits;
mod plan;
mod point;
mod report;
mod reports;
mod run;
mod stage;
mod tracker;
mod variables;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use self::campaign::{Campaign, Outcome, Stop};
use self::failure::{BROKEN, FAILS_BY_ITSELF, Failure, NOT_REACHED};
use self::job::Show;
use self::kind::{Kind, PointFault, Times};
use self::limits::{FIRST_RUN_MAX, LINES_IN_FILES, TIME_LIMIT_ADDED, TIME_LIMIT_FACTOR};
use self::plan::{Choice, PathChoice};
use self::report::{Report, text};
use self::reports::{Format, Reports};
use self::run::{Run, Runner};
use self::tracker::Seen;
use crate::logging::{self, LogLevel};
use crate::serve::raise_descriptor_limit;
use crate::server_options::values;
use crate::signals::Signals;
use crate::{complain, notice};

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Sweep {
    /// The command of the test, and its arguments; it passes if its exit status is 0
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,

    /// Only these kinds of faults
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',', help_heading = CHOICE)]
    only: Vec<Kind>,

    /// Only at requests that name this path or one below it, or a path that this pattern matches
    #[arg(long, value_name = "PATH", value_parser = PathChoice::parse, help_heading = CHOICE)]
    path: Option<PathChoice>,

    /// Only so many of the faults, chosen by the seed
    #[arg(long, value_name = "COUNT", value_parser = values::some, help_heading = CHOICE)]
    sample: Option<usize>,

    /// Which faults --sample chooses
    #[arg(long, value_name = "SEED", default_value_t = 0, help_heading = CHOICE)]
    seed: u64,

    /// Only the fault with this id of a report, and show the whole output of the command
    #[arg(long, value_name = "ID")]
    #[arg(conflicts_with_all = ["only", "path", "sample", "list", "junit", "json", "html"])]
    #[arg(help_heading = CHOICE)]
    replay: Option<String>,

    /// Only list the requests at which a fault can be injected
    #[arg(long, conflicts_with_all = ["sample", "junit", "json", "html"], help_heading = CHOICE)]
    list: bool,

    /// How many runs at a time [default: one for each processor]
    #[arg(long, short, value_name = "COUNT", value_parser = values::some, help_heading = RUNS)]
    jobs: Option<usize>,

    /// How long a run may take [default: ten times the first run, and 10s more than it at least]
    #[arg(long, value_name = "TIME", value_parser = values::some_time, help_heading = RUNS)]
    timeout: Option<Duration>,

    /// How much later a reply leaves by the fault `delay` [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = values::some_time, help_heading = RUNS)]
    delay: Option<Duration>,

    /// How long the server stops by the fault `freeze` [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = values::some_time, help_heading = RUNS)]
    freeze: Option<Duration>,

    /// How long a server is behind by the fault `stale` [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = values::some_time, help_heading = RUNS)]
    stale: Option<Duration>,

    /// Write a report for CI servers, in JUnit's XML; `-` is stdout
    #[arg(long, value_name = "FILE", help_heading = REPORTS)]
    junit: Option<PathBuf>,

    /// Write a report as JSON; `-` is stdout
    #[arg(long, value_name = "FILE", help_heading = REPORTS)]
    json: Option<PathBuf>,

    /// Write a report as a page for a browser; `-` is stdout
    #[arg(long, value_name = "FILE", help_heading = REPORTS)]
    html: Option<PathBuf>,

    /// How much to log [default: error, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

const CHOICE: &str = "Which faults";
const RUNS: &str = "Runs";
const REPORTS: &str = "Reports";

impl Sweep {
    /// Makes the sweep, reports, and returns the exit status.
    pub(crate) fn run(self) -> ExitCode {
        logging::start(self.log_level, LogLevel::Error);
        raise_descriptor_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(self.swept()),
            Err(error) => Err(Failure::System(error)),
        };
        match result {
            Ok(code) => ExitCode::from(code),
            Err(failure) => {
                if failure.is_told() {
                    complain(&failure);
                }
                ExitCode::from(failure.exit_code())
            }
        }
    }

    async fn swept(self) -> Result<u8, Failure> {
        // Before the signals are caught: it may wait for the reader of a pipe.
        let reports = self.reports()?;
        // Before a command is started, so that no signal leaves one behind.
        let mut signals = Signals::new().map_err(Failure::System)?;
        reports.begin(&self.command)?;
        let runner = Arc::new(Runner { command: self.command.clone(), times: self.times() });
        let first = match self.first_run(&runner, &mut signals).await {
            Ok(first) => first,
            Err(failure) => return Err(reports.not_made(&self.command, failure)),
        };
        let limit = self.timeout.unwrap_or_else(|| limit_after(first.took));
        if let Some(id) = &self.replay {
            return self.replay(id, &first.requests.seen, limit, &runner, &mut signals).await;
        }
        let choice = self.choice();
        if self.list {
            let list = text::points(&choice.points(&first.requests.seen)?, &choice.kinds);
            let unwritten = |error| Failure::Report { path: "stdout".into(), error };
            return crate::print(&list).map(|()| 0).map_err(unwritten);
        }
        let (points, faults) = match chosen(&choice, &first) {
            Ok(chosen) => chosen,
            Err(failure) => return Err(reports.not_made(&self.command, failure)),
        };
        let campaign = Campaign { runner, faults, jobs: self.jobs(), limit };
        self.swept_with(first, points, campaign, &reports, &mut signals).await
    }

    /// Runs the command without a fault.
    async fn first_run(&self, runner: &Runner, signals: &mut Signals) -> Result<Run, Failure> {
        let limit = self.timeout.unwrap_or(FIRST_RUN_MAX);
        let first = until_signal(signals, runner.run(None, limit, Show::Keep)).await?;
        check_first(&first, limit)?;
        Ok(first)
    }

    /// Runs the command with each of the faults, and reports.
    async fn swept_with(
        &self,
        first: Run,
        points: Vec<Seen>,
        campaign: Campaign,
        reports: &Reports,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        let (times, limit, planned) =
            (campaign.runner.times, campaign.limit, campaign.faults.len());
        notice(&text::begin(&first, points.len(), planned, campaign.jobs));
        let trials = campaign.run(signals).await;
        let (command, options) = (&self.command[..], self.fault_options());
        let mut report = Report { command, options, times, limit, planned, first, points, trials };
        let printed = reports.print(&text::write(&report));
        reports.write(&report)?;
        printed?;
        match report.trials.stopped_by.take() {
            None => Ok(exit_code(&report)),
            Some(Stop::Signal(signal)) => Err(Failure::Signal(signal)),
            Some(Stop::Failure(failure)) => Err(failure),
        }
    }

    fn reports(&self) -> Result<Reports, Failure> {
        Reports::open([
            (Format::Junit, self.junit.as_deref()),
            (Format::Json, self.json.as_deref()),
            (Format::Html, self.html.as_deref()),
        ])
    }

    fn jobs(&self) -> usize {
        self.jobs.unwrap_or_else(processors)
    }

    fn times(&self) -> Times {
        Times {
            delay: self.delay.unwrap_or(Times::DEFAULT.delay),
            freeze: self.freeze.unwrap_or(Times::DEFAULT.freeze),
            stale: self.stale.unwrap_or(Times::DEFAULT.stale),
        }
    }

    /// The options about times that were given, each with a space after it. A fault repeats only with
    /// these: a command that hung did so within the time limit that was given.
    fn fault_options(&self) -> String {
        let given = [
            ("timeout", self.timeout),
            ("delay", self.delay),
            ("freeze", self.freeze),
            ("stale", self.stale),
        ];
        let given = given.into_iter().filter_map(|(name, time)| Some((name, time?)));
        given.map(|(name, time)| format!("--{name} {} ", time.as_secs_f64())).collect()
    }

    fn choice(&self) -> Choice {
        let mut kinds = Kind::ALL.to_vec();
        if !self.only.is_empty() {
            kinds.retain(|kind| self.only.contains(kind));
        }
        Choice { kinds, path: self.path.clone(), sample: self.sample, seed: self.seed }
    }

    /// Runs the command with one fault, and shows what it prints.
    async fn replay(
        &self,
        id: &str,
        points: &[Seen],
        limit: Duration,
        runner: &Runner,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        let fault = plan::fault(id, points)?;
        notice(&format!("{id}: {}", fault.sentence(runner.times)));
        let limit = limit.saturating_add(fault.kind.takes(runner.times));
        let run = until_signal(signals, runner.run(Some(&fault), limit, Show::Pass)).await?;
        let trial = campaign::Trial { fault, run };
        notice(&text::replayed(&trial, limit));
        Ok(match trial.outcome() {
            Outcome::Passed => 0,
            Outcome::Broke => BROKEN,
            Outcome::NotReached => NOT_REACHED,
            Outcome::FailedByItself => FAILS_BY_ITSELF,
        })
    }
}

/// Awaits a run, which is killed when a signal comes.
async fn until_signal(
    signals: &mut Signals,
    run: impl Future<Output = Result<Run, Failure>>,
) -> Result<Run, Failure> {
    tokio::select! {
        run = run => run,
        signal = signals.next() => Err(Failure::Signal(signal)),
    }
}

/// A sweep tells something only of a command that passes without a fault, and uses the server.
fn check_first(first: &Run, limit: Duration) -> Result<(), Failure> {
    if !first.ending.is_success() {
        let how = text::ending(first.ending, limit);
        let printed = first.output.trim_end();
        let output = report::last_lines(first, LINES_IN_FILES).join("\n");
        if printed.is_empty() {
            let how = format!("{how}, and prints nothing");
            return Err(Failure::FailsByItself { how, output });
        }
        notice(printed);
        return Err(Failure::FailsByItself { how: format!("{how}, with this output"), output });
    }
    match first.requests.seen.is_empty() {
        true => Err(Failure::NoRequests),
        false => Ok(()),
    }
}

/// The points that are chosen, and the faults at them.
fn chosen(choice: &Choice, first: &Run) -> Result<(Vec<Seen>, Vec<PointFault>), Failure> {
    let points = choice.points(&first.requests.seen)?;
    let faults = choice.faults(&points)?;
    Ok((points, faults))
}

/// How long a run with a fault may take, if one without takes `first`.
fn limit_after(first: Duration) -> Duration {
    first.saturating_mul(TIME_LIMIT_FACTOR).max(first.saturating_add(TIME_LIMIT_ADDED))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn exit_code(report: &Report<'_>) -> u8 {
    if report.count(Outcome::Broke) > 0 {
        BROKEN
    } else if report.count(Outcome::FailedByItself) > 0 {
        FAILS_BY_ITSELF
    } else if report.count(Outcome::Passed) == 0 {
        NOT_REACHED
    } else {
        0
    }
}

const AFTER_HELP: &str = "\
The command is run once without a fault, on a new server in this process, whose address it finds
in ZOOLET_CONNECT_STRING (127.0.0.1:40123; ZOOKEEPER_HOSTS, ZOOKEEPER_CONNECT, ZK_HOSTS and some
more have the same value). Then it is run again for each request that it sent and each kind of
fault, each time on a new server with that one fault. A fault breaks it if its exit status is
not 0, or if it does not end in time. Runs that share files or ports need --jobs 1.

A request is found again by its session, its operation, its path, and the how manieth of these
it is; numbers and generated names in paths do not matter. If it does not come, the fault was
not reached, which counts as neither passed nor broken.

    zoolet sweep -- python3 -m pytest -q test_lock.py
    zoolet sweep --only reply-lost,expire --path /locks --junit sweep.xml -- ./test.sh
    zoolet sweep --replay reply-lost-f8e73ff70e -- python3 -m pytest -q test_lock.py

Exit status: 0 if no fault broke the command, 1 if one did, 2 if the arguments are wrong, 3 if
the command fails without a fault or never uses the server, 4 if no request of a fault came again,
70 if no server can be started, 71 if the system refused what this needs, 73 if a report cannot be
written, 126 or 127 if the command cannot be run, 130 after Ctrl-C, which prints what was found by
then.";
