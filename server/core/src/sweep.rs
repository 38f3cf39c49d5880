//! Which containers and TTL znodes a sweep deletes.

use std::collections::BTreeSet;
use std::collections::btree_set::Range;
use std::ops::Bound;

use zoolet_protocol::{ZPath, Zxid};

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
    /// The last zxid when the sweep began.
    begun: Option<Zxid>,
}

/// The part of a sweep that [`Core::sweepable_after`] has examined.
///
/// [`Core::sweepable_after`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepSlice {
    /// The znodes that are to be deleted: containers first, as with ZooKeeper, each kind in the order of the paths.
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

    /// As [`Core::sweepable`], from a place on, until `most_due` of them are found or `most` znodes were examined; 0
    /// counts as 1. A sweep of many calls this repeatedly, and can release the lock between the calls. A znode
    /// that has lost its last child since the sweep began is for the next sweep, as with ZooKeeper.
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
        let SweepCursor { last, begun, .. } = cursor;
        let (last, last_zxid) = (last.as_ref(), begun.unwrap_or(self.last_zxid));
        let is_as_it_was = |it: &&Znode| begun.is_none_or(|zxid| it.stat.pzxid <= zxid);
        let (containers, ttls) = match cursor.is_at_ttls {
            false => (Some(after(&self.containers, last)), after(&self.ttls, None)),
            true => (None, after(&self.ttls, last)),
        };
        let containers = containers.into_iter().flatten().map(|path| (false, path));
        let candidates = containers.chain(ttls.map(|path| (true, path)));
        let mut due = Vec::new();
        for (examined, (is_at_ttls, path)) in (1..).zip(candidates) {
            let znode = self.tree.get(path).filter(|it| is_due(it, now_ms, never_used_ms));
            due.extend(znode.filter(is_as_it_was).map(|znode| znode.path.clone()));
            if examined >= most || due.len() >= most_due.max(1) {
                let (last, begun) = (Some(path.clone()), Some(last_zxid));
                let next = SweepCursor { is_at_ttls, last, begun };
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
            let znode =
                Znode::created(path.clone(), None, AclList::OPEN, owner, Zxid::ZERO, made_ms);
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
        for (most_due, most) in [(0, 0), (1, 1), (1, 9), (2, 3), (64, 7), (13, 20), (64, 1_000)] {
            let (mut cursor, mut found) = (Some(SweepCursor::default()), Vec::new());
            while let Some(from) = cursor {
                let slice = core.sweepable_after(&from, most_due, most, 100, 50);
                assert!(slice.due.len() <= most_due.min(most).max(1));
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

    #[test]
    fn a_sweep_does_not_delete_the_parent_of_what_it_has_deleted() {
        for most_due in [1, 64] {
            let mut core = core();
            // `/13` is a TTL znode, which is due without the container below it.
            let path = ZPath::parse("/13/container").unwrap();
            let owner = EphemeralOwner::from(EphemeralType::Container);
            let znode = Znode::created(path.clone(), None, AclList::OPEN, owner, Zxid::ZERO, 0);
            core.tree.insert(znode);
            core.index(EphemeralType::Container, &path);
            let mut cursor = Some(SweepCursor::default());
            while let Some(from) = cursor {
                let slice = core.sweepable_after(&from, most_due, 1_000, 100, 50);
                for path in &slice.due {
                    let txn = core.prepare_sweep(path, 100);
                    assert!(core.apply(&txn).reply.is_ok());
                }
                cursor = slice.next;
            }
            let left: Vec<_> = core.sweepable(100, 50).iter().map(ToString::to_string).collect();
            assert_eq!(left, ["/13"], "{most_due}");
        }
    }
}
