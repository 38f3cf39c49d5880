//! The report for a person.

use std::fmt::Write;

use super::Report;
use crate::cli::output::visible;
use crate::doctor::finding::Finding;
use crate::doctor::findings::duration;
use crate::doctor::limits::{LOCKS_SHOWN_MAX, NAMED_MAX, ROWS_SHOWN_MAX};

pub(super) fn text(report: &Report, is_quiet: bool) -> String {
    let mut text = visible(&report.summary()) + "\n";
    if report.findings.is_empty() {
        text += "nothing is wrong\n";
    }
    for finding in &report.findings {
        text.push('\n');
        text += &one(finding);
    }
    if !is_quiet {
        text += &locks(report);
    }
    text + &gaps(report)
}

fn one(finding: &Finding) -> String {
    let Finding { severity, kind, paths, what, details, cure } = finding;
    let mut named: Vec<String> = paths.iter().take(NAMED_MAX).map(|path| visible(path)).collect();
    if paths.len() > named.len() {
        named.push(format!("and {} more", paths.len() - named.len()));
    }
    let place = named.join(" ");
    let mut lines = vec![format!("{severity}: {} {place}", kind.name()).trim_end().to_owned()];
    lines.push(format!("  {}", visible(what)));
    lines.extend(details.iter().map(|detail| format!("    {}", visible(detail))));
    lines.push(format!("  why: {}", kind.why()));
    lines.push(format!("  do:  {cure}"));
    lines.join("\n") + "\n"
}

fn locks(report: &Report) -> String {
    let mut text = String::new();
    let queues = report.queues_by_waiters();
    for (path, queue) in queues.iter().take(LOCKS_SHOWN_MAX) {
        let _ = writeln!(text, "\n{}: {}", visible(path), queue.recipe.text());
        for row in queue.rows.iter().take(ROWS_SHOWN_MAX) {
            let znode = row.place.znode;
            let age = duration(report.survey.age_ms(znode));
            let session = visible(&report.sessions.text(znode.session));
            let name = visible(&row.place.name);
            let _ = writeln!(text, "  {:<14}  {age:>8}  {session}  {name}", row.role.text());
        }
        let more = queue.rows.len().saturating_sub(ROWS_SHOWN_MAX);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
    }
    let more = queues.len().saturating_sub(LOCKS_SHOWN_MAX);
    if more > 0 {
        let _ = writeln!(text, "\nand {more} more locks, with fewer waiters; --json has all");
    }
    text
}

/// What could not be seen.
fn gaps(report: &Report) -> String {
    let gaps = &report.sessions.gaps;
    if gaps.is_empty() {
        return String::new();
    }
    let mut text = "\nnot seen:\n".to_owned();
    for gap in gaps {
        let _ = writeln!(
            text,
            "  {}: {}; this report lacks {}",
            gap.subject(),
            visible(&gap.cause),
            gap.lacks.join(", ")
        );
        if let Some(cure) = &gap.cure {
            let _ = writeln!(text, "    to see it: {}", visible(cure));
        }
    }
    text
}
