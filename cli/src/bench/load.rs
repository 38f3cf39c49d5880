//! `zoolet bench load`: a mixture of operations.

mod mix;
mod options;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::Args;
use tokio::task::JoinSet;

use self::mix::{Mix, Op};
use self::options::LoadOptions;
use self::worker::{Tally, Worker};
use super::clock::now;
use super::common::Common;
use super::failure::Failure;
use super::latency::{Latencies, P50};
use super::metrics::{BYTES, CPU, MEMORY, PER_SECOND};
use super::outcome::Outcome;
use super::report::{Across, Bars, Plot, Story};
use super::run::Workload;
use super::server::{BenchServer, unpanicked, work_for};
use super::values::{Label, Metric, Part, Unit, Value, grouped};

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Load {
    #[command(flatten)]
    options: LoadOptions,

    #[command(flatten)]
    pub(super) common: Common,
}

/// The plan of a run.
#[derive(Debug)]
pub(super) struct Plan {
    mix: Mix,
    sessions: usize,
    depth: usize,
    duration: std::time::Duration,
    warm_up: std::time::Duration,
    data_size: usize,
    znodes: usize,
}

impl Load {
    /// Makes the plan from the options and the file.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] if the file cannot be read or parsed.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        self.options.plan()
    }
}

/// How many znodes are created at once before the run.
const CREATE_TOGETHER: usize = 256;

impl Workload for Plan {
    const NAME: &'static str = "load";
    type Point = ();

    fn points(&self) -> Vec<()> {
        vec![()]
    }

    fn describe(&self, (): &()) -> String {
        format!("{} sessions with {} requests under way", self.sessions, self.depth)
    }

    fn story(&self, outcome: &Outcome) -> Story {
        let told = |server| {
            let row = outcome.rows.iter().find(|row| row.server == server)?;
            Some(format!(
                "{} carries out {} operations in a second, half of them within {}.",
                outcome.server_name(server),
                grouped(row.value(PER_SECOND)?),
                P50.unit.text(row.value(P50)?),
            ))
        };
        let is_there = |op: &&Op| {
            let label = Label::Text(op.name());
            outcome.rows.iter().any(|row| row.label(OPERATION) == Some(&label))
        };
        let legend = Op::ALL.iter().filter(is_there).map(|op| (op.name(), "")).collect();
        let (bars, plots) = (vec![THROUGHPUT], vec![LATENCY]);
        Story { bars, plots, legend, ..Story::of_servers(outcome, told) }
    }

    async fn measure(&self, server: &mut BenchServer, (): &()) -> Result<Vec<Part>, Failure> {
        let clients = server.clients(self.sessions).await?;
        let path = server.new_path();
        self.populate(server, &path).await?;
        let phase = Arc::new(AtomicU8::new(WARM_UP));
        let mut tasks = JoinSet::new();
        for (session, client) in clients.iter().enumerate() {
            for slot in 0..self.depth {
                let name = format!("{session}-{slot}");
                let worker = Worker::new(client.clone(), &path, name, self);
                tasks.spawn(worker.run(Arc::clone(&phase)));
            }
        }
        work_for(self.warm_up, &mut tasks).await?;
        let (before, cpu_before) = (server.carried(), server.process.cpu_time());
        phase.store(MEASURED, Ordering::SeqCst);
        let begin = now();
        work_for(self.duration, &mut tasks).await?;
        phase.store(OVER, Ordering::SeqCst);
        let (carried, seconds) = (server.carried().since(before), begin.elapsed().as_secs_f64());
        let cpu = server.process.cpu_time_since(cpu_before);
        let mut tally = Tally::default();
        while let Some(joined) = server.in_time(tasks.join_next()).await? {
            tally.add(&unpanicked(joined)?);
        }
        let mut all = Latencies::new();
        tally.latencies.values().for_each(|latencies| all.add(latencies));
        let count = all.count() as f64;
        let each = |number: f64| (count > 0.0).then(|| number / count);
        let mut parts = vec![part(ALL, &all, seconds)];
        parts[0].values.extend([
            (BYTES, each(carried.bytes as f64)),
            (CPU, cpu.and_then(|cpu| each(cpu.as_secs_f64() * MICROSECONDS))),
            (MEMORY, server.process.resident_bytes()),
        ]);
        let of_op = |(op, latencies): (&Op, &Latencies)| part(op.name(), latencies, seconds);
        parts.extend(tally.latencies.iter().map(of_op));
        Ok(parts)
    }
}

const MICROSECONDS: f64 = 1e6;

/// The phases of a run.
pub(super) const WARM_UP: u8 = 0;
pub(super) const MEASURED: u8 = 1;
pub(super) const OVER: u8 = 2;

const OPERATION: &str = "operation";

/// The name of the row of all operations together.
const ALL: &str = "all";

const THROUGHPUT: Bars = Bars {
    title: "Operations in a second",
    about: "All together, and those of each kind.",
    label: OPERATION,
    metric: PER_SECOND,
};

const LATENCY: Plot = Plot {
    title: "How long an operation takes",
    about: "The time within which half of them are answered, 90%, 99%, 99.9%, and the longest. \
            Upwards it is logarithmic. Point at a dot for its number.",
    across: Across::Quantiles,
    lines: Some(OPERATION),
    metric: P50,
    dashed: None,
    only: None,
    // This row is the sum of the others.
    without: Some((OPERATION, ALL)),
};

const COUNT: Metric = Metric { key: "operations", heading: "operations", unit: Unit::Count };

fn part(name: &'static str, latencies: &Latencies, seconds: f64) -> Part {
    let count = latencies.count() as f64;
    let mut values: Vec<Value> = vec![(COUNT, Some(count)), (PER_SECOND, Some(count / seconds))];
    values.extend(latencies.values());
    Part { labels: vec![(OPERATION, Label::Text(name))], values }
}

impl Plan {
    /// Creates the znodes that are read and written.
    async fn populate(&self, server: &BenchServer, path: &str) -> Result<(), Failure> {
        let observer = &server.observer;
        observer.create(path).await?;
        observer.create(&format!("{path}/{KEPT}")).await?;
        observer.create(&format!("{path}/{CREATED}")).await?;
        let data = bytes::Bytes::from(vec![b'z'; self.data_size]);
        for first in (0..self.znodes).step_by(CREATE_TOGETHER) {
            let together = first..self.znodes.min(first + CREATE_TOGETHER);
            let create = |number: usize| {
                let path = format!("{path}/{KEPT}/{number}");
                observer.create(&path).data(data.clone()).send()
            };
            // All are sent before the first answer is awaited.
            let sent: Vec<_> = together.map(create).collect();
            for created in sent {
                created.await?;
            }
        }
        Ok(())
    }
}

const AFTER_HELP: &str = "\
A file for --config has the names of the options, and a table for the mixture:
  sessions = 64
  duration = \"10s\"
  [mix]
  get = 80
  set = 20";

/// The parent of the znodes that are read and written.
const KEPT: &str = "kept";

/// The parent of the znodes that are created and deleted.
const CREATED: &str = "created";
