//! Which of the ephemerals of a client, that differ in nothing but the number of their names, belong
//! to a node.
//!
//! A sequential ephemeral whose create was not answered is found by its name, owner and data. Another
//! node of the same client may have created one with all of these. So the nodes of a client at one
//! path share a [`Siblings`], which has the names that are taken.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::client::Client;
use crate::client::recipe::ClientId;

/// A client, and the path as the server names it, without the number.
type Key = (ClientId, String);

static ALL: LazyLock<Mutex<HashMap<Key, Weak<Siblings>>>> = LazyLock::new(Mutex::default);

/// The nodes of a client that have the same path but for the number.
pub(super) struct Siblings {
    key: Key,
    /// Several creates may be on their way at a time. Whoever looks for its own znode waits until
    /// each of them is answered and has its name, or is lost: then a name that is not taken is of a
    /// create that was lost.
    gate: RwLock<()>,
    /// The names that belong to a node, as paths of the server.
    taken: Mutex<HashSet<String>>,
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

    /// Takes the name of a znode. Returns whether nobody had it.
    pub(super) fn take(&self, client: &Client, path: &str) -> bool {
        self.taken.lock().insert(client.server_path(path))
    }

    /// Gives a name back whose znode is deleted.
    pub(super) fn give_back(&self, client: &Client, path: &str) {
        self.taken.lock().remove(&client.server_path(path));
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
