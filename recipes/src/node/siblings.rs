//! Which of the ephemerals of a client, that differ in nothing but the number of their names, belong
//! to a node.
//!
//! A sequential ephemeral whose create was not answered is found by its name, owner and data. Another
//! node of the same client may have created one with all of these. So the nodes of a client at one
//! path share a [`Siblings`], which has the names that are taken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use zoolet_protocol::Zxid;

use crate::client::Client;
use crate::client::recipe::ClientId;

/// A client, and the path as the server names it, without the number.
type Key = (ClientId, String);

static ALL: LazyLock<Mutex<HashMap<Key, Weak<Siblings>>>> = LazyLock::new(Mutex::default);

/// The nodes of a client that have the same path but for the number.
pub(super) struct Siblings {
    key: Key,
    /// Several creates may be on their way at a time. A node that looks for its own znode waits until
    /// each of them is answered or lost: then a znode whose name no node has is of a create whose reply
    /// was lost.
    gate: RwLock<()>,
    /// The znodes that belong to a node, by their paths at the server. Another znode may have the
    /// path by now.
    taken: Mutex<HashMap<String, Taken>>,
}

/// A znode that belongs to a node.
struct Taken {
    czxid: Zxid,
    node: Sibling,
}

/// One of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sibling(u64);

impl Sibling {
    /// Another one than all before.
    pub(super) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl Siblings {
    /// Those of the nodes of a client at a path without a number.
    pub(super) fn of(client: &Client, path: &str) -> Arc<Self> {
        let key = (client.id(), client.server_path(path));
        let mut all = ALL.lock();
        if let Some(siblings) = all.get(&key).and_then(Weak::upgrade) {
            return siblings;
        }
        let (gate, taken) = (RwLock::new(()), Mutex::default());
        let siblings = Arc::new(Self { key: key.clone(), gate, taken });
        all.insert(key, Arc::downgrade(&siblings));
        siblings
    }

    /// To be held from before a create is sent until its name is taken, or the create is lost.
    pub(super) async fn creating(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// To be held while a znode is looked for.
    pub(super) async fn looking(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }

    /// Takes a znode, unless another node has it. Returns whether it is this node's.
    pub(super) fn take(&self, node: Sibling, client: &Client, path: &str, czxid: Zxid) -> bool {
        let mut taken = self.taken.lock();
        let path = client.server_path(path);
        if taken.get(&path).is_some_and(|taken| taken.czxid == czxid && taken.node != node) {
            return false;
        }
        taken.insert(path, Taken { czxid, node });
        true
    }

    /// Gives back a znode that is gone.
    pub(super) fn give_back(&self, node: Sibling, client: &Client, path: &str) {
        let mut taken = self.taken.lock();
        let path = client.server_path(path);
        if taken.get(&path).is_some_and(|taken| taken.node == node) {
            taken.remove(&path);
        }
    }
}

impl Drop for Siblings {
    fn drop(&mut self) {
        let mut all = ALL.lock();
        // A node that was started meanwhile has others.
        if all.get(&self.key).is_some_and(|siblings| siblings.strong_count() == 0) {
            all.remove(&self.key);
        }
    }
}
