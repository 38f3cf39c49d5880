//! The report as JSON. `docs/doctor.md` describes the names.

use serde_json::{Value, json};
use zoolet_layouts::{Queue, Row};
use zoolet_protocol::SessionId;

use super::Report;
use crate::cli::answer::time;
use crate::doctor::finding::Finding;
use crate::doctor::sessions::Gap;

/// The number of this format. Names are only added to it while it stays the same.
const FORMAT: u32 = 1;

pub(super) fn json(report: &Report) -> Value {
    let survey = &report.survey;
    let locks = survey.queues();
    json!({
        "format": FORMAT,
        "zoolet": env!("CARGO_PKG_VERSION"),
        "server": report.server,
        "path": report.path,
        "time": time(survey.now_ms),
        "time_ms": survey.now_ms,
        "znodes": survey.znodes,
        "requests": survey.requests,
        "is_cut": survey.is_cut,
        "left_out": survey.left_out,
        "worst": report.worst().map(|severity| severity.name()),
        "findings": report.findings.iter().map(Finding::json).collect::<Vec<_>>(),
        "locks": locks.iter().map(|(path, queue)| lock(report, path, queue)).collect::<Vec<_>>(),
        "not_seen": report.sessions.gaps.iter().map(gap).collect::<Vec<_>>(),
    })
}

fn lock(report: &Report, path: &str, queue: &Queue<'_>) -> Value {
    let row = |row: &Row<'_>| {
        let znode = row.place.znode;
        json!({
            "state": row.role.text(),
            "znode": row.place.name,
            "libraries": row.place.style.libraries(),
            "session": (znode.session != SessionId::NONE).then(|| znode.session.to_string()),
            "client": report.sessions.address(znode.session),
            "czxid": znode.czxid.to_string(),
            "ctime": time(znode.ctime),
            "ctime_ms": znode.ctime,
            "age_ms": report.survey.age_ms(znode),
            "behind": row.behind,
        })
    };
    json!({
        "path": path,
        "recipe": queue.recipe.text(),
        "contenders": queue.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn gap(gap: &Gap) -> Value {
    json!({
        "server": gap.server,
        "words": gap.words,
        "cause": gap.cause,
        "lacks": gap.lacks,
        "to_see_it": gap.cure,
    })
}
