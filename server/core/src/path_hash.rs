//! The hash of a path.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::parts::folded;

/// Hashes paths. The tree and the watches of a state machine have the same, so that a change hashes its
/// path once.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathHasher(DefaultHashBuilder);

impl PathHasher {
    pub(crate) fn hash(&self, path: &str) -> u32 {
        folded(self.0.hash_one(path))
    }
}
