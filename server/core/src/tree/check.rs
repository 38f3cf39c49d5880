//! What the tree keeps beside its znodes, compared with them.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use zoolet_protocol::ZPath;

use super::children::Children;
use super::{Tree, Znode};
use crate::check::Findings;

impl Tree {
    /// Compares the children, the counts and the shared access control lists with the znodes.
    pub(crate) fn check(&self, findings: &mut Findings) {
        let mut by_parent: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        let (mut count, mut size_bytes) = (0, 0);
        for znode in self.iter() {
            count += 1;
            size_bytes += znode.path.len() + znode.data_length();
            self.check_znode(znode, findings);
            if let Some(parent) = znode.path.parent() {
                by_parent.entry(parent).or_default().insert(&znode.path);
            }
        }
        findings.compare(|| "the number of znodes".to_owned(), self.count, count);
        findings.compare(|| "the bytes of paths and data".to_owned(), self.size_bytes, size_bytes);
        self.check_children(&by_parent, findings);
    }

    /// One znode: it is found by its path, its parent exists, and its list is the shared copy.
    fn check_znode(&self, znode: &Znode, findings: &mut Findings) {
        if !self.get(&znode.path).is_some_and(|found| std::ptr::eq(found, znode)) {
            findings.not_listed("the znodes by path", &znode.path);
        }
        if znode.path.parent().is_some_and(|parent| self.get(parent).is_none()) {
            findings.not_listed("the parents", &znode.path);
        }
        if !self.acl_lists.share(&znode.acl) {
            findings.not_listed("the shared access control lists", &znode.path);
        }
    }

    /// The names of the children, which are kept outside the slots, and what is derived from them.
    fn check_children(&self, wanted: &HashMap<&str, BTreeSet<&str>>, findings: &mut Findings) {
        let none = BTreeSet::new();
        let (mut cached_bytes, mut lists) = (0, 0);
        let mut znodes: Vec<&Znode> = self.iter().collect();
        znodes.sort_unstable_by_key(|znode| &znode.path);
        for znode in znodes {
            let path = &znode.path;
            let wanted = wanted.get(path.as_str()).unwrap_or(&none);
            if let Some(children) = self.children.get(znode.children) {
                let index = format!("the children of {path}");
                let listed = children.iter().map(ZPath::as_str).collect();
                findings.compare_index(&index, &listed, wanted);
                if listed.is_empty() {
                    findings.listed_wrongly("the parents with children", path);
                }
                cached_bytes += children.check(&index, findings);
                lists += 1;
            } else if !wanted.is_empty() {
                findings.not_listed("the parents with children", path);
            }
            let what = || format!("the number of children of {path}");
            findings.compare(what, znode.num_children.to_string(), wanted.len().to_string());
        }
        let what = || "the number of znodes with a place for children".to_owned();
        findings.compare(what, self.children.used(), lists);
        let kept = self.cached_bytes.get();
        findings.compare(|| "the bytes of the cached lists".to_owned(), kept, cached_bytes);
    }
}

impl Children {
    /// Compares the cached names with the children; the bytes of these names.
    fn check(&self, index: &str, findings: &mut Findings) -> usize {
        let (bytes, agree) = self.check_names();
        if !agree {
            findings.listed_wrongly("the cached lists", index);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zoolet_protocol::{Acl, Names, Zxid};

    use super::*;
    use crate::acl::{AclList, AclLists};
    use crate::ephemeral_owner::EphemeralOwner;
    use crate::tree::children::ChildrenPlace;
    use crate::tree::names::CachedBytes;

    fn path(text: &str) -> ZPath {
        ZPath::parse(text).unwrap()
    }

    fn znode(text: &str, acl: AclList) -> Znode {
        Znode::created(path(text), None, acl, EphemeralOwner::default(), Zxid(1), 0)
    }

    /// `/a` with a child.
    fn filled() -> Tree {
        let mut tree = Tree::new();
        tree.insert(znode("/a", AclList::OPEN));
        tree.insert(znode("/a/b", AclList::OPEN));
        assert_eq!(found(&tree), [""; 0]);
        tree
    }

    /// The children of `/a`.
    fn children(tree: &mut Tree) -> &mut Children {
        let place = tree.get("/a").unwrap().children;
        tree.children.get_mut(place).unwrap()
    }

    fn found(tree: &Tree) -> Vec<String> {
        let mut findings = Findings::default();
        tree.check(&mut findings);
        findings.to_strings()
    }

    #[test]
    fn check_finds_a_child_that_its_parent_does_not_list() {
        let mut tree = filled();
        tree.update("/a", |znode| znode.children = ChildrenPlace::default());
        assert_eq!(
            found(&tree),
            [
                "the parents with children do not list /a",
                "the number of znodes with a place for children: 3 is kept, 2 is right",
            ]
        );

        let mut tree = filled();
        tree.insert(znode("/a/c", AclList::OPEN));
        children(&mut tree).remove(&path("/a/c"), &mut CachedBytes::default());
        assert_eq!(found(&tree), ["the children of /a do not list /a/c"]);
    }

    #[test]
    fn check_finds_a_listed_child_that_does_not_exist() {
        let mut tree = filled();
        children(&mut tree).insert(path("/a/gone"), &mut CachedBytes::default());
        let surplus = "the children of /a list /a/gone, which does not belong there";
        assert_eq!(found(&tree), [surplus]);
    }

    #[test]
    fn check_finds_a_wrong_number_of_children() {
        let mut tree = filled();
        tree.update("/a", |znode| znode.num_children = 2);
        assert_eq!(found(&tree), ["the number of children of /a: 2 is kept, 1 is right"]);
    }

    #[test]
    fn check_finds_a_znode_without_a_parent() {
        let mut tree = filled();
        tree.put(tree.find("/x/y"), || znode("/x/y", AclList::OPEN));
        assert_eq!(found(&tree), ["the parents do not list /x/y"]);
    }

    #[test]
    fn check_finds_a_path_with_two_znodes() {
        let mut tree = filled();
        tree.put(tree.find("/a/b"), || znode("/a/b", AclList::OPEN));
        assert_eq!(found(&tree), ["the znodes by path do not list /a/b"]);
    }

    #[test]
    fn check_finds_wrong_totals() {
        let mut tree = filled();
        tree.count += 1;
        tree.size_bytes -= 1;
        let (count, size_bytes) = (tree.count, tree.size_bytes);
        assert_eq!(
            found(&tree),
            [
                format!("the number of znodes: {count} is kept, {} is right", count - 1),
                format!(
                    "the bytes of paths and data: {size_bytes} is kept, {} is right",
                    size_bytes + 1
                ),
            ]
        );
    }

    #[test]
    fn check_finds_a_cached_list_that_is_out_of_date() {
        let mut tree = filled();
        for number in 0..1_000 {
            tree.insert(znode(&format!("/a/{number}"), AclList::OPEN));
        }
        tree.child_names("/a");
        assert_eq!(found(&tree), [""; 0]);

        let right = tree.cached_bytes.get();
        tree.cached_bytes.set(right + 1);
        let kept = right + 1;
        let wrong = format!("the bytes of the cached lists: {kept} is kept, {right} is right");
        assert_eq!(found(&tree), [wrong]);

        tree.cached_bytes.set(right);
        children(&mut tree).set_list(Names::EMPTY);
        let wrong = "the cached lists list the children of /a, which does not belong there";
        assert_eq!(found(&tree), [wrong]);
    }

    #[test]
    fn check_finds_an_access_control_list_that_is_not_the_shared_copy() {
        let mut tree = filled();
        let own = AclLists::default().intern(&Arc::from([Acl::open()]));
        tree.update("/a", |znode| znode.acl = own);
        assert_eq!(found(&tree), ["the shared access control lists do not list /a"]);
    }
}
