//! The paths that one connection watches, ordered. Most connections watch few: the client of a lock
//! watches its own place and the one ahead. These are in one list, of which two need no memory of their
//! own. Many are in a tree.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

/// At most so many are in the list. One more moves all into the tree, where they stay until it is empty.
const FEW_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct PathSet {
    /// Ordered. None while there are `many`.
    few: SmallVec<[Arc<str>; 2]>,
    many: BTreeSet<Arc<str>>,
}

impl PathSet {
    pub(super) fn insert(&mut self, path: Arc<str>) {
        if self.many.is_empty() {
            let Err(place) = self.few.binary_search(&path) else { return };
            if self.few.len() < FEW_MAX {
                return self.few.insert(place, path);
            }
        }
        self.many.extend(std::mem::take(&mut self.few));
        self.many.insert(path);
    }

    pub(super) fn remove(&mut self, path: &str) {
        match self.few.iter().position(|known| **known == *path) {
            Some(place) => drop(self.few.remove(place)),
            None => _ = self.many.remove(path),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Arc<str>> {
        self.after(None).next()
    }

    /// The paths that come after `path`, in order, or all.
    pub(super) fn after(&self, path: Option<&str>) -> impl Iterator<Item = &Arc<str>> {
        let few = path.map_or(0, |path| self.few.partition_point(|known| **known <= *path));
        let range = (path.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.few[few..].iter().chain(self.many.range::<str, _>(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_paths_are_those_of_a_tree() {
        let (mut set, mut model) = (PathSet::default(), BTreeSet::new());
        // A fixed sequence of pseudo-random numbers. The number of paths grows beyond the few, and shrinks
        // to none again and again.
        let mut state = 7_u32;
        for step in 0..20_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let path: Arc<str> = format!("/path-{}", (state >> 16) % 20).into();
            if (step / 100) % 2 == 0 {
                set.insert(Arc::clone(&path));
                model.insert(Arc::clone(&path));
            } else {
                set.remove(&path);
                model.remove(&path);
            }
            assert!(set.after(None).eq(&model), "step {step}");
            let range = (Bound::Excluded(&*path), Bound::Unbounded);
            assert!(set.after(Some(&path)).eq(model.range::<str, _>(range)), "step {step}");
            assert_eq!((set.first(), set.is_empty()), (model.first(), model.is_empty()));
            assert!(set.few.is_empty() || set.many.is_empty(), "step {step}");
        }
    }
}
