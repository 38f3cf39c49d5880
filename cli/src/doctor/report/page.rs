//! The report as a page for a browser: one file without scripts, which needs no network.

use maud::{Markup, html};
use zoolet_layouts::Queue;

use super::Report;
use crate::cli::answer::time;
use crate::cli::output::visible;
use crate::doctor::finding::Finding;
use crate::doctor::findings::duration;
use crate::doctor::limits::{LOCKS_SHOWN_MAX, NAMED_MAX, ROWS_SHOWN_MAX};

pub(super) fn page(report: &Report) -> String {
    let queues = report.queues_by_waiters();
    let more = queues.len().saturating_sub(LOCKS_SHOWN_MAX);
    let body = html! {
        header {
            p.eyebrow { "zoolet doctor, " (time(report.survey.now_ms)) }
            h1 { (headline(report)) }
            p.lead { (visible(&report.summary())) }
        }
        main {
            @for finding in &report.findings { (one(finding)) }
            section {
                h2 { "Locks" }
                @if queues.is_empty() { p { "Nobody holds or waits." } }
                @for (path, queue) in queues.iter().take(LOCKS_SHOWN_MAX) {
                    (lock(report, path, queue))
                }
                @if more > 0 { p { "And " (more) " more locks, with fewer waiters." } }
            }
            (gaps(report))
        }
    };
    let title = format!("zoolet doctor: {}", report.server);
    let style = concat!(include_str!("page.css"), include_str!("finding.css"));
    crate::page::page(&title, style, &body).into_string()
}

fn headline(report: &Report) -> String {
    match report.findings.len() {
        0 => "Nothing is wrong.".to_owned(),
        1 => "1 finding.".to_owned(),
        count => format!("{count} findings."),
    }
}

fn one(finding: &Finding) -> Markup {
    html! {
        section class={ "finding " (finding.severity.name()) } {
            h2 { span.severity { (finding.severity.name()) } " " (finding.kind.name()) }
            @if !finding.paths.is_empty() {
                p {
                    @for path in finding.paths.iter().take(NAMED_MAX) { code { (visible(path)) } " " }
                    @if finding.paths.len() > NAMED_MAX {
                        "and " (finding.paths.len() - NAMED_MAX) " more"
                    }
                }
            }
            p.what { (visible(&finding.what)) }
            @if !finding.details.is_empty() {
                ul { @for detail in &finding.details { li { (visible(detail)) } } }
            }
            p { b { "Why it matters: " } (finding.kind.why()) }
            p { b { "What to do: " } (finding.cure) }
        }
    }
}

fn lock(report: &Report, path: &str, queue: &Queue<'_>) -> Markup {
    let more = queue.rows.len().saturating_sub(ROWS_SHOWN_MAX);
    html! {
        div.scroll {
            table {
                caption { code { (visible(path)) } " " (queue.recipe.text()) }
                thead { tr {
                    th scope="col" { "state" } th scope="col" { "age" } th scope="col" { "session" }
                    th scope="col" { "znode" }
                } }
                tbody {
                    @for row in queue.rows.iter().take(ROWS_SHOWN_MAX) {
                        tr.holds[row.role.holds()] {
                            td { (row.role.text()) }
                            td.number { (duration(report.survey.age_ms(row.place.znode))) }
                            td { (visible(&report.sessions.text(row.place.znode.session))) }
                            td { code { (visible(&row.place.name)) } }
                        }
                    }
                    @if more > 0 { tr { td colspan="4" { "and " (more) " more" } } }
                }
            }
        }
    }
}

fn gaps(report: &Report) -> Markup {
    html! {
        @if !report.sessions.gaps.is_empty() {
            section {
                h2 { "Not seen" }
                @for gap in &report.sessions.gaps {
                    p {
                        (gap.subject()) ": " (gap.cause) ". This report lacks "
                        (gap.lacks.join(", ")) "."
                    }
                    @if let Some(cure) = &gap.cure { pre { (cure) } }
                }
            }
        }
    }
}
