//! Who may change the directories of locks.

use zoolet_protocol::{Acl, Permissions};

use super::{Finding, Kind, Severity, Survey};

/// One finding for all: where nobody authenticates, all are open.
pub(super) fn add(survey: &Survey, findings: &mut Vec<Finding>) {
    let is_open = |acl: &Acl| {
        let is_everyone = acl.id.scheme.as_deref() == Some("world");
        is_everyone && acl.permissions.intersects(Permissions::DELETE)
    };
    let known = survey.locks.iter().filter_map(|(path, lock)| Some((path, lock.acl.as_ref()?)));
    let known: Vec<_> = known.collect();
    let open: Vec<String> = known
        .iter()
        .filter(|(_, acl)| acl.iter().any(is_open))
        .map(|(path, _)| (*path).clone())
        .collect();
    if open.is_empty() {
        return;
    }
    // Where some are protected, the others were forgotten.
    let severity = if open.len() < known.len() { Severity::Warning } else { Severity::Notice };
    findings.push(Finding {
        severity,
        kind: Kind::OpenToAll,
        what: format!(
            "everyone may delete the znodes in {} of {} lock directories{}",
            open.len(),
            known.len(),
            if known.len() < survey.locks.len() { " that were looked at" } else { "" }
        ),
        details: Vec::new(),
        paths: open,
        cure: "Give the directories and the znodes in them an access control list.".to_owned(),
    });
}
