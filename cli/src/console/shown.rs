//! What is found, as the page shows it: JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};
use zoolet_layouts::{Cycle, Queue, Role, Row};
use zoolet_protocol::SessionId;

use super::limits::{
    PATHS_OF_SESSION_MAX, PLACES_MAX, SESSIONS_MAX, WATCHED_PATHS_MAX, WATCHERS_NAMED_MAX,
};
use super::model::Entries;
use crate::doctor::sessions::{Gap, Session, Sessions};

/// A queue.
#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    recipe: &'a str,
    places: Vec<Place<'a>>,
    places_total: usize,
    waiting: usize,
    herd: Option<&'a str>,
}

/// A place in a queue.
#[derive(Serialize)]
struct Place<'a> {
    znode: &'a str,
    role: &'a str,
    kind: &'a str,
    libraries: &'a str,
    session: Option<String>,
    client: Option<&'a str>,
    czxid: String,
    ctime_ms: i64,
    held_since_ms: Option<i64>,
    /// Otherwise it held already when the console began to look.
    saw_it_begin: bool,
    behind: Option<usize>,
    in_cycle: bool,
}

/// What is known of a queue beside its places.
pub(super) struct About<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) herd: Option<&'a str>,
    /// Since when the znode with this name holds, and whether that was seen.
    pub(super) since: &'a dyn Fn(&Row<'_>) -> Option<(i64, bool)>,
    pub(super) in_cycle: &'a dyn Fn(&str) -> bool,
}

/// A queue as JSON.
pub(super) fn line(path: &str, queue: &Queue<'_>, about: &About<'_>) -> String {
    let place = |row: &Row<'_>| {
        let znode = row.place.znode;
        let since = (about.since)(row).filter(|_| row.role.holds());
        (znode, since, (about.in_cycle)(&row.place.name))
    };
    let places = queue.rows.iter().take(PLACES_MAX).map(|row| {
        let (znode, since, in_cycle) = place(row);
        Place {
            znode: &row.place.name,
            role: row.role.text(),
            kind: kind(row.role),
            libraries: row.place.style.libraries(),
            session: (znode.session != SessionId::NONE).then(|| znode.session.to_string()),
            client: about.sessions.address(znode.session),
            czxid: znode.czxid.to_string(),
            ctime_ms: znode.ctime,
            held_since_ms: since.map(|(since, _)| since),
            saw_it_begin: since.is_some_and(|(_, saw)| saw),
            behind: row.behind,
            in_cycle,
        }
    });
    let line = Line {
        path,
        recipe: queue.recipe.text(),
        places: places.collect(),
        places_total: queue.rows.len(),
        waiting: waiting(queue),
        herd: about.herd,
    };
    serde_json::to_string(&line).expect("its keys are texts")
}

/// A name of what a place does, for its looks.
fn kind(role: Role) -> &'static str {
    match role {
        Role::Reads | Role::WaitsToRead => "read",
        Role::Writes | Role::WaitsToWrite => "write",
        Role::HasPermit | Role::WaitsForPermit => "permit",
        Role::Leads | Role::WaitsToLead => "lead",
        Role::Holds | Role::Waits | Role::Member | Role::Item => "lock",
    }
}

pub(super) fn waiting(queue: &Queue<'_>) -> usize {
    queue.rows.iter().filter(|row| row.role.waits()).count()
}

/// What a session holds, and where it waits.
#[derive(Debug, Default)]
struct Part<'a> {
    holds: Vec<&'a str>,
    waits: Vec<&'a str>,
}

pub(super) fn sessions(
    queues: &[(&str, Queue<'_>)],
    sessions: &Sessions,
    own: SessionId,
) -> Entries {
    let mut parts: BTreeMap<SessionId, Part<'_>> = BTreeMap::new();
    for (path, queue) in queues {
        for row in &queue.rows {
            let part = parts.entry(row.place.znode.session).or_default();
            if row.role.holds() {
                part.holds.push(path);
            } else if row.role.waits() {
                part.waits.push(path);
            }
        }
    }
    parts.remove(&SessionId::NONE);
    let unknown = Session::default();
    let ids: BTreeSet<SessionId> = sessions.by_id.keys().chain(parts.keys()).copied().collect();
    let nothing = Part::default();
    let mut all: Vec<(SessionId, &Session, &Part<'_>)> = ids
        .into_iter()
        .map(|id| {
            let session = sessions.by_id.get(&id).unwrap_or(&unknown);
            (id, session, parts.get(&id).unwrap_or(&nothing))
        })
        .collect();
    all.sort_by_key(|(_, session, part)| {
        let has_part = !part.holds.is_empty() || !part.waits.is_empty();
        std::cmp::Reverse((has_part, session.ephemerals, session.watches))
    });
    let entry = |(id, session, part): &(SessionId, &Session, &Part<'_>)| {
        let connection = session.connection.as_ref();
        let first = |paths: &[&str]| json!(paths.get(..PATHS_OF_SESSION_MAX).unwrap_or(paths));
        let value = json!({
            "client": connection.map(|connection| &connection.address),
            "server": connection.map(|connection| &connection.server),
            "timeout_ms": connection.map(|connection| connection.timeout_ms),
            "last": connection.map(|connection| &connection.last),
            "ephemerals": sessions.ephemerals_of(session),
            "watches": sessions.watches_of(session),
            "holds": first(&part.holds),
            "waits": first(&part.waits),
            "holds_total": part.holds.len(),
            "waits_total": part.waits.len(),
            "is_console": *id == own,
        });
        (id.to_string(), value.to_string().into())
    };
    all.iter().take(SESSIONS_MAX).map(entry).collect()
}

/// How long each of these sessions is silent. Each look finds other times, so that they are apart from the rest.
pub(super) fn silences(shown: &Entries, sessions: &Sessions) -> Value {
    let connected = sessions.by_id.iter().filter_map(|(id, session)| {
        let id = id.to_string();
        let connection = session.connection.as_ref().filter(|_| shown.contains_key(&id))?;
        Some((id, Value::from(connection.silent_ms)))
    });
    Value::Object(connected.collect())
}

/// The watched paths: how many have how many watchers, and those that have most.
pub(super) fn watches(sessions: &Sessions) -> Value {
    let watchers = &sessions.watchers;
    let bucket = |from: usize, to: Option<usize>| {
        let is_in = |count: usize| count >= from && to.is_none_or(|to| count <= to);
        let paths = watchers.values().filter(|all| is_in(all.len())).count();
        json!({ "from": from, "to": to, "paths": paths })
    };
    let buckets = [(1, Some(1)), (2, Some(9)), (10, Some(99)), (100, Some(999)), (1_000, None)];
    let mut most: Vec<_> = watchers.iter().collect();
    most.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
    let path = |(path, all): &(&String, &Vec<SessionId>)| {
        let named = all.iter().take(WATCHERS_NAMED_MAX).map(ToString::to_string);
        json!({ "path": path, "watchers": all.len(), "sessions": named.collect::<Value>() })
    };
    json!({
        "paths": watchers.len(),
        "watches": watchers.values().map(Vec::len).sum::<usize>(),
        "is_whole": sessions.has_watches,
        "fan_out": buckets.map(|(from, to)| bucket(from, to)),
        "most": most.iter().take(WATCHED_PATHS_MAX).map(path).collect::<Value>(),
    })
}

pub(super) fn cycle(cycle: &Cycle) -> Value {
    let step = |step: &zoolet_layouts::Step| {
        json!({
            "path": step.path,
            "waiter": step.waiter.to_string(),
            "waiter_znode": step.waiter_place.name,
            "holder": step.holder.to_string(),
            "holder_znode": step.holder_place.name,
        })
    };
    cycle.steps.iter().map(step).collect()
}

pub(super) fn gap(gap: &Gap) -> Value {
    json!({
        "subject": gap.subject(),
        "cause": gap.cause,
        "lacks": gap.lacks,
        "cure": gap.cure,
    })
}
