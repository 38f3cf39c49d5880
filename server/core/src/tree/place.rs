//! Where znodes are, as a decision finds it out and hands it on to the change.

use smallvec::SmallVec;

use super::slots::Slot;

/// Where a path is in a tree: its hash, and the slot of its znode, if there is one.
///
/// Both are in one word: a value that is written in two pieces and then read in one makes a processor wait, and
/// a place goes from function to function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(super) fn new(hash: u32, slot: Option<Slot>) -> Self {
        Self(u64::from(hash) << 32 | u64::from(Slot::to_number(slot)))
    }

    /// The place of a path with this hash, of which is not known whether it has a znode.
    pub(crate) fn of_hash(hash: u32) -> Self {
        Self::new(hash, None)
    }

    /// The hash of the path.
    pub(crate) fn hash(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn slot(self) -> Option<Slot> {
        Slot::from_number(self.0 as u32)
    }

    pub(crate) fn has_znode(self) -> bool {
        self.slot().is_some()
    }
}

/// Where a znode and its parent are, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) znode: Place,
    pub(crate) parent: Place,
}

/// The places that a decision has looked up; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LookedUp {
    znode: Option<Place>,
    parent: Option<Place>,
    /// The edition of the tree in which they are right.
    edition: u64,
}

/// What was looked up for each operation of a multi. A release, which sets and deletes a znode, needs no
/// memory for it.
pub(crate) type InMulti = SmallVec<[LookedUp; 2]>;

impl LookedUp {
    pub(super) fn new(znode: Option<Place>, parent: Option<Place>, edition: u64) -> Self {
        Self { znode, parent, edition }
    }

    /// Where the znode is or would be.
    pub(crate) fn znode(self) -> Option<Place> {
        self.znode
    }

    /// Where its parent is.
    pub(crate) fn parent(self) -> Option<Place> {
        self.parent
    }

    /// Where the znode is or would be, if that is so in this edition of the tree.
    pub(super) fn znode_in(&self, edition: u64) -> Option<Place> {
        self.znode.filter(|_| self.edition == edition)
    }

    /// Where its parent is, if that is so in this edition of the tree.
    pub(super) fn parent_in(&self, edition: u64) -> Option<Place> {
        self.parent.filter(|_| self.edition == edition)
    }
}
