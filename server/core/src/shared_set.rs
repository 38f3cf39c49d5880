//! A set of shared values, in a table that grows and is cleaned in small steps.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::parts::{Parts, folded};

/// Values, each once.
#[derive(Debug, Clone)]
pub(crate) struct SharedSet<T> {
    values: Parts<T>,
    hasher: DefaultHashBuilder,
    /// The part that is cleaned next.
    next_part: usize,
}

impl<T> Default for SharedSet<T> {
    fn default() -> Self {
        Self { values: Parts::default(), hasher: DefaultHashBuilder::default(), next_part: 0 }
    }
}

impl<T: Hash + Eq> SharedSet<T> {
    fn hash(&self, value: &(impl Hash + ?Sized)) -> u32 {
        folded(self.hasher.hash_one(value))
    }

    /// The value in the set that is equal to `value`.
    pub(crate) fn get<Q>(&self, value: &Q) -> Option<&T>
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.values.find(self.hash(value), |other| other.borrow() == value)
    }

    /// Inserts a value that is not in the set.
    pub(crate) fn insert(&mut self, value: T) {
        self.values.insert(self.hash(&value), value);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Removes the values of one part for which `keep` returns false. A call for each part, which has at
    /// most 416 values, reaches all values.
    pub(crate) fn clean_next_part(&mut self, keep: impl FnMut(&T) -> bool) {
        self.next_part = self.values.retain_in(self.next_part, keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaning_part_after_part_reaches_every_value() {
        let mut set = SharedSet::<u32>::default();
        set.clean_next_part(|_| true);
        (0..5_000).for_each(|value| set.insert(value));
        let (mut asked, mut calls) = (0, 0);
        while asked < 5_000 {
            set.clean_next_part(|value| {
                asked += 1;
                value % 2 == 0
            });
            calls += 1;
        }
        assert!((5_000 / 832..=5_000 / 208).contains(&calls), "{calls}");
        assert_eq!(set.len(), 2_500);
        assert_eq!((set.get(&4_000), set.get(&4_001)), (Some(&4_000), None));
    }
}
