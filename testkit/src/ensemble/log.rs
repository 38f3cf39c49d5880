//! A list that forgets its beginning, and whose items keep their indexes.

use std::collections::VecDeque;

/// What is committed, in order. The front is forgotten when nobody needs it any more, so that an
/// ensemble that serves for long does not fill the memory.
#[derive(Debug)]
pub(super) struct Log<T> {
    /// The index of the first item that is kept.
    first: usize,
    items: VecDeque<T>,
}

impl<T> Log<T> {
    pub(super) fn new() -> Self {
        Self { first: 0, items: VecDeque::new() }
    }

    /// The number of items, with those that are forgotten: the index of the next one.
    pub(super) fn len(&self) -> usize {
        self.first + self.items.len()
    }

    /// The item at an index; `None` if there is none yet, or if it is forgotten.
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.items.get(index.checked_sub(self.first)?)
    }

    pub(super) fn push(&mut self, item: T) {
        self.items.push_back(item);
    }

    /// Forgets all items before an index.
    pub(super) fn forget_before(&mut self, index: usize) {
        let count = index.saturating_sub(self.first).min(self.items.len());
        self.items.drain(..count);
        self.first += count;
    }

    /// Begins again with no item, at index 0.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_indexes_when_others_are_forgotten() {
        let mut log = Log::new();
        (0..10).for_each(|item| log.push(item));
        log.forget_before(4);
        log.forget_before(2);
        assert_eq!((log.len(), log.get(3), log.get(4), log.get(9)), (10, None, Some(&4), Some(&9)));
        assert_eq!(log.items.len(), 6);
        log.forget_before(99);
        log.push(10);
        assert_eq!((log.len(), log.get(9), log.get(10), log.items.len()), (11, None, Some(&10), 1));
        log.clear();
        assert_eq!((log.len(), log.get(0)), (0, None));
    }
}
