//! Runs a bench: servers, rounds and results.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use super::common::Common;
use super::environment::{Machine, command_line, date};
use super::failure::Failure;
use super::outcome::{Outcome, Row, ServerFacts};
use super::report::{self, Story};
use super::server::{BenchServer, ClientOptions, Endpoint};
use super::table;
use super::values::Part;
use crate::counted::counted;
use crate::logging::{self, LogLevel};
use crate::serve::raise_descriptor_limit;
use crate::signals::Signals;

/// Something that can be measured on a server.
pub(super) trait Workload {
    /// Its name on the command line.
    const NAME: &'static str;

    /// A point that is measured: a combination of the options.
    type Point;

    /// All points, in order.
    fn points(&self) -> Vec<Self::Point>;

    /// The point as text, for the progress bar.
    fn describe(&self, point: &Self::Point) -> String;

    /// Notes for the reader of the results.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The conclusions and plots of the results.
    fn story(&self, outcome: &Outcome) -> Story;

    /// Measures a point once on a server. Each round returns the same parts in the same order.
    async fn measure(
        &self,
        server: &mut BenchServer,
        point: &Self::Point,
    ) -> Result<Vec<Part>, Failure>;
}

/// Measures all points, prints the results, and deletes what it created on the servers. A run that ends
/// early, by Ctrl-C say, prints what it has measured by then.
///
/// # Errors
///
/// [`Failure`] if something cannot be measured.
pub(super) fn run<W: Workload>(workload: &W, common: &Common) -> Result<(), Failure> {
    logging::start(common.log_level, LogLevel::Error);
    raise_descriptor_limit();
    if let Some(path) = &common.report {
        // Checked first: a run may take an hour, and the page is written last.
        report::check(path)?;
    }
    let endpoints = Endpoint::all(common)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::System)?;
    let (outcome, result) = runtime.block_on(measured(workload, common, endpoints));
    let Some(outcome) = outcome else { return result };
    let told = table::tell(&outcome, common.json);
    let reported = match &common.report {
        Some(path) => report::write(path, &outcome, &workload.story(&outcome)),
        None => Ok(()),
    };
    // The first failure is the one that matters.
    result.and(told).and(reported)
}

/// The results, if there are any, and how the run ended.
async fn measured<W: Workload>(
    workload: &W,
    common: &Common,
    endpoints: Vec<Endpoint>,
) -> (Option<Outcome>, Result<(), Failure>) {
    // Before anything is created, so that a signal cannot leave it behind.
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return (None, Err(Failure::System(error))),
    };
    let (machine, date) = (Machine::look(), date());
    let mut servers = Vec::new();
    let mut measured = Measured::default();
    let mut result = tokio::select! {
        result = on_servers(workload, common, endpoints, &mut servers, &mut measured) => result,
        _ = signals.next() => Err(Failure::Interrupted),
    };
    let mut notes = workload.notes();
    if let Err(failure) = &result {
        let Measured { done, planned, .. } = measured;
        notes.push(format!("Ended early ({failure}): {done} of {planned} measurements were made."));
    }
    let rows = measured.into_rows();
    let outcome = (!rows.is_empty()).then(|| Outcome {
        bench: W::NAME,
        command: command_line(),
        date,
        machine,
        rounds: common.rounds,
        servers: servers.iter().map(ServerFacts::of).collect(),
        notes,
        rows,
    });
    for server in servers {
        let cleaned = tokio::select! {
            cleaned = server.clean_up() => cleaned,
            // A second signal ends the command without waiting.
            _ = signals.next() => Err(Failure::Interrupted),
        };
        result = result.and(cleaned);
    }
    (outcome, result)
}

async fn on_servers<W: Workload>(
    workload: &W,
    common: &Common,
    endpoints: Vec<Endpoint>,
    servers: &mut Vec<BenchServer>,
    measured: &mut Measured,
) -> Result<(), Failure> {
    let Common { session_timeout, path, .. } = common;
    for endpoint in endpoints {
        let options = ClientOptions { session_timeout: *session_timeout, path: path.clone() };
        servers.push(BenchServer::open(endpoint, options).await?);
    }
    measure(workload, common.rounds, servers, measured).await
}

/// The measurements so far.
#[derive(Debug, Default)]
struct Measured {
    /// The rows of the finished points.
    rows: Vec<Row>,
    /// The finished rounds of the current point, for each server.
    rounds: Vec<Vec<Vec<Part>>>,
    done: usize,
    planned: usize,
}

impl Measured {
    fn finish_point(&mut self) {
        for (server, rounds) in std::mem::take(&mut self.rounds).into_iter().enumerate() {
            let parts = transposed(rounds).into_iter();
            self.rows.extend(parts.map(|part| Row::of_rounds(server, part)));
        }
    }

    fn into_rows(mut self) -> Vec<Row> {
        self.finish_point();
        self.rows
    }
}

/// Measures each point on all servers by turns, so that other load of the machine affects all alike.
async fn measure<W: Workload>(
    workload: &W,
    rounds: u32,
    servers: &mut [BenchServer],
    measured: &mut Measured,
) -> Result<(), Failure> {
    let points = workload.points();
    measured.planned = points.len() * rounds as usize * servers.len();
    if !io::stderr().is_terminal() {
        // There is a progress bar where somebody sees it.
        let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
        let (count, names) = (counted(measured.planned as u64, "measurement"), names.join(", "));
        crate::notice(&format!(
            "zoolet bench {}: {count} to make, on {names}; results are printed at the end",
            W::NAME
        ));
    }
    let bar = bar(measured.planned);
    for point in &points {
        measured.rounds.resize_with(servers.len(), Vec::new);
        for round in 1..=rounds {
            for (index, server) in servers.iter_mut().enumerate() {
                let what = workload.describe(point);
                bar.set_message(format!("{what}, {}, round {round}", server.name));
                let parts = workload.measure(server, point).await?;
                measured.rounds[index].push(parts);
                measured.done += 1;
                bar.inc(1);
            }
        }
        measured.finish_point();
    }
    bar.finish_and_clear();
    Ok(())
}

/// For each part, its values in all rounds.
fn transposed(rounds: Vec<Vec<Part>>) -> Vec<Vec<Part>> {
    let mut parts = Vec::new();
    for round in rounds {
        parts.resize_with(parts.len().max(round.len()), Vec::new);
        round.into_iter().zip(&mut parts).for_each(|(part, parts)| parts.push(part));
    }
    parts
}

/// A progress bar on stderr, if that is a terminal.
fn bar(count: usize) -> ProgressBar {
    let style = "{spinner} {wide_bar} {pos}/{len} {elapsed} {msg}";
    let style = ProgressStyle::with_template(style).expect("the template is right");
    let bar = ProgressBar::new(count as u64).with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}

const TICK: std::time::Duration = std::time::Duration::from_millis(100);
