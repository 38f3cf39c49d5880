//! Sessions that wait for each other.

use zoolet_layouts::{Cycle, Step, WaitGraph};

use super::{Finding, Kind, Sessions, Severity, Survey, duration};
use crate::doctor::limits::OLD_WAIT_MS;

/// The cycles in what was found. The paths were read one after the other, so that some of the waits may
/// not have been at the same time.
pub(crate) fn cycles(survey: &Survey) -> Vec<Cycle> {
    let mut graph = WaitGraph::default();
    for (path, queue) in survey.queues() {
        graph.add(path, &queue);
    }
    graph.cycles()
}

/// The cycles whose znodes a second look has all found again: all of them existed when the first look
/// had ended and the second had not begun, so that the waits were at one time.
pub(crate) fn still_there(cycles: Vec<Cycle>, second: &Survey) -> Vec<Cycle> {
    let mut graph = WaitGraph::default();
    let directories = second.directories_of(cycles.iter().flat_map(|cycle| &cycle.steps));
    for (path, queue) in directories.iter().flat_map(|path| second.queues_of(path)) {
        graph.add(path, &queue);
    }
    let is_same = |first: &Step, second: &Step| {
        first.path == second.path
            && first.waiter_place.name == second.waiter_place.name
            && first.waiter_place.znode.czxid == second.waiter_place.znode.czxid
            && first.holder_place.name == second.holder_place.name
            && first.holder_place.znode.czxid == second.holder_place.znode.czxid
    };
    let waits: Vec<Step> = graph.waits().collect();
    let stands = |step: &Step| waits.iter().any(|wait| is_same(step, wait));
    let mut cycles = cycles;
    cycles.retain(|cycle| cycle.steps.iter().all(stands));
    cycles
}

pub(crate) fn findings(survey: &Survey, sessions: &Sessions, cycles: &[Cycle]) -> Vec<Finding> {
    cycles.iter().map(|cycle| finding(survey, sessions, cycle)).collect()
}

fn finding(survey: &Survey, sessions: &Sessions, cycle: &Cycle) -> Finding {
    let waited = |step: &Step| survey.age_ms(step.waiter_place.znode);
    let youngest = cycle.steps.iter().map(waited).min().unwrap_or_default();
    let is_old = youngest >= OLD_WAIT_MS;
    let step = |step: &Step| {
        let Step { path, waiter, holder, .. } = step;
        format!(
            "{} has waited at {} for {}, with {} of {}, behind {} of {}",
            sessions.text(*waiter),
            path,
            duration(waited(step)),
            step.waiter_place.name,
            step.waiter_place.style.libraries(),
            step.holder_place.name,
            sessions.text(*holder),
        )
    };
    Finding {
        severity: if is_old { Severity::Critical } else { Severity::Warning },
        kind: Kind::Deadlock,
        paths: cycle.steps.iter().map(|step| step.path.clone()).collect(),
        what: format!(
            "{} sessions wait for each other in a cycle, for {} at least",
            cycle.steps.len(),
            duration(youngest)
        ),
        details: cycle.steps.iter().map(step).collect(),
        cure: "End one of the processes, or delete the znode by which it waits, and look again: of sessions that \
               wait in several cycles this is one. Take the locks of several paths in one order everywhere, or \
               with a time limit."
            .to_owned(),
    }
}
