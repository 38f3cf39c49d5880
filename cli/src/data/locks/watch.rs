//! Sees the places of locks come and go, and tells who holds.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use zoolet_core::{Core, Txn, TxnOp};
use zoolet_layouts::{Directory, Name, Part, Place, Recipe, Role, Site, Style, Znode, semaphore};
use zoolet_protocol::{SessionId, ZPath, Zxid};
use zoolet_server::storage::history::Moment;

use super::hold::{Aborted, Cause, Held, Hold, Lock};
use crate::data::DataError;
use crate::data::replay::{Witness, ops};
use crate::data::sessions::Closer;
use crate::data::transfer::is_at_or_below;

/// The locks of which each is told. Programs that make a lock for each order, say, have more over time: those
/// with the fewest holds are told together.
const LOCKS_KEPT: usize = 2_000;

/// Takes each hold when it ends, with the path of its lock.
type Sink<'a> = Box<dyn FnMut(&str, &Hold) -> Result<(), DataError> + 'a>;

/// All locks at and below a path.
pub(super) struct Watch<'a> {
    top: &'a str,
    directories: HashMap<String, Directory>,
    /// The znodes whose data is a number, as that of a semaphore of kazoo.
    numbers: HashMap<ZPath, u32>,
    /// The paths at which semaphores were seen, which have two directories.
    semaphores: HashSet<String>,
    /// The ephemeral places of each session: older logs do not say what its end deletes.
    of_sessions: HashMap<SessionId, BTreeSet<ZPath>>,
    pub(super) locks: BTreeMap<String, Lock>,
    /// Those that are told together, and how many they are.
    pub(super) others: Option<(u64, Lock)>,
    each: Option<Sink<'a>>,
}

/// What the transaction at hand has done to the places of a directory.
struct Gone {
    directory: String,
    place: Place,
    cause: Cause,
}

/// Where a lock has its places.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Line,
    /// The directory of the permits, and that of those who want one.
    Semaphore {
        permits: String,
        gate: String,
    },
}

impl<'a> Watch<'a> {
    pub(super) fn new(top: &'a str, each: Option<Sink<'a>>) -> Self {
        Self {
            top,
            directories: HashMap::new(),
            numbers: HashMap::new(),
            semaphores: HashSet::new(),
            of_sessions: HashMap::new(),
            locks: BTreeMap::new(),
            others: None,
            each,
        }
    }

    /// How many wait at a lock.
    pub(super) fn waiting(&self, root: &str) -> u64 {
        let in_line = |path: &str| {
            let places = self.directories.get(path).map(Directory::places);
            places.into_iter().flatten().filter(|place| place.style.is_place()).count()
        };
        let holding = self.locks.get(root).map_or(0, |lock| lock.holding.len());
        match self.shape_of(root) {
            (_, Shape::Line) => in_line(root).saturating_sub(holding) as u64,
            (_, Shape::Semaphore { gate, .. }) => in_line(&gate) as u64,
        }
    }

    fn insert(&mut self, path: &ZPath, znode: Znode) -> Option<String> {
        Name::read(path.name())?;
        let parent = path.parent()?;
        if !is_at_or_below(parent, self.top) {
            return None;
        }
        if !self.directories.contains_key(parent) {
            // Its data came before its children.
            let mut directory = Directory::new();
            if let Some(number) = self.numbers.get(parent) {
                directory.set_data(number.to_string().as_bytes());
            }
            self.directories.insert(parent.to_owned(), directory);
        }
        let directory = self.directories.get_mut(parent)?;
        let style = directory.insert(path.name(), znode)?;
        let is_permit = match style {
            Style::CuratorPermit => Site::of(parent).part == Part::Permits,
            Style::KazooPermit => directory.permits().is_some(),
            _ => false,
        };
        if is_permit {
            self.see_semaphore(parent, style);
        }
        if !znode.session.is_none() {
            self.of_sessions.entry(znode.session).or_default().insert(path.clone());
        }
        Some(parent.to_owned())
    }

    /// The line in front of its permits is no lock of its own.
    fn see_semaphore(&mut self, parent: &str, style: Style) {
        let (root, gate) = match style {
            Style::CuratorPermit => {
                let root = Site::of(parent).root;
                (root.to_owned(), child(root, Site::GATE))
            }
            _ => (parent.to_owned(), format!("{parent}-__lock__")),
        };
        if self.semaphores.insert(root) {
            self.locks.remove(&gate);
        }
    }

    fn remove(&mut self, path: &ZPath, cause: Cause, gone: &mut Vec<Gone>) {
        if !self.numbers.is_empty() {
            self.numbers.remove(path);
        }
        if Name::read(path.name()).is_none() {
            return;
        }
        let Some(parent) = path.parent() else { return };
        let Some(directory) = self.directories.get_mut(parent) else { return };
        if let Some(place) = directory.remove(path.name()) {
            if let Some(paths) = self.of_sessions.get_mut(&place.znode.session) {
                paths.remove(path);
            }
            gone.push(Gone { directory: parent.to_owned(), place, cause });
        }
    }

    /// Takes the data of a znode that is new, which has no children yet.
    fn note_number(&mut self, path: &ZPath, data: Option<&[u8]>) {
        let text = data.filter(|data| (1..=DIGITS_MAX).contains(&data.len()));
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        match text.and_then(|text| text.trim().parse().ok()) {
            Some(number) => {
                self.numbers.insert(path.clone(), number);
            }
            None if self.numbers.is_empty() => {}
            None => {
                self.numbers.remove(path);
            }
        }
    }

    fn set_data(&mut self, path: &ZPath, data: Option<&[u8]>) {
        self.note_number(path, data);
        if let Some(directory) = self.directories.get_mut(path.as_str()) {
            directory.set_data(data.unwrap_or_default());
        }
    }

    /// The path of the lock to which a directory belongs, and where that has its places.
    fn shape_of(&self, path: &str) -> (String, Shape) {
        let site = Site::of(path);
        let curators = |root: &str| Shape::Semaphore {
            permits: child(root, Site::PERMITS),
            gate: child(root, Site::GATE),
        };
        let kazoos = |root: &str| Shape::Semaphore {
            permits: root.to_owned(),
            gate: format!("{root}-__lock__"),
        };
        let has_numbers = |root: &str| self.numbers.contains_key(root);
        if self.semaphores.is_empty() {
            return (path.to_owned(), Shape::Line);
        }
        if site.part != Part::Line && self.semaphores.contains(site.root) {
            let is_kazoos = path.ends_with("-__lock__");
            let shape = if is_kazoos { kazoos(site.root) } else { curators(site.root) };
            return (site.root.to_owned(), shape);
        }
        match self.semaphores.contains(path) {
            true if has_numbers(path) => (path.to_owned(), kazoos(path)),
            true => (path.to_owned(), curators(path)),
            false => (path.to_owned(), Shape::Line),
        }
    }

    /// Who holds in a lock, with when they asked for it.
    fn holders(&self, root: &str, shape: &Shape, gone: &[Gone]) -> Vec<(String, Held, Recipe)> {
        let held = |place: &Place, role, asked_ms| Held {
            session: place.znode.session,
            role,
            asked_ms,
            since: None,
        };
        match shape {
            Shape::Line => {
                let Some(directory) = self.directories.get(root) else { return Vec::new() };
                let holders = directory.holders().into_iter();
                let holders = holders.filter(|(place, _)| place.style != Style::KazooLease);
                let told = |(place, role): (&Place, Role)| {
                    let name = place.name.clone();
                    (name, held(place, role, place.znode.ctime), recipe(place.style, role))
                };
                holders.map(told).collect()
            }
            Shape::Semaphore { permits, gate } => {
                let nobody = Directory::new();
                let of = |path: &str| self.directories.get(path).unwrap_or(&nobody);
                let (permits, line) = (of(permits), of(gate));
                let left = gone.iter().filter(|gone| gone.directory == *gate);
                let asked = |place: &Place| {
                    let mut wants = left.clone().map(|gone| &gone.place).chain(line.places());
                    let own = wants.find(|it| it.znode.session == place.znode.session);
                    own.map_or(place.znode.ctime, |own| own.znode.ctime.min(place.znode.ctime))
                };
                let queue = semaphore(permits, line);
                let rows = queue.rows.iter().filter(|row| row.role == Role::HasPermit);
                let told = rows.map(|row| {
                    (
                        row.place.name.clone(),
                        held(row.place, row.role, asked(row.place)),
                        queue.recipe,
                    )
                });
                told.collect()
            }
        }
    }

    /// Whether the same ones hold in a line: most places come behind others.
    fn is_as_before(&self, root: &str, shape: &Shape) -> bool {
        let (Shape::Line, Some(lock)) = (shape, self.locks.get(root)) else { return false };
        let Some(directory) = self.directories.get(root) else { return false };
        let holders = directory.holders();
        let is_known = |place: &Place| {
            let held = lock.holding.get(&place.name);
            held.is_some_and(|held| held.session == place.znode.session)
        };
        holders.len() == lock.holding.len() && holders.iter().all(|(place, _)| is_known(place))
    }

    /// Compares who holds in a lock now with who held before.
    fn settle(
        &mut self,
        root: &str,
        shape: &Shape,
        at: Option<Moment>,
        gone: &[Gone],
    ) -> Result<(), DataError> {
        if gone.is_empty() && self.is_as_before(root, shape) {
            return Ok(());
        }
        let now = self.holders(root, shape, gone);
        if !self.locks.contains_key(root) {
            let Some((_, _, recipe)) = now.first() else { return Ok(()) };
            self.make_room();
            self.locks.insert(root.to_owned(), Lock::new(*recipe));
        }
        let Some(lock) = self.locks.get_mut(root) else { return Ok(()) };
        let is_new = |(name, held, _): &&(String, Held, Recipe)| {
            lock.holding.get(name).is_none_or(|old| old.session != held.session)
        };
        let new: Vec<_> = now.iter().filter(is_new).cloned().collect();
        let stays = |name: &String, held: &Held| {
            now.iter().any(|(it, new, _)| it == name && new.session == held.session)
        };
        let over: Vec<(String, Held)> = lock
            .holding
            .iter()
            .filter(|(name, held)| !stays(name, held))
            .map(|(name, held)| (name.clone(), *held))
            .collect();
        for (name, _) in &over {
            lock.holding.remove(name);
        }
        if let Some(at) = at {
            let next = new.first().map(|(_, held, _)| held.session);
            for (place, held) in &over {
                let cause = gone.iter().find(|gone| gone.place.name == *place);
                let cause = cause.map_or(Cause::Overtaken, |gone| gone.cause);
                let hold = Hold { place: place.clone(), held: *held, until: at, cause, next };
                lock.end(&hold);
                if let Some(each) = &mut self.each {
                    each(root, &hold)?;
                }
            }
        }
        for (name, held, recipe) in new {
            if recipe == Recipe::KazooReadWriteLock {
                lock.recipe = recipe;
            }
            lock.begin(name, Held { since: at, ..held });
        }
        let Some(at) = at else { return Ok(()) };
        let held = |gone: &Gone| over.iter().any(|(name, _)| *name == gone.place.name);
        for gone in gone.iter().filter(|gone| gone.place.style.is_place() && !held(gone)) {
            let session = gone.place.znode.session;
            let has_permit = match shape {
                Shape::Line => false,
                Shape::Semaphore { permits, gate } => {
                    let permits = self.directories.get(permits).map(Directory::places);
                    let mut permits = permits.into_iter().flatten();
                    gone.directory != *gate || permits.any(|it| it.znode.session == session)
                }
            };
            // One that came and went in one transaction has not waited.
            if !has_permit && gone.place.znode.czxid != at.zxid {
                let (place, asked_ms) = (gone.place.name.clone(), gone.place.znode.ctime);
                let cause = gone.cause;
                lock.abort(Aborted { place, session, asked_ms, until: at, cause });
            }
        }
        Ok(())
    }

    /// Tells the locks with the fewest holds together, once there are too many.
    fn make_room(&mut self) {
        if self.locks.len() < 2 * LOCKS_KEPT {
            return;
        }
        let idle = self.locks.iter().filter(|(_, lock)| lock.holding.is_empty());
        let mut idle: Vec<(u64, String)> =
            idle.map(|(path, lock)| (lock.holds, path.clone())).collect();
        idle.sort_unstable();
        for (_, path) in idle.into_iter().take(self.locks.len() - LOCKS_KEPT) {
            let Some(lock) = self.locks.remove(&path) else { continue };
            let (count, others) = self.others.get_or_insert_with(|| (0, Lock::new(lock.recipe)));
            *count += 1;
            others.merge(&lock);
        }
    }
}

impl Witness for Watch<'_> {
    fn begin(&mut self, core: &Core, after: Zxid) -> Result<(), DataError> {
        let state = core.freeze();
        let mut roots = BTreeSet::new();
        for znode in state.znodes() {
            // What is later comes with its record.
            if znode.stat.czxid > after {
                continue;
            }
            self.set_data(&znode.path, znode.data.as_deref());
            let stat = &znode.stat;
            let session = stat.ephemeral_owner.visible();
            let known = Znode { session, czxid: stat.czxid, ctime: stat.ctime };
            roots.extend(self.insert(&znode.path, known));
        }
        let shapes: BTreeSet<_> = roots.iter().map(|path| self.shape_of(path)).collect();
        for (root, shape) in shapes {
            self.settle(&root, &shape, None, &[])?;
        }
        Ok(())
    }

    fn txn(&mut self, txn: &Txn) -> Result<(), DataError> {
        let mut touched: Vec<String> = Vec::new();
        let mut gone = Vec::new();
        for op in ops(&txn.op) {
            match op {
                TxnOp::Create(create) => {
                    self.note_number(&create.path, create.data.as_deref());
                    let session = if create.ephemeral { txn.session } else { SessionId::default() };
                    let znode = Znode { session, czxid: txn.zxid, ctime: txn.time_ms };
                    touched.extend(self.insert(&create.path, znode));
                }
                TxnOp::SetData { path, data, .. } => {
                    self.set_data(path, data.as_deref());
                    if self.semaphores.contains(path.as_str()) {
                        touched.push(path.to_string());
                    }
                }
                TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => {
                    let is_own = |place: &Place| place.znode.session == txn.session;
                    let place = path.parent().and_then(|it| self.directories.get(it));
                    let place = place.and_then(|it| it.place(path.name()));
                    let cause = match place {
                        Some(place) if !is_own(place) => Cause::Removed(txn.session),
                        _ => Cause::Released,
                    };
                    self.remove(path, cause, &mut gone);
                }
                TxnOp::CloseSession { paths } => {
                    let owned = self.of_sessions.remove(&txn.session).unwrap_or_default();
                    let cause = Cause::Ended(Closer::of(txn));
                    for path in owned.iter().chain(paths) {
                        self.remove(path, cause, &mut gone);
                    }
                }
                _ => {}
            }
        }
        touched.extend(gone.iter().map(|gone| gone.directory.clone()));
        if touched.is_empty() {
            return Ok(());
        }
        if let [path] = &touched[..] {
            let (root, shape) = self.shape_of(path);
            self.settle(&root, &shape, Some(Moment::of(txn)), &gone)?;
            if self.directories.get(path).is_some_and(Directory::is_empty) {
                self.directories.remove(path);
            }
            return Ok(());
        }
        touched.sort_unstable();
        touched.dedup();
        let mut shapes: Vec<_> = touched.iter().map(|path| self.shape_of(path)).collect();
        shapes.sort_unstable();
        shapes.dedup();
        for (root, shape) in &shapes {
            let is_of = |gone: &Gone| match shape {
                Shape::Line => gone.directory == *root,
                Shape::Semaphore { permits, gate } => {
                    gone.directory == *permits || gone.directory == *gate
                }
            };
            let (of_this, rest) = gone.into_iter().partition(is_of);
            gone = rest;
            let of_this: Vec<Gone> = of_this;
            self.settle(root, shape, Some(Moment::of(txn)), &of_this)?;
        }
        for path in touched {
            if self.directories.get(&path).is_some_and(Directory::is_empty) {
                self.directories.remove(&path);
            }
        }
        Ok(())
    }

    fn lost(&mut self) -> Result<(), DataError> {
        self.directories.clear();
        self.numbers.clear();
        self.of_sessions.clear();
        self.locks.values_mut().for_each(Lock::forget);
        Ok(())
    }
}

/// A longer text is no number of permits.
const DIGITS_MAX: usize = 10;

/// What a holder holds.
fn recipe(style: Style, role: Role) -> Recipe {
    match (style, role) {
        (Style::KazooLock, Role::Writes) => Recipe::KazooReadWriteLock,
        (style, _) => style.recipe(),
    }
}

fn child(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}
