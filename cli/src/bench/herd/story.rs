//! The conclusions from a run about the herd, in sentences and plots.

use super::WAITERS;
use crate::bench::latency::{P50, P99};
use crate::bench::lock_algorithm::{LOCK, LockAlgorithm};
use crate::bench::metrics::{BYTES, CPU, EVENTS, REQUESTS};
use crate::bench::outcome::{Outcome, Row};
use crate::bench::report::{Plot, Story};
use crate::bench::values::{Label, Metric, Unit, grouped};

/// The story of a run.
pub(super) fn story(outcome: &Outcome) -> Story {
    let mut sentences: Vec<String> =
        (0..outcome.servers.len()).filter_map(|server| against_the_herd(outcome, server)).collect();
    sentences.extend((0..outcome.servers.len()).filter_map(|server| growth(outcome, server)));
    Story {
        plots: PLOTS.to_vec(),
        legend: LockAlgorithm::ALL.map(|kind| (kind.name(), kind.meaning())).to_vec(),
        ..Story::of_sentences(sentences)
    }
}

fn rows(outcome: &Outcome, server: usize, kind: LockAlgorithm) -> impl Iterator<Item = &Row> {
    let is_of = move |row: &&Row| {
        row.server == server && row.label(LOCK) == Some(&Label::Text(kind.name()))
    };
    outcome.rows.iter().filter(is_of)
}

fn waiters(row: &Row) -> usize {
    match row.label(WAITERS) {
        Some(&Label::Number(waiters)) => waiters,
        _ => 0,
    }
}

/// Compares the mutex with a herd at the greatest number of waiters that both were measured with.
fn against_the_herd(outcome: &Outcome, server: usize) -> Option<String> {
    let herd = |kind| rows(outcome, server, kind).last();
    let herd = herd(LockAlgorithm::ExistsHerd).or_else(|| herd(LockAlgorithm::ChildrenHerd))?;
    let mut mutex = rows(outcome, server, LockAlgorithm::Predecessor);
    let mutex = mutex.find(|row| waiters(row) == waiters(herd))?;
    let (slow, fast) = (herd.value(P50)?, mutex.value(P50)?);
    let (many, few) = (herd.value(EVENTS)?, mutex.value(EVENTS)?);
    Some(format!(
        "With {} waiting on {}, a lock that wakes them all takes {} to reach the next one; waking \
         only that one takes {}{}, and {} events instead of {}.",
        grouped(waiters(herd) as f64),
        outcome.server_name(server),
        Unit::Microseconds.text(slow),
        Unit::Microseconds.text(fast),
        times_less(slow, fast),
        Unit::Count.text(few),
        Unit::Count.text(many),
    ))
}

/// How the mutex behaves as the line grows.
fn growth(outcome: &Outcome, server: usize) -> Option<String> {
    let all: Vec<&Row> = rows(outcome, server, LockAlgorithm::Predecessor).collect();
    let (first, last) = (all.first()?, all.last()?);
    let text = |row: &Row, metric: Metric| row.value(metric).map(|value| metric.unit.text(value));
    Some(format!(
        "On {}, InterProcessMutex takes {} with {} waiting and {} with {}, and {} requests each \
         time.",
        outcome.server_name(server),
        text(first, P50)?,
        grouped(waiters(first) as f64),
        text(last, P50)?,
        grouped(waiters(last) as f64),
        text(last, REQUESTS)?,
    ))
}

fn times_less(slow: f64, fast: f64) -> String {
    let times = slow / fast;
    if times < TIMES_MIN { String::new() } else { format!(", {times:.0} times less") }
}

/// The least ratio that is worth a sentence.
const TIMES_MIN: f64 = 1.5;

const fn plot(title: &'static str, about: &'static str, metric: Metric) -> Plot {
    Plot { lines: Some(LOCK), ..Plot::of(title, about, WAITERS, metric) }
}

const PLOTS: [Plot; 5] = [
    Plot {
        dashed: Some(P99),
        ..plot(
            "From release to the next holder",
            "The time from the call to release until the next one knows that it holds the lock, by \
             how many wait. Both axes are logarithmic. Lines are medians, dashed ones the 99th \
             percentile. Point at a dot for its number.",
            P50,
        )
    },
    plot(
        "Events",
        "How many watch events clients hear of for each acquisition, those of everybody counted \
         together. Counted on the wire, and so the same on a busy machine.",
        EVENTS,
    ),
    plot("Requests", "How many requests all clients send for each acquisition.", REQUESTS),
    plot("Bytes", "What goes over the wire for each acquisition, both ways.", BYTES),
    plot("CPU time of the server", "For each acquisition, where it is known.", CPU),
];
