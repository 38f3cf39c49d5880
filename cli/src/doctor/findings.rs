//! Looks for what is wrong in what was found. Each file answers one question.

mod access;
mod cycles;
mod holders;
mod lines;
mod servers;
mod sizes;

use zoolet_layouts::Cycle;

use super::finding::{Finding, Kind, Severity};
use super::limits::NAMED_MAX;
use super::sessions::Sessions;
use super::survey::Survey;

pub(crate) use self::cycles::{cycles, still_there};

/// All findings, the worst first. `cycles` are the cycles that a second look has confirmed.
pub(crate) fn findings(
    survey: &Survey,
    sessions: &Sessions,
    cycles: &[Cycle],
    frame_bytes: usize,
) -> Vec<Finding> {
    let mut findings = cycles::findings(survey, sessions, cycles);
    lines::add(survey, sessions, &mut findings);
    holders::add(survey, sessions, &mut findings);
    sizes::add(survey, sessions, frame_bytes, &mut findings);
    access::add(survey, &mut findings);
    servers::add(sessions, &mut findings);
    // What was found first stays first among equals.
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.kind));
    findings
}

/// The first of several names, and how many more there are.
fn named(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names
}

/// A time for a person.
pub(crate) fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    match ms / 1_000 {
        0 => format!("{ms} ms"),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_unit() {
        let cases = [(-5, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (119_999, "119 s")];
        let more = [(120_000, "2 min"), (7_200_000, "2 h"), (172_800_000, "2 days")];
        for (ms, text) in cases.into_iter().chain(more) {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn many_names_are_counted() {
        let names = named((0..12).map(|number| number.to_string()));
        assert_eq!((names.len(), names[10].as_str()), (11, "and 2 more"));
    }
}
