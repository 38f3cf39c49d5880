//! The directories of locks, each with a number by which it is found at once, and to which lock each belongs.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use hashbrown::HashMap;
use zoolet_layouts::{Directory, Place, Site, Style};

use super::hold::{Lock, Waiter};

/// How many that wait at a lock at the end are told; all of them are counted.
const WAITERS_KEPT: usize = 200;

/// The number of a directory, while it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotId(usize);

/// A directory.
pub(super) struct Slot {
    pub(super) path: Arc<str>,
    pub(super) directory: Directory,
    pub(super) shape: Shape,
    /// What happened at the lock that a program has given this path.
    pub(super) lock: Option<Box<Lock>>,
}

/// Where a lock has its places.
pub(super) enum Shape {
    /// In this directory.
    Line,
    /// Those that are here belong to the semaphore of another path.
    PartOf(SlotId),
    Semaphore(Box<Semaphore>),
}

/// A semaphore. It stays one of its library, whatever data its znode is given later.
pub(super) struct Semaphore {
    /// Where its permits are: with kazoo, its own directory.
    pub(super) permits: SlotId,
    /// Where those stand in line who want one.
    pub(super) gate: SlotId,
    pub(super) style: Style,
    /// For each place in the gate that has created permits in front of it, those for which it still asks, by name.
    /// Those of kazoo ask for none: their permit counts as soon as it is there.
    pub(super) asked: HashMap<String, Vec<String>>,
    /// Whether nobody has looked who holds since it was seen first.
    pub(super) is_new: bool,
}

/// All directories.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<SlotId>,
    by_path: HashMap<Arc<str>, SlotId>,
}

const STAYS: &str = "a directory stays while it has places or a lock";

impl Index<SlotId> for Slots {
    type Output = Slot;

    fn index(&self, id: SlotId) -> &Slot {
        self.slots.get(id.0).and_then(Option::as_ref).expect(STAYS)
    }
}

impl IndexMut<SlotId> for Slots {
    fn index_mut(&mut self, id: SlotId) -> &mut Slot {
        self.slots.get_mut(id.0).and_then(Option::as_mut).expect(STAYS)
    }
}

impl Slots {
    pub(super) fn find(&self, path: &str) -> Option<SlotId> {
        self.by_path.get(path).copied()
    }

    /// The directory of a path, an empty one if it was not known.
    pub(super) fn find_or_add(&mut self, path: &str) -> SlotId {
        if let Some(id) = self.find(path) {
            return id;
        }
        let path: Arc<str> = path.into();
        let slot = Slot {
            path: path.clone(),
            directory: Directory::new(),
            shape: Shape::Line,
            lock: None,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            SlotId(self.slots.len() - 1)
        });
        if let Some(free) = self.slots.get_mut(id.0) {
            *free = Some(slot);
        }
        self.by_path.insert(path, id);
        id
    }

    /// The directory with the path of the lock to which one belongs.
    pub(super) fn root_of(&self, id: SlotId) -> SlotId {
        match self[id].shape {
            Shape::PartOf(root) => root,
            Shape::Line | Shape::Semaphore(_) => id,
        }
    }

    /// Takes notice of a semaphore by its permits, which are in a directory. Returns the directory of its path.
    /// `None` if it is known, or its directories belong to another one.
    pub(super) fn see_semaphore(&mut self, permits: SlotId, style: Style) -> Option<SlotId> {
        if !matches!(self[permits].shape, Shape::Line) {
            return None;
        }
        let path = self[permits].path.clone();
        let (root, gate) = match style {
            Style::CuratorPermit => {
                let root = Site::of(&path).root;
                (root, format!("{}/{}", root.trim_end_matches('/'), Site::GATE))
            }
            _ => (&path[..], format!("{path}-__lock__")),
        };
        let (root, gate) = (self.find_or_add(root), self.find_or_add(&gate));
        let is_free = |id: SlotId| matches!(self[id].shape, Shape::Line);
        if !is_free(root) || !is_free(gate) {
            self.remove_if_idle(root);
            self.remove_if_idle(gate);
            return None;
        }
        // The line in front of the permits is no lock of its own.
        for part in [permits, gate].into_iter().filter(|part| *part != root) {
            self[part].lock = None;
            self[part].shape = Shape::PartOf(root);
        }
        let semaphore = Semaphore { permits, gate, style, asked: HashMap::new(), is_new: true };
        self[root].shape = Shape::Semaphore(Box::new(semaphore));
        Some(root)
    }

    /// Removes the directories of a lock of which nothing is left to tell.
    pub(super) fn remove_if_idle(&mut self, id: SlotId) {
        if self.slots.get(id.0).is_none_or(Option::is_none) {
            return;
        }
        let root = self.root_of(id);
        let mut parts = vec![root];
        if let Shape::Semaphore(semaphore) = &self[root].shape {
            parts.extend([semaphore.permits, semaphore.gate]);
        }
        if self[root].lock.is_some() || parts.iter().any(|it| !self[*it].directory.is_empty()) {
            return;
        }
        for part in parts {
            // One may be the root too.
            if let Some(slot) = self.slots.get_mut(part.0).and_then(Option::take) {
                self.by_path.remove(&slot.path);
                self.free.push(part);
            }
        }
    }

    pub(super) fn ids(&self) -> Vec<SlotId> {
        let known = |(id, slot): (usize, &Option<Slot>)| slot.is_some().then_some(SlotId(id));
        self.slots.iter().enumerate().filter_map(known).collect()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().flatten()
    }

    /// How many wait at a lock.
    pub(super) fn waiting(&self, root: SlotId) -> u64 {
        let slot = &self[root];
        let holding = slot.lock.as_ref().map_or(0, |lock| lock.holding.len());
        match &slot.shape {
            Shape::Semaphore(_) => self.in_line(root),
            _ => self.in_line(root).saturating_sub(holding as u64),
        }
    }

    /// Those that wait at a lock, up to some number: who has waited longest comes first.
    pub(super) fn waiters(&self, root: SlotId) -> Vec<Waiter> {
        let slot = &self[root];
        let holds = |name: &str| slot.lock.as_ref().is_some_and(|it| it.holding.contains_key(name));
        let line = &self.line_of(root).directory;
        let is_waiter = |place: &&Place| place.style.is_place() && !holds(&place.name);
        let mut waiting: Vec<&Place> = line.places().filter(is_waiter).collect();
        waiting.sort_by_key(|place| (place.znode.ctime, place.znode.czxid));
        let waiter = |place: &Place| {
            let Place { name, znode, .. } = place;
            Waiter { place: name.clone(), session: znode.session, asked_ms: znode.ctime }
        };
        waiting.into_iter().take(WAITERS_KEPT).map(waiter).collect()
    }

    /// How many stand in the line of a lock: those that wait, and without a semaphore those that hold.
    pub(super) fn in_line(&self, root: SlotId) -> u64 {
        self.line_of(root).directory.places_in_line() as u64
    }

    /// Where those stand who wait at a lock.
    fn line_of(&self, root: SlotId) -> &Slot {
        match &self[root].shape {
            Shape::Semaphore(semaphore) => &self[semaphore.gate],
            _ => &self[root],
        }
    }
}
