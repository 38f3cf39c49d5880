//! The watchers by path, in a table that grows in small parts: a common one moves all its entries
//! when it is full, which takes many milliseconds if a million paths are watched.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use super::Watchers;
use crate::parts::{self, Parts};

/// The watchers of each watched path.
#[derive(Debug, Default)]
pub(super) struct ByPath {
    table: Parts<(Arc<str>, Watchers)>,
    hasher: DefaultHashBuilder,
}

impl ByPath {
    fn hash(&self, path: &str) -> u32 {
        parts::folded(self.hasher.hash_one(path))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(super) fn get(&self, path: &str) -> Option<&Watchers> {
        if self.is_empty() {
            return None;
        }
        let entry = self.table.find(self.hash(path), |(other, _)| **other == *path);
        entry.map(|(_, watchers)| watchers)
    }

    pub(super) fn get_mut(&mut self, path: &str) -> Option<&mut Watchers> {
        if self.is_empty() {
            return None;
        }
        let entry = self.table.find_mut(self.hash(path), |(other, _)| **other == *path);
        entry.map(|(_, watchers)| watchers)
    }

    /// The shared text of a path with its watchers; none yet if nobody watched it.
    pub(super) fn get_or_add(&mut self, path: &str) -> (Arc<str>, &mut Watchers) {
        let hash = self.hash(path);
        let is_it = |(other, _): &(Arc<str>, Watchers)| **other == *path;
        if self.table.find(hash, is_it).is_none() {
            self.table.insert(hash, (path.into(), Watchers::default()));
        }
        let entry = self.table.find_mut(hash, is_it).expect("it is there by now");
        (Arc::clone(&entry.0), &mut entry.1)
    }

    pub(super) fn remove(&mut self, path: &str) {
        let hash = self.hash(path);
        drop(self.table.remove(hash, |(other, _)| **other == *path));
    }

    /// All watched paths with their watchers, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Arc<str>, Watchers)> + Clone {
        self.table.iter()
    }
}
