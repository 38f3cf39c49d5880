//! One look after the other at the tree and at the sessions, and what the page shows of it.
//!
//! A small tree is read whole each time. Of a larger one the directories of locks are read each time, and
//! the whole of it only now and then: what is wrong elsewhere changes slowly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use zoolet_client::recipe::now;
use zoolet_client::{Client, Error};
use zoolet_layouts::{Cycle, Queue, Role, Row};
use zoolet_protocol::SessionId;

use super::limits::{
    FINDINGS_MAX, LOCKS_MAX, PATHS_OF_SESSION_MAX, PLACES_MAX, SESSIONS_MAX, SMALL_TREE_REQUESTS,
    WATCHED_PATHS_MAX, WATCHERS_NAMED_MAX, WHOLE_TREE_PAUSE, WHOLE_TREE_PAUSE_FACTOR,
};
use super::model::{Entries, Model};
use crate::doctor::finding::{Finding, Kind};
use crate::doctor::findings;
use crate::doctor::scan::{Scan, ScanOptions};
use crate::doctor::sessions::{Gap, Session, Sessions};
use crate::doctor::survey::Survey;

/// What is known from one look to the next.
#[derive(Debug)]
pub(super) struct Looks {
    path: String,
    options: ScanOptions,
    survey: Survey,
    /// The directories of locks that the last reading of the whole tree has found.
    directories: BTreeSet<String>,
    whole: Option<Whole>,
    /// The cycles of the last look, which this one may confirm.
    cycles: Vec<Cycle>,
    holders: Holders,
}

/// The last time that the whole tree was read.
#[derive(Debug, Clone, Copy)]
struct Whole {
    at: Instant,
    took: Duration,
    requests: u64,
}

impl Whole {
    fn is_old(self) -> bool {
        let pause = (self.took * WHOLE_TREE_PAUSE_FACTOR).max(WHOLE_TREE_PAUSE);
        self.requests <= SMALL_TREE_REQUESTS || now() - self.at >= pause
    }
}

/// Since when each holder was seen to hold.
#[derive(Debug, Default)]
struct Holders {
    /// By path and znode: the time of the look that saw it hold first, and whether an earlier look had
    /// seen that it did not hold yet.
    since: BTreeMap<(String, String), (i64, bool)>,
    /// Whether there was a look before.
    has_looked: bool,
    /// How many have begun to hold while somebody looked.
    hand_overs: u64,
}

impl Holders {
    fn learn(&mut self, survey: &Survey) {
        let mut since = BTreeMap::new();
        for (path, queue) in survey.queues() {
            for row in queue.rows.iter().filter(|row| row.role.holds()) {
                let key = (path.to_owned(), row.place.name.clone());
                let known = self.since.remove(&key);
                let seen = known.unwrap_or((survey.now_ms, self.has_looked));
                self.hand_overs += u64::from(known.is_none() && self.has_looked);
                since.insert(key, seen);
            }
        }
        self.since = since;
        self.has_looked = true;
    }
}

impl Looks {
    pub(super) fn new(path: &str, options: ScanOptions) -> Self {
        Self {
            path: path.to_owned(),
            options,
            survey: Survey::default(),
            directories: BTreeSet::new(),
            whole: None,
            cycles: Vec::new(),
            holders: Holders::default(),
        }
    }

    /// Reads the tree, or what may have changed of it.
    ///
    /// # Errors
    ///
    /// Those of any read.
    pub(super) async fn read(&mut self, client: &Client) -> Result<(), Error> {
        let scan = Scan::new(client, self.options);
        if self.whole.is_none_or(Whole::is_old) {
            let at = now();
            self.survey = scan.tree(&self.path).await?;
            self.directories = self.survey.locks.keys().cloned().collect();
            let requests = self.survey.requests;
            self.whole = Some(Whole { at: now(), took: now() - at, requests });
            return Ok(());
        }
        let Survey { locks, now_ms, .. } = scan.directories(self.directories.clone()).await?;
        let mut earlier = std::mem::replace(&mut self.survey.locks, locks);
        self.survey.now_ms = now_ms;
        for (path, lock) in &mut self.survey.locks {
            lock.acl = earlier.remove(path).and_then(|lock| lock.acl);
        }
        Ok(())
    }

    /// What the page shows of the last reading, with what the servers told of sessions.
    pub(super) fn model(&mut self, sessions: &Sessions, own: SessionId) -> Model {
        self.survey.learn(sessions);
        self.holders.learn(&self.survey);
        let confirmed = findings::still_there(std::mem::take(&mut self.cycles), &self.survey);
        self.cycles = findings::cycles(&self.survey);
        let survey = &self.survey;
        let findings = findings::findings(survey, sessions, &confirmed, self.options.frame_bytes);
        let queues = survey.queues();
        let count = |holds: bool| {
            let rows = queues.iter().flat_map(|(_, queue)| &queue.rows);
            rows.filter(|row| if holds { row.role.holds() } else { row.role.waits() }).count()
        };
        let totals = json!({
            "locks": queues.len(),
            "hold": count(true),
            "wait": count(false),
            "sessions": sessions.by_id.len(),
            "znodes": survey.znodes,
            "is_cut": survey.is_cut,
            "hand_overs": self.holders.hand_overs,
            "findings": findings.len(),
        });
        Model::default()
            .with("time_ms", survey.now_ms)
            .with("path", self.path.as_str())
            .with("totals", totals)
            .with(
                "findings",
                findings.iter().take(FINDINGS_MAX).map(Finding::json).collect::<Value>(),
            )
            .with("cycles", confirmed.iter().map(cycle).collect::<Value>())
            .with("watches", watches(sessions))
            .with("not_seen", sessions.gaps.iter().map(gap).collect::<Value>())
            .with_entries("locks", self.locks(&queues, sessions, &confirmed, &findings))
            .with_entries("sessions", shown_sessions(&queues, sessions, own))
    }

    fn locks(
        &self,
        queues: &[(&str, Queue<'_>)],
        sessions: &Sessions,
        cycles: &[Cycle],
        findings: &[Finding],
    ) -> Entries {
        let mut queues: Vec<_> = queues.iter().collect();
        queues.sort_by_key(|(_, queue)| std::cmp::Reverse(waiting(queue)));
        let in_cycles: BTreeSet<(&str, &str)> = cycles
            .iter()
            .flat_map(|cycle| &cycle.steps)
            .flat_map(|step| {
                let path = step.path.as_str();
                [(path, step.waiter_place.name.as_str()), (path, step.holder_place.name.as_str())]
            })
            .collect();
        let herd = |path: &str| {
            let is_here = |finding: &&Finding| {
                finding.kind == Kind::Herd && finding.paths.iter().any(|known| known == path)
            };
            findings.iter().find(is_here).map(|finding| finding.what.as_str())
        };
        let entry = |(path, queue): &&(&str, Queue<'_>)| {
            let place = |row: &Row<'_>| {
                let znode = row.place.znode;
                let name = &row.place.name;
                let since = self.holders.since.get(&((*path).to_owned(), name.clone()));
                let since = since.filter(|_| row.role.holds());
                json!({
                    "znode": name,
                    "role": row.role.text(),
                    "kind": kind(row.role),
                    "libraries": row.place.style.libraries(),
                    "session": session_id(znode.session),
                    "client": sessions.address(znode.session),
                    "czxid": znode.czxid.to_string(),
                    "ctime_ms": znode.ctime,
                    "held_since_ms": since.map(|(since, _)| since),
                    // Otherwise it held already when the console began to look.
                    "saw_it_begin": since.is_some_and(|(_, saw)| *saw),
                    "behind": row.behind,
                    "in_cycle": in_cycles.contains(&(*path, name.as_str())),
                })
            };
            let value = json!({
                "path": path,
                "recipe": queue.recipe.text(),
                "places": queue.rows.iter().take(PLACES_MAX).map(place).collect::<Value>(),
                "places_total": queue.rows.len(),
                "waiting": waiting(queue),
                "herd": herd(path),
            });
            // A path has no line end.
            (format!("{path}\n{}", queue.recipe.text()), value)
        };
        queues.iter().take(LOCKS_MAX).map(entry).collect()
    }
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

fn waiting(queue: &Queue<'_>) -> usize {
    queue.rows.iter().filter(|row| row.role.waits()).count()
}

fn session_id(session: SessionId) -> Option<String> {
    (session != SessionId::NONE).then(|| session.to_string())
}

/// What a session holds, and where it waits.
#[derive(Debug, Default)]
struct Part<'a> {
    holds: Vec<&'a str>,
    waits: Vec<&'a str>,
}

fn shown_sessions(queues: &[(&str, Queue<'_>)], sessions: &Sessions, own: SessionId) -> Entries {
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
            "silent_ms": connection.map(|connection| connection.silent_ms),
            "last": connection.map(|connection| &connection.last),
            "ephemerals": session.ephemerals,
            "watches": session.watches,
            "holds": first(&part.holds),
            "waits": first(&part.waits),
            "holds_total": part.holds.len(),
            "waits_total": part.waits.len(),
            "is_console": *id == own,
        });
        (id.to_string(), value)
    };
    all.iter().take(SESSIONS_MAX).map(entry).collect()
}

/// The watched paths: how many have how many watchers, and those that have most.
fn watches(sessions: &Sessions) -> Value {
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

fn cycle(cycle: &Cycle) -> Value {
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

fn gap(gap: &Gap) -> Value {
    json!({
        "subject": gap.subject(),
        "cause": gap.cause,
        "lacks": gap.lacks,
        "cure": gap.cure,
    })
}
