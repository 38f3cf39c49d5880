//! Sees the places of locks come and go. `settle` tells who holds then.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use zoolet_core::{Core, CreateTxn, Txn, TxnOp};
use zoolet_layouts::{Directory, Name, Part, Place, Recipe, Site, Style, Znode};
use zoolet_protocol::{SessionId, ZPath, Zxid};
use zoolet_server::storage::history::{DeletedZnode, Moment};

use super::hold::{Cause, Hold, Lock};
use super::others::{Others, OthersCount};
use super::report::Told;
use super::shape::{Shape, Slot, SlotId, Slots};
use crate::data::DataError;
use crate::data::replay::Witness;
use crate::data::sessions::Closer;
use crate::data::transfer::is_at_or_below;

/// The locks of which each is told. Programs that make a lock for each order, say, have more over time: those
/// with the fewest holds are told together.
const LOCKS_KEPT: usize = 2_000;

/// Takes each hold when it ends, with the path of its lock.
pub(super) type Sink<'a> = Box<dyn FnMut(&str, &Hold) -> Result<(), DataError> + 'a>;

/// All locks at and below a path.
pub(super) struct Watch<'a> {
    top: &'a str,
    pub(super) slots: Slots,
    /// The znodes whose data is a number, as that of a semaphore of kazoo.
    numbers: HashMap<ZPath, u32>,
    /// The directories of the permits of Curator's semaphores, of which nobody need have one.
    permits: HashSet<ZPath>,
    /// The ephemeral places of each session, with the transactions that created them: older logs do not say what
    /// the end of a session deletes. The paths are copies: those of a transaction were allocated by another thread,
    /// and to free them here would cost more.
    owned: HashMap<SessionId, HashMap<Box<str>, Zxid>>,
    /// The number of locks is not greater, and they are counted when it has reached the second number.
    locks_at_most: usize,
    make_room_at: usize,
    /// Those that are told together.
    others: Option<Others>,
    pub(super) each: Option<Sink<'a>>,
}

/// A place that the transaction at hand has created.
#[derive(Clone, Copy)]
pub(super) struct Came<'t> {
    pub(super) slot: SlotId,
    pub(super) name: Name<'t>,
}

/// A place that it has deleted.
pub(super) struct Gone {
    pub(super) slot: SlotId,
    pub(super) place: Place,
    pub(super) cause: Cause,
}

/// What it has done to places.
#[derive(Default)]
struct Changes<'t> {
    came: Vec<Came<'t>>,
    gone: Vec<Gone>,
    /// Semaphores that were seen first.
    seen: Vec<SlotId>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(top: &'a str, each: Option<Sink<'a>>) -> Self {
        Self {
            top,
            slots: Slots::default(),
            numbers: HashMap::new(),
            permits: HashSet::new(),
            owned: HashMap::new(),
            locks_at_most: 0,
            make_room_at: 2 * LOCKS_KEPT,
            others: None,
            each,
        }
    }

    /// The locks with their paths, how many wait at each, and those that are told together.
    pub(super) fn into_told(mut self) -> (Vec<Told>, Option<(OthersCount, Lock)>) {
        let mut told = Vec::new();
        for id in self.slots.ids() {
            let (waiting, waiters) = (self.slots.waiting(id), self.slots.waiters(id));
            let slot = &mut self.slots[id];
            if let Some(lock) = slot.lock.take() {
                let path = slot.path.to_string();
                let has_more = match &self.others {
                    Some(others) => others.has(&path),
                    None => Some(false),
                };
                told.push(Told { path, lock: *lock, waiting, waiters, has_more });
            }
        }
        told.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let again = told.iter().filter(|told| told.has_more == Some(true)).count() as u64;
        (told, self.others.map(|others| (others.count(again), others.lock)))
    }

    /// Takes a place that is new.
    fn insert<'t>(&mut self, path: &'t str, znode: Znode) -> Option<Came<'t>> {
        let (parent, name) = split(path)?;
        let slot = match self.slots.find(parent) {
            Some(slot) => slot,
            None => self.directory(parent)?,
        };
        self.slots[slot].directory.add(&name, znode);
        if !znode.session.is_none() {
            self.owned.entry(znode.session).or_default().insert(path.into(), znode.czxid);
        }
        Some(Came { slot, name })
    }

    /// A directory that was not known, if it belongs to a lock that is wanted.
    fn directory(&mut self, path: &str) -> Option<SlotId> {
        // Some parts of a lock are beside its path.
        let is_wanted = |path| is_at_or_below(path, self.top);
        if !is_wanted(path) && !is_wanted(Site::of(path).root) {
            return None;
        }
        Some(self.slot(path))
    }

    /// The slot of a directory, which is wanted.
    fn slot(&mut self, path: &str) -> SlotId {
        let id = self.slots.find_or_add(path);
        // Its data came before its children.
        if let Some(number) = self.numbers.get(path) {
            self.slots[id].directory.set_data(number.to_string().as_bytes());
        }
        id
    }

    /// The semaphore that a new place shows for the first time.
    fn semaphore_of(&mut self, came: &Came<'_>) -> Option<SlotId> {
        let slot = &self.slots[came.slot];
        let is_permit = match came.name.style {
            Style::CuratorPermit => Site::of(&slot.path).part == Part::Permits,
            Style::KazooPermit => slot.directory.permits().is_some(),
            _ => return self.semaphore_of_line(came.slot),
        };
        if is_permit { self.slots.see_semaphore(came.slot, came.name.style) } else { None }
    }

    /// The semaphore of which this is the line, though no permit of it was seen: with Curator's names the directory of
    /// its permits is there, with kazoo's their number. What was told as a lock of its own stays one.
    fn semaphore_of_line(&mut self, line: SlotId) -> Option<SlotId> {
        let Slot { path, shape: Shape::Line, lock: None, .. } = &self.slots[line] else {
            return None;
        };
        let path = Arc::clone(path);
        let site = Site::of(&path);
        if site.part != Part::Gate || !is_at_or_below(site.root, self.top) {
            return None;
        }
        let (permits, style) = match path.strip_suffix(Site::GATE) {
            Some(parent) => (format!("{parent}{}", Site::PERMITS), Style::CuratorPermit),
            None => (site.root.to_owned(), Style::KazooPermit),
        };
        let is_there = match style {
            Style::CuratorPermit => self.permits.contains(permits.as_str()),
            _ => self.numbers.get(permits.as_str()).is_some_and(|number| *number > 0),
        };
        if !is_there {
            return None;
        }
        let permits = self.slot(&permits);
        let root = self.slots.see_semaphore(permits, style);
        if root.is_none() {
            self.slots.remove_if_idle(permits);
        }
        root
    }

    fn remove(&mut self, path: &str, cause: impl FnOnce(&Place) -> Cause) -> Option<Gone> {
        if !self.numbers.is_empty() {
            self.numbers.remove(path);
        }
        if !self.permits.is_empty() && Site::of(path).part == Part::Permits {
            self.permits.remove(path);
        }
        let (parent, name) = split(path)?;
        let slot = self.slots.find(parent)?;
        let place = self.slots[slot].directory.take(&name)?;
        // One without any more stays until its session ends: it will have others.
        if let Some(owned) = self.owned.get_mut(&place.znode.session) {
            owned.remove(path);
        }
        let cause = cause(&place);
        Some(Gone { slot, place, cause })
    }

    /// Takes a znode that may have children.
    fn add_directory(&mut self, path: &ZPath, data: Option<&[u8]>) {
        if Site::of(path).part == Part::Permits {
            self.permits.insert(path.clone());
        }
        self.set_data(path, data);
    }

    /// Takes the data of a znode. Returns the semaphore that it shows for the first time.
    fn set_data(&mut self, path: &ZPath, data: Option<&[u8]>) -> Option<SlotId> {
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
        let id = self.slots.find(path)?;
        let slot = &mut self.slots[id];
        if !matches!(slot.shape, Shape::Line) {
            return None;
        }
        slot.directory.set_data(data.unwrap_or_default());
        let has_permits = slot.directory.styles().any(|style| style == Style::KazooPermit);
        if has_permits && slot.directory.permits().is_some() {
            return self.slots.see_semaphore(id, Style::KazooPermit);
        }
        None
    }

    fn create<'t>(&mut self, txn: &Txn, create: &'t CreateTxn) -> Option<Came<'t>> {
        let session = if create.ephemeral { txn.session } else { SessionId::default() };
        // An ephemeral has no children.
        if !create.ephemeral {
            self.add_directory(&create.path, create.data.as_deref());
        }
        self.insert(&create.path, Znode { session, czxid: txn.zxid, ctime: txn.time_ms })
    }

    fn delete(&mut self, txn: &Txn, path: &ZPath) -> Option<Gone> {
        let by = txn.session;
        let is_own = |place: &Place| place.znode.session == by;
        self.remove(path, |it| if is_own(it) { Cause::Released } else { Cause::Removed(by) })
    }

    fn close(&mut self, txn: &Txn, paths: &[ZPath], gone: &mut Vec<Gone>) {
        let cause = Cause::Ended(Closer::of(txn));
        let own = self.owned.remove(&txn.session).unwrap_or_default();
        let mut own: Vec<(Zxid, Box<str>)> = own.into_iter().map(|(path, it)| (it, path)).collect();
        own.sort_unstable();
        let own = own.iter().map(|(_, path)| &**path);
        let named = paths.iter().map(ZPath::as_str);
        gone.extend(own.chain(named).filter_map(|path| self.remove(path, |_| cause)));
    }

    /// Settles what one transaction has done to several places, perhaps of several locks.
    fn settle_all(&mut self, changes: Changes<'_>, at: Moment) -> Result<(), DataError> {
        let mut of_roots: BTreeMap<SlotId, (Vec<Came<'_>>, Vec<Gone>)> = BTreeMap::new();
        for came in changes.came {
            of_roots.entry(self.slots.root_of(came.slot)).or_default().0.push(came);
        }
        for gone in changes.gone {
            of_roots.entry(self.slots.root_of(gone.slot)).or_default().1.push(gone);
        }
        for seen in changes.seen {
            of_roots.entry(seen).or_default();
        }
        let mut of_roots: Vec<_> = of_roots.into_iter().collect();
        of_roots.sort_by(|(a, _), (b, _)| self.slots[*a].path.cmp(&self.slots[*b].path));
        for (root, (came, gone)) in of_roots {
            self.settle(root, &came, gone, Some(at))?;
        }
        Ok(())
    }

    /// Begins to tell of a lock.
    pub(super) fn begin_lock(&mut self, root: SlotId, recipe: Recipe) {
        self.make_room();
        self.locks_at_most += 1;
        self.slots[root].lock = Some(Box::new(Lock::new(recipe)));
    }

    /// Tells the locks with the fewest holds together, once there are too many.
    fn make_room(&mut self) {
        if self.locks_at_most < self.make_room_at {
            return;
        }
        let ids = self.slots.ids();
        let of_lock = |id: SlotId| Some((id, self.slots[id].lock.as_ref()?));
        let count = ids.iter().filter_map(|id| of_lock(*id)).count();
        let idle = ids.iter().filter_map(|id| of_lock(*id));
        let mut idle: Vec<_> = idle
            .filter(|(_, lock)| lock.holding.is_empty())
            .map(|(id, lock)| (lock.holds, self.slots[id].path.clone(), id))
            .collect();
        idle.sort_unstable();
        idle.truncate(count.saturating_sub(LOCKS_KEPT));
        for (_, _, id) in &idle {
            let slot = &mut self.slots[*id];
            let Some(lock) = slot.lock.take() else { continue };
            let others = self.others.get_or_insert_with(|| Others::new(Lock::new(lock.recipe)));
            others.add(&slot.path, &lock);
            self.slots.remove_if_idle(*id);
        }
        self.locks_at_most = count - idle.len();
        // Where most are held there are soon too many again: the search must not be made for each.
        self.make_room_at = (2 * self.locks_at_most).max(2 * LOCKS_KEPT);
    }
}

impl Witness for Watch<'_> {
    fn begin(
        &mut self,
        core: &Core,
        after: Zxid,
        deleted: &[DeletedZnode],
    ) -> Result<(), DataError> {
        let state = core.freeze();
        for znode in state.znodes() {
            // What is later comes with its record.
            if znode.stat.czxid > after {
                continue;
            }
            self.add_directory(&znode.path, znode.data.as_deref());
            let stat = &znode.stat;
            let session = stat.ephemeral_owner.visible();
            let known = Znode { session, czxid: stat.czxid, ctime: stat.ctime };
            if let Some(came) = self.insert(&znode.path, known) {
                self.semaphore_of(&came);
            }
        }
        for (index, DeletedZnode { path, session, at, .. }) in deleted.iter().enumerate() {
            // Places are mostly deleted by their own sessions. When they were created is in no file: before what the
            // snapshot has, and one that a client leaves first, as the line before the permits, it has taken first.
            let czxid = Zxid(index as i64);
            let known = Znode { session: *session, czxid, ctime: at.time_ms };
            if let Some(came) = self.insert(path, known) {
                self.semaphore_of(&came);
            }
        }
        for id in self.slots.ids() {
            if self.slots.root_of(id) == id {
                self.settle(id, &[], Vec::new(), None)?;
            }
        }
        Ok(())
    }

    fn txn(&mut self, txn: &Txn) -> Result<(), DataError> {
        let at = Some(Moment::of(txn));
        match &txn.op {
            TxnOp::Create(create) => {
                let Some(came) = self.create(txn, create) else { return Ok(()) };
                let slot = self.semaphore_of(&came).unwrap_or(came.slot);
                return self.settle(self.slots.root_of(slot), &[came], Vec::new(), at);
            }
            TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => {
                let Some(gone) = self.delete(txn, path) else { return Ok(()) };
                return self.settle(self.slots.root_of(gone.slot), &[], vec![gone], at);
            }
            _ => {}
        }
        let mut changes = Changes::default();
        for op in txn.op.single_operations() {
            match op {
                TxnOp::Create(create) => {
                    let Some(came) = self.create(txn, create) else { continue };
                    changes.seen.extend(self.semaphore_of(&came));
                    changes.came.push(came);
                }
                TxnOp::SetData { path, data, .. } => {
                    changes.seen.extend(self.set_data(path, data.as_deref()));
                }
                TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => {
                    changes.gone.extend(self.delete(txn, path));
                }
                TxnOp::CloseSession { paths } => self.close(txn, paths, &mut changes.gone),
                _ => {}
            }
        }
        if changes.came.is_empty() && changes.gone.is_empty() && changes.seen.is_empty() {
            return Ok(());
        }
        self.settle_all(changes, Moment::of(txn))
    }

    fn lost(&mut self) -> Result<(), DataError> {
        self.numbers.clear();
        self.permits.clear();
        self.owned.clear();
        for slot in self.slots.iter_mut() {
            // A semaphore of kazoo is known by its permits.
            let permits = slot.directory.permits();
            slot.directory = Directory::new();
            if let Shape::Semaphore(semaphore) = &mut slot.shape {
                semaphore.asked.clear();
                slot.directory.set_data(permits.unwrap_or(0).to_string().as_bytes());
            }
            if let Some(lock) = &mut slot.lock {
                lock.forget();
            }
        }
        for id in self.slots.ids() {
            self.slots.remove_if_idle(id);
        }
        Ok(())
    }
}

/// The directory of a place, and its name.
fn split(path: &str) -> Option<(&str, Name<'_>)> {
    let (parent, name) = path.rsplit_once('/')?;
    let name = Name::read(name).filter(|name| is_of_locks(name.style))?;
    Some((if parent.is_empty() { "/" } else { parent }, name))
}

/// Whether names of this style say something about a lock.
fn is_of_locks(style: Style) -> bool {
    style.recipe().excludes()
}

/// A longer text is no number of permits.
const DIGITS_MAX: usize = 10;
