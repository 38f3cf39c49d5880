//! The watchers by path, in a table that grows in small parts: a common one moves all its entries
//! when it is full, which takes many milliseconds if a million paths are watched.

use std::sync::Arc;

use super::Watchers;
use crate::parts::Parts;
use crate::path_hash::PathHasher;

/// The watchers of each watched path.
#[derive(Debug, Default)]
pub(super) struct ByPath {
    table: Parts<(Arc<str>, Watchers)>,
    hasher: PathHasher,
}

impl ByPath {
    pub(super) fn new(hasher: PathHasher) -> Self {
        Self { table: Parts::default(), hasher }
    }

    pub(super) fn hash(&self, path: &str) -> u32 {
        self.hasher.hash(path)
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
        self.get_hashed_mut(self.hash(path), path)
    }

    /// [`ByPath::get_mut`] of a path with this hash.
    pub(super) fn get_hashed_mut(&mut self, hash: u32, path: &str) -> Option<&mut Watchers> {
        if self.is_empty() {
            return None;
        }
        let entry = self.table.find_mut(hash, |(other, _)| **other == *path);
        entry.map(|(_, watchers)| watchers)
    }

    /// The shared text of a path with its watchers; none yet if nobody watched it.
    pub(super) fn get_or_add(&mut self, path: &str) -> (Arc<str>, &mut Watchers) {
        let hash = self.hash(path);
        let new = || (path.into(), Watchers::default());
        let entry = self.table.get_or_insert_with(hash, |(other, _)| **other == *path, new);
        (Arc::clone(&entry.0), &mut entry.1)
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.remove_hashed(self.hash(path), path);
    }

    /// [`ByPath::remove`] of a path with this hash.
    pub(super) fn remove_hashed(&mut self, hash: u32, path: &str) {
        drop(self.table.remove(hash, |(other, _)| **other == *path));
    }

    /// All watched paths with their watchers, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Arc<str>, Watchers)> + Clone {
        self.table.iter()
    }
}
