//! The locks that are told together.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::hold::Lock;

/// How many locks are known again when they come back. Hashes of their paths are kept, 10 MB of them: two paths
/// with the same one are counted as one lock, and of so many there are two in one of 40 million runs.
const KNOWN_AT_MOST: usize = 900_000;

/// The locks that were told together once. Those that are used again are told apart with what comes since.
pub(super) struct Others {
    /// What was counted of them until then.
    pub(super) lock: Lock,
    hashes: HashSet<u64>,
    hasher: RandomState,
    known_at_most: usize,
    /// Whether there were more than can be known.
    were_more: bool,
}

/// How many there are at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OthersCount {
    /// Those of which nothing is told apart.
    pub(super) locks: u64,
    /// Whether there may be more of them.
    pub(super) is_at_least: bool,
    /// Those of which what came later is told apart.
    pub(super) again: u64,
}

impl Others {
    pub(super) fn new(lock: Lock) -> Self {
        Self::with(lock, KNOWN_AT_MOST)
    }

    pub(super) fn with(lock: Lock, known_at_most: usize) -> Self {
        let (hashes, hasher) = (HashSet::new(), RandomState::new());
        Self { lock, hashes, hasher, known_at_most, were_more: false }
    }

    pub(super) fn add(&mut self, path: &str, lock: &Lock) {
        let hash = self.hasher.hash_one(path);
        if self.hashes.len() < self.known_at_most {
            self.hashes.insert(hash);
        } else {
            self.were_more |= !self.hashes.contains(&hash);
        }
        self.lock.merge(lock);
    }

    /// Whether a part of what happened at a lock is told with others. `None` if that is not known.
    pub(super) fn has(&self, path: &str) -> Option<bool> {
        match self.hashes.contains(&self.hasher.hash_one(path)) {
            false if self.were_more => None,
            has => Some(has),
        }
    }

    /// How many they are, with how many of them are told apart.
    pub(super) fn count(&self, again: u64) -> OthersCount {
        let locks = (self.hashes.len() as u64).saturating_sub(again);
        OthersCount { locks, is_at_least: self.were_more, again }
    }
}
