//! `zoolet bench lock`: how many acquisitions there are in a second, and how long each takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::task::JoinSet;
use zoolet_recipes::InterProcessLock;

use super::clock::now;
use super::common::{Common, unique};
use super::exclusion::Exclusion;
use super::failure::Failure;
use super::latency::{Latencies, P50, P99};
use super::lock_algorithm::{LOCK, LockAlgorithm};
use super::metrics::{BYTES, CPU, EVENTS, PER_SECOND, REQUESTS};
use super::outcome::{Outcome, Row};
use super::report::{Plot, Story};
use super::run::Workload;
use super::server::{BenchServer, unpanicked, work_for};
use super::values::{Label, Part, grouped};
use crate::server_options::values;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
pub(super) struct Locks {
    /// How many clients acquire and release without a pause, each with a session of its own
    #[arg(long, value_name = "COUNT,..", default_value = "1,8,32", value_delimiter = ',')]
    #[arg(value_parser = values::some)]
    clients: Vec<usize>,

    /// Whether they contend for one path, or have one each
    #[arg(long, value_name = "WHICH,..", value_enum, value_delimiter = ',')]
    #[arg(default_values_t = [Paths::Own, Paths::One])]
    paths: Vec<Paths>,

    /// Which locks
    #[arg(long = "lock", value_name = "KIND,..", value_enum, value_delimiter = ',')]
    #[arg(default_values_t = LockAlgorithm::ALL)]
    locks: Vec<LockAlgorithm>,

    /// How long each round measures
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::some_time)]
    duration: Duration,

    /// How long each round runs before it measures
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = values::time)]
    warm_up: Duration,

    #[command(flatten)]
    pub(super) common: Common,
}

/// The name of [`Paths::Own`].
const OWN: &str = "own";

/// Which paths the clients lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Paths {
    /// Each client has a path of its own: nobody waits
    Own,
    /// All contend for one path
    One,
}

impl Paths {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => OWN,
            Self::One => "one",
        }
    }
}

/// A lock, the number of clients, and whether they lock one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    kind: LockAlgorithm,
    clients: usize,
    paths: Paths,
}

impl Workload for Locks {
    const NAME: &'static str = "lock";
    type Point = Point;

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        let locks = unique(&self.locks);
        for paths in unique(&self.paths) {
            for clients in unique(&self.clients) {
                // A single client cannot contend.
                if clients == 1 && paths == Paths::One && self.paths.contains(&Paths::Own) {
                    continue;
                }
                points.extend(locks.iter().map(|&kind| Point { kind, clients, paths }));
            }
        }
        points
    }

    fn describe(&self, Point { kind, clients, paths }: &Point) -> String {
        format!("{clients} clients, {} path, {}", paths.name(), kind.name())
    }

    fn story(&self, outcome: &Outcome) -> Story {
        let told = |server| {
            let rows = outcome.rows.iter().filter(move |row| row.server == server);
            let rates = rows.filter_map(|row| Some((row, row.value(PER_SECOND)?)));
            let (row, rate) = rates.max_by(|one, other| one.1.total_cmp(&other.1))?;
            let labels: Vec<String> =
                row.labels.iter().map(|(_, label)| label.to_string()).collect();
            let (name, rate) = (outcome.server_name(server), grouped(rate));
            let [path, clients, lock] = labels.as_slice() else { return None };
            let (who, whose) = match (clients.as_str(), path.as_str()) {
                ("1", _) => ("client", "alone"),
                (_, OWN) => ("clients", "each on a path of its own"),
                _ => ("clients", "all on one path"),
            };
            Some(format!(
                "On {name} there are {rate} acquisitions in a second at most: {lock}, \
                 {clients} {who}, {whose}."
            ))
        };
        let legend = LockAlgorithm::ALL.map(|kind| (kind.name(), kind.meaning())).to_vec();
        // Plots without measurements would be empty.
        let has_rows = |plot: &&Plot| {
            let paths = plot.only.map(|(_, paths)| paths);
            let is_of =
                |row: &Row| paths.is_none_or(|paths| row.label(PATH) == Some(&Label::Text(paths)));
            outcome.rows.iter().any(is_of)
        };
        let plots = PLOTS.iter().filter(has_rows).copied().collect();
        Story { plots, legend, ..Story::of_servers(outcome, told) }
    }

    async fn measure(&self, server: &mut BenchServer, point: &Point) -> Result<Vec<Part>, Failure> {
        let clients = server.clients(point.clients).await?;
        let shared = (server.new_path(), Exclusion::default());
        let phase = Arc::new(Phase::default());
        let mut tasks = JoinSet::new();
        for client in &clients {
            let (path, exclusion) = match point.paths {
                Paths::One => shared.clone(),
                Paths::Own => (server.new_path(), Exclusion::default()),
            };
            let lock = point.kind.lock(client, &path)?;
            tasks.spawn(in_turns(lock, exclusion, Arc::clone(&phase)));
        }
        work_for(self.warm_up, &mut tasks).await?;
        let (before, cpu_before) = (server.carried(), server.process.cpu_time());
        phase.is_measured.store(true, Ordering::SeqCst);
        let begin = now();
        work_for(self.duration, &mut tasks).await?;
        phase.is_measured.store(false, Ordering::SeqCst);
        let (carried, seconds) = (server.carried().since(before), begin.elapsed().as_secs_f64());
        let cpu = server.process.cpu_time_since(cpu_before);
        phase.is_over.store(true, Ordering::SeqCst);
        let mut latencies = Latencies::new();
        while let Some(joined) = server.in_time(tasks.join_next()).await? {
            latencies.add(&unpanicked(joined)?);
        }
        server.rest().await?;
        let count = latencies.count() as f64;
        let each = |number: u64| (count > 0.0).then(|| number as f64 / count);
        let mut values = vec![(PER_SECOND, Some(count / seconds))];
        values.extend(latencies.values());
        values.extend([
            (REQUESTS, each(carried.requests)),
            (EVENTS, each(carried.events)),
            (BYTES, each(carried.bytes)),
            (CPU, cpu.and_then(|cpu| each(cpu.as_micros() as u64))),
        ]);
        let labels = vec![
            (PATH, Label::Text(point.paths.name())),
            (CLIENTS, Label::Number(point.clients)),
            (LOCK, Label::Text(point.kind.name())),
        ];
        Ok(vec![Part { labels, values }])
    }
}

const fn plot(title: &'static str, about: &'static str, paths: Paths) -> Plot {
    let only = Some((PATH, paths.name()));
    Plot { lines: Some(LOCK), only, ..Plot::of(title, about, CLIENTS, PER_SECOND) }
}

/// The plot of how long an acquisition takes.
const fn times(title: &'static str, about: &'static str, paths: Paths) -> Plot {
    Plot { metric: P50, dashed: Some(P99), ..plot(title, about, paths) }
}

const PLOTS: [Plot; 4] = [
    plot(
        "Acquisitions in a second, each client on a path of its own",
        "Nobody waits for anybody. All clients together, by how many there are; both axes are \
         logarithmic. Point at a dot for its number.",
        Paths::Own,
    ),
    times(
        "How long an acquisition takes, each on a path of its own",
        "From the call to acquire until the lock is held, by how many clients there are. Lines are \
         medians, dashed ones the 99th percentile.",
        Paths::Own,
    ),
    plot(
        "Acquisitions in a second, all on one path",
        "One client holds the lock and the others wait. All together, by how many contend.",
        Paths::One,
    ),
    times(
        "How long an acquisition takes, all on one path",
        "With the time that it waits for those before it. Lines are medians, dashed ones the 99th \
         percentile.",
        Paths::One,
    ),
];

const PATH: &str = "path";
const CLIENTS: &str = "clients";

/// The phases of a run.
#[derive(Debug, Default)]
struct Phase {
    is_measured: AtomicBool,
    is_over: AtomicBool,
}

/// Acquires and releases until the run ends, and returns the times of the acquisitions.
async fn in_turns(
    lock: Box<dyn InterProcessLock>,
    exclusion: Exclusion,
    phase: Arc<Phase>,
) -> Result<Latencies, Failure> {
    let mut latencies = Latencies::new();
    while !phase.is_over.load(Ordering::SeqCst) {
        let begin = now();
        let guard = lock.acquire().await?;
        let time = begin.elapsed();
        exclusion.enter(&*guard);
        if phase.is_measured.load(Ordering::SeqCst) {
            latencies.record(time);
        }
        exclusion.leave();
        guard.release().await?;
    }
    exclusion.check().map(|()| latencies)
}
