//! A plain tree in memory, to compare with: a common hash table by path, the parent's numbers, the names
//! of its children in another table, and the bytes of the reply.
//!
//! It does what a create and a delete are for and nothing else: it checks nothing that a client could have
//! done wrong, and has no sessions, access control lists, watches, quotas and order of children. It makes
//! no transaction, and cannot be frozen for a snapshot. It is no bound from below: where its tables grow,
//! they move all their entries.

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use hashbrown::{HashMap, HashSet};

/// The digits of a sequence number.
const DIGITS: usize = 10;

/// As many bytes as a znode has, but for its path, which is the key.
struct Node {
    data: Box<[u8]>,
    /// Versions, times, zxids and the number of children.
    numbers: [i64; 9],
    /// None until there is a child.
    children: Option<Box<HashSet<Arc<str>>>>,
}

/// The place of the sequence number among the numbers of a node.
const SEQUENCE: usize = 5;
/// The place of the last zxid of a child.
const LAST_ZXID: usize = 6;

/// A tree that does no more than it must.
pub(crate) struct Plain {
    nodes: HashMap<Arc<str>, Node>,
    zxid: i64,
    /// The path that is being created, so that it needs no memory of its own.
    path: String,
    /// The reply to the last request.
    reply: BytesMut,
}

impl Plain {
    /// A tree with one directory.
    pub(crate) fn new(directory: &str) -> Self {
        let (nodes, reply) = (HashMap::new(), BytesMut::with_capacity(256));
        let mut tree = Self { nodes, zxid: 0, path: String::new(), reply };
        tree.nodes.insert(directory.into(), tree.node(&[]));
        tree
    }

    fn node(&self, data: &[u8]) -> Node {
        Node { data: data.into(), numbers: [self.zxid; 9], children: None }
    }

    /// Creates a sequential node, and returns its path.
    pub(crate) fn create_sequential(&mut self, prefix: &str, data: &[u8]) -> Arc<str> {
        let mut number = self.parent(prefix).numbers[SEQUENCE];
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
        self.path.clear();
        self.path.push_str(prefix);
        self.path.extend(digits.map(char::from));
        let path = Arc::from(&*self.path);
        self.insert(&path, data);
        path
    }

    /// Creates a node with this path.
    pub(crate) fn create(&mut self, path: &str, data: &[u8]) {
        self.insert(&Arc::from(path), data);
    }

    fn insert(&mut self, path: &Arc<str>, data: &[u8]) {
        self.zxid += 1;
        let zxid = self.zxid;
        let parent = self.parent(path);
        parent.numbers[SEQUENCE] += 1;
        parent.numbers[LAST_ZXID] = zxid;
        parent.children.get_or_insert_default().insert(Arc::clone(path));
        let node = self.node(data);
        assert!(self.nodes.insert(Arc::clone(path), node).is_none(), "it is new");
        self.answer(Some(path));
    }

    /// Deletes a node.
    pub(crate) fn delete(&mut self, path: &str) {
        self.zxid += 1;
        let zxid = self.zxid;
        let node = self.nodes.remove(path).expect("it is there");
        assert!(node.children.is_none() && !node.data.is_empty(), "it is no directory");
        let parent = self.parent(path);
        parent.numbers[LAST_ZXID] = zxid;
        assert!(parent.children.as_mut().is_some_and(|children| children.remove(path)));
        self.answer(None);
    }

    fn parent(&mut self, path: &str) -> &mut Node {
        let slash = path.as_bytes().iter().rposition(|byte| *byte == b'/');
        self.nodes.get_mut(&path[..slash.expect("a path has a slash")]).expect("it is there")
    }

    /// The header of a reply: xid, zxid and error; and the path.
    fn answer(&mut self, path: Option<&str>) {
        self.reply.clear();
        self.reply.put_i32(1);
        self.reply.put_i64(self.zxid);
        self.reply.put_i32(0);
        if let Some(path) = path {
            self.reply.put_i32(path.len() as i32);
            self.reply.put_slice(path.as_bytes());
        }
    }
}
