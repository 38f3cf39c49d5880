//! Tells who holds after a transaction, from the places that it has created and deleted. The cost of a change
//! does not grow with the others that hold or wait.

use hashbrown::{HashMap, HashSet};
use zoolet_layouts::{Directory, Place, Recipe, Role, Style, front_of_gate, semaphore};
use zoolet_protocol::SessionId;
use zoolet_server::storage::history::Moment;

use super::hold::{Aborted, Cause, Held, Hold, Left};
use super::shape::{Semaphore, Shape, SlotId};
use super::watch::{Came, Gone, Watch};
use crate::data::DataError;

/// A place that holds.
struct Holder {
    name: String,
    session: SessionId,
    role: Role,
    asked_ms: i64,
    recipe: Recipe,
}

impl Holder {
    fn new(place: &Place, role: Role, asked_ms: i64, recipe: Recipe) -> Self {
        let (name, session) = (place.name.clone(), place.znode.session);
        Self { name, session, role, asked_ms, recipe }
    }
}

/// Who holds after a transaction.
#[derive(Default)]
struct Now {
    /// All whom it has made a holder, and perhaps some that held before.
    holders: Vec<Holder>,
    /// Whether all that hold are among them.
    is_all: bool,
    /// The places that went from the gate of a semaphore as they had their permit.
    served: HashSet<String>,
}

/// What is over since a transaction.
struct Over {
    gone: Vec<Gone>,
    /// The names of those that hold again, after they had gone.
    again: HashSet<String>,
    /// The names of those that are there, and hold no longer.
    overtaken: Vec<String>,
    /// See [`Now::served`].
    served: HashSet<String>,
}

impl Over {
    /// What is over for those that held, and who holds now.
    fn of(
        holding: &HashMap<String, Held>,
        now: Now,
        gone: Vec<Gone>,
        may_come_again: bool,
    ) -> (Self, Vec<Holder>) {
        let Now { holders, is_all, served } = now;
        let (mut again, mut overtaken) = (HashSet::new(), Vec::new());
        if is_all || may_come_again {
            let now: HashMap<&str, SessionId> =
                holders.iter().map(|it| (it.name.as_str(), it.session)).collect();
            let is_there = |name: &str, session| now.get(name) == Some(&session);
            if is_all {
                let over = holding.iter().filter(|(name, held)| !is_there(name, held.session));
                overtaken.extend(over.map(|(name, _)| name.clone()));
                overtaken.sort_unstable();
            }
            let gone = gone.iter().map(|gone| &gone.place);
            let gone = gone.filter(|place| is_there(&place.name, place.znode.session));
            again.extend(gone.map(|place| place.name.clone()));
        }
        (Self { gone, again, overtaken, served }, holders)
    }

    /// Whether a place of this directory has gone.
    fn has_left(&self, slot: SlotId) -> bool {
        self.gone.iter().any(|gone| gone.slot == slot)
    }
}

impl Watch<'_> {
    /// Compares who holds in a lock after a transaction with who held before. Where the report begins there is no
    /// transaction, and all that hold are looked at.
    pub(super) fn settle(
        &mut self,
        root: SlotId,
        came: &[Came<'_>],
        gone: Vec<Gone>,
        at: Option<Moment>,
    ) -> Result<(), DataError> {
        let slot = &mut self.slots[root];
        let now = match &mut slot.shape {
            Shape::Semaphore(semaphore) => {
                semaphore.is_new |= at.is_none();
                self.permits(root, came, &gone)
            }
            _ if at.is_none() => line(&slot.directory),
            _ => line_since(&slot.directory, came, &gone),
        };
        // Most places come behind others.
        if now.holders.is_empty() && gone.is_empty() && !now.is_all {
            return Ok(());
        }
        let may_come_again = !came.is_empty() && !gone.is_empty();
        self.compare(root, now, gone, may_come_again, at)?;
        if self.slots[root].lock.is_none() {
            self.slots.remove_if_idle(root);
        }
        Ok(())
    }

    fn compare(
        &mut self,
        root: SlotId,
        now: Now,
        gone: Vec<Gone>,
        may_come_again: bool,
        at: Option<Moment>,
    ) -> Result<(), DataError> {
        let slot = &self.slots[root];
        let nobody = HashMap::new();
        let holding = slot.lock.as_ref().map_or(&nobody, |lock| &lock.holding);
        let (over, mut begun) = Over::of(holding, now, gone, may_come_again);
        begun.retain(|it| holding.get(&it.name).is_none_or(|old| old.session != it.session));
        if slot.lock.is_none() {
            let recipe = match (begun.first(), &slot.shape) {
                (Some(first), _) => first.recipe,
                // Somebody gave up before a permit was seen.
                (None, Shape::Semaphore(semaphore)) if over.has_left(semaphore.gate) => {
                    semaphore.style.recipe()
                }
                (None, _) => return Ok(()),
            };
            self.begin_lock(root, recipe);
        }
        if let Some(at) = at {
            self.end_holds(root, over, &begun, at)?;
        }
        let Some(lock) = &mut self.slots[root].lock else { return Ok(()) };
        for Holder { name, session, role, asked_ms, recipe } in begun {
            if recipe == Recipe::KazooReadWriteLock {
                lock.recipe = recipe;
            }
            lock.begin(name, Held { session, role, asked_ms, since: at });
        }
        Ok(())
    }

    /// Ends the holds and the waits that are over. `begun` are those that hold since the same transaction.
    fn end_holds(
        &mut self,
        root: SlotId,
        over: Over,
        begun: &[Holder],
        at: Moment,
    ) -> Result<(), DataError> {
        let in_line = self.slots.in_line(root);
        let slot = &mut self.slots[root];
        let gate = match &slot.shape {
            Shape::Semaphore(semaphore) => Some(semaphore.gate),
            Shape::Line | Shape::PartOf(_) => None,
        };
        let Some(lock) = &mut slot.lock else { return Ok(()) };
        let mut ended = Vec::new();
        for Gone { slot, place, cause } in over.gone {
            if over.again.contains(&place.name) {
                continue;
            }
            if let Some((name, held)) = lock.take(&place) {
                ended.push((name, held, cause));
                continue;
            }
            // One that came and went in one transaction has not waited.
            let is_in_line = place.style.is_place() && gate.is_none_or(|gate| gate == slot);
            if is_in_line && place.znode.czxid != at.zxid && !over.served.contains(&place.name) {
                let Place { name, znode, .. } = place;
                let (session, asked_ms) = (znode.session, znode.ctime);
                lock.abort(Aborted { place: name, session, asked_ms, until: at, cause });
            }
        }
        for name in over.overtaken {
            ended.extend(lock.holding.remove(&name).map(|held| (name, held, Cause::Overtaken)));
        }
        let next = begun.first().map(|it| it.session);
        let holding = lock.holding.len() as u64;
        let waiting = match gate {
            Some(_) => in_line,
            None => in_line.saturating_sub(holding + begun.len() as u64),
        };
        lock.handed_over += u64::from(next.is_some() && !ended.is_empty());
        for (place, held, cause) in ended {
            let left = Left { holding, waiting };
            let hold = Hold { place, held, until: at, cause, next, left };
            if let Some(each) = &mut self.each {
                each(&slot.path, &hold)?;
            }
            lock.end(hold);
        }
        Ok(())
    }

    /// Who has a permit of a semaphore since a transaction.
    fn permits(&mut self, root: SlotId, came: &[Came<'_>], gone: &[Gone]) -> Now {
        let Shape::Semaphore(semaphore) = &mut self.slots[root].shape else {
            return Now::default();
        };
        let is_new = std::mem::take(&mut semaphore.is_new);
        let mut asked = std::mem::take(&mut semaphore.asked);
        let &mut Semaphore { permits, gate, style, .. } = &mut **semaphore;
        let parts = Parts {
            permits: &self.slots[permits].directory,
            gate: &self.slots[gate].directory,
            ids: (permits, gate),
            style,
        };
        let is_in_front = |came: &Came<'_>| {
            let place = parts.gate.find(&came.name);
            came.slot == gate && place.is_some_and(|place| parts.gate.is_waited_for(place))
        };
        let now = match is_new || came.iter().any(is_in_front) {
            true => parts.all(&mut asked, gone),
            false => parts.since(&mut asked, came, gone),
        };
        if let Shape::Semaphore(semaphore) = &mut self.slots[root].shape {
            semaphore.asked = asked;
        }
        now
    }
}

/// All that hold in a line.
fn line(directory: &Directory) -> Now {
    let holders = directory.holders().into_iter();
    let holders = holders.filter(|(place, _)| place.style != Style::KazooLease);
    Now { holders: holders.map(in_line).collect(), is_all: true, ..Now::default() }
}

/// Who holds in a line since a transaction.
fn line_since(directory: &Directory, came: &[Came<'_>], gone: &[Gone]) -> Now {
    let came = || came.iter().filter_map(|came| directory.find(&came.name));
    if came().any(|place| directory.is_waited_for(place)) {
        return line(directory);
    }
    // Whom the first one of a style has freed has waited for the others too, if it has waited for them at all.
    let mut first: Vec<&Place> = Vec::new();
    for Gone { place, .. } in gone {
        match first.iter_mut().find(|first| first.style == place.style) {
            Some(first) if is_ahead(place, first) => *first = place,
            Some(_) => {}
            None => first.push(place),
        }
    }
    let freed = first.into_iter().flat_map(|gone| directory.freed_by(gone));
    let new = came().filter_map(|place| Some((place, directory.holds(place)?)));
    let mut holders: Vec<(&Place, Role)> = freed.chain(new).collect();
    if holders.len() > 1 {
        holders.sort_by(|(a, _), (b, _)| (a.style, order(a)).cmp(&(b.style, order(b))));
        holders.dedup_by(|(a, _), (b, _)| std::ptr::eq(*a, *b));
    }
    Now { holders: holders.into_iter().map(in_line).collect(), ..Now::default() }
}

fn in_line((place, role): (&Place, Role)) -> Holder {
    let recipe = match (place.style, role) {
        (Style::KazooLock, Role::Writes) => Recipe::KazooReadWriteLock,
        (style, _) => style.recipe(),
    };
    Holder::new(place, role, place.znode.ctime, recipe)
}

fn order(place: &Place) -> (u32, &str) {
    (place.number.unwrap_or_default().cast_unsigned(), &place.name)
}

fn is_ahead(place: &Place, of: &Place) -> bool {
    order(place) < order(of)
}

/// The two directories of a semaphore.
struct Parts<'a> {
    permits: &'a Directory,
    gate: &'a Directory,
    ids: (SlotId, SlotId),
    style: Style,
}

/// See [`Semaphore`].
type Asked = HashMap<String, Vec<String>>;

impl Parts<'_> {
    /// All that have a permit.
    fn all(&self, asked: &mut Asked, gone: &[Gone]) -> Now {
        let left = gone.iter().filter(|gone| gone.slot == self.ids.1).map(|gone| &gone.place);
        let mut since: HashMap<SessionId, i64> = HashMap::new();
        for place in left.clone().chain(self.gate.places()) {
            let asked_ms = since.entry(place.znode.session).or_insert(place.znode.ctime);
            *asked_ms = place.znode.ctime.min(*asked_ms);
        }
        let queue = semaphore(self.permits, self.gate);
        asked.clear();
        let mut now = Now { is_all: true, ..Now::default() };
        let front = front_of_gate(self.gate);
        for row in &queue.rows {
            let (place, created_ms) = (row.place, row.place.znode.ctime);
            let is_of_front = |front: &&Place| {
                front.znode.session == place.znode.session && front.znode.czxid < place.znode.czxid
            };
            if row.role == Role::HasPermit {
                // Of kazoo, one that has its permit leaves the gate afterwards.
                if place.style == Style::KazooPermit
                    && let Some(front) = front.filter(is_of_front)
                {
                    asked.entry(front.name.clone()).or_default();
                }
                let asked_ms = since.get(&place.znode.session).copied();
                let asked_ms = asked_ms.map_or(created_ms, |asked_ms| asked_ms.min(created_ms));
                now.holders.push(Holder::new(place, row.role, asked_ms, queue.recipe));
            } else if place.style == Style::CuratorPermit
                && let Some(front) = front
            {
                asked.entry(front.name.clone()).or_default().push(place.name.clone());
            }
        }
        let sessions: HashSet<SessionId> = now.holders.iter().map(|it| it.session).collect();
        let served = left.filter(|place| sessions.contains(&place.znode.session));
        now.served = served.map(|place| place.name.clone()).collect();
        now
    }

    /// Who has a permit since a transaction.
    ///
    /// A client of Curator creates the znode of a permit when it is in front of the gate, waits there until it may
    /// have it, and leaves. One of kazoo waits first, and creates the znode then.
    fn since(&self, asked: &mut Asked, came: &[Came<'_>], gone: &[Gone]) -> Now {
        let mut now = Now::default();
        let (in_permits, in_gate) = self.ids;
        let is_permit = |came: &&Came<'_>| came.slot == in_permits && came.name.style == self.style;
        let recipe = self.style.recipe();
        for place in came.iter().filter(is_permit).filter_map(|came| self.permits.find(&came.name))
        {
            let is_own = |front: &Place| {
                front.znode.session == place.znode.session && !place.znode.session.is_none()
            };
            let mut left = gone.iter().filter(|gone| gone.slot == in_gate);
            let asked_ms = if let Some(left) = left.find(|gone| is_own(&gone.place)) {
                now.served.insert(left.place.name.clone());
                left.place.znode.ctime
            } else if let Some(front) = front_of_gate(self.gate).filter(|front| is_own(front)) {
                let asked = asked.entry(front.name.clone()).or_default();
                if self.style == Style::CuratorPermit {
                    asked.push(place.name.clone());
                    continue;
                }
                front.znode.ctime
            } else {
                place.znode.ctime
            };
            now.holders.push(Holder::new(place, Role::HasPermit, asked_ms, recipe));
        }
        for Gone { place: left, .. } in gone.iter().filter(|gone| gone.slot == in_gate) {
            let Some(permits) = asked.remove(&left.name) else { continue };
            let permits = permits.iter().map(|name| self.permits.place(name));
            let mut is_served = self.style == Style::KazooPermit;
            for place in permits.flatten().filter(|it| it.znode.session == left.znode.session) {
                let asked_ms = left.znode.ctime;
                now.holders.push(Holder::new(place, Role::HasPermit, asked_ms, recipe));
                is_served = true;
            }
            if is_served {
                now.served.insert(left.name.clone());
            }
        }
        now
    }
}
