//! Servers that do not answer.

use super::{Finding, Kind, Sessions, Severity};

pub(super) fn add(sessions: &Sessions, findings: &mut Vec<Finding>) {
    findings.extend(sessions.silent.iter().map(|(server, cause)| Finding {
        severity: Severity::Warning,
        kind: Kind::SilentServer,
        paths: Vec::new(),
        what: format!("the server {server} does not answer"),
        details: vec![cause.clone()],
        cure: "See whether its process runs and stands still, whether its disk and its network answer, and \
               whether it has a quorum. If it closes connections, see whether this address has all those \
               that its maxClientCnxns allows. A server that is no more should not be named."
            .to_owned(),
    }));
}
