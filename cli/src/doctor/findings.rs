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
    use zoolet_layouts::{Directory, Znode};
    use zoolet_protocol::{SessionId, Zxid};

    use super::*;
    use crate::doctor::sessions::{Connection, Session};
    use crate::doctor::survey::LockDirectory;

    /// A server that is broken or malicious may tell any.
    #[test]
    fn the_greatest_times_are_no_error() {
        let place =
            |session| Znode { session: SessionId(session), czxid: Zxid(1), ctime: i64::MIN };
        let line = |one, other| {
            let names = [("lock-0000000001", place(one)), ("lock-0000000002", place(other))];
            LockDirectory { directory: Directory::of(names), ..LockDirectory::default() }
        };
        let mut survey = Survey { now_ms: i64::MAX, ..Survey::default() };
        survey.locks.insert("/a".to_owned(), line(1, 2));
        survey.locks.insert("/b".to_owned(), line(2, 1));
        let connection = Connection {
            address: String::new(),
            server: String::new(),
            timeout_ms: i64::MAX,
            silent_ms: i64::MAX,
            last: String::new(),
        };
        let session = Session { connection: Some(connection), ..Session::default() };
        let by_id = [1, 2].map(|id| (SessionId(id), session.clone())).into();
        let sessions = Sessions { by_id, ..Sessions::default() };
        let cycles = cycles(&survey);
        let kinds = findings(&survey, &sessions, &cycles, 1 << 20);
        let kinds: Vec<_> = kinds.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [Kind::Deadlock, Kind::SilentHolder, Kind::SilentHolder]);
    }

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
