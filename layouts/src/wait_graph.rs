//! Who waits for whom, over the locks of many paths, and who waits in a cycle.
//!
//! The graph has a vertex for each znode of a queue. A znode that waits needs those ahead of it to be
//! deleted. A znode that holds is deleted when its session goes on, and a session that waits at another
//! path does not. What cannot be deleted by these rules, however long all others take, is *stuck*. A
//! semaphore needs one of its permits only, so that a single permit which comes back frees its line.
//!
//! A session is taken for one thread of execution. A program that shares one session among its threads
//! may show a cycle that is none: the thread that holds is not the one that waits. No znode tells the
//! two apart. Waits at the path at which the session holds do not count for that reason: there, one thread
//! of a program waits for another one, as in any queue.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zoolet_protocol::{SessionId, Zxid};

use crate::directory::Place;
use crate::queue::{Queue, Row};
use crate::role::Role;
use crate::style::{Recipe, Style};

/// Who waits for whom.
///
/// ```
/// use zoolet_layouts::{Directory, WaitGraph, Znode};
/// use zoolet_protocol::{SessionId, Zxid};
///
/// let of = |session| Znode { session: SessionId(session), ..Znode::default() };
/// let first = Directory::of([("lock-0000000000", of(1)), ("lock-0000000001", of(2))]);
/// let second = Directory::of([("lock-0000000000", of(2)), ("lock-0000000001", of(1))]);
/// let mut graph = WaitGraph::default();
/// for (path, directory) in [("/first", &first), ("/second", &second)] {
///     directory.queues().iter().for_each(|queue| graph.add(path, queue));
/// }
/// let cycles = graph.cycles();
/// assert_eq!(cycles[0].steps.len(), 2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct WaitGraph {
    paths: Vec<String>,
    vertices: Vec<Vertex>,
}

/// A znode of a queue.
#[derive(Debug, Clone)]
struct Vertex {
    /// The index of its path.
    path: usize,
    place: Place,
    waits: bool,
    /// The vertices that have to go before it has what it waits for.
    needs: Vec<usize>,
    /// Whether one of them is enough.
    needs_one: bool,
}

/// Sessions that wait for each other in a cycle.
///
/// ```
/// use zoolet_layouts::{Cycle, WaitGraph};
///
/// let cycles: Vec<Cycle> = WaitGraph::default().cycles();
/// assert!(cycles.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Each waits for the session of the next one, and the last one for the first.
    pub steps: Vec<Step>,
}

impl Cycle {
    /// Whether each waits for another one. A session that waits behind a place of its own, as one whose
    /// multi-lock has a path at which another of its threads holds, may be served by that thread; and
    /// nobody knows for whom a place without a session waits.
    fn is_between_sessions(&self) -> bool {
        let is_of_two =
            |step: &Step| step.holder != SessionId::default() && step.holder != step.waiter;
        self.steps.len() > 1 && self.steps.iter().all(is_of_two)
    }
}

/// One session that waits for another.
///
/// ```
/// use zoolet_layouts::{Directory, Step, WaitGraph, Znode};
///
/// let names = ["lock-0000000000", "lock-0000000001"];
/// let directory = Directory::of(names.map(|name| (name, Znode::default())));
/// let mut graph = WaitGraph::default();
/// graph.add("/lock", &directory.queues()[0]);
/// let steps: Vec<Step> = graph.waits().collect();
/// assert_eq!(steps[0].holder_place.name, "lock-0000000000");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Where it waits.
    pub path: String,
    /// The session that waits.
    pub waiter: SessionId,
    /// Its znode there.
    pub waiter_place: Place,
    /// The session for which it waits.
    pub holder: SessionId,
    /// The znode there for which it waits.
    pub holder_place: Place,
}

/// How many cycles are searched for at most. More of them have no more to tell, and each search may
/// have to pass all znodes that are stuck.
const CYCLES_MAX: usize = 100;

/// How many searches that find no cycle are made at most: they begin at those who wait for a cycle.
const SEARCHES_MAX: usize = 1_000;

impl WaitGraph {
    /// Adds a queue of a path. One in which nobody waits adds nothing.
    pub fn add(&mut self, path: &str, queue: &Queue<'_>) {
        if !queue.rows.iter().any(|row| row.role.waits()) {
            return;
        }
        let first = self.vertices.len();
        let path_index = self.paths.len();
        self.paths.push(path.to_owned());
        for (index, row) in queue.rows.iter().enumerate() {
            let needs_one = row.role == Role::WaitsForPermit;
            self.vertices.push(Vertex {
                path: path_index,
                place: row.place.clone(),
                waits: row.role.waits(),
                needs: needs(queue, index).into_iter().map(|row| first + row).collect(),
                needs_one,
            });
        }
    }

    /// All pairs of a znode that waits and one for which it waits directly.
    pub fn waits(&self) -> impl Iterator<Item = Step> {
        self.vertices.iter().flat_map(move |waiter| {
            waiter.needs.iter().map(move |&holder| self.step(waiter, &self.vertices[holder]))
        })
    }

    /// The cycles, one for each group of sessions that wait for each other: a shortest one of those
    /// that pass through the first of its znodes. At most 100.
    #[must_use]
    pub fn cycles(&self) -> Vec<Cycle> {
        let needs = self.needs_with_multi_locks();
        let stuck = Stuck::of(self, &needs);
        let mut told: BTreeSet<SessionId> = BTreeSet::new();
        let mut cycles = Vec::new();
        let mut searches = 0;
        for (index, vertex) in self.vertices.iter().enumerate() {
            if vertex.waits || !stuck.is_stuck[index] || told.contains(&vertex.place.znode.session)
            {
                continue;
            }
            if cycles.len() == CYCLES_MAX || searches == SEARCHES_MAX {
                break;
            }
            searches += 1;
            let Some(way) = self.way_back(index, &needs, &stuck) else { continue };
            let cycle = self.cycle(&way);
            if !cycle.is_between_sessions() {
                continue;
            }
            let sessions = way.iter().map(|&index| self.vertices[index].place.znode.session);
            let is_new = sessions.clone().all(|session| !told.contains(&session));
            told.extend(sessions);
            if is_new {
                cycles.push(cycle);
            }
        }
        cycles
    }

    /// What each vertex needs. A multi-lock enters several lines in one transaction and holds none
    /// before it is in front of all, so that each of its places needs what the others need: the first one
    /// needs all of it, and the others need the first one.
    fn needs_with_multi_locks(&self) -> Vec<Vec<usize>> {
        let mut needs: Vec<Vec<usize>> =
            self.vertices.iter().map(|vertex| vertex.needs.clone()).collect();
        let mut groups: BTreeMap<(SessionId, Zxid), Vec<usize>> = BTreeMap::new();
        for (index, vertex) in self.vertices.iter().enumerate() {
            let znode = vertex.place.znode;
            let is_known = znode.session != SessionId::default() && znode.czxid != Zxid::default();
            if vertex.waits && !vertex.needs_one && is_known {
                groups.entry((znode.session, znode.czxid)).or_default().push(index);
            }
        }
        for group in groups.values() {
            let [first, others @ ..] = &group[..] else { continue };
            for &other in others {
                let of_other = std::mem::replace(&mut needs[other], vec![*first]);
                needs[*first].extend(of_other);
            }
        }
        needs
    }

    /// The shortest way from a vertex that holds back to itself, without its end.
    fn way_back(&self, start: usize, needs: &[Vec<usize>], stuck: &Stuck) -> Option<Vec<usize>> {
        let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut ahead = VecDeque::from([start]);
        while let Some(index) = ahead.pop_front() {
            let vertex = &self.vertices[index];
            let next: Vec<usize> = if vertex.waits {
                needs[index].clone()
            } else {
                let waits = stuck.waits_of.get(&vertex.place.znode.session);
                let elsewhere = |wait: &&usize| self.vertices[**wait].path != vertex.path;
                waits.into_iter().flatten().filter(elsewhere).copied().collect()
            };
            for next in next.into_iter().filter(|next| stuck.is_stuck[*next]) {
                if next == start {
                    let mut way = vec![index];
                    while way.last() != Some(&start) {
                        let last = way.last().and_then(|last| came_from.get(last));
                        way.push(
                            *last.expect("each vertex but the start was reached from another"),
                        );
                    }
                    way.reverse();
                    return Some(way);
                }
                if let Entry::Vacant(vacant) = came_from.entry(next) {
                    vacant.insert(index);
                    ahead.push_back(next);
                }
            }
        }
        None
    }

    /// The steps of a way that begins at a vertex that holds and leads back to it.
    fn cycle(&self, way: &[usize]) -> Cycle {
        let mut steps = Vec::new();
        // The place of this step that waits, and the last vertex of the way.
        let mut at: Option<(&Vertex, &Vertex)> = None;
        for &index in way.iter().skip(1).chain(way.first()) {
            let vertex = &self.vertices[index];
            let Some((mut waiter, last)) = at else {
                at = Some((vertex, vertex));
                continue;
            };
            if vertex.path != last.path {
                // A place of a multi-lock: its session waits at this path too.
                if !std::ptr::eq(waiter, last) {
                    steps.push(self.step(waiter, last));
                }
                waiter = self.at_path(last, vertex.path);
            }
            // A step ends where the next session holds.
            at = if vertex.waits {
                Some((waiter, vertex))
            } else {
                steps.push(self.step(waiter, vertex));
                None
            };
        }
        Cycle { steps }
    }

    /// The place of the same multi-lock at this path; otherwise the one that is given.
    fn at_path<'a>(&'a self, vertex: &'a Vertex, path: usize) -> &'a Vertex {
        let znode = vertex.place.znode;
        let is_it = |other: &&Vertex| {
            other.waits
                && other.path == path
                && other.place.znode.session == znode.session
                && other.place.znode.czxid == znode.czxid
        };
        if vertex.path == path {
            vertex
        } else {
            self.vertices.iter().find(is_it).unwrap_or(vertex)
        }
    }

    fn step(&self, waiter: &Vertex, holder: &Vertex) -> Step {
        Step {
            path: self.paths[holder.path].clone(),
            waiter: waiter.place.znode.session,
            waiter_place: waiter.place.clone(),
            holder: holder.place.znode.session,
            holder_place: holder.place.clone(),
        }
    }
}

/// The rows of a queue that have to go before a row has what it waits for. Those for which they wait
/// in turn may be left out.
fn needs(queue: &Queue<'_>, index: usize) -> Vec<usize> {
    let row = &queue.rows[index];
    let Some(behind) = row.behind.filter(|_| row.role.waits()) else { return Vec::new() };
    if row.role == Role::WaitsForPermit {
        // What the one in front asks for it has with the first permit that comes back.
        if let Some(before) = index.checked_sub(1)
            && row.place.style == Style::CuratorPermit
            && queue.rows[before].role == Role::WaitsForPermit
        {
            return vec![before];
        }
        let has_permit = |(_, other): &(usize, &Row<'_>)| other.role == Role::HasPermit;
        return queue.rows.iter().enumerate().filter(has_permit).map(|(row, _)| row).collect();
    }
    if row.place.style.is_shared() {
        return vec![behind];
    }
    // All readers directly ahead, and the first that is none: the others wait for that one.
    let mut needs = Vec::new();
    for ahead in (0..=behind).rev() {
        needs.push(ahead);
        if !queue.rows[ahead].place.style.is_shared() {
            break;
        }
    }
    // The one that holds, so that a cycle is told without those between.
    let is_semaphore = matches!(queue.recipe, Recipe::Semaphore | Recipe::KazooSemaphore);
    let first = &queue.rows[0];
    if !is_semaphore && first.role.holds() && !first.place.style.is_shared() && !needs.contains(&0)
    {
        needs.push(0);
    }
    needs
}

/// Which vertices never go.
struct Stuck {
    is_stuck: Vec<bool>,
    /// The vertices of each session that wait.
    waits_of: BTreeMap<SessionId, Vec<usize>>,
}

/// What remains to be done for a session.
#[derive(Default)]
struct Open {
    holds: Vec<usize>,
    /// The number of waits that are stuck, by path.
    waits: BTreeMap<usize, usize>,
}

impl Stuck {
    fn of(graph: &WaitGraph, needs: &[Vec<usize>]) -> Self {
        let count = graph.vertices.len();
        let mut sessions: BTreeMap<SessionId, Open> = BTreeMap::new();
        let mut waits_of: BTreeMap<SessionId, Vec<usize>> = BTreeMap::new();
        let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); count];
        // Of a vertex that waits, how many others have to go.
        let mut left: Vec<usize> = vec![0; count];
        let mut free: Vec<usize> = Vec::new();
        for (index, vertex) in graph.vertices.iter().enumerate() {
            let session = vertex.place.znode.session;
            if session == SessionId::default() && !vertex.waits {
                // No session ends it; whoever deletes it waits for nobody that is known.
                free.push(index);
            } else if vertex.waits {
                *sessions.entry(session).or_default().waits.entry(vertex.path).or_default() += 1;
                waits_of.entry(session).or_default().push(index);
                needs[index].iter().for_each(|&needed| needed_by[needed].push(index));
                left[index] = if vertex.needs_one { 1 } else { needs[index].len() };
                if needs[index].is_empty() {
                    free.push(index);
                }
            } else {
                sessions.entry(session).or_default().holds.push(index);
            }
        }
        let mut is_stuck = vec![true; count];
        free.iter().for_each(|&index| is_stuck[index] = false);
        for open in sessions.values() {
            open.free_holders(graph, &mut is_stuck, &mut free);
        }
        while let Some(index) = free.pop() {
            for &waiting in &needed_by[index] {
                left[waiting] = left[waiting].saturating_sub(1);
                if left[waiting] == 0 && std::mem::take(&mut is_stuck[waiting]) {
                    free.push(waiting);
                }
            }
            let vertex = &graph.vertices[index];
            if !vertex.waits {
                continue;
            }
            if let Some(open) = sessions.get_mut(&vertex.place.znode.session) {
                let Some(waits) = open.waits.get_mut(&vertex.path) else { continue };
                *waits = waits.saturating_sub(1);
                if *waits == 0 {
                    open.waits.remove(&vertex.path);
                    open.free_holders(graph, &mut is_stuck, &mut free);
                }
            }
        }
        Self { is_stuck, waits_of }
    }
}

impl Open {
    /// Frees what the session holds, if it waits at no other path.
    fn free_holders(&self, graph: &WaitGraph, is_stuck: &mut [bool], free: &mut Vec<usize>) {
        if self.waits.len() > 1 {
            return;
        }
        let only = self.waits.keys().next();
        for &index in &self.holds {
            let waits_elsewhere = only.is_some_and(|path| *path != graph.vertices[index].path);
            if !waits_elsewhere && std::mem::take(&mut is_stuck[index]) {
                free.push(index);
            }
        }
    }
}

#[cfg(test)]
mod tests;
