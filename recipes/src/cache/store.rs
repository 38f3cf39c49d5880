//! The znodes of a cache, by path.

use std::collections::BTreeMap;
use std::ops::Bound;

use zoolet_protocol::Zxid;

use super::limits::ZNODE_OVERHEAD_BYTES;
use super::znode::Record;

/// The znodes of a cache in the order of their paths, in which a znode comes before its
/// descendants.
#[derive(Debug, Default)]
pub(crate) struct Store {
    znodes: BTreeMap<Box<str>, Record>,
    bytes: usize,
}

impl Store {
    pub(crate) fn len(&self) -> usize {
        self.znodes.len()
    }

    /// The memory that the znodes take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Record> {
        self.znodes.get(path)
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.znodes.contains_key(path)
    }

    /// Adds a znode, or replaces it. Returns what was there.
    pub(crate) fn insert(&mut self, path: &str, record: Record) -> Option<Record> {
        self.bytes += size_of_znode(path, &record);
        let before = match self.znodes.get_mut(path) {
            Some(known) => Some(std::mem::replace(known, record)),
            None => self.znodes.insert(path.into(), record),
        };
        if let Some(before) = &before {
            self.bytes -= size_of_znode(path, before);
        }
        before
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<Record> {
        let removed = self.znodes.remove(path)?;
        self.bytes -= size_of_znode(path, &removed);
        Some(removed)
    }

    /// Notes that all changes of the children of a znode up to a zxid are in the cache.
    pub(crate) fn raise_pzxid(&mut self, path: &str, pzxid: Zxid) {
        if let Some(record) = self.znodes.get_mut(path)
            && record.pzxid() < pzxid
        {
            record.set_pzxid(pzxid);
        }
    }

    /// The znodes after a path, or all of them, in the order of their paths.
    pub(crate) fn iter_after(&self, path: Option<&str>) -> impl Iterator<Item = (&str, &Record)> {
        self.iter_from(path.map_or(Bound::Unbounded, Bound::Excluded))
    }

    fn iter_from<'a>(&'a self, from: Bound<&str>) -> impl Iterator<Item = (&'a str, &'a Record)> {
        let range = self.znodes.range::<str, (Bound<&str>, Bound<&str>)>((from, Bound::Unbounded));
        range.map(|(path, record)| (&**path, record))
    }

    /// All znodes in the order of their paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.iter_from(Bound::Unbounded)
    }

    /// The children of a znode that are in the cache, with their names.
    pub(crate) fn children(&self, path: &str) -> impl Iterator<Item = (&str, &Record)> {
        let prefix = prefix_of(path);
        let mut from = Bound::Included(prefix.clone());
        std::iter::from_fn(move || {
            loop {
                let start = from.as_ref().map(String::as_str);
                let (found, record) = self.iter_from(start).next()?;
                let name = found.strip_prefix(prefix.as_str())?;
                match name.split_once('/') {
                    // The root itself, in the list of its own children.
                    None if name.is_empty() => from = Bound::Excluded(found.to_owned()),
                    None => {
                        from = Bound::Excluded(found.to_owned());
                        return Some((name, record));
                    }
                    // Skips the descendants of this child: '0' follows '/'.
                    Some((child, _)) => from = Bound::Included(format!("{prefix}{child}0")),
                }
            }
        })
    }

    /// The paths below a znode, without its own, in their order.
    pub(crate) fn descendants(&self, path: &str) -> Vec<Box<str>> {
        let prefix = prefix_of(path);
        let below = self.iter_from(Bound::Included(prefix.as_str()));
        let below = below.take_while(|(found, _)| found.starts_with(prefix.as_str()));
        below.map(|(found, _)| found).filter(|found| *found != path).map(Box::from).collect()
    }
}

/// What the paths of a znode's descendants begin with.
fn prefix_of(path: &str) -> String {
    if path == "/" { path.to_owned() } else { format!("{path}/") }
}

/// The path of a child.
pub(crate) fn child_path(path: &str, name: &str) -> String {
    if path == "/" { format!("/{name}") } else { format!("{path}/{name}") }
}

/// The path of the parent; `None` for the root of the tree.
pub(crate) fn parent_path(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}

fn size_of_znode(path: &str, record: &Record) -> usize {
    ZNODE_OVERHEAD_BYTES + path.len() + record.len()
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::Stat;

    use super::*;

    fn store(paths: &[&str]) -> Store {
        let mut store = Store::default();
        for path in paths {
            store.insert(path, Record::new(&Stat::default(), b""));
        }
        store
    }

    #[test]
    fn children_are_found_among_descendants_and_names_that_continue_theirs() {
        let store =
            store(&["/", "/a", "/a-b", "/a-b/x", "/a/b", "/a/b-c", "/a/b/x", "/a/b/y", "/a0"]);
        let children = |path| store.children(path).map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(children("/"), ["a", "a-b", "a0"]);
        assert_eq!(children("/a"), ["b", "b-c"]);
        assert_eq!(children("/a/b"), ["x", "y"]);
        assert!(children("/a/b/x").is_empty());
        let below: Vec<_> = store.descendants("/a");
        assert_eq!(below, ["/a/b", "/a/b-c", "/a/b/x", "/a/b/y"].map(Box::from));
        assert_eq!(store.descendants("/").len(), 8);
    }

    #[test]
    fn the_bytes_are_those_of_the_znodes_that_are_there() {
        let mut store = store(&["/a", "/b"]);
        let before = store.bytes();
        store.insert("/b", Record::new(&Stat::default(), &[0; 100]));
        assert_eq!(store.bytes(), before + 100);
        store.remove("/a");
        store.remove("/b");
        assert_eq!((store.bytes(), store.len()), (0, 0));
    }
}
