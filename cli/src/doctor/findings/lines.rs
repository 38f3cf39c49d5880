//! What is wrong with the names in a directory, and with how its waiters wait.

use std::collections::BTreeMap;

use zoolet_layouts::{Directory, Queue, Recipe, Role, Row, Style, Towards};

use super::{Finding, Kind, Sessions, Severity, Survey, named};
use crate::doctor::limits::{HERD_MIN, NUMBER_HIGH, OLD_WAIT_MS, UNWATCHED_MIN};
use crate::doctor::survey::{LockDirectory, child};

pub(super) fn add(survey: &Survey, sessions: &Sessions, findings: &mut Vec<Finding>) {
    for (path, lock) in &survey.locks {
        findings.extend(mixed_libraries(path, &lock.directory, sessions));
        findings.extend(blocked(path, lock));
        findings.extend(numbers(path, lock));
    }
    for (path, queue) in survey.queues() {
        findings.extend(herd(path, &queue, survey, sessions));
    }
}

/// Locks of one directory that do not wait for each other.
fn mixed_libraries(path: &str, directory: &Directory, sessions: &Sessions) -> Option<Finding> {
    let is_candidate = |style: Style| style.recipe() == Recipe::LeaderLatch;
    let strangers: Vec<_> = directory
        .strangers()
        .into_iter()
        // An election and a lock may share a directory, and mean to.
        .filter(|(later, ahead, _)| !is_candidate(*later) && !is_candidate(*ahead))
        .collect();
    if strangers.is_empty() {
        return None;
    }
    let holders = directory.holders();
    // The one that came later did not see the one ahead.
    let hold_together = strangers.iter().any(|(later, ahead, _)| {
        let of = |style: Style| {
            holders.iter().filter(move |(place, _)| place.style == style).map(|(place, _)| place)
        };
        of(*later).any(|later| of(*ahead).any(|ahead| ahead.znode.czxid < later.znode.czxid))
    });
    let details = strangers.iter().map(|(later, ahead, towards)| {
        let does = match towards {
            Towards::Fails => "fails beside",
            _ => "does not wait for",
        };
        format!(
            "{} ({}) {does} {} ({})",
            later.pattern(),
            later.libraries(),
            ahead.pattern(),
            ahead.libraries()
        )
    });
    let mut details: Vec<String> = details.collect();
    details.extend(holders.iter().map(|(place, role)| {
        let session = sessions.text(place.znode.session);
        format!("{session} {} by {}", role.text(), place.name)
    }));
    let what = if hold_together {
        "locks that do not exclude one another are held together"
    } else {
        "locks that do not exclude one another stand in one directory"
    };
    Some(Finding {
        severity: if hold_together { Severity::Critical } else { Severity::Warning },
        kind: Kind::MixedLibraries,
        paths: vec![path.to_owned()],
        what: what.to_owned(),
        details: named(details.into_iter()),
        cure: cure_of_mix(&strangers).to_owned(),
    })
}

fn cure_of_mix(strangers: &[(Style, Style, Towards)]) -> &'static str {
    let has = |style| strangers.iter().any(|(later, ahead, _)| *later == style || *ahead == style);
    let has_curators = has(Style::CuratorLock) || has(Style::GoLock) || has(Style::OtherLock);
    if has(Style::KazooLock) && has_curators {
        "Give kazoo's locks extra_lock_patterns=[\"-lock-\"], and Curator's a driver that orders by the last \
         ten characters of a name, or use one library for one path. Stop one side first: the change is \
         safe only while nobody holds."
    } else {
        "Use one library and one kind of lock for one path."
    }
}

/// A name that is no place and comes before all places of Curator's locks.
fn blocked(path: &str, lock: &LockDirectory) -> Option<Finding> {
    let other = lock.first_other.as_deref()?;
    let is_curators = |style: &Style| {
        matches!(
            style,
            Style::CuratorLock | Style::CuratorRead | Style::CuratorWrite | Style::CuratorLatch
        )
    };
    let has_go = lock.directory.styles().any(|style| style == Style::GoLock);
    let places = lock.directory.places().filter(|place| is_curators(&place.style));
    let numbers = places.filter_map(|place| place.number).map(|number| format!("{number:010}"));
    let is_before = numbers.min().is_some_and(|first| other < first.as_str());
    if !is_before && !has_go {
        return None;
    }
    let what = match is_before {
        true => format!("the child {other} sorts before all lock znodes"),
        false => format!("go-zookeeper's locks fail beside the child {other}"),
    };
    Some(Finding {
        severity: Severity::Critical,
        kind: Kind::BlockedByOtherName,
        paths: vec![path.to_owned()],
        what,
        details: Vec::new(),
        cure: "Move what is no lock to another directory.".to_owned(),
    })
}

/// Numbers near the end of what the server gives.
fn numbers(path: &str, lock: &LockDirectory) -> Option<Finding> {
    let numbers = || lock.directory.places().filter_map(|place| place.number);
    let greatest = numbers().max()?;
    // Anybody can make a name with a negative number by hand.
    let has_negative = numbers().any(|number| number < 0 && lock.stamp.has_given(number));
    if !has_negative && greatest < NUMBER_HIGH {
        return None;
    }
    let (severity, what) = if has_negative {
        (
            Severity::Critical,
            "the sequence numbers of this directory have become negative".to_owned(),
        )
    } else {
        let left = i32::MAX - greatest;
        (
            Severity::Warning,
            format!("the sequence numbers of this directory end after {left} more children"),
        )
    };
    Some(Finding {
        severity,
        kind: Kind::NumbersRunOut,
        paths: vec![path.to_owned()],
        what,
        details: Vec::new(),
        cure: "Stop all who use the directory, delete it, and let them create it again: its numbers begin at \
               0 then. Fencing tokens must not be these numbers."
            .to_owned(),
    })
}

/// Many who watch one place, or who all wait without a watch on any.
fn herd(path: &str, queue: &Queue<'_>, survey: &Survey, sessions: &Sessions) -> Option<Finding> {
    // The servers tell of watches after the tree was read. In a line that moves, others stand by then.
    let has_stood = |row: &&Row<'_>| survey.age_ms(row.place.znode) >= OLD_WAIT_MS;
    let waiting = queue.rows.iter().filter(|row| row.role.waits()).filter(has_stood).count();
    // Those who wait to read acquire together: one event for each of them is what they need.
    let mut readers: BTreeMap<usize, usize> = BTreeMap::new();
    for row in queue.rows.iter().filter(|row| row.role == Role::WaitsToRead) {
        *readers.entry(row.behind.unwrap_or_default()).or_default() += 1;
    }
    let watching =
        |row: &Row<'_>| sessions.watchers.get(&child(path, &row.place.name)).map_or(0, Vec::len);
    let is_watched = queue.rows.iter().any(|row| watching(row) > 0);
    let woken_in_vain = queue.rows.iter().enumerate().map(|(index, row)| {
        let readers = readers.get(&index).copied().unwrap_or_default();
        (watching(row).saturating_sub(readers), &row.place.name)
    });
    let (most, name) = woken_in_vain.max()?;
    let what = if most >= HERD_MIN {
        format!("{most} sessions watch {name}")
    } else if !is_watched && sessions.has_watches && waiting >= UNWATCHED_MIN && is_line(queue) {
        format!(
            "{waiting} wait here and nobody watches a lock znode: they watch the directory, or ask \
             again and again"
        )
    } else {
        return None;
    };
    Some(Finding {
        severity: Severity::Warning,
        kind: Kind::Herd,
        paths: vec![path.to_owned()],
        what,
        details: vec![format!("{} hold or wait here", queue.rows.len())],
        cure: "Use a lock whose waiters each watch the znode before their own.".to_owned(),
    })
}

/// Whether all stand in the directory of the path itself: those of a semaphore stand in another one.
fn is_line(queue: &Queue<'_>) -> bool {
    queue.rows.iter().all(|row| row.place.style.is_place())
}
