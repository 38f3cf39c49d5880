//! `zoolet bench watch-fanout`: how long until all watchers of a znode have received an event.

use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;
use zoolet_client::{Client, Watcher};

use super::clock::{Instant, now};
use super::common::Common;
use super::failure::Failure;
use super::latency::{Latencies, P50, P99};
use super::metrics::CPU;
use super::outcome::Outcome;
use super::report::{Plot, Story};
use super::run::Workload;
use super::server::{BenchServer, unpanicked};
use super::values::{Label, Metric, Part, Unit};
use crate::server_options::values;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
pub(super) struct FanOut {
    /// How many watch, each a client with a session of its own
    #[arg(long, value_name = "COUNT,..", default_value = "1,10,100,1000", value_delimiter = ',')]
    #[arg(value_parser = values::some)]
    watchers: Vec<usize>,

    /// How often the znode changes in each round
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = values::some)]
    changes: usize,

    #[command(flatten)]
    pub(super) common: Common,
}

const LAST: Metric =
    Metric { key: "last_event_us", heading: "last event", unit: Unit::Microseconds };
const EACH: Metric = Metric { key: "event_us", heading: "per event", unit: Unit::Microseconds };

const MICROSECONDS: f64 = 1e6;

impl Workload for FanOut {
    const NAME: &'static str = "watch-fanout";
    type Point = usize;

    fn points(&self) -> Vec<usize> {
        let mut watchers = self.watchers.clone();
        watchers.sort_unstable();
        watchers.dedup();
        watchers
    }

    fn describe(&self, watchers: &usize) -> String {
        format!("{watchers} watchers")
    }

    fn story(&self, outcome: &Outcome) -> Story {
        let told = |server| {
            let row = outcome.rows.iter().rfind(|row| row.server == server)?;
            Some(format!(
                "On {}, the last of {} who watch a znode hears of a change after {}.",
                outcome.server_name(server),
                row.label(WATCHERS)?,
                LAST.unit.text(row.value(LAST)?),
            ))
        };
        Story { plots: PLOTS.to_vec(), ..Story::of_servers(outcome, told) }
    }

    async fn measure(
        &self,
        server: &mut BenchServer,
        &watchers: &usize,
    ) -> Result<Vec<Part>, Failure> {
        let clients = server.clients(watchers + 1).await?;
        let path = server.new_path();
        let (setter, clients) = clients.split_first().expect("there is one more");
        setter.create(&path).await?;
        let (mut heard, mut last_times) = (Latencies::new(), Vec::new());
        let mut cpu = Some(Duration::ZERO);
        // The first change is a warm-up and is not measured.
        for change in 0..=self.changes {
            let watches = watch(server, clients, &path).await?;
            server.rest().await?;
            let cpu_before = server.process.cpu_time();
            let (begin, times) = change_once(server, setter, &path, watches).await?;
            if change > 0 {
                times.iter().for_each(|&at| heard.record(at.saturating_duration_since(begin)));
                last_times.extend(times.iter().max().map(|&at| at - begin));
                let used = server.process.cpu_time_since(cpu_before);
                cpu = cpu.zip(used).map(|(sum, used)| sum + used);
            }
        }
        let changes = self.changes as f64;
        let last: Duration = last_times.iter().sum();
        let last = last.as_secs_f64() * MICROSECONDS / changes;
        let each = watchers as f64;
        let mut values = vec![(LAST, Some(last)), (EACH, Some(last / each))];
        values.extend(heard.values());
        let cpu = cpu.map(|cpu| cpu.as_secs_f64() * MICROSECONDS / changes / each);
        values.push((CPU, cpu));
        Ok(vec![Part { labels: vec![(WATCHERS, Label::Number(watchers))], values }])
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "From the call to set the znode until the last who watches it has heard (\"last \
             event\", the mean of all changes), and that over the number of those who watch (\"per \
             event\"); p50 and the others are of all events."
                .to_owned(),
        ]
    }
}

const WATCHERS: &str = "watchers";

const fn plot(title: &'static str, about: &'static str, metric: Metric) -> Plot {
    Plot::of(title, about, WATCHERS, metric)
}

const PLOTS: [Plot; 4] = [
    plot(
        "Until the last has heard",
        "From the call to set the znode until the last who watches it has heard, the mean of all \
         changes, by how many watch it. Both axes are logarithmic. Point at a dot for its number.",
        LAST,
    ),
    plot("The same for each who watches", "That time over the number of those who watch.", EACH),
    Plot {
        dashed: Some(P99),
        ..plot(
            "Until one has heard",
            "From the call to set the znode until an event of it comes, of all events. The line is \
             the median, the dashed one the 99th percentile.",
            P50,
        )
    },
    plot("CPU time of the server", "For each event, where it is known.", CPU),
];

/// Sets a watch with each client, all at once.
async fn watch(
    server: &BenchServer,
    clients: &[Client],
    path: &str,
) -> Result<Vec<Watcher>, Failure> {
    let mut looking = JoinSet::new();
    for client in clients {
        let look = client.get(path).and_watch();
        looking.spawn(async move { look.await.map(|watched| watched.watcher) });
    }
    let mut watches = Vec::with_capacity(clients.len());
    while let Some(watched) = server.in_time(looking.join_next()).await? {
        watches.push(unpanicked(watched)?);
    }
    Ok(watches)
}

/// Changes the znode, and returns when that began and when each client received the event.
async fn change_once(
    server: &BenchServer,
    setter: &Client,
    path: &str,
    watches: Vec<Watcher>,
) -> Result<(Instant, Vec<Instant>), Failure> {
    let mut listening = JoinSet::new();
    for watch in watches {
        listening.spawn(async move { watch.await.map(|_event| now()) });
    }
    // All tasks wait before the znode changes.
    tokio::task::yield_now().await;
    let begin = now();
    setter.set(path, "changed").await?;
    let mut times = Vec::new();
    while let Some(heard) = server.in_time(listening.join_next()).await? {
        times.push(unpanicked(heard)?);
    }
    Ok((begin, times))
}
