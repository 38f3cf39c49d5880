//! A tree that keeps data, and nothing else.

use hashbrown::HashMap;
use zoolet::protocol::{ErrorCode, Stat};

use super::{Created, Kept, split};

/// A hash table of directories, each a hash table of names with their data.
#[derive(Debug, Default)]
pub(super) struct PlainTree {
    directories: HashMap<Vec<u8>, Directory>,
    zxid: i64,
}

#[derive(Debug, Default)]
struct Directory {
    names: HashMap<Box<[u8]>, Box<[u8]>>,
    next_number: i64,
}

impl PlainTree {
    /// The directory of a path, and the name in it. A directory is known from its first name on.
    fn directory<'a>(&mut self, path: &'a [u8]) -> (&mut Directory, &'a [u8]) {
        let (parent, name) = split(path);
        (self.directories.entry_ref(parent).or_default(), name)
    }
}

impl Kept for PlainTree {
    fn data(&self, path: &[u8]) -> Result<(&[u8], Option<Stat>), ErrorCode> {
        let (parent, name) = split(path);
        let data = self.directories.get(parent).and_then(|directory| directory.names.get(name));
        data.map(|data| (&**data, None)).ok_or(ErrorCode::NO_NODE)
    }

    /// Every znode does.
    fn exists(&self, _: &[u8]) -> Result<Option<Stat>, ErrorCode> {
        Ok(None)
    }

    fn set(&mut self, path: &[u8], data: &[u8], _: i32) -> Result<Option<Stat>, ErrorCode> {
        self.zxid += 1;
        let (directory, name) = self.directory(path);
        match directory.names.get_mut(name) {
            // As long as before, mostly: in its place.
            Some(kept) if kept.len() == data.len() => kept.copy_from_slice(data),
            Some(kept) => *kept = data.into(),
            None => {}
        }
        Ok(None)
    }

    fn create(&mut self, created: &Created<'_>) -> Result<Option<Stat>, ErrorCode> {
        self.zxid += 1;
        let (directory, name) = self.directory(created.path);
        directory.names.insert(name.into(), created.data.into());
        Ok(None)
    }

    fn delete(&mut self, path: &[u8], _: i32) -> Result<(), ErrorCode> {
        self.zxid += 1;
        let (directory, name) = self.directory(path);
        directory.names.remove(name);
        Ok(())
    }

    fn next_number(&mut self, path: &[u8]) -> i64 {
        let (directory, _) = self.directory(path);
        directory.next_number += 1;
        directory.next_number - 1
    }

    fn zxid(&self) -> i64 {
        self.zxid
    }
}
