//! The report as a page for a browser: one file without scripts, which needs no network.

use maud::{Markup, html};

use super::super::campaign::{Outcome, Trial};
use super::super::kind::{Kind, seconds};
use super::super::limits::LINES_IN_FILES;
use super::super::tracker::Seen;
use super::text::{ending, grouped, summary};
use super::{NotMade, Report, command_line, last_lines};
use crate::counted::counted;
use crate::page::page as whole_page;

/// The report as a page.
pub(in super::super) fn document(report: &Report<'_>) -> String {
    page(report).into_string()
}

/// That there is no report, as a page.
pub(in super::super) fn not_made(report: &NotMade<'_>) -> String {
    let body = html! {
        header {
            p.eyebrow { "zoolet sweep" }
            h1 { "No fault was injected." }
            p.command { code { (command_line(report.command)) } }
            p.lead { (capitalised(&report.why)) "." }
        }
        main { @if !report.output.is_empty() { pre { (report.output) } } }
    };
    whole(&command_line(report.command), &body).into_string()
}

fn page(report: &Report<'_>) -> Markup {
    let broken = report.count(Outcome::Broke);
    let first = &report.first;
    let body = html! {
        header {
            p.eyebrow { "zoolet sweep" }
            h1 {
                @match broken {
                    0 => { (nothing_broke(report)) }
                    1 => { "1 fault broke the command." }
                    _ => { (broken) " faults broke the command." }
                }
            }
            p.command { code { (report.command_line()) } }
            @for line in summary(report).lines() { p.lead { (line) } }
            p.lead {
                "Without a fault it takes " (seconds(first.took)) " and sends "
                (counted(first.requests.requests, "request")) " in "
                (counted(first.requests.sessions, "session")) "."
            }
        }
        main {
            (grid(report))
            @for group in &grouped(report) { (section(report, group)) }
            (kinds())
        }
    };
    whole(&report.command_line(), &body)
}

fn whole(command_line: &str, body: &Markup) -> Markup {
    whole_page(&format!("zoolet sweep: {command_line}"), include_str!("page.css"), body)
}

/// What the absence of a failure tells.
fn nothing_broke(report: &Report<'_>) -> &'static str {
    match (report.count(Outcome::Passed), &report.trials.stopped_by) {
        (0, _) => "No fault was reached.",
        (_, Some(_)) => "No fault has broken the command so far.",
        (_, None) => "No fault broke the command.",
    }
}

/// A row for each request, and a column for each kind of fault.
fn grid(report: &Report<'_>) -> Markup {
    let is_used = |kind: &Kind| report.trials.trials.iter().any(|trial| trial.fault.kind == *kind);
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(is_used).collect();
    let find = |seen: &Seen, kind: Kind| {
        let mut trials = report.trials.trials.iter();
        trials.find(|trial| trial.fault.kind == kind && trial.fault.point == seen.point)
    };
    html! {
        section {
            h2 { "Every request, every fault" }
            p.about {
                span.mark.broke { "✕" } " broke the command  " span.mark.passed { "·" } " passed  "
                span.mark.missed { "○" } " not reached  " span.mark.stray { "!" }
                " failed without its fault"
            }
            div.scroll {
                table {
                    thead { tr {
                        th { "session" } th { "request" }
                        @for kind in &kinds { th.kind { (kind.name()) } }
                    } }
                    tbody {
                        @for seen in &report.points {
                            tr {
                                td.number { (seen.point.session) }
                                td { code { (request(seen)) } }
                                @for kind in &kinds { (cell(find(seen, *kind))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A request with its n-th, as a row has it.
fn request(seen: &Seen) -> String {
    let point = &seen.point;
    let text = format!("{} {}", point.operation(), point.path);
    match point.nth {
        1 => text,
        nth => format!("{text} ({nth})"),
    }
}

fn cell(trial: Option<&Trial>) -> Markup {
    let Some(trial) = trial else { return html! { td.cell {} } };
    let id = trial.fault.id();
    match trial.outcome() {
        Outcome::Passed => html! { td.cell.passed title=(id) { "·" } },
        Outcome::NotReached => html! { td.cell.missed title=(id) { "○" } },
        Outcome::Broke => {
            html! { td.cell.broke title=(id) { a href={ "#" (id) } { "✕" } } }
        }
        Outcome::FailedByItself => html! { td.cell.stray title=(id) { "!" } },
    }
}

/// The faults that broke the command in one way.
fn section(report: &Report<'_>, group: &[&Trial]) -> Markup {
    let Some(first) = group.first() else { return html! {} };
    let how = ending(first.run.ending, report.limit_of(first));
    let last = last_lines(&first.run, 1).first().map_or("", |line| *line).to_owned();
    html! {
        section {
            h2 { (how) ", by " (counted(group.len() as u64, "fault")) }
            p.about { code { (last) } }
            @for (index, trial) in group.iter().enumerate() {
                details id=(trial.fault.id()) open[index == 0] {
                    summary {
                        b { (trial.fault.kind) } ": the " (trial.fault.point)
                    }
                    p { (capitalised(&trial.fault.sentence(report.times))) "." }
                    pre.replay { (report.replay(trial)) }
                    h3 { "Requests" }
                    (requests(trial))
                    h3 { "Output" }
                    pre { (last_lines(&trial.run, LINES_IN_FILES).join("\n")) }
                }
            }
        }
    }
}

/// The requests around the fault.
fn requests(trial: &Trial) -> Markup {
    html! {
        div.scroll {
            table {
                tbody {
                    @for seen in trial.run.requests.around_fault() {
                        tr.fault[seen.has_fault] {
                            td.number { (format!("{:.3} s", seen.at.as_secs_f64())) }
                            td { "session " (seen.point.session) }
                            td { code { (request(seen)) } }
                            td { @if seen.has_fault { (trial.fault.kind) } }
                        }
                    }
                }
            }
        }
    }
}

/// What the kinds of faults do.
fn kinds() -> Markup {
    html! {
        section {
            h2 { "The kinds of faults" }
            dl {
                @for kind in Kind::ALL {
                    dt { (kind.name()) }
                    dd { (kind.about()) "." }
                }
            }
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
