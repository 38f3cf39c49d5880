//! The children of all znodes.
//!
//! They are kept outside the slots of the znodes, because a snapshot does not need them. A znode
//! with children has the number of the slot in which they are, so that they are found without
//! another look-up.

use std::num::NonZeroU32;
use std::sync::OnceLock;

use zoolet_protocol::{Names, ZPath};

use super::names::{self, CachedBytes, ChildPaths};

/// The children of one znode.
#[derive(Debug, Default)]
pub(super) struct Children {
    paths: ChildPaths,
    /// The cached list of all names, if there are many. A change of the children drops it.
    list: OnceLock<Box<Names>>,
}

impl Children {
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The paths of the children in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ZPath> {
        self.paths.in_no_order()
    }

    pub(super) fn insert(&mut self, path: ZPath, cached: &mut CachedBytes) {
        self.list.take();
        self.paths.insert_in(path, cached);
    }

    pub(super) fn remove(&mut self, path: &ZPath, cached: &mut CachedBytes) {
        self.list.take();
        self.paths.remove_in(path, cached);
    }

    /// Keeps the children for which `keep` returns true, which is asked in their order.
    pub(super) fn retain(&mut self, cached: &mut CachedBytes, keep: impl FnMut(&ZPath) -> bool) {
        self.list.take();
        self.paths.retain(cached, keep);
    }

    /// Removes all children.
    pub(super) fn clear(&mut self, cached: &mut CachedBytes) {
        self.list.take();
        self.paths.clear(cached);
    }

    /// The names of the children in their order. As long as they do not change it is the same list,
    /// and afterwards it shares what has not changed, as far as there is room in the cache.
    pub(super) fn names(&self, cached: &CachedBytes) -> Names {
        if let Some(list) = self.list.get() {
            return list.as_ref().clone();
        }
        let (names, is_cached) = names::of(&self.paths, cached);
        // Without room for its parts the list would keep them in memory all the same.
        if is_cached && self.paths.chunks().len() > 1 {
            // Another thread may have cached the same list since.
            let _ = self.list.set(Box::new(names.clone()));
        }
        names
    }

    /// The bytes of the cached names, and whether they are the names of the children.
    pub(super) fn check_names(&self) -> (usize, bool) {
        let (bytes, agree) = names::check(&self.paths);
        let is_right = |list: &Names| list.iter().eq(self.paths.iter().map(ZPath::name));
        (bytes, agree && self.list.get().is_none_or(|list| is_right(list)))
    }

    #[cfg(test)]
    pub(super) fn set_list(&mut self, list: Names) {
        self.list = OnceLock::from(Box::new(list));
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

/// Of the slots that are not in use, those that were freed last keep the memory of a few children: a
/// directory whose only child comes and goes needs no allocation each time. Others keep none, or a
/// tree that had a million directories once would keep some eighty megabytes more.
const FREE_SLOTS_WITH_MEMORY: usize = 1_024;

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

    /// Removes the children of a znode, and frees their slot.
    pub(super) fn remove(&mut self, place: &mut ChildrenPlace, cached: &mut CachedBytes) {
        let Some(number) = place.0.take() else { return };
        let (chunk, slot) = at(number);
        self.chunks[chunk][slot].clear(cached);
        self.free.push(number);
        let earlier = self.free.len().checked_sub(FREE_SLOTS_WITH_MEMORY + 1);
        if let Some(earlier) = earlier.map(|place| self.free[place]) {
            let (chunk, slot) = at(earlier);
            self.chunks[chunk][slot] = Children::default();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The free slots that keep memory.
    fn with_memory(all: &AllChildren) -> usize {
        let keeps = |number: &&NonZeroU32| {
            let (chunk, slot) = at(**number);
            all.chunks[chunk][slot].paths.chunks().len() > 0
        };
        all.free.iter().filter(keeps).count()
    }

    #[test]
    fn only_the_slots_that_were_freed_last_keep_memory() {
        let (mut all, mut cached) = (AllChildren::default(), CachedBytes::default());
        let child = ZPath::parse("/a/b").unwrap();
        let mut places = vec![ChildrenPlace::default(); 3 * FREE_SLOTS_WITH_MEMORY];
        for place in &mut places {
            all.get_or_add(place).insert(child.clone(), &mut cached);
        }
        places.iter_mut().for_each(|place| all.remove(place, &mut cached));
        assert_eq!((all.used(), with_memory(&all)), (0, FREE_SLOTS_WITH_MEMORY));

        // The next directory gets the slot that was freed last, with its memory.
        for _ in 0..3 {
            let children = all.get_or_add(&mut places[0]);
            assert_eq!(children.paths.chunks().len(), 1);
            children.insert(child.clone(), &mut cached);
            all.remove(&mut places[0], &mut cached);
        }
        assert_eq!(with_memory(&all), FREE_SLOTS_WITH_MEMORY);
    }
}
