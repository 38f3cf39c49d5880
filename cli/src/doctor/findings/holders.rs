//! Holders from whom nothing is to be expected.

use zoolet_layouts::{Place, Queue};
use zoolet_protocol::SessionId;

use super::{Finding, Kind, Sessions, Severity, Survey, duration};
use crate::doctor::limits::SILENT_PERCENT;

pub(super) fn add(survey: &Survey, sessions: &Sessions, findings: &mut Vec<Finding>) {
    for (path, queue) in survey.queues() {
        let waiting = queue.rows.iter().filter(|row| row.role.waits()).count();
        // Whom nobody waits for harms nobody.
        if waiting == 0 {
            continue;
        }
        for row in queue.rows.iter().filter(|row| row.role.holds()) {
            findings.extend(finding(path, &queue, row.place, waiting, survey, sessions));
        }
    }
}

fn finding(
    path: &str,
    queue: &Queue<'_>,
    place: &Place,
    waiting: usize,
    survey: &Survey,
    sessions: &Sessions,
) -> Option<Finding> {
    let held = duration(survey.age_ms(place.znode));
    let name = &place.name;
    let recipe = queue.recipe.text();
    let session = place.znode.session;
    let details =
        vec![format!("{name} has existed for {held}"), format!("{waiting} wait for this {recipe}")];
    if session == SessionId::NONE {
        return Some(Finding {
            severity: Severity::Warning,
            kind: Kind::HolderWithoutSession,
            paths: vec![path.to_owned()],
            what: format!("a {recipe} is held by the znode {name}, which no session owns"),
            details,
            cure: "If its process is gone, delete the znode.".to_owned(),
        });
    }
    let connection = sessions.by_id.get(&session).and_then(|session| session.connection.as_ref());
    let (what, silent) = match connection {
        Some(connection) => {
            let silent = connection.silent_ms;
            if silent.saturating_mul(100) < connection.timeout_ms.saturating_mul(SILENT_PERCENT) {
                return None;
            }
            let what = format!(
                "the holder {} has been silent for {} of its {}",
                sessions.text(session),
                duration(silent),
                duration(connection.timeout_ms)
            );
            let last = format!("it asked {} last ({})", connection.server, connection.last);
            (what, last)
        }
        // Without the words of all servers, it may be connected to another one.
        None if !sessions.has_connections => return None,
        None => {
            let what =
                format!("the holder {session} is connected to none of the servers that were asked");
            (what, "servers that were not named may have it".to_owned())
        }
    };
    Some(Finding {
        severity: Severity::Warning,
        kind: Kind::SilentHolder,
        paths: vec![path.to_owned()],
        what,
        details: [details, vec![silent]].concat(),
        cure: "See whether its process runs: long pauses of a garbage collector, a stopped container, a cut \
               network. Its guard has to notice that the session may be over."
            .to_owned(),
    })
}
