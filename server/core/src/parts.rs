//! A hash table that grows in small steps.
//!
//! A common table moves all its entries when it is full, and hashes each of them again. With
//! millions of entries that takes many milliseconds, in which nobody else is served. This one
//! consists of small tables. When it is full, one of them is split in two (linear hashing): an
//! insertion moves at most about a thousand entries, however many there are. The hashes are kept,
//! so that it reads none of the entries, which no cache holds.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// The entries for each part, on average. A part mostly has half of that to twice that, which fills two
/// thirds of the memory of its table. Entries whose hashes are side by side come and go together.
const ENTRIES_PER_PART: usize = 416;

/// The entries, in no order. The caller hashes them and compares them.
#[derive(Debug, Clone)]
pub(crate) struct Parts<T> {
    parts: Vec<HashTable<(u32, T)>>,
    /// The bits of a hash that number all parts.
    mask: usize,
    len: usize,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self { parts: Vec::new(), mask: 0, len: 0 }
    }
}

impl<T> Parts<T> {
    /// The part of an entry. As long as a part is not there yet, its entries are in the part that
    /// will be split.
    fn index(&self, hash: u32) -> usize {
        let index = bits(hash) & self.mask;
        if index < self.parts.len() { index } else { index & (self.mask >> 1) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let part = self.parts.get(self.index(hash))?;
        part.find(spread(hash), |entry| entry.0 == hash && is_it(&entry.1)).map(|entry| &entry.1)
    }

    pub(crate) fn find_mut(
        &mut self,
        hash: u32,
        mut is_it: impl FnMut(&T) -> bool,
    ) -> Option<&mut T> {
        let index = self.index(hash);
        let is_it = |entry: &(u32, T)| entry.0 == hash && is_it(&entry.1);
        self.parts.get_mut(index)?.find_mut(spread(hash), is_it).map(|entry| &mut entry.1)
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, hash: u32, mut is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let index = self.index(hash);
        let is_it = |entry: &(u32, T)| entry.0 == hash && is_it(&entry.1);
        let entry = self.parts.get_mut(index)?.find_entry(spread(hash), is_it).ok()?;
        self.len -= 1;
        Some(entry.remove().0.1)
    }

    /// The entry, or the one that `new` makes and that is inserted if there was none.
    pub(crate) fn get_or_insert_with(
        &mut self,
        hash: u32,
        mut is_it: impl FnMut(&T) -> bool,
        new: impl FnOnce() -> T,
    ) -> &mut T {
        self.make_room();
        let index = self.index(hash);
        let is_it = |entry: &(u32, T)| entry.0 == hash && is_it(&entry.1);
        let entry = match self.parts[index].entry(spread(hash), is_it, |entry| spread(entry.0)) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                self.len += 1;
                entry.insert((hash, new()))
            }
        };
        &mut entry.into_mut().1
    }

    /// Splits a part if one more entry on average would be too many.
    fn make_room(&mut self) {
        if self.len >= self.parts.len() * ENTRIES_PER_PART {
            self.split();
        }
    }

    /// Inserts an entry that is not in the table.
    pub(crate) fn insert(&mut self, hash: u32, entry: T) {
        self.make_room();
        let index = self.index(hash);
        self.parts[index].insert_unique(spread(hash), (hash, entry), |entry| spread(entry.0));
        self.len += 1;
    }

    /// Removes the entries of one part for which `keep` returns false, and returns the number of the
    /// next part. After the last comes the first.
    pub(crate) fn retain_in(&mut self, part: usize, mut keep: impl FnMut(&T) -> bool) -> usize {
        let Some(entries) = self.parts.get_mut(part) else { return 0 };
        let before = entries.len();
        entries.retain(|entry| keep(&entry.1));
        self.len -= before - entries.len();
        (part + 1) % self.parts.len()
    }

    /// The number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a part, with entries of the part whose turn it is. Returns how many it moved.
    fn split(&mut self) -> usize {
        let new = self.parts.len();
        if new == 0 {
            self.parts.push(HashTable::new());
            return 0;
        }
        let mask = (new + 1).next_power_of_two() - 1;
        self.mask = mask;
        let old = new & (mask >> 1);
        let entries = std::mem::take(&mut self.parts[old]);
        let moved = entries.len();
        let mut stay = HashTable::with_capacity(moved / 2);
        let mut go = HashTable::with_capacity(moved / 2);
        for entry in entries {
            let part = if bits(entry.0) & mask == new { &mut go } else { &mut stay };
            part.insert_unique(spread(entry.0), entry, |entry| spread(entry.0));
        }
        self.parts[old] = stay;
        self.parts.push(go);
        moved
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.parts.iter().flatten().map(|entry| &entry.1)
    }
}

/// The hash of an entry, of which all bits of the longer one decide.
pub(crate) fn folded(hash: u64) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}

/// The bits of a hash that decide about the part.
fn bits(hash: u32) -> usize {
    (hash >> 8) as usize
}

/// The hash for the small tables. They begin to look at the place that its low bits name, and tell
/// entries apart by its highest seven bits (of 64; systems of 32 bits take others). Hashes that differ in
/// the lowest four bits alone have places side by side.
fn spread(hash: u32) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    const TAG: u64 = 0x7f << 57;
    let place = (u64::from(hash >> 4).wrapping_mul(ODD) >> 32) + u64::from(hash & 0xf);
    let tag = u64::from(hash).wrapping_mul(ODD) << 7;
    (place & !TAG) | (tag & TAG)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A fixed hash that spreads numbers over all bits.
    fn hash(number: u64) -> u32 {
        let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }

    /// The hashes of numbers of which ten and ten are side by side.
    fn in_tens(number: u64) -> u32 {
        hash(number / 10) ^ (number % 10) as u32
    }

    #[test]
    fn what_was_inserted_is_found_until_it_is_removed() {
        let mut parts = Parts::default();
        assert_eq!(parts.find(hash(0), |_| true), None);
        let count = 5_000;
        for number in 0..count {
            if number % 3 == 0 {
                let inserted = parts.get_or_insert_with(hash(number), |n| *n == number, || number);
                assert_eq!(*inserted, number);
            } else {
                parts.insert(hash(number), number);
            }
            let new = || unreachable!("it is there");
            assert_eq!(*parts.get_or_insert_with(hash(number), |n| *n == number, new), number);
            for earlier in [0, number / 2, number] {
                assert_eq!(parts.find(hash(earlier), |n| *n == earlier), Some(&earlier));
            }
        }
        assert_eq!(parts.find(hash(count), |n| *n == count), None);
        for number in (0..count).step_by(2) {
            let removed = parts.remove(hash(number), |n| *n == number);
            assert_eq!(removed, Some(number));
            assert_eq!(parts.find_mut(hash(number), |n| *n == number), None);
        }
        let left: BTreeSet<_> = parts.iter().copied().collect();
        assert_eq!(left, (0..count).filter(|number| number % 2 == 1).collect());
        assert_eq!(parts.len, left.len());
    }

    #[test]
    fn entries_with_equal_hashes_are_kept_apart() {
        let mut parts = Parts::default();
        (0..300).for_each(|number| parts.insert(7, number));
        assert_eq!(parts.find(7, |n| *n == 200), Some(&200));
        assert_eq!(parts.remove(7, |n| *n == 200), Some(200));
        assert_eq!(parts.find(7, |n| *n == 200), None);
    }

    #[test]
    fn no_insertion_moves_more_than_a_few_entries() {
        for hash in [hash, in_tens] {
            let (mut parts, mut most) = (Parts::default(), 0);
            for number in 0..200_000 {
                // What `make_room` does, but that it tells how many entries the split moved.
                if parts.len >= parts.parts.len() * ENTRIES_PER_PART {
                    most = most.max(parts.split());
                }
                parts.insert(hash(number), number);
            }
            assert!(most <= 3 * ENTRIES_PER_PART, "{most}");
            let longest = parts.parts.iter().map(HashTable::len).max().unwrap_or_default();
            assert!(longest <= 3 * ENTRIES_PER_PART, "{longest}");
            let room: usize = parts.parts.iter().map(HashTable::capacity).sum();
            assert!(room < 2 * 200_000, "{room}");
        }
    }

    #[test]
    fn hashes_side_by_side_have_places_side_by_side_and_tags_of_their_own() {
        for ten in 0..1_000 {
            let all: Vec<u64> = (0..10).map(|number| spread(in_tens(10 * ten + number))).collect();
            let places: BTreeSet<u64> = all.iter().map(|hash| hash & (u64::MAX >> 7)).collect();
            let tags: BTreeSet<u64> = all.iter().map(|hash| hash >> 57).collect();
            assert_eq!((places.len(), tags.len()), (10, 10));
            assert!(places.last().unwrap() - places.first().unwrap() < 16, "{places:x?}");
        }
    }

    #[test]
    fn entries_that_come_and_go_take_no_more_and_more_memory() {
        let (mut parts, count) = (Parts::default(), 20_000);
        let room = |parts: &Parts<u64>| parts.parts.iter().map(HashTable::capacity).sum::<usize>();
        (0..count).for_each(|number| parts.insert(in_tens(number), number));
        let before = room(&parts);
        for number in 0..20 * count {
            let removed = parts.remove(in_tens(number), |other| *other == number);
            assert_eq!(removed, Some(number));
            parts.insert(in_tens(number + count), number + count);
        }
        assert!(room(&parts) <= 2 * before, "{} {before}", room(&parts));
    }
}
