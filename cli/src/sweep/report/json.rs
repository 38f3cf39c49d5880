//! The report as JSON. `docs/sweep.md` describes the names.

use std::ffi::OsString;

use serde::Serialize;

use super::super::campaign::{Outcome, Trial};
use super::super::job::Ending;
use super::super::limits::LINES_IN_FILES;
use super::super::point::Point;
use super::super::tracker::Seen;
use super::{NotMade, Report, last_lines};

/// The number of this format. Names are only added to it while it stays the same.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document {
    format: u32,
    zoolet: &'static str,
    command: Vec<String>,
    seconds: f64,
    /// What stopped the sweep before its end.
    stopped_by: Option<String>,
    /// None if it did not end well.
    first_run: Option<FirstRun>,
    faults: Counts,
    runs: Vec<OneRun>,
}

#[derive(Serialize)]
struct FirstRun {
    seconds: f64,
    requests: u64,
    sessions: u64,
    points: Vec<OnePoint>,
}

#[derive(Default, Serialize)]
struct Counts {
    planned: usize,
    run: usize,
    broke: usize,
    passed: usize,
    not_reached: usize,
    failed_by_itself: usize,
}

#[derive(Serialize)]
struct OnePoint {
    id: String,
    session: u64,
    operation: String,
    path: String,
    nth: u64,
}

#[derive(Serialize)]
struct OneRun {
    id: String,
    kind: &'static str,
    point: OnePoint,
    outcome: &'static str,
    exit_status: Option<i32>,
    signal: Option<i32>,
    hung: bool,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failed>,
}

/// What there is to know about a run that failed.
#[derive(Serialize)]
struct Failed {
    what: String,
    replay: String,
    output: Vec<String>,
    requests: Vec<OneRequest>,
}

#[derive(Serialize)]
struct OneRequest {
    seconds: f64,
    session: u64,
    operation: String,
    path: String,
    nth: u64,
    fault: bool,
}

/// The report as JSON.
pub(in super::super) fn document(report: &Report<'_>) -> String {
    let first = &report.first;
    let document = Document {
        format: FORMAT,
        zoolet: env!("CARGO_PKG_VERSION"),
        command: words(report.command),
        seconds: report.trials.took.as_secs_f64(),
        stopped_by: report.trials.stopped_by.as_ref().map(ToString::to_string),
        first_run: Some(FirstRun {
            seconds: first.took.as_secs_f64(),
            requests: first.requests.requests,
            sessions: first.requests.sessions,
            points: report.points.iter().map(|seen| one_point(&seen.point)).collect(),
        }),
        faults: Counts {
            planned: report.planned,
            run: report.trials.trials.len(),
            broke: report.count(Outcome::Broke),
            passed: report.count(Outcome::Passed),
            not_reached: report.count(Outcome::NotReached),
            failed_by_itself: report.count(Outcome::FailedByItself),
        },
        runs: report.trials.trials.iter().map(|trial| one_run(report, trial)).collect(),
    };
    text(&document)
}

/// That there is no report, as JSON.
pub(in super::super) fn not_made(report: &NotMade<'_>) -> String {
    text(&Document {
        format: FORMAT,
        zoolet: env!("CARGO_PKG_VERSION"),
        command: words(report.command),
        seconds: 0.0,
        stopped_by: Some(report.stopped_by.clone()),
        first_run: None,
        faults: Counts::default(),
        runs: Vec::new(),
    })
}

fn text(document: &Document) -> String {
    let text = serde_json::to_string_pretty(document).expect("it has only names for keys");
    text + "\n"
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn one_point(point: &Point) -> OnePoint {
    OnePoint {
        id: point.id(),
        session: point.session,
        operation: point.operation(),
        path: point.path.clone(),
        nth: point.nth,
    }
}

fn one_run(report: &Report<'_>, trial: &Trial) -> OneRun {
    let ending = trial.run.ending;
    let failed = || Failed {
        what: trial.fault.sentence(report.times),
        replay: report.replay(trial),
        output: last_lines(&trial.run, LINES_IN_FILES).into_iter().map(str::to_owned).collect(),
        requests: trial.run.requests.around_fault().iter().map(one_request).collect(),
    };
    OneRun {
        id: trial.fault.id(),
        kind: trial.fault.kind.name(),
        point: one_point(&trial.fault.point),
        outcome: match trial.outcome() {
            Outcome::Passed => "passed",
            Outcome::Broke => "broke",
            Outcome::NotReached => "not reached",
            Outcome::FailedByItself => "failed by itself",
        },
        exit_status: match ending {
            Ending::Exited(status) => Some(status),
            _ => None,
        },
        signal: match ending {
            Ending::Killed(signal) => Some(signal),
            _ => None,
        },
        hung: ending == Ending::Hung,
        seconds: trial.run.took.as_secs_f64(),
        failure: (!ending.is_success()).then(failed),
    }
}

fn one_request(seen: &Seen) -> OneRequest {
    OneRequest {
        seconds: seen.at.as_secs_f64(),
        session: seen.point.session,
        operation: seen.point.operation(),
        path: seen.point.path.clone(),
        nth: seen.point.nth,
        fault: seen.has_fault,
    }
}
