//! One bench from begin to end: servers, rounds, results.

use indicatif::{ProgressBar, ProgressStyle};

use super::common::Common;
use super::environment::{Machine, command_line, date};
use super::failure::Failure;
use super::outcome::{Outcome, Row, ServerFacts};
use super::report::{self, Story};
use super::stage::{Manner, Place, Stage};
use super::table;
use super::values::Part;
use crate::logging::{self, LogLevel};
use crate::serve::raise_descriptor_limit;
use crate::signals::Signals;

/// Something that can be measured on a server.
pub(super) trait Workload {
    /// As on the command line.
    const NAME: &'static str;

    /// One thing among those that are measured.
    type Point;

    /// All that is to be measured, in order.
    fn points(&self) -> Vec<Self::Point>;

    /// What is being measured, for who looks on.
    fn describe(&self, point: &Self::Point) -> String;

    /// What must be known of the results.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What the results tell, and how it is drawn.
    fn story(&self, outcome: &Outcome) -> Story;

    /// Measures it once on a server. Each time the same parts come, in the same order.
    async fn measure(&self, stage: &mut Stage, point: &Self::Point) -> Result<Vec<Part>, Failure>;
}

/// Measures everything, tells the results, and leaves nothing behind on the servers.
///
/// # Errors
///
/// [`Failure`] if something cannot be measured; what was by then is not told.
pub(super) fn run<W: Workload>(workload: &W, common: &Common) -> Result<(), Failure> {
    logging::start(common.log_level, LogLevel::Error);
    raise_descriptor_limit();
    let places = Place::all(common)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::System)?;
    let outcome = runtime.block_on(measured(workload, common, places))?;
    table::tell(&outcome, common.json);
    match &common.report {
        Some(path) => report::write(path, &outcome, &workload.story(&outcome)),
        None => Ok(()),
    }
}

async fn measured<W: Workload>(
    workload: &W,
    common: &Common,
    places: Vec<Place>,
) -> Result<Outcome, Failure> {
    // Before anything is created, so that no signal leaves it.
    let mut signals = Signals::new().map_err(Failure::System)?;
    let mut stages = Vec::new();
    let result = tokio::select! {
        result = on_stages(workload, common, places, &mut stages) => result,
        _ = signals.next() => Err(Failure::Interrupted),
    };
    let mut cleaned = Ok(());
    for stage in stages {
        let result = tokio::select! {
            result = stage.clean_up() => result,
            // Who asks twice does not want to wait.
            _ = signals.next() => Err(Failure::Interrupted),
        };
        cleaned = cleaned.and(result);
    }
    // The first that went wrong is what matters.
    let outcome = result?;
    cleaned.map(|()| outcome)
}

async fn on_stages<W: Workload>(
    workload: &W,
    common: &Common,
    places: Vec<Place>,
    stages: &mut Vec<Stage>,
) -> Result<Outcome, Failure> {
    let (machine, date) = (Machine::look(), date());
    let Common { session_timeout, path, .. } = common;
    for place in places {
        let manner = Manner { session_timeout: *session_timeout, path: path.clone() };
        stages.push(Stage::open(place, manner).await?);
    }
    let rows = rows(workload, common.rounds, stages).await?;
    Ok(Outcome {
        bench: W::NAME,
        command: command_line(),
        date,
        machine,
        rounds: common.rounds,
        servers: stages.iter().map(ServerFacts::of).collect(),
        notes: workload.notes(),
        rows,
    })
}

/// Each point is measured on all servers by turns: what else the machine does meets all alike.
async fn rows<W: Workload>(
    workload: &W,
    rounds: u32,
    stages: &mut [Stage],
) -> Result<Vec<Row>, Failure> {
    let points = workload.points();
    let bar = bar(points.len() * rounds as usize * stages.len());
    let mut rows = Vec::new();
    for point in &points {
        let mut parts: Vec<Vec<Vec<Part>>> = stages.iter().map(|_| Vec::new()).collect();
        for round in 1..=rounds {
            for (stage, parts) in stages.iter_mut().zip(&mut parts) {
                let what = workload.describe(point);
                bar.set_message(format!("{what}, {}, round {round}", stage.name));
                parts.push(workload.measure(stage, point).await?);
                bar.inc(1);
            }
        }
        for (server, rounds) in parts.into_iter().enumerate() {
            rows.extend(transposed(rounds).into_iter().map(|part| Row::of_rounds(server, part)));
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

/// Of each part what it was in each round.
fn transposed(rounds: Vec<Vec<Part>>) -> Vec<Vec<Part>> {
    let mut parts = Vec::new();
    for round in rounds {
        parts.resize_with(parts.len().max(round.len()), Vec::new);
        round.into_iter().zip(&mut parts).for_each(|(part, parts)| parts.push(part));
    }
    parts
}

/// On stderr, if that is a terminal.
fn bar(count: usize) -> ProgressBar {
    let style = "{spinner} {wide_bar} {pos}/{len} {elapsed} {msg}";
    let style = ProgressStyle::with_template(style).expect("the template is right");
    let bar = ProgressBar::new(count as u64).with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}

const TICK: std::time::Duration = std::time::Duration::from_millis(100);
