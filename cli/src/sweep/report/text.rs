//! The report as text, short enough to be read on a terminal.

use crate::counted::counted;
use std::fmt::Write;
use std::time::Duration;

use comfy_table::Table;

use super::super::campaign::{Outcome, Stop, Trial};
use super::super::job::Ending;
use super::super::kind::{Kind, PointFault, seconds};
use super::super::limits::{LINES_AS_TEXT, LINES_COMPARED, LISTED_AS_TEXT, REQUESTS_MAX};
use super::super::point::masked;
use super::super::run::Run;
use super::super::tracker::Seen;
use super::{Report, last_lines};
use crate::bench::table::STYLE;

/// The line before the runs with faults.
pub(in super::super) fn begin(first: &Run, points: usize, faults: usize, jobs: usize) -> String {
    let requests = counted(first.requests.requests, "request");
    let sessions = counted(first.requests.sessions, "session");
    let most = REQUESTS_MAX as u64;
    let beyond = match first.requests.requests > most {
        true => format!("only the first {most} requests can have faults; a smaller test has all\n"),
        false => String::new(),
    };
    format!(
        "first run: passed in {}, {requests} of {sessions}\n{beyond}{} at {}, {jobs} at a time",
        seconds(first.took),
        counted(faults as u64, "fault"),
        counted(points as u64, "request"),
    )
}

/// The points of a command.
pub(in super::super) fn points(points: &[Seen], kinds: &[Kind]) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(["id", "session", "request", "n-th", "path", "faults"]);
    for seen in points {
        let point = &seen.point;
        let applies = |kind: &&Kind| kind.applies_to(point.operation, seen.is_write);
        let faults = kinds.iter().filter(applies).count().to_string();
        let [session, nth] = [point.session, point.nth].map(|number| number.to_string());
        table.add_row([point.id(), session, point.operation(), nth, point.path.clone(), faults]);
    }
    format!("{table}\n")
}

/// What a replayed fault did.
pub(in super::super) fn replayed(trial: &Trial, limit: Duration) -> String {
    let ending = ending(trial.run.ending, limit);
    match trial.outcome() {
        Outcome::Passed => "the command passed".to_owned(),
        Outcome::Broke => format!("the fault broke the command: {ending}"),
        Outcome::NotReached => {
            "not reached: the request did not come in this run, and the command passed".to_owned()
        }
        Outcome::FailedByItself => format!(
            "not reached: the request did not come in this run, and yet the command failed: {ending}"
        ),
    }
}

/// How a command ended, in words.
pub(in super::super) fn ending(ending: Ending, limit: Duration) -> String {
    match ending {
        Ending::Exited(code) => format!("exit status {code}"),
        Ending::Killed(signal) => {
            let name =
                i32::try_into(signal).map(|signal: nix::sys::signal::Signal| signal.as_str());
            name.map_or_else(
                |_| format!("ended by signal {signal}"),
                |name| format!("ended by {name}"),
            )
        }
        Ending::Hung => format!("hung: it did not end within {}", seconds(limit)),
    }
}

/// The whole report.
pub(in super::super) fn write(report: &Report<'_>) -> String {
    let mut text = summary(report);
    let groups = grouped(report);
    for group in &groups {
        write_group(&mut text, report, group);
    }
    if let Some(first) = groups.first().and_then(|group| group.first()) {
        let _ = write!(text, "\nAgain, with the whole output:\n    {}\n", report.replay(first));
    }
    write_strays(&mut text, report);
    text
}

/// The numbers, in two lines at most.
pub(in super::super) fn summary(report: &Report<'_>) -> String {
    let runs = report.trials.trials.len();
    let rate = runs as f64 / report.trials.took.as_secs_f64().max(f64::EPSILON);
    let counts = [
        (Outcome::Broke, "broke the command"),
        (Outcome::Passed, "passed"),
        (Outcome::NotReached, "not reached"),
        (Outcome::FailedByItself, "failed without its fault"),
    ];
    let counts = counts.into_iter().map(|(outcome, words)| (report.count(outcome), words));
    let counts = counts.filter(|(count, words)| *count > 0 || *words == "broke the command");
    let counts: Vec<_> = counts.map(|(count, words)| format!("{count} {words}")).collect();
    let runs_text = counted(runs as u64, "run");
    let took = seconds(report.trials.took);
    let mut text = format!("{runs_text} in {took} ({rate:.1} a second): {}\n", counts.join(", "));
    let by = match &report.trials.stopped_by {
        None => return text,
        Some(Stop::Signal(signal)) => format!(" by {signal}"),
        Some(Stop::Failure(_)) => String::new(),
    };
    let _ = writeln!(text, "stopped{by} after {runs} of {} faults", report.planned);
    text
}

/// The faults that broke the command, those together that look alike.
pub(in super::super) fn grouped<'a>(report: &'a Report<'_>) -> Vec<Vec<&'a Trial>> {
    let mut groups: Vec<(Look, Vec<&Trial>)> = Vec::new();
    for trial in report.all(Outcome::Broke) {
        let last = last_lines(&trial.run, LINES_COMPARED);
        let look = (trial.run.ending, last.into_iter().map(without_numbers).collect());
        match groups.iter_mut().find(|(known, _)| *known == look) {
            Some((_, group)) => group.push(trial),
            None => groups.push((look, vec![trial])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// How a failure looks: its ending, and its last lines without numbers.
type Look = (Ending, Vec<String>);

/// A line without what differs in the same failure: generated names, times and counts.
fn without_numbers(line: &str) -> String {
    masked(line).split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect()
}

fn write_group(text: &mut String, report: &Report<'_>, group: &[&Trial]) {
    let Some(first) = group.first() else { return };
    let how = ending(first.run.ending, report.limit_of(first));
    let _ = writeln!(text, "\n{how}, by {}:", counted(group.len() as u64, "fault"));
    for trial in group.iter().take(LISTED_AS_TEXT) {
        let PointFault { kind, point } = &trial.fault;
        let _ = writeln!(text, "  {kind:<13} {point}   [{}]", trial.fault.id());
    }
    if let Some(more @ 1..) = group.len().checked_sub(LISTED_AS_TEXT) {
        let _ = writeln!(text, "  and {more} more");
    }
    for line in last_lines(&first.run, LINES_AS_TEXT) {
        let _ = writeln!(text, "  | {line}");
    }
}

/// The faults that were not injected.
fn write_strays(text: &mut String, report: &Report<'_>) {
    let list = |text: &mut String, outcome| {
        for trial in report.all(outcome).take(LISTED_AS_TEXT) {
            let PointFault { kind, point } = &trial.fault;
            let _ = writeln!(text, "  {kind:<13} {point}");
        }
        if let Some(more @ 1..) = report.count(outcome).checked_sub(LISTED_AS_TEXT) {
            let _ = writeln!(text, "  and {more} more");
        }
    };
    if report.count(Outcome::NotReached) > 0 {
        text.push_str(
            "\nNot reached: these requests did not come again, so nothing is known of them.\n",
        );
        list(text, Outcome::NotReached);
    }
    if report.count(Outcome::FailedByItself) > 0 {
        text.push_str(
            "\nFailed without its fault: the request did not come, and yet the command failed. It may \
             fail by itself now and then, or when --jobs run at a time.\n",
        );
        list(text, Outcome::FailedByItself);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_same_failure_are_alike() {
        for (one, other, is_alike) in [
            ("1 failed, 1 passed in 2.00s", "1 failed, 1 passed in 13.48s", true),
            ("no /l/3f2a9c1b-x-0000000001", "no /l/0badcafe-x-0000000017", true),
            ("FAILED test_a - assert 2 == 1", "FAILED test_b - assert 2 == 1", false),
        ] {
            assert_eq!(without_numbers(one) == without_numbers(other), is_alike, "{one} {other}");
        }
    }
}
