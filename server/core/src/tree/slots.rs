//! The znodes of a tree, each in a slot.
//!
//! A znode keeps its slot as long as it exists, so that the number of the slot finds it without its
//! path. The slots are copy-on-write in two levels: chunks of some znodes, and groups of chunks.
//! [`Slots::freeze`] copies one reference for each group. A later change copies the references of its
//! group and the znodes of its chunk, once each: 10 to 20 µs, however many znodes there are.
//!
//! The references are those of triomphe: it takes a plain read to see whether one is the only one. Those of the
//! standard library can be weak, so that it takes an operation that locks memory, four times for each create.

use std::hint::black_box;
use std::num::NonZeroU32;

use triomphe::Arc;

use super::Znode;

/// A change after a freeze copies this many znodes. Data and paths are shared, not copied.
///
/// A chunk has less than 1,024 bytes: for a longer block glibc's `malloc` first merges all small blocks that
/// were freed, and the next creates split them again.
const ZNODES_PER_CHUNK: usize = 8;

/// With ten million znodes there are 2,442 groups.
const CHUNKS_PER_GROUP: usize = 512;

/// So many chunks without znodes keep their memory, some 120 KB: the znodes of clients that lock and unlock
/// fill and empty some again and again.
const EMPTY_CHUNKS_KEPT: usize = 128;

/// The heap grows by as much before so many new chunks: about what their znodes take, with their paths and short data.
/// glibc takes longer blocks, of 128 KiB, not from a heap.
const HEAP_STEP_BYTES: usize = 100 << 10;
const CHUNKS_PER_STEP: u32 = 32;

/// All slots of a chunk are in use.
const FULL: u8 = u8::MAX;

/// The number of a slot, counted from 1: so an `Option` of it is as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    fn new(index: u32) -> Self {
        Self(NonZeroU32::MIN.checked_add(index).expect("there are fewer znodes than 2^32"))
    }

    /// The number of a slot; 0 for none.
    pub(super) fn to_number(slot: Option<Self>) -> u32 {
        slot.map_or(0, |slot| slot.0.get())
    }

    /// The opposite of [`Slot::to_number`].
    pub(super) fn from_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    fn index(self) -> u32 {
        self.0.get() - 1
    }

    fn chunk(self) -> ChunkNumber {
        ChunkNumber(self.index() / ZNODES_PER_CHUNK as u32)
    }

    fn place(self) -> usize {
        self.index() as usize % ZNODES_PER_CHUNK
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChunkNumber(u32);

impl ChunkNumber {
    fn group(self) -> usize {
        self.0 as usize / CHUNKS_PER_GROUP
    }

    fn place(self) -> usize {
        self.0 as usize % CHUNKS_PER_GROUP
    }
}

type Chunk = [Option<Znode>; ZNODES_PER_CHUNK];

/// With the counter of its `Arc`. `malloc` adds eight bytes, and rounds up to a multiple of 16.
const _: () = assert!(size_of::<Chunk>() + size_of::<usize>() < 1_000);

/// `None` is a chunk without znodes that has no memory.
type Group = [Option<Arc<Chunk>>; CHUNKS_PER_GROUP];

/// The znodes, which a frozen tree shares.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups(Vec<Arc<Group>>);

impl Groups {
    fn chunk(&self, number: ChunkNumber) -> Option<&Chunk> {
        self.0.get(number.group())?[number.place()].as_deref()
    }

    /// A chunk that was there once, to be changed.
    fn chunk_mut(&mut self, number: ChunkNumber) -> &mut Option<Arc<Chunk>> {
        &mut Arc::make_mut(&mut self.0[number.group()])[number.place()]
    }

    /// All znodes, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Znode> + Clone {
        let chunks = self.0.iter().flat_map(|group| group.iter().flatten());
        chunks.flat_map(|chunk| chunk.iter().flatten())
    }
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    groups: Groups,
    /// A bit for each slot of a chunk that is in use. They are not beside the znodes, where each would
    /// be one more read of memory.
    used: Vec<u8>,
    /// The chunks with slots that are not in use. The next znode goes into the last of them.
    roomy: Vec<ChunkNumber>,
    /// How many chunks without znodes have memory.
    empty: usize,
}

impl Slots {
    pub(super) fn get(&self, slot: Slot) -> Option<&Znode> {
        self.groups.chunk(slot.chunk())?[slot.place()].as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Znode> {
        let chunk = self.groups.chunk_mut(slot.chunk()).as_mut()?;
        Arc::make_mut(chunk)[slot.place()].as_mut()
    }

    /// Makes a znode in a slot that is not in use, and returns the slot and the znode. To move a finished
    /// znode there would take longer.
    ///
    /// `make` must not panic: the slot would be in use without a znode.
    #[inline]
    pub(super) fn insert_with(&mut self, make: impl FnOnce() -> Znode) -> (Slot, &Znode) {
        let number = self.roomy.last().copied().unwrap_or_else(|| self.add_chunk());
        let used = &mut self.used[number.0 as usize];
        let was_empty = *used == 0;
        let place = (!*used).trailing_zeros();
        *used |= 1 << place;
        if *used == FULL {
            self.roomy.pop();
        }
        let entry = self.groups.chunk_mut(number);
        self.empty -= usize::from(was_empty && entry.is_some());
        let chunk = Arc::make_mut(entry.get_or_insert_default());
        let slot = Slot::new(number.0 * ZNODES_PER_CHUNK as u32 + place);
        (slot, chunk[slot.place()].insert(make()))
    }

    fn add_chunk(&mut self) -> ChunkNumber {
        let index = u32::try_from(self.used.len() * ZNODES_PER_CHUNK);
        let number = Slot::new(index.expect("there are fewer znodes than 2^32")).chunk();
        if number.place() == 0 {
            self.groups.0.push(Arc::new([const { None }; CHUNKS_PER_GROUP]));
        }
        if number.0.is_multiple_of(CHUNKS_PER_STEP) {
            grow_heap();
        }
        self.used.push(0);
        self.roomy.push(number);
        number
    }

    /// Removes a znode and returns it.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Znode> {
        self.empty_slot(slot, Option::take)
    }

    /// Drops a znode where it is.
    pub(super) fn clear(&mut self, slot: Slot) {
        self.empty_slot(slot, |entry| entry.is_some().then(|| *entry = None));
    }

    /// Empties a slot with `take`, which returns nothing if there is no znode.
    #[inline]
    fn empty_slot<T>(
        &mut self,
        slot: Slot,
        take: impl FnOnce(&mut Option<Znode>) -> Option<T>,
    ) -> Option<T> {
        let number = slot.chunk();
        let entry = self.groups.chunk_mut(number);
        let taken = take(&mut Arc::make_mut(entry.as_mut()?)[slot.place()])?;
        let used = &mut self.used[number.0 as usize];
        let was_full = *used == FULL;
        *used &= !(1 << slot.place());
        if was_full {
            self.roomy.push(number);
        }
        if *used == 0 {
            if self.empty < EMPTY_CHUNKS_KEPT {
                self.empty += 1;
            } else {
                *entry = None;
            }
        }
        Some(taken)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Znode> + Clone {
        self.groups.iter()
    }

    /// The znodes as they are now. Later changes do not show in the result.
    pub(super) fn freeze(&self) -> Groups {
        self.groups.clone()
    }
}

/// Makes room in the heap for what the next znodes need.
///
/// glibc lets the heap of a thread grow by a few pages at a time, with a system call for each. A block that is taken and
/// given back at once makes it grow by all of that block: a tenth of the calls while a tree grows.
fn grow_heap() {
    drop(black_box(Vec::<u8>::with_capacity(HEAP_STEP_BYTES)));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zoolet_protocol::{ZPath, Zxid};

    use super::*;
    use crate::acl::AclList;
    use crate::ephemeral_owner::EphemeralOwner;

    fn znode(number: u32) -> Znode {
        let path = ZPath::parse(&format!("/{number}")).unwrap();
        Znode::created(path, None, AclList::OPEN, EphemeralOwner::default(), Zxid(1), 0)
    }

    fn insert(slots: &mut Slots, number: u32) -> Slot {
        slots.insert_with(|| znode(number)).0
    }

    fn paths<'a>(znodes: impl Iterator<Item = &'a Znode>) -> Vec<&'a str> {
        let mut paths: Vec<_> = znodes.map(|znode| znode.path.as_str()).collect();
        paths.sort_unstable();
        paths
    }

    fn chunks_in_memory(slots: &Slots) -> usize {
        slots.groups.0.iter().flat_map(|group| group.iter().flatten()).count()
    }

    /// As many as fill some groups, but for the last.
    const COUNT: u32 = (2 * CHUNKS_PER_GROUP * ZNODES_PER_CHUNK + 7) as u32;

    #[test]
    fn a_znode_keeps_its_slot_and_a_frozen_tree_its_znodes() {
        // A fixed sequence of pseudo-random numbers.
        let mut state = 7_u32;
        let mut next = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % below
        };
        let (mut slots, mut wanted) = (Slots::default(), BTreeMap::new());
        for number in 0..4 * COUNT {
            if next(3) > 0 || wanted.is_empty() {
                let slot = insert(&mut slots, number);
                assert!(wanted.insert(slot.index(), znode(number)).is_none(), "it was in use");
            } else {
                let slot = *wanted.keys().nth(next(wanted.len().min(99))).unwrap();
                let znode = wanted.remove(&slot);
                if number % 2 == 0 {
                    assert_eq!(slots.remove(Slot::new(slot)), znode);
                } else {
                    assert_eq!(slots.get(Slot::new(slot)), znode.as_ref());
                    slots.clear(Slot::new(slot));
                }
                assert_eq!(slots.get(Slot::new(slot)), None);
                assert_eq!(slots.remove(Slot::new(slot)), None);
            }
        }
        assert!(wanted.iter().all(|(slot, znode)| slots.get(Slot::new(*slot)) == Some(znode)));
        let frozen = slots.freeze();
        for (slot, znode) in &wanted {
            if slot % 3 == 0 {
                assert_eq!(slots.remove(Slot::new(*slot)).as_ref(), Some(znode));
            } else {
                slots.get_mut(Slot::new(*slot)).unwrap().num_children = 9;
            }
        }
        assert_eq!(paths(frozen.iter()), paths(wanted.values()));
        assert!(frozen.iter().all(|znode| znode.num_children == 0));
        let left = wanted.iter().filter(|(slot, _)| *slot % 3 != 0).map(|(_, znode)| znode);
        assert_eq!(paths(slots.iter()), paths(left));
    }

    #[test]
    fn slots_are_used_again_before_there_are_more() {
        let mut slots = Slots::default();
        let mut used: Vec<_> = (0..COUNT).map(|number| insert(&mut slots, number)).collect();
        let chunks = slots.used.len();
        for slot in used.iter().step_by(3) {
            assert!(slots.remove(*slot).is_some());
        }
        let mut again: Vec<_> =
            (0..COUNT.div_ceil(3)).map(|number| insert(&mut slots, number)).collect();
        used = used.into_iter().step_by(3).collect();
        used.sort_unstable_by_key(|slot| slot.index());
        again.sort_unstable_by_key(|slot| slot.index());
        assert_eq!((again, slots.used.len()), (used, chunks));
    }

    #[test]
    fn only_some_chunks_without_znodes_keep_their_memory() {
        let mut slots = Slots::default();
        let used: Vec<_> = (0..COUNT).map(|number| insert(&mut slots, number)).collect();
        assert_eq!(chunks_in_memory(&slots), slots.used.len());
        for slot in &used {
            assert!(slots.remove(*slot).is_some());
        }
        assert_eq!((chunks_in_memory(&slots), slots.empty), (EMPTY_CHUNKS_KEPT, EMPTY_CHUNKS_KEPT));
        let again: Vec<_> = (0..COUNT).map(|number| insert(&mut slots, number)).collect();
        assert_eq!((chunks_in_memory(&slots), slots.empty), (slots.used.len(), 0));
        for slot in again.iter().rev() {
            assert!(slots.remove(*slot).is_some());
        }
        assert_eq!((chunks_in_memory(&slots), slots.empty), (EMPTY_CHUNKS_KEPT, EMPTY_CHUNKS_KEPT));
    }
}
