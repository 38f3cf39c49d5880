//! `zoolet bench herd`: what a hand-over costs, by the number of waiters.

mod story;

use std::time::Duration;

use clap::Args;

use super::clock::now;
use super::common::{Common, unique};
use super::failure::Failure;
use super::hand_over::Line;
use super::latency::Latencies;
use super::lock_algorithm::LockAlgorithm;
use super::metrics::{BYTES, CPU, EVENTS, HAND_OVERS, REQUESTS, ROUND_TRIP};
use super::outcome::Outcome;
use super::report::Story;
use super::run::Workload;
use super::server::{BenchServer, unpanicked};
use super::values::{Label, Named, Part};
use crate::server_options::values;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
pub(super) struct Herd {
    /// How many wait for the lock
    #[arg(long, value_name = "COUNT,..", default_value = "1,10,100,500", value_delimiter = ',')]
    #[arg(value_parser = values::some)]
    waiters: Vec<usize>,

    /// Which locks
    #[arg(long = "lock", value_name = "KIND,..", value_enum, value_delimiter = ',')]
    #[arg(default_values_t = LockAlgorithm::ALL)]
    locks: Vec<LockAlgorithm>,

    /// How many hand-overs each round measures
    #[arg(long, alias = "hand-offs", value_name = "COUNT", default_value = "100")]
    #[arg(value_parser = values::some)]
    hand_overs: usize,

    /// How long a round may take; it makes at least ten hand-overs
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::some_time)]
    time_limit: Duration,

    /// The most who wait for the two locks that wake them all: each hand-over costs them a request
    /// and more apiece
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = values::some)]
    herd_waiters_max: usize,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Hand-overs before the first that is measured: by then every holder has waited.
const WARM_UP: usize = 3;

/// The least number of hand-overs in a round.
const HAND_OVERS_MIN: usize = 10;

/// How many requests measure what one request takes.
const ROUND_TRIPS: usize = 30;

/// A lock, and the number of waiters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    kind: LockAlgorithm,
    waiters: usize,
}

impl Workload for Herd {
    const NAME: &'static str = "herd";
    type Point = Point;

    fn points(&self) -> Vec<Point> {
        let mut waiters = self.waiters.clone();
        waiters.sort_unstable();
        waiters.dedup();
        let locks = unique(&self.locks);
        let each = |waiters| locks.iter().map(move |&kind| Point { kind, waiters });
        let is_left_out =
            |point: &Point| point.kind.is_herd() && point.waiters > self.herd_waiters_max;
        waiters.into_iter().flat_map(each).filter(|point| !is_left_out(point)).collect()
    }

    fn describe(&self, point: &Point) -> String {
        format!("{} waiters, {}", point.waiters, point.kind.name())
    }

    fn notes(&self) -> Vec<String> {
        let is_cut = self.waiters.iter().any(|&waiters| waiters > self.herd_waiters_max);
        let has_herd = self.locks.iter().any(|kind| kind.is_herd());
        let note = || {
            format!(
                "The two herd locks were not measured with more than {} waiters \
                 (--herd-waiters-max).",
                self.herd_waiters_max
            )
        };
        let mut notes: Vec<String> = (is_cut && has_herd).then(note).into_iter().collect();
        notes.push(
            "One request: the median of a request and its answer, asked as each hand-over is when \
             nothing has moved for two milliseconds. Both begin in a task, so that a thread of the \
             clients is awake by then. A processor that has to wake up takes longer than one that \
             is busy, and a hand-over takes such a round trip at least."
                .to_owned(),
        );
        notes
    }

    fn story(&self, outcome: &Outcome) -> Story {
        story::story(outcome)
    }

    async fn measure(&self, server: &mut BenchServer, point: &Point) -> Result<Vec<Part>, Failure> {
        let clients = server.clients(point.waiters + 1).await?;
        let path = server.new_path();
        let server = &*server;
        let mut line = Line::start(server, point.kind, &path, &clients).await?;
        for _ in 0..WARM_UP {
            line = line.hand_over().await?.0;
        }
        server.settle().await?;
        let (before, cpu_before) = (server.carried(), server.process.cpu_time());
        let mut latencies = Latencies::new();
        let begin = now();
        for hand_over in 0..self.hand_overs {
            if hand_over >= HAND_OVERS_MIN && begin.elapsed() > self.time_limit {
                break;
            }
            let time;
            (line, time) = line.hand_over().await?;
            latencies.record(time);
        }
        server.settle().await?;
        let carried = server.carried().since(before);
        let cpu = server.process.cpu_time_since(cpu_before);
        let round_trips = round_trips(server).await?;
        line.end().await?;
        let count = latencies.count() as f64;
        let each = |number: u64| Some(number as f64 / count);
        let mut values = vec![(HAND_OVERS, Some(count))];
        values.extend(latencies.values());
        values.extend([
            (REQUESTS, each(carried.requests)),
            (EVENTS, each(carried.events)),
            (BYTES, each(carried.bytes)),
            (CPU, cpu.map(|cpu| cpu.as_secs_f64() * MICROSECONDS / count)),
            (ROUND_TRIP, round_trips.median()),
        ]);
        Ok(vec![Part { labels: labels(point), values }])
    }
}

/// Measures requests that are sent when nothing is under way, as before each hand-over.
async fn round_trips(server: &BenchServer) -> Result<Latencies, Failure> {
    let mut latencies = Latencies::new();
    for _ in 0..ROUND_TRIPS {
        server.rest().await?;
        let (client, path) = (server.observer.clone(), server.base.clone());
        // In a task, as the holder releases.
        let asked = tokio::spawn(async move {
            let start = now();
            client.exists(&path).await.map(|_| start.elapsed())
        });
        let time = unpanicked(server.in_time(asked).await?)?;
        latencies.record(time);
    }
    Ok(latencies)
}

fn labels(point: &Point) -> Vec<Named> {
    vec![
        (WAITERS, Label::Number(point.waiters)),
        (super::lock_algorithm::LOCK, Label::Text(point.kind.name())),
    ]
}

const MICROSECONDS: f64 = 1e6;

const WAITERS: &str = "waiters";
