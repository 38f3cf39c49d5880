//! The children of all znodes.
//!
//! They are kept outside the shards of the tree, because a snapshot does not need them. A znode
//! with children has the number of the slot in which they are, so that they are found without
//! another look-up.

use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

use zoolet_protocol::{Encode, Names, ZPath};

use crate::sorted_paths::SortedPaths;

/// The children of one znode.
#[derive(Debug, Default)]
pub(super) struct Children {
    pub(super) paths: SortedPaths,
    /// The bytes of all names, without the lengths that the encoding adds.
    pub(super) name_bytes: usize,
    /// The cached list of the encoded names. A change of the children drops it.
    pub(super) list: OnceLock<Names>,
}

impl Children {
    pub(super) fn encode(&self) -> Names {
        let bytes = self.name_bytes + 4 * self.paths.len();
        Names::with_capacity(bytes, self.paths.iter().map(ZPath::name))
    }

    /// Drops the cached list, because the children change.
    pub(super) fn drop_cached_list(&mut self, cached_bytes: &mut AtomicUsize) {
        if let Some(list) = self.list.take() {
            *cached_bytes.get_mut() -= list.encoded_len();
        }
    }
}

/// Where the children of a znode are; none as long as it has none. Where they are does not
/// distinguish two znodes: all places are equal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChildrenPlace(Option<NonZeroU32>);

impl PartialEq for ChildrenPlace {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ChildrenPlace {}

/// The slots of a chunk. A new chunk moves no older one.
const SLOTS_PER_CHUNK: usize = 64;

/// The children of all znodes that have some, each in a slot of its own.
#[derive(Debug, Default)]
pub(super) struct AllChildren {
    chunks: Vec<Vec<Children>>,
    /// The slots that are not in use.
    free: Vec<NonZeroU32>,
}

impl AllChildren {
    pub(super) fn get(&self, place: ChildrenPlace) -> Option<&Children> {
        let (chunk, slot) = at(place.0?);
        self.chunks.get(chunk)?.get(slot)
    }

    pub(super) fn get_mut(&mut self, place: ChildrenPlace) -> Option<&mut Children> {
        let (chunk, slot) = at(place.0?);
        self.chunks.get_mut(chunk)?.get_mut(slot)
    }

    /// The children at a place, or those of a znode that had none, which gets a place.
    pub(super) fn get_or_add(&mut self, place: &mut ChildrenPlace) -> &mut Children {
        let number = match place.0 {
            Some(number) => number,
            None => *place.0.insert(self.free_slot()),
        };
        let (chunk, slot) = at(number);
        &mut self.chunks[chunk][slot]
    }

    fn free_slot(&mut self) -> NonZeroU32 {
        if let Some(number) = self.free.pop() {
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == SLOTS_PER_CHUNK) {
            self.chunks.push(Vec::with_capacity(SLOTS_PER_CHUNK));
        }
        let full = (self.chunks.len() - 1) * SLOTS_PER_CHUNK;
        let chunk = self.chunks.last_mut().expect("there is one by now");
        chunk.push(Children::default());
        let number = u32::try_from(full + chunk.len());
        NonZeroU32::new(number.expect("there are fewer znodes than 2^32"))
            .expect("the number of a slot counts from 1")
    }

    /// Frees the slot of a znode that has no children any more.
    pub(super) fn remove(&mut self, place: &mut ChildrenPlace) {
        let Some(number) = place.0.take() else { return };
        let (chunk, slot) = at(number);
        let children = &mut self.chunks[chunk][slot];
        children.paths.clear();
        (children.name_bytes, children.list) = (0, OnceLock::new());
        self.free.push(number);
    }

    /// The children in all slots that are in use.
    pub(super) fn used(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum::<usize>() - self.free.len()
    }
}

/// The chunk of a slot, and its place therein.
fn at(number: NonZeroU32) -> (usize, usize) {
    let index = number.get() as usize - 1;
    (index / SLOTS_PER_CHUNK, index % SLOTS_PER_CHUNK)
}
