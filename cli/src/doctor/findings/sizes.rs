//! Znodes, lists and sessions that are too large, and directories that stay.

use zoolet_protocol::SessionId;

use super::{Finding, Kind, Sessions, Severity, Survey, duration, named};
use crate::counted::counted;
use crate::doctor::limits::{EMPTY_FOR_MS, EMPTY_MANY, EMPTY_MIN, EPHEMERALS_HIGH, WATCHES_HIGH};
use crate::doctor::sessions::Session;
use crate::doctor::survey::Empty;

pub(super) fn add(
    survey: &Survey,
    sessions: &Sessions,
    frame_bytes: usize,
    findings: &mut Vec<Finding>,
) {
    for (path, bytes) in &survey.large {
        findings.push(Finding {
            severity: Severity::Warning,
            kind: Kind::LongData,
            paths: vec![path.clone()],
            what: format!("the data has {bytes} bytes, of {frame_bytes} that a message may have"),
            details: Vec::new(),
            cure: "Keep long data elsewhere, and its address here.".to_owned(),
        });
    }
    for long in &survey.long {
        // Each name stands behind its length.
        let at_least = usize::try_from(long.children).unwrap_or_default() * 5;
        let is_over = long.bytes.unwrap_or(at_least) > frame_bytes;
        let size = match long.bytes {
            Some(bytes) => format!("their list has {bytes} bytes, of {frame_bytes}"),
            None => "their list was not read".to_owned(),
        };
        findings.push(Finding {
            severity: if is_over { Severity::Critical } else { Severity::Warning },
            kind: Kind::LongList,
            paths: vec![long.path.clone()],
            what: format!("there are {} children", long.children),
            details: vec![size],
            cure: "Spread them over several directories. To delete them, give a client a larger \
                   jute.maxbuffer."
                .to_owned(),
        });
    }
    for (parent, empty) in &survey.empty {
        findings.extend(empty_directories(parent, empty));
    }
    findings.extend(of_sessions(
        sessions,
        Kind::ManyEphemerals,
        "ephemerals",
        EPHEMERALS_HIGH,
        |session| session.ephemerals,
    ));
    findings.extend(of_sessions(sessions, Kind::ManyWatches, "watches", WATCHES_HIGH, |session| {
        session.watches
    }));
    if !survey.unreadable.is_empty() {
        findings.push(Finding {
            severity: Severity::Notice,
            kind: Kind::Unreadable,
            paths: Vec::new(),
            what: format!("{} may not be read", counted(survey.unreadable.len() as u64, "znode")),
            details: named(survey.unreadable.iter().cloned()),
            cure: "Authenticate as a user who may read them, with --auth-file, --sasl-user or a \
                   certificate."
                .to_owned(),
        });
    }
}

fn empty_directories(parent: &str, empty: &Empty) -> Option<Finding> {
    let severity = match empty.count {
        count if count >= EMPTY_MANY => Severity::Warning,
        count if count >= EMPTY_MIN => Severity::Notice,
        _ => return None,
    };
    Some(Finding {
        severity,
        kind: Kind::EmptyDirectories,
        paths: vec![parent.to_owned()],
        what: format!(
            "{} directories had children once, are empty now, and are older than {}",
            empty.count,
            duration(EMPTY_FOR_MS)
        ),
        details: vec![format!("such as {}", empty.example)],
        cure: "Create the directories of locks as containers, as Curator 3 and later do, and delete those that \
               nobody uses. If they are containers, the leader does not delete them: see whether it logs \
               errors of its ContainerManager, and its znode.container settings."
            .to_owned(),
    })
}

fn of_sessions(
    sessions: &Sessions,
    kind: Kind,
    of_what: &str,
    high: u64,
    count: fn(&Session) -> u64,
) -> Vec<Finding> {
    let many = sessions.by_id.iter().filter(|(_, session)| count(session) > high);
    let finding = |(id, session): (&SessionId, &Session)| Finding {
        severity: Severity::Warning,
        kind,
        paths: Vec::new(),
        what: format!("the session {} has {} {of_what}", sessions.text(*id), count(session)),
        details: Vec::new(),
        cure: "Divide them among several sessions, or keep many things in one znode.".to_owned(),
    };
    many.map(finding).collect()
}
