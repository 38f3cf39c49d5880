//! A tree that keeps what every answer of ZooKeeper's protocol may show.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hashbrown::hash_map::EntryRef;
use hashbrown::{HashMap, HashSet};
use zoolet::protocol::{ErrorCode, SessionId, Stat, Zxid};

use super::{Created, Kept, split};

/// A hash table of directories, each a hash table of names with their znodes: a create or a delete finds
/// its directory and its name once.
#[derive(Debug)]
pub(super) struct ExactTree {
    root: Znode,
    /// The znodes that have had children, by their paths. That of the root is empty.
    directories: HashMap<Box<[u8]>, Directory>,
    sessions: HashMap<SessionId, Session>,
    zxid: i64,
    /// When requests were last read.
    now_ms: i64,
    /// The access control list of the last create: mostly that of the next one.
    last_acl: Arc<[u8]>,
}

/// The children of a znode, and what they change of its Stat.
#[derive(Debug, Default)]
struct Directory {
    znodes: HashMap<Box<[u8]>, Znode>,
    /// The number of creates: the sequence number of the next.
    creates: i32,
    pzxid: Zxid,
}

#[derive(Debug)]
struct Znode {
    data: Box<[u8]>,
    czxid: Zxid,
    mzxid: Zxid,
    ctime: i64,
    mtime: i64,
    owner: SessionId,
    version: i32,
    is_directory: bool,
    #[expect(dead_code, reason = "a server keeps it, though nothing here asks for it")]
    acl: Arc<[u8]>,
}

#[derive(Debug, Default)]
struct Session {
    heard_ms: i64,
    ephemerals: HashSet<Box<[u8]>>,
}

impl Default for ExactTree {
    fn default() -> Self {
        let last_acl = Arc::from(&[][..]);
        let root = Znode {
            data: Box::default(),
            czxid: Zxid::ZERO,
            mzxid: Zxid::ZERO,
            ctime: 0,
            mtime: 0,
            owner: SessionId::NONE,
            version: 0,
            is_directory: true,
            acl: Arc::clone(&last_acl),
        };
        Self {
            root,
            directories: HashMap::from([(Box::default(), Directory::default())]),
            sessions: HashMap::new(),
            zxid: 0,
            now_ms: 0,
            last_acl,
        }
    }
}

impl Znode {
    /// The Stat as clients see it (`DataNode.copyStat`).
    fn stat(&self, directory: Option<&Directory>) -> Stat {
        let children = directory.map_or(0, |directory| directory.znodes.len() as i32);
        let creates = directory.map_or(0, |directory| directory.creates);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: 2 * creates - children,
            ephemeral_owner: self.owner,
            data_length: self.data.len() as i32,
            num_children: children,
            pzxid: directory.map_or(self.czxid, |directory| directory.pzxid),
            ..Stat::default()
        }
    }

    fn admits(&self, version: i32) -> Result<(), ErrorCode> {
        let is_it = version == -1 || version == self.version;
        if is_it { Ok(()) } else { Err(ErrorCode::BAD_VERSION) }
    }
}

impl ExactTree {
    fn find(&self, path: &[u8]) -> Result<&Znode, ErrorCode> {
        if path.is_empty() {
            return Ok(&self.root);
        }
        let (parent, name) = split(path);
        let directory = self.directories.get(parent);
        directory.and_then(|directory| directory.znodes.get(name)).ok_or(ErrorCode::NO_NODE)
    }

    fn find_mut(&mut self, path: &[u8]) -> Result<&mut Znode, ErrorCode> {
        if path.is_empty() {
            return Ok(&mut self.root);
        }
        let (parent, name) = split(path);
        let directory = self.directories.get_mut(parent);
        directory.and_then(|directory| directory.znodes.get_mut(name)).ok_or(ErrorCode::NO_NODE)
    }

    fn stat(&self, path: &[u8], znode: &Znode) -> Option<Stat> {
        let directory = znode.is_directory.then(|| self.directories.get(path)).flatten();
        Some(znode.stat(directory))
    }

    /// The directory of a znode, which it is from its first child on.
    fn directory(&mut self, path: &[u8]) -> Result<&mut Directory, ErrorCode> {
        if !self.directories.contains_key(path) {
            let znode = self.find_mut(path)?;
            if znode.owner != SessionId::NONE {
                return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
            }
            znode.is_directory = true;
            self.directories.insert(path.into(), Directory::default());
        }
        self.directories.get_mut(path).ok_or(ErrorCode::NO_NODE)
    }

    /// Deletes a znode that has had children, if it has none.
    fn delete_directory(&mut self, path: &[u8]) -> Result<(), ErrorCode> {
        if self.directories.get(path).is_some_and(|directory| !directory.znodes.is_empty()) {
            return Err(ErrorCode::NOT_EMPTY);
        }
        self.directories.remove(path);
        self.delete_childless(path);
        Ok(())
    }

    fn delete_childless(&mut self, path: &[u8]) {
        let (parent, name) = split(path);
        if let Some(directory) = self.directories.get_mut(parent) {
            directory.znodes.remove(name);
            directory.pzxid = Zxid(self.zxid);
        }
    }

    fn acl(&mut self, acl: &[u8]) -> Arc<[u8]> {
        if *self.last_acl != *acl {
            self.last_acl = acl.into();
        }
        Arc::clone(&self.last_acl)
    }
}

impl Kept for ExactTree {
    fn heard_of(&mut self, session: SessionId) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        self.sessions.entry(session).or_default().heard_ms = self.now_ms;
    }

    fn data(&self, path: &[u8]) -> Result<(&[u8], Option<Stat>), ErrorCode> {
        let path = key(path);
        self.find(path).map(|znode| (&*znode.data, self.stat(path, znode)))
    }

    fn exists(&self, path: &[u8]) -> Result<Option<Stat>, ErrorCode> {
        let path = key(path);
        self.find(path).map(|znode| self.stat(path, znode))
    }

    fn set(&mut self, path: &[u8], data: &[u8], version: i32) -> Result<Option<Stat>, ErrorCode> {
        self.zxid += 1;
        let (path, zxid, now_ms) = (key(path), Zxid(self.zxid), self.now_ms);
        let znode = self.find_mut(path)?;
        znode.admits(version)?;
        if znode.data.len() == data.len() {
            znode.data.copy_from_slice(data);
        } else {
            znode.data = data.into();
        }
        znode.version = znode.version.wrapping_add(1);
        znode.mzxid = zxid;
        znode.mtime = now_ms;
        if !znode.is_directory {
            return Ok(Some(znode.stat(None)));
        }
        self.exists(path)
    }

    fn create(&mut self, created: &Created<'_>) -> Result<Option<Stat>, ErrorCode> {
        let Created { path, data, acl, owner } = *created;
        self.zxid += 1;
        let (zxid, now_ms) = (Zxid(self.zxid), self.now_ms);
        if !is_valid(path) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let acl = self.acl(acl);
        let (parent, name) = split(path);
        // Mostly one has it.
        let directory = match self.directories.get_mut(parent) {
            Some(directory) => directory,
            None => self.directory(parent)?,
        };
        let EntryRef::Vacant(place) = directory.znodes.entry_ref(name) else {
            return Err(ErrorCode::NODE_EXISTS);
        };
        let znode = Znode {
            data: data.into(),
            czxid: zxid,
            mzxid: zxid,
            ctime: now_ms,
            mtime: now_ms,
            owner: owner.unwrap_or(SessionId::NONE),
            version: 0,
            is_directory: false,
            acl,
        };
        let stat = znode.stat(None);
        place.insert_with_key(name.into(), znode);
        directory.creates += 1;
        directory.pzxid = zxid;
        if let Some(owner) = owner {
            self.sessions.entry(owner).or_default().ephemerals.insert(path.into());
        }
        Ok(Some(stat))
    }

    fn delete(&mut self, path: &[u8], version: i32) -> Result<(), ErrorCode> {
        self.zxid += 1;
        let (parent, name) = split(path);
        let directory = self.directories.get_mut(parent).ok_or(ErrorCode::NO_NODE)?;
        let EntryRef::Occupied(entry) = directory.znodes.entry_ref(name) else {
            return Err(ErrorCode::NO_NODE);
        };
        let znode = entry.get();
        znode.admits(version)?;
        let owner = znode.owner;
        if znode.is_directory {
            return self.delete_directory(path);
        }
        entry.remove();
        directory.pzxid = Zxid(self.zxid);
        if let Some(session) = self.sessions.get_mut(&owner) {
            session.ephemerals.remove(path);
        }
        Ok(())
    }

    fn close(&mut self, session: SessionId) {
        self.zxid += 1;
        let ended = self.sessions.remove(&session).unwrap_or_default();
        for path in &ended.ephemerals {
            self.delete_childless(path);
        }
    }

    fn next_number(&mut self, path: &[u8]) -> i64 {
        self.directories.get(split(path).0).map_or(0, |directory| i64::from(directory.creates))
    }

    fn zxid(&self) -> i64 {
        self.zxid
    }
}

/// The path in the table.
fn key(path: &[u8]) -> &[u8] {
    if path == b"/" { &[] } else { path }
}

/// Whether a path begins with a slash, ends with none, and has no empty name and no null character.
fn is_valid(path: &[u8]) -> bool {
    let mut last = b' ';
    let has_names = path.iter().all(|&byte| {
        let is_right = byte != 0 && !(byte == b'/' && last == b'/');
        last = byte;
        is_right
    });
    has_names && last != b'/' && path.first() == Some(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(tree: &mut ExactTree, path: &str, owner: Option<SessionId>) -> Result<(), ErrorCode> {
        let created = Created { path: path.as_bytes(), data: b"1234", acl: b"", owner };
        tree.create(&created).map(|_| ())
    }

    #[test]
    fn its_answers_are_those_of_zookeeper() {
        let (mut tree, session) = (ExactTree::default(), SessionId(7));
        tree.heard_of(session);
        assert_eq!(create(&mut tree, "/a/b", None), Err(ErrorCode::NO_NODE));
        assert_eq!(create(&mut tree, "/a", None), Ok(()));
        assert_eq!(create(&mut tree, "/a", None), Err(ErrorCode::NODE_EXISTS));
        assert_eq!(create(&mut tree, "/a//b", None), Err(ErrorCode::BAD_ARGUMENTS));
        assert_eq!(create(&mut tree, "/a/b", Some(session)), Ok(()));
        let below = create(&mut tree, "/a/b/c", None);
        assert_eq!(below, Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS));
        assert_eq!(tree.delete(b"/a", -1), Err(ErrorCode::NOT_EMPTY));
        assert_eq!(tree.set(b"/a", b"12", 1), Err(ErrorCode::BAD_VERSION));
        let set = tree.set(b"/a", b"12", 0).unwrap().unwrap();
        assert_eq!((set.version, set.data_length, set.num_children), (1, 2, 1));
        assert_eq!((set.czxid, set.pzxid, set.mzxid), (Zxid(2), Zxid(5), Zxid(9)));
        assert_eq!((set.cversion, tree.next_number(b"/a/n-")), (1, 1));

        tree.close(session);
        assert_eq!(tree.exists(b"/a/b"), Err(ErrorCode::NO_NODE));
        assert_eq!(tree.exists(b"/a").unwrap().unwrap().cversion, 2);
        assert_eq!(tree.delete(b"/a", 1), Ok(()));
        assert_eq!(tree.exists(b"/").unwrap().unwrap().num_children, 0);
        assert_eq!((tree.directories.len(), tree.sessions.len()), (1, 0));
    }
}
