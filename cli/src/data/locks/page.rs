//! The report on locks as a page for a browser: one file without scripts, which needs no network.

use maud::{Markup, html};
use zoolet_protocol::SessionId;

use super::hold::{Lock, Waiter, elapsed_ms};
use super::report::{Report, Told, rows};
use super::times::span;
use crate::cli::output::visible;
use crate::counted::counted;
use crate::data::json;

/// How many locks have a timeline. The others are in the JSON.
const LOCKS_SHOWN_MAX: usize = 50;

/// How many sessions have a lane of their own in a timeline.
const LANES_MAX: usize = 24;

pub(super) fn page(report: &Report<'_>) -> String {
    let more = report.locks.len().saturating_sub(LOCKS_SHOWN_MAX);
    let body = html! {
        header {
            p.eyebrow { "zoolet data locks " (visible(report.top)) }
            h1 { "Who held each lock" }
            p.lead { (report.summary()) }
            p.legend {
                (key("waits", "waits")) (key("holds", "holds"))
                (key("expired", "holds until its session expires"))
                (key("aborted", "waits and gives up"))
            }
        }
        main {
            @if report.locks.is_empty() { p { "Nobody held a lock." } }
            @for told in report.locks.iter().take(LOCKS_SHOWN_MAX) { (lock(report, told)) }
            @if more > 0 {
                p { "And " (counted(more as u64, "more lock")) ", with shorter waits: see --json." }
            }
        }
    };
    let title = format!("zoolet data locks {}", report.top);
    crate::page::page(&title, include_str!("page.css"), &body).into_string()
}

fn key(class: &str, meaning: &str) -> Markup {
    html! { span { span class={ "key " (class) } {} (meaning) } }
}

fn lock(report: &Report<'_>, told: &Told) -> Markup {
    let Told { path, lock, waiting, .. } = told;
    html! {
        section {
            h2 { code { (visible(path)) } }
            p.about {
                (lock.recipe.text()) ", " (counted(lock.holds, "hold")) ", "
                (counted(lock.handed_over, "hand-over")) " to one that waited, "
                (counted(lock.aborted.count, "wait")) " aborted. "
                (visible(&report.at_end(lock))) ", " (waiting) " wait."
                @if let Some(lack) = told.lack() { " " (lack) }
            }
            @let waiting = report.waiting_at_end(told);
            @if !waiting.is_empty() { ul { @for waiter in &waiting { li { (visible(waiter)) } } } }
            (timeline(report, told))
            (distribution(lock))
            @if !lock.expiries.is_empty() {
                p { (counted(lock.expired, "hold")) " ended by an expiry:" }
                ul { @for hold in &lock.expiries { li { (visible(&report.expiry(hold))) } } }
            }
        }
    }
}

fn distribution(lock: &Lock) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr {
                    th scope="col" { "time" }
                    @for name in ["count", "half", "90 %", "99 %", "longest"] {
                        th.number scope="col" { (name) }
                    }
                } }
                tbody {
                    @for (name, times) in rows(lock) {
                        @if times.count > 0 {
                            tr {
                                td.name { (name) } td.number { (times.count) }
                                @for percent in [50, 90, 99] {
                                    td.number { (span(times.percentile(percent))) }
                                }
                                td.number { (span(times.max_ms())) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A bar of a timeline.
struct Bar {
    session: SessionId,
    from_ms: i64,
    to_ms: i64,
    class: &'static str,
    title: String,
}

/// The size of a timeline and of its parts.
const WIDTH: f64 = 1_000.0;
const NAMES: f64 = 190.0;
const LANE: f64 = 18.0;

fn timeline(report: &Report<'_>, told: &Told) -> Markup {
    let mut bars = bars(report, &told.lock);
    bars.extend(told.waiters.iter().take(LANES_MAX).map(|waiter| still_waits(report, waiter)));
    bars.sort_by_key(|bar| bar.from_ms);
    let (Some(from), Some(to)) =
        (bars.iter().map(|bar| bar.from_ms).min(), bars.iter().map(|bar| bar.to_ms).max())
    else {
        return html! {};
    };
    let mut lanes: Vec<SessionId> = Vec::new();
    // The last ones: their bars are the newest.
    for bar in bars.iter().rev() {
        if !lanes.contains(&bar.session) && lanes.len() < LANES_MAX {
            lanes.push(bar.session);
        }
    }
    lanes.reverse();
    let length = to.saturating_sub(from).max(1) as f64;
    let x = |ms: i64| NAMES + ms.saturating_sub(from) as f64 / length * (WIDTH - NAMES - 10.0);
    let height = LANE * (lanes.len() as f64 + 1.0) + 6.0;
    let label = format!("who held and who waited from {} to {}", json::time(from), json::time(to));
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(label) {
            @for (index, session) in lanes.iter().enumerate() {
                @let y = LANE * index as f64 + 4.0;
                text x="6" y=(y + 11.0) {
                    title { (visible(&report.clients.text(*session))) }
                    (short(&report.clients.name(*session).unwrap_or_else(|| session.to_string())))
                }
                line.lane x1=(NAMES) x2=(WIDTH - 10.0) y1=(y + 14.0) y2=(y + 14.0) {}
                @for bar in bars.iter().filter(|bar| bar.session == *session) {
                    @let left = x(bar.from_ms);
                    rect class=(bar.class) x=(decimal(left)) y=(y)
                        width=(decimal((x(bar.to_ms) - left).max(1.0))) height="12" {
                        title { (bar.title) }
                    }
                }
            }
            @let bottom = height - 5.0;
            text x=(NAMES) y=(bottom) { (json::time(from)) }
            text x=(WIDTH - 10.0) y=(bottom) text-anchor="end" { (json::time(to)) }
        }
    }
}

fn bars(report: &Report<'_>, lock: &Lock) -> Vec<Bar> {
    let mut bars = Vec::new();
    let ms = |ms: i64| span(u64::try_from(ms).unwrap_or(0));
    for hold in lock.recent.iter() {
        let (session, place) = (hold.held.session, visible(&hold.place));
        let Some(since) = hold.held.since else { continue };
        let (asked, until) = (hold.held.asked_ms, hold.until.time_ms);
        if since.time_ms > asked {
            let title = format!("{place} waited {}", ms(elapsed_ms(asked, since.time_ms)));
            bars.push(Bar { session, from_ms: asked, to_ms: since.time_ms, class: "waits", title });
        }
        let class = if hold.cause.is_expiry() { "expired" } else { "holds" };
        let cause = hold.cause.text();
        let held = ms(elapsed_ms(since.time_ms, until));
        let title = format!(
            "{place} {} for {held} from {}: {cause}",
            hold.held.role.text(),
            json::time(since.time_ms)
        );
        bars.push(Bar {
            session,
            from_ms: since.time_ms,
            to_ms: until.max(since.time_ms),
            class,
            title,
        });
    }
    // Those that hold at the end reach to the last transaction.
    let end_ms = report.span.last.map_or(i64::MIN, |last| last.time_ms);
    for (name, held) in lock.holders().into_iter().take(LANES_MAX) {
        let Some(since) = held.since else { continue };
        let (session, since_ms, asked) = (held.session, since.time_ms, held.asked_ms);
        let place = visible(name);
        if since_ms > asked {
            let title = format!("{place} waited {}", ms(elapsed_ms(asked, since_ms)));
            bars.push(Bar { session, from_ms: asked, to_ms: since_ms, class: "waits", title });
        }
        let title = format!("{place} {} since {}", held.role.text(), json::time(since_ms));
        let to_ms = end_ms.max(since_ms);
        bars.push(Bar { session, from_ms: since_ms, to_ms, class: "holds", title });
    }
    for aborted in lock.recent_aborted.iter() {
        let (from_ms, to_ms) = (aborted.asked_ms, aborted.until.time_ms.max(aborted.asked_ms));
        let title = format!(
            "{} gave up after {}: {}",
            visible(&aborted.place),
            ms(elapsed_ms(from_ms, to_ms)),
            aborted.cause.text()
        );
        bars.push(Bar { session: aborted.session, from_ms, to_ms, class: "aborted", title });
    }
    bars
}

/// The bar of one that waits at the end, up to the last transaction.
fn still_waits(report: &Report<'_>, waiter: &Waiter) -> Bar {
    let waited_ms = report.still_waited_ms(waiter);
    let title = format!("{} has waited {}", visible(&waiter.place), span(waited_ms));
    let to_ms = waiter.asked_ms.saturating_add_unsigned(waited_ms);
    Bar { session: waiter.session, from_ms: waiter.asked_ms, to_ms, class: "waits", title }
}

/// A name that fits beside its lane.
fn short(name: &str) -> String {
    const CHARS_MAX: usize = 26;
    let name = visible(name);
    match name.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name,
    }
}

fn decimal(number: f64) -> String {
    format!("{number:.1}")
}
