//! `zoolet bench sessions`: how fast sessions open, and what many idle sessions cost.

use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;

use super::clock::now;
use super::common::{Common, unique};
use super::failure::Failure;
use super::latency::{Latencies, P50, P99};
use super::metrics::{MEMORY, PER_SECOND};
use super::outcome::Outcome;
use super::report::{Plot, Story};
use super::run::Workload;
use super::server::{BenchServer, close, unpanicked};
use super::values::{Label, Metric, Part, Unit, grouped};
use crate::server_options::values;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
pub(super) struct Sessions {
    /// How many sessions
    #[arg(long, value_name = "COUNT,..", default_value = "100,1000", value_delimiter = ',')]
    #[arg(value_parser = values::some)]
    sessions: Vec<usize>,

    /// How many connect at the same time
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = values::some)]
    together: usize,

    /// For how long they only ping, as often as --session-timeout makes them
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = values::some_time)]
    idle: Duration,

    #[command(flatten)]
    pub(super) common: Common,
}

const PINGS: Metric = Metric { key: "pings_per_second", heading: "pings", unit: Unit::PerSecond };
const IDLE_CPU: Metric = Metric {
    key: "idle_server_cpu_us_per_second",
    heading: "idle CPU per second",
    unit: Unit::Microseconds,
};
const MEMORY_EACH: Metric =
    Metric { key: "memory_bytes_each", heading: "memory each", unit: Unit::Bytes };

const SESSIONS: &str = "sessions";

const fn plot(title: &'static str, about: &'static str, metric: Metric) -> Plot {
    Plot::of(title, about, SESSIONS, metric)
}

const PLOTS: [Plot; 4] = [
    plot(
        "How fast sessions open",
        "Sessions in a second, by how many there are at the end. Both axes are logarithmic. Point \
         at a dot for its number.",
        PER_SECOND,
    ),
    Plot {
        dashed: Some(P99),
        ..plot(
            "How long one takes to open",
            "From the call to connect until the session is there. The line is the median, the \
             dashed one the 99th percentile.",
            P50,
        )
    },
    plot(
        "Memory of each session",
        "What the server's process has grown by, over the number of sessions, where it is known; \
         that of an embedded server has the clients in it.",
        MEMORY_EACH,
    ),
    plot(
        "CPU time while they do nothing",
        "Of the server in each second, for all sessions together, where it is known.",
        IDLE_CPU,
    ),
];

const MICROSECONDS: f64 = 1e6;

impl Workload for Sessions {
    const NAME: &'static str = "sessions";
    type Point = usize;

    fn points(&self) -> Vec<usize> {
        unique(&self.sessions)
    }

    fn describe(&self, sessions: &usize) -> String {
        format!("{sessions} sessions")
    }

    fn story(&self, outcome: &Outcome) -> Story {
        let told = |server| {
            let row = outcome.rows.iter().rfind(|row| row.server == server)?;
            Some(format!(
                "{} opens {} sessions in a second, of {} in all.",
                outcome.server_name(server),
                grouped(row.value(PER_SECOND)?),
                row.label(SESSIONS)?,
            ))
        };
        Story { plots: PLOTS.to_vec(), ..Story::of_servers(outcome, told) }
    }

    async fn measure(
        &self,
        server: &mut BenchServer,
        &sessions: &usize,
    ) -> Result<Vec<Part>, Failure> {
        let mut latencies = Latencies::new();
        let (mut clients, mut connecting) = (Vec::new(), JoinSet::new());
        let begin = now();
        let mut left = sessions;
        while clients.len() < sessions {
            while left > 0 && connecting.len() < self.together {
                let (begin, connect) = (now(), server.connect());
                connecting
                    .spawn(async move { connect.await.map(|client| (client, now() - begin)) });
                left -= 1;
            }
            let connected = server.in_time(connecting.join_next()).await?.expect("some connect");
            let (client, time) = unpanicked(connected)?;
            latencies.record(time);
            clients.push(client);
        }
        let connecting_seconds = begin.elapsed().as_secs_f64();
        let (before, cpu_before) = (server.carried(), server.process.cpu_time());
        let begin = now();
        tokio::time::sleep(self.idle).await;
        let pings = server.carried().since(before).pings as f64;
        let used = server.process.cpu_time_since(cpu_before);
        let seconds = begin.elapsed().as_secs_f64();
        let memory = server.process.resident_bytes();
        close(clients).await;
        let grown =
            memory.zip(server.memory_at_first).map(|(after, before)| (after - before).max(0.0));
        let mut values = vec![(PER_SECOND, Some(sessions as f64 / connecting_seconds))];
        values.extend(latencies.values());
        values.extend([
            (PINGS, Some(pings / seconds)),
            (IDLE_CPU, used.map(|used| used.as_secs_f64() * MICROSECONDS / seconds)),
            (MEMORY, memory),
            (MEMORY_EACH, grown.map(|bytes| bytes / sessions as f64)),
        ]);
        Ok(vec![Part { labels: vec![(SESSIONS, Label::Number(sessions))], values }])
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "The rate and the times are those of connecting. \"Memory each\" is by how much the \
             process has grown since the begin of the run, over the number of sessions; that of an \
             embedded server has the clients in it."
                .to_owned(),
        ]
    }
}
