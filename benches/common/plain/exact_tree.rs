//! A tree that keeps what every answer of ZooKeeper's protocol may show.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hashbrown::{HashMap, HashSet};
use zoolet::protocol::{ErrorCode, SessionId, Stat, Zxid};

use super::{Created, Kept, split};

/// A hash table of znodes.
#[derive(Debug)]
pub(super) struct ExactTree {
    /// By their paths. That of the root is empty.
    znodes: HashMap<Box<[u8]>, Znode>,
    sessions: HashMap<SessionId, Session>,
    zxid: i64,
    /// When requests were last read.
    now_ms: i64,
    /// The access control list of the last create: mostly that of the next one.
    last_acl: Arc<[u8]>,
}

#[derive(Debug)]
struct Znode {
    data: Box<[u8]>,
    /// Its `cversion` counts the creates of children only: that of the next is its sequence number.
    stat: Stat,
    #[expect(dead_code, reason = "a server keeps it, though nothing here asks for it")]
    acl: Arc<[u8]>,
    /// The names of the children, if it ever had one.
    names: Option<Box<HashSet<Box<[u8]>>>>,
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
            stat: Stat::default(),
            acl: Arc::clone(&last_acl),
            names: None,
        };
        Self {
            znodes: HashMap::from([(Box::default(), root)]),
            sessions: HashMap::new(),
            zxid: 0,
            now_ms: 0,
            last_acl,
        }
    }
}

impl Znode {
    /// The Stat as clients see it (`DataNode.copyStat`).
    fn stat(&self) -> Option<Stat> {
        let Stat { cversion, num_children, .. } = self.stat;
        Some(Stat { cversion: 2 * cversion - num_children, ..self.stat })
    }

    fn admits(&self, version: i32) -> Result<(), ErrorCode> {
        let is_it = version == -1 || version == self.stat.version;
        if is_it { Ok(()) } else { Err(ErrorCode::BAD_VERSION) }
    }
}

impl ExactTree {
    fn find(&self, path: &[u8]) -> Result<&Znode, ErrorCode> {
        self.znodes.get(key(path)).ok_or(ErrorCode::NO_NODE)
    }

    fn acl(&mut self, acl: &[u8]) -> Arc<[u8]> {
        if *self.last_acl != *acl {
            self.last_acl = acl.into();
        }
        Arc::clone(&self.last_acl)
    }

    fn delete_childless(&mut self, path: &[u8]) {
        let (parent, name) = split(path);
        let zxid = Zxid(self.zxid);
        if let Some(parent) = self.znodes.get_mut(parent) {
            if let Some(names) = &mut parent.names {
                names.remove(name);
            }
            parent.stat.num_children -= 1;
            parent.stat.pzxid = zxid;
        }
        self.znodes.remove(path);
    }
}

impl Kept for ExactTree {
    fn heard_of(&mut self, session: SessionId) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        self.sessions.entry(session).or_default().heard_ms = self.now_ms;
    }

    fn data(&self, path: &[u8]) -> Result<(&[u8], Option<Stat>), ErrorCode> {
        self.find(path).map(|znode| (&*znode.data, znode.stat()))
    }

    fn exists(&self, path: &[u8]) -> Result<Option<Stat>, ErrorCode> {
        self.find(path).map(Znode::stat)
    }

    fn set(&mut self, path: &[u8], data: &[u8], version: i32) -> Result<Option<Stat>, ErrorCode> {
        self.zxid += 1;
        let znode = self.znodes.get_mut(key(path)).ok_or(ErrorCode::NO_NODE)?;
        znode.admits(version)?;
        if znode.data.len() == data.len() {
            znode.data.copy_from_slice(data);
        } else {
            znode.data = data.into();
        }
        znode.stat.version = znode.stat.version.wrapping_add(1);
        znode.stat.mzxid = Zxid(self.zxid);
        znode.stat.mtime = self.now_ms;
        znode.stat.data_length = data.len() as i32;
        Ok(znode.stat())
    }

    fn create(&mut self, created: &Created<'_>) -> Result<Option<Stat>, ErrorCode> {
        let Created { path, data, acl, owner } = *created;
        self.zxid += 1;
        let zxid = Zxid(self.zxid);
        if !is_valid(path) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let (parent, name) = split(path);
        let parent = self.znodes.get_mut(parent).ok_or(ErrorCode::NO_NODE)?;
        if parent.stat.ephemeral_owner != SessionId::NONE {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        if !parent.names.get_or_insert_default().insert(name.into()) {
            return Err(ErrorCode::NODE_EXISTS);
        }
        parent.stat.cversion += 1;
        parent.stat.num_children += 1;
        parent.stat.pzxid = zxid;
        let stat = Stat {
            czxid: zxid,
            mzxid: zxid,
            ctime: self.now_ms,
            mtime: self.now_ms,
            ephemeral_owner: owner.unwrap_or(SessionId::NONE),
            data_length: data.len() as i32,
            pzxid: zxid,
            ..Stat::default()
        };
        if let Some(owner) = owner {
            self.sessions.entry(owner).or_default().ephemerals.insert(path.into());
        }
        let acl = self.acl(acl);
        self.znodes.insert(path.into(), Znode { data: data.into(), stat, acl, names: None });
        Ok(Some(stat))
    }

    fn delete(&mut self, path: &[u8], version: i32) -> Result<(), ErrorCode> {
        self.zxid += 1;
        let znode = self.find(path)?;
        znode.admits(version)?;
        if znode.stat.num_children > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        let owner = znode.stat.ephemeral_owner;
        if let Some(session) = self.sessions.get_mut(&owner) {
            session.ephemerals.remove(path);
        }
        self.delete_childless(path);
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
        self.find(split(path).0).map_or(0, |parent| i64::from(parent.stat.cversion))
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
        assert_eq!((tree.znodes.len(), tree.sessions.len()), (1, 0));
    }
}
