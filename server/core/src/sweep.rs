//! Which containers and TTL znodes a sweep deletes.

use std::collections::BTreeSet;
use std::collections::btree_set::Range;
use std::ops::Bound;

use zoolet_protocol::ZPath;

use crate::core::Core;
use crate::ephemeral_owner::EphemeralType;
use crate::tree::Znode;

/// How far a sweep has come. The default is its beginning.
///
/// [`Core::sweepable_after`] has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepCursor {
    /// The containers come first, and then the TTL znodes, each in the order of their paths.
    is_at_ttls: bool,
    /// The last path that was examined there.
    last: Option<ZPath>,
}

/// The part of a sweep that [`Core::sweepable_after`] has examined.
///
/// [`Core::sweepable_after`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepSlice {
    /// The znodes that are to be deleted, in the order in which ZooKeeper deletes them.
    pub due: Vec<ZPath>,
    /// Where the next slice begins; `None` if this was the last.
    pub next: Option<SweepCursor>,
}

impl Core {
    /// The containers and TTL znodes that the sweeper is to delete at `now_ms`
    /// (`ContainerManager`). None of them has children. A container is due if it had a child or, if
    /// `never_used_ms` is not 0, if it is older than that. A TTL znode is due if its data was not
    /// set for its time to live.
    #[must_use]
    pub fn sweepable(&self, now_ms: i64, never_used_ms: i64) -> Vec<ZPath> {
        let beginning = SweepCursor::default();
        self.sweepable_after(&beginning, usize::MAX, usize::MAX, now_ms, never_used_ms).due
    }

    /// As [`Core::sweepable`], from a place on, at most `most_due` of them, and after it has looked at
    /// no more than `most` znodes. A sweep of many calls this repeatedly, and can release the lock
    /// between the calls.
    ///
    /// ```
    /// use zoolet_core::{Core, Settings, SweepCursor};
    ///
    /// let core = Core::new(Settings::default());
    /// let slice = core.sweepable_after(&SweepCursor::default(), 64, 1_024, 0, 0);
    /// assert!(slice.due.is_empty() && slice.next.is_none());
    /// ```
    #[must_use]
    pub fn sweepable_after(
        &self,
        cursor: &SweepCursor,
        most_due: usize,
        most: usize,
        now_ms: i64,
        never_used_ms: i64,
    ) -> SweepSlice {
        let last = cursor.last.as_ref();
        let (containers, ttls) = match cursor.is_at_ttls {
            false => (Some(after(&self.containers, last)), after(&self.ttls, None)),
            true => (None, after(&self.ttls, last)),
        };
        let containers = containers.into_iter().flatten().map(|path| (false, path));
        let candidates = containers.chain(ttls.map(|path| (true, path)));
        let mut due = Vec::new();
        for (examined, (is_at_ttls, path)) in (1..).zip(candidates) {
            let znode = self.tree.get(path).filter(|it| is_due(it, now_ms, never_used_ms));
            due.extend(znode.map(|znode| znode.path.clone()));
            if examined == most || due.len() == most_due {
                let next = SweepCursor { is_at_ttls, last: Some(path.clone()) };
                return SweepSlice { due, next: Some(next) };
            }
        }
        SweepSlice { due, next: None }
    }
}

/// The paths of a set after one, all of them if there is none.
fn after<'a>(paths: &'a BTreeSet<ZPath>, last: Option<&ZPath>) -> Range<'a, ZPath> {
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    paths.range::<ZPath, _>((from, Bound::Unbounded))
}

fn is_due(znode: &Znode, now_ms: i64, never_used_ms: i64) -> bool {
    let age_ms = now_ms.saturating_sub(znode.stat.mtime);
    let is_over = match znode.stat.ephemeral_owner.ephemeral_type() {
        EphemeralType::Container => {
            znode.stat.cversion > 0 || (never_used_ms != 0 && age_ms > never_used_ms)
        }
        EphemeralType::Ttl { ttl_ms } => age_ms > ttl_ms,
        EphemeralType::Persistent | EphemeralType::Ephemeral(_) => false,
    };
    znode.num_children == 0 && is_over
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::Zxid;

    use super::*;
    use crate::acl::AclList;
    use crate::ephemeral_owner::EphemeralOwner;
    use crate::settings::Settings;

    /// Ten containers and ten TTL znodes, of which each third is not due at 100 ms.
    fn core() -> Core {
        let mut core = Core::new(Settings::default());
        for number in 0..20 {
            let kind = match number {
                ..10 => EphemeralType::Container,
                _ => EphemeralType::Ttl { ttl_ms: 50 },
            };
            let path = ZPath::parse(&format!("/{number:02}")).unwrap();
            let made_ms = if number % 3 == 0 { 90 } else { 0 };
            let owner = EphemeralOwner::from(kind);
            let znode = Znode::created(path.clone(), None, AclList::OPEN, owner, Zxid(1), made_ms);
            core.tree.insert(znode);
            core.index(kind, &path);
        }
        core
    }

    #[test]
    fn slices_of_any_size_find_what_is_due_in_the_same_order() {
        let core = core();
        let all = core.sweepable(100, 50);
        assert_eq!(all.len(), 13);
        for (most_due, most) in [(1, 1), (1, 9), (2, 3), (64, 7), (13, 20), (64, 1_000)] {
            let (mut cursor, mut found) = (Some(SweepCursor::default()), Vec::new());
            while let Some(from) = cursor {
                let slice = core.sweepable_after(&from, most_due, most, 100, 50);
                assert!(slice.due.len() <= most_due.min(most));
                found.extend(slice.due);
                cursor = slice.next;
            }
            assert_eq!(found, all, "{most_due} {most}");
        }
    }

    #[test]
    fn a_sweep_goes_on_where_its_last_znode_was_deleted() {
        let mut core = core();
        let first = core.sweepable_after(&SweepCursor::default(), 1, 1_000, 100, 50);
        let txn = core.prepare_sweep(&first.due[0], 100);
        assert!(core.apply(&txn).reply.is_ok());
        let rest = core.sweepable_after(&first.next.unwrap(), 64, 1_000, 100, 50);
        assert_eq!((rest.due, rest.next), (core.sweepable(100, 50), None));
    }
}
