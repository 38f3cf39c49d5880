//! Access control lists, of which all znodes with the same one share a copy.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::ops::BitOr;
use std::sync::Arc;

use bytestring::ByteString;
use zoolet_protocol::{Acl, Id, Permissions};

use super::{Identities, LONG_LIST_ENTRIES_MIN, matches};
use crate::shared_set::SharedSet;

/// An access control list. All znodes with the same list share one copy.
///
/// ```
/// use zoolet_core::{AclList, Identities};
/// use zoolet_protocol::Permissions;
///
/// assert!(AclList::OPEN.permits(Permissions::READ, &Identities::default()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AclList(Option<SharedList>);

/// A pointer of one word, because each znode has one.
#[derive(Debug, Clone)]
struct SharedList(Arc<Entries>);

#[derive(Debug)]
struct Entries {
    all: Arc<[Acl]>,
    /// What the list gives everyone: of most lists all that they give, so that they are not gone
    /// through.
    of_everyone: Permissions,
}

impl SharedList {
    fn of(all: Arc<[Acl]>) -> Self {
        let given = |entry: &Acl| match entry.id.is("world", "anyone") {
            true => entry.permissions,
            false => Permissions::default(),
        };
        let of_everyone = all.iter().map(given).fold(Permissions::default(), BitOr::bitor);
        Self(Arc::new(Entries { all, of_everyone }))
    }

    fn entries(&self) -> &Arc<[Acl]> {
        &self.0.all
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it is one entry, which gives everyone something.
    fn is_of_everyone(&self) -> bool {
        self.0.all.len() == 1 && self.0.of_everyone != Permissions::default()
    }
}

impl PartialEq for SharedList {
    fn eq(&self, other: &Self) -> bool {
        self.entries() == other.entries()
    }
}

impl Eq for SharedList {}

impl Hash for SharedList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries().hash(state);
    }
}

impl Borrow<Arc<[Acl]>> for SharedList {
    fn borrow(&self) -> &Arc<[Acl]> {
        self.entries()
    }
}

impl AclList {
    /// The list of the built-in znodes, which permits everyone everything. It is not stored in
    /// snapshots; a list with the same entry that a client has set is.
    pub const OPEN: Self = Self(None);

    /// Whether the list gives one of `identities` one of the permissions in `wanted`. An empty list
    /// permits everything, as in ZooKeeper.
    #[must_use]
    pub fn permits(&self, wanted: Permissions, identities: &Identities) -> bool {
        let gives =
            |entry: &Acl| entry.permissions.intersects(wanted) && matches(&entry.id, identities);
        self.permits_everyone(wanted)
            || self.entries().into_iter().flatten().any(gives)
            || identities.are_super()
    }

    /// Whether the list gives everyone one of the permissions in `wanted`.
    #[must_use]
    #[inline]
    pub fn permits_everyone(&self, wanted: Permissions) -> bool {
        let Some(list) = &self.0 else { return true };
        list.0.of_everyone.intersects(wanted) || list.entries().is_empty()
    }

    /// A list that lets the same identities read. Where that is everyone it is [`AclList::OPEN`], whose clones
    /// count no references.
    pub(crate) fn for_reading(&self) -> Self {
        if self.permits_everyone(Permissions::READ) { Self::OPEN } else { self.clone() }
    }

    /// The address of a list that takes longer to evaluate than to look up. Two lists that exist at
    /// the same time have different addresses.
    pub(crate) fn long_address(&self) -> Option<usize> {
        let list = self.0.as_ref().filter(|list| list.entries().len() >= LONG_LIST_ENTRIES_MIN)?;
        Some(Arc::as_ptr(&list.0) as usize)
    }

    /// The entries, as `getACL` shows them.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Acl> {
        self.entries().map_or_else(|| vec![Acl::open()], <[Acl]>::to_vec)
    }

    /// The entries that a client has set. `None` for [`AclList::OPEN`].
    #[must_use]
    pub fn entries(&self) -> Option<&[Acl]> {
        self.0.as_ref().map(|list| &**list.entries())
    }

    /// The entries as `getACL` shows them to a client without the permission `ADMIN`: without the
    /// hashes of the digest scheme.
    #[must_use]
    pub fn to_masked_vec(&self) -> Vec<Acl> {
        let mut entries = self.to_vec();
        for entry in &mut entries {
            if entry.id.scheme.as_deref() == Some("digest") {
                let id = entry.id.id.as_deref().unwrap_or_default();
                let user = id.split_once(':').map_or(id, |(user, _)| user);
                entry.id.id = Some(format!("{user}:x").into());
            }
        }
        entries
    }
}

/// One shared copy of each access control list that is in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct AclLists {
    lists: SharedSet<SharedList>,
    /// The list that was asked for last. Most clients set the same list again and again.
    last: Option<SharedList>,
    /// The lists that were added since a part of all lists was last swept.
    added: usize,
}

/// After so many new lists, those that no znode uses are dropped from one part of all lists: some six
/// are looked at for each new one, and none waits until all were looked at.
const ADDED_PER_SWEEP: usize = 64;

impl AclLists {
    /// Whether `list` is the shared copy of its entries, so that equal lists use memory once.
    pub(crate) fn share(&self, list: &AclList) -> bool {
        let Some(list) = &list.0 else { return true };
        self.lists.get(list.entries()).is_some_and(|shared| shared.is_same(list))
    }

    /// The list that was asked for last, if it has these entries and is one for everyone alone: whether
    /// it may be set does not depend on who asks.
    pub(crate) fn last_of_everyone(&self, entries: &[Acl]) -> Option<Arc<[Acl]>> {
        let last = self.last.as_ref().filter(|last| last.is_of_everyone())?.entries();
        (**last == *entries).then(|| Arc::clone(last))
    }

    /// The list that was asked for last, if it gives everyone these permissions and has no other entry.
    pub(crate) fn last_that_gives_everyone(&self, permissions: Permissions) -> Option<Arc<[Acl]>> {
        let last = self.last.as_ref().filter(|last| last.is_of_everyone())?;
        (last.0.of_everyone == permissions).then(|| Arc::clone(last.entries()))
    }

    /// The shared copy of `entries`.
    pub(crate) fn intern(&mut self, entries: &Arc<[Acl]>) -> AclList {
        let is_it =
            |last: &&SharedList| Arc::ptr_eq(last.entries(), entries) || last.entries() == entries;
        if let Some(last) = self.last.as_ref().filter(is_it) {
            return AclList(Some(last.clone()));
        }
        if let Some(list) = self.lists.get(entries) {
            self.last = Some(list.clone());
            return AclList(Some(list.clone()));
        }
        self.last = None;
        if self.added >= ADDED_PER_SWEEP {
            self.lists.clean_next_part(|list| Arc::strong_count(&list.0) > 1);
            self.added = 0;
        }
        self.added += 1;
        // The texts are copied, so that a list does not keep the frame alive in which it came.
        let own = SharedList::of(entries.iter().map(detached).collect());
        self.lists.insert(own.clone());
        self.last = Some(own.clone());
        AclList(Some(own))
    }
}

/// A copy of an entry that shares no memory with it.
fn detached(entry: &Acl) -> Acl {
    let part = |part: &Option<ByteString>| part.as_deref().map(ByteString::from);
    let id = Id { scheme: part(&entry.id.scheme), id: part(&entry.id.id) };
    Acl { permissions: entry.permissions, id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(permissions: Permissions, scheme: &str, id: &str) -> Acl {
        Acl { permissions, id: Id::new(scheme, id) }
    }

    #[test]
    fn the_list_that_was_asked_for_last_is_found_only_if_it_needs_no_check() {
        let mut lists = AclLists::default();
        let (open, own) = ([Acl::open()], [entry(Permissions::ALL, "digest", "a:b")]);
        assert_eq!(lists.last_of_everyone(&open), None);
        let shared = lists.intern(&open.clone().into());
        let last = lists.last_of_everyone(&open).expect("it was the last");
        assert_eq!(shared.entries().map(<[Acl]>::as_ptr), Some(last.as_ptr()));
        let of_everyone = |permissions| lists.last_that_gives_everyone(permissions);
        assert_eq!(of_everyone(Permissions::ALL).as_deref(), Some(&open[..]));
        assert_eq!(of_everyone(Permissions::READ), None);
        let readable = [Acl { permissions: Permissions::READ, ..Acl::open() }];
        assert_eq!(lists.last_of_everyone(&readable), None);
        let shared = lists.intern(&own.clone().into());
        assert!(lists.share(&shared));
        assert_eq!(lists.last_of_everyone(&own), None, "whether it may be set depends on who asks");
        assert_eq!(lists.last_of_everyone(&open), None);
    }

    #[test]
    fn an_unused_list_that_was_asked_for_last_is_dropped_like_others() {
        let mut lists = AclLists::default();
        for number in 0..2 * ADDED_PER_SWEEP {
            drop(lists.intern(
                &[entry(Permissions::READ, "digest", &format!("user-{number}:hash"))].into(),
            ));
        }
        assert!(lists.lists.len() <= ADDED_PER_SWEEP, "{}", lists.lists.len());
    }

    #[test]
    fn what_everyone_is_given_is_what_all_entries_for_everyone_give() {
        let ann = Identities::default().and(Id::new("digest", "ann:hash"));
        let (read, write, none) = (Permissions::READ, Permissions::WRITE, Permissions::default());
        let anyone = |permissions| entry(permissions, "world", "anyone");
        let of_ann = |permissions| entry(permissions, "digest", "ann:hash");
        let nobody = Identities::default();
        // The entries, and who may read and who may write.
        let cases = [
            (vec![], [true, true], [true, true]),
            (vec![anyone(none)], [false, false], [false, false]),
            (vec![anyone(read)], [true, false], [true, false]),
            (vec![of_ann(read)], [false, false], [true, false]),
            (vec![of_ann(write), anyone(read)], [true, false], [true, true]),
            (vec![anyone(read), of_ann(read), anyone(write)], [true, true], [true, true]),
            (vec![entry(Permissions::ALL, "world", "ann")], [false, false], [false, false]),
            (vec![entry(Permissions::ALL, "ip", "anyone")], [false, false], [false, false]),
        ];
        for (entries, of_nobody, of_ann) in cases {
            let list = AclLists::default().intern(&entries.into());
            let permits = |who| [read, write].map(|wanted| list.permits(wanted, who));
            assert_eq!((permits(&nobody), permits(&ann)), (of_nobody, of_ann), "{list:?}");
            assert_eq!([read, write].map(|wanted| list.permits_everyone(wanted)), of_nobody);
        }
    }
}
