//! The tree as a decision sees it: as it is, or, within a multi, with what the operations before
//! it decided laid over it. A refusal throws the overlay away.

use hashbrown::HashMap;
use zoolet_protocol::{SessionId, Zxid};

use crate::acl::{AclList, AclLists, Judge};
use crate::owner::{EphemeralOwner, Owner};
use crate::tree::{Tree, Znode};
use crate::txn::{CreateTxn, TxnOp};

pub(super) struct View<'a> {
    tree: &'a Tree,
    /// Changed znodes by path; `None` where one was deleted.
    overlay: HashMap<String, Option<Znode>>,
    /// What whoever asks may do.
    pub(super) judge: Judge<'a>,
}

impl<'a> View<'a> {
    /// The tree as it is.
    pub(super) fn of(tree: &'a Tree, judge: Judge<'a>) -> Self {
        Self { tree, overlay: HashMap::new(), judge }
    }

    pub(super) fn get(&self, path: &str) -> Option<&Znode> {
        if self.overlay.is_empty() {
            return self.tree.get(path);
        }
        let path = if path.is_empty() { "/" } else { path };
        match self.overlay.get(path) {
            Some(changed) => changed.as_ref(),
            None => self.tree.get(path),
        }
    }

    /// Lays a decision over the tree.
    pub(super) fn assume(&mut self, op: &TxnOp, session: SessionId, zxid: Zxid, time_ms: i64) {
        match op {
            TxnOp::Create(create) => {
                let parent = create.path.parent().expect("the root exists and is not created");
                self.change(parent, |parent| {
                    parent.num_children += 1;
                    // A parent in the overlay counts on where the stored counter would stay.
                    parent.stat.cversion = create.parent_cversion;
                    parent.stat.pzxid = zxid;
                });
                let znode = created(create, session, zxid, time_ms);
                self.overlay.insert(create.path.to_string(), Some(znode));
            }
            TxnOp::Delete { path } => {
                let parent = path.parent().expect("the root is never deleted");
                self.change(parent, |parent| {
                    parent.num_children -= 1;
                    parent.stat.pzxid = zxid;
                });
                self.overlay.insert(path.to_string(), None);
            }
            TxnOp::SetData { path, data, version } => self.change(path, |znode| {
                znode.data.clone_from(data);
                znode.stat.version = *version;
                znode.stat.mzxid = zxid;
                znode.stat.mtime = time_ms;
            }),
            TxnOp::Check { .. } => {}
            other => unreachable!("{} does not stand in a multi", other.op_code()),
        }
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut Znode)) {
        let mut znode = self.get(path).expect("a decision changes what it saw").clone();
        change(&mut znode);
        self.overlay.insert(path.to_owned(), Some(znode));
    }
}

/// The znode that a create makes, for later operations of the same multi.
fn created(create: &CreateTxn, session: SessionId, zxid: Zxid, time_ms: i64) -> Znode {
    // The lists of the tree are not touched by a decision, so this list is the view's own.
    let acl: AclList = AclLists::default().intern(&create.acl);
    let owner = EphemeralOwner::from(Owner::of_created(create.kind, create.ephemeral, session));
    Znode::created(create.path.clone(), create.data.clone(), acl, owner, zxid, time_ms)
}
