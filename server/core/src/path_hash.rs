//! The hash of a path.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::parts::folded;

/// Hashes paths. The tree and the watches of a state machine have the same, so that a change hashes its
/// path once.
///
/// The hashes of paths that differ in their last byte alone differ in the lowest eight bits alone, so that
/// they are in one part of [`Parts`](crate::parts::Parts). Those that differ in the lowest four bits alone,
/// as digits do, are side by side: sequential znodes are created one after the other, and what one brings
/// into the cache serves the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathHasher(DefaultHashBuilder);

impl PathHasher {
    pub(crate) fn hash(&self, path: &str) -> u32 {
        self.hash_bytes(path.as_bytes())
    }

    pub(crate) fn hash_bytes(&self, path: &[u8]) -> u32 {
        let Some((last, before)) = path.split_last() else { return 0 };
        folded(self.0.hash_one(before)) ^ u32::from(*last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn paths_that_differ_in_their_last_byte_have_hashes_side_by_side() {
        let hasher = PathHasher::default();
        let numbered = |number| hasher.hash(&format!("/locks/lock-{number:010}"));
        let hashes: BTreeSet<u32> = (0..10).map(numbered).collect();
        assert_eq!(hashes.len(), 10);
        assert!(hashes.iter().all(|hash| hash >> 4 == numbered(0) >> 4), "{hashes:x?}");
        let tens: BTreeSet<u32> = (0..100).map(|ten| numbered(10 * ten) >> 8).collect();
        assert!(tens.len() > 90, "{tens:x?}");
        assert_ne!(hasher.hash("/a"), hasher.hash("/ä"));
    }
}
