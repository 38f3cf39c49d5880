//! The tree as a decision sees it. Within a multi, an overlay shows the decisions about the earlier
//! operations. If the multi is refused, the overlay is dropped.

use hashbrown::HashMap;
use zoolet_protocol::{SessionId, Zxid};

use crate::acl::{AclList, AclLists, Authorizer};
use crate::ephemeral_owner::{EphemeralOwner, EphemeralType};
use crate::tree::{Data, Place, Tree, Znode};
use crate::txn::{CreateTxn, TxnOp};

pub(super) struct View<'a> {
    tree: &'a Tree,
    /// The changed znodes by path, of which a deleted one is `None`. There is none outside a multi.
    overlay: Option<HashMap<String, Option<Znode>>>,
    /// Decides what the requester may do.
    pub(super) authorizer: Authorizer<'a>,
}

impl<'a> View<'a> {
    /// The tree without an overlay.
    pub(super) fn of(tree: &'a Tree, authorizer: Authorizer<'a>) -> Self {
        Self { tree, overlay: None, authorizer }
    }

    /// The znode at `path`.
    pub(super) fn get(&self, path: &str) -> Option<&Znode> {
        let Some(overlay) = &self.overlay else { return self.tree.get(path) };
        let path = if path.is_empty() { "/" } else { path };
        match overlay.get(path) {
            Some(changed) => changed.as_ref(),
            None => self.tree.get(path),
        }
    }

    /// The znode at `path`, and where the tree has it: unknown if the overlay may hide that.
    pub(super) fn look_up(&self, path: &str) -> (Option<Place>, Option<&Znode>) {
        self.look_up_with(Tree::find, path)
    }

    /// [`View::look_up`] of a znode below which one is to be created or deleted.
    pub(super) fn look_up_parent(&self, path: &str) -> (Option<Place>, Option<&Znode>) {
        self.look_up_with(Tree::find_parent, path)
    }

    fn look_up_with(
        &self,
        find: impl FnOnce(&Tree, &str) -> Place,
        path: &str,
    ) -> (Option<Place>, Option<&Znode>) {
        if self.overlay.is_some() {
            return (None, self.get(path));
        }
        let place = find(self.tree, path);
        (Some(place), self.tree.at(place))
    }

    /// Adds a decision to the overlay.
    pub(super) fn assume(&mut self, op: &TxnOp, session: SessionId, zxid: Zxid, time_ms: i64) {
        match op {
            TxnOp::Create(create) => {
                let parent = create.path.parent().expect("a decision never creates the root");
                self.change(parent, |parent| {
                    parent.num_children += 1;
                    // In ZooKeeper the cversion of a parent in the overlay overflows, unlike a
                    // stored one.
                    parent.stat.cversion = create.parent_cversion;
                    parent.stat.pzxid = zxid;
                });
                let znode = created(create, session, zxid, time_ms);
                self.put(&create.path, Some(znode));
            }
            TxnOp::Delete { path } => {
                let parent = path.parent().expect("a decision never deletes the root");
                self.change(parent, |parent| {
                    parent.num_children -= 1;
                    parent.stat.pzxid = zxid;
                });
                self.put(path, None);
            }
            TxnOp::SetData { path, data, version } => self.change(path, |znode| {
                znode.data = data.as_deref().map(Data::copied);
                znode.stat.version = *version;
                znode.stat.mzxid = zxid;
                znode.stat.mtime = time_ms;
            }),
            TxnOp::Check { .. } => {}
            other => unreachable!("{} is not an operation of a multi", other.op_code()),
        }
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut Znode)) {
        let mut znode = self.get(path).expect("a decision changes only znodes that exist").clone();
        change(&mut znode);
        self.put(path, Some(znode));
    }

    fn put(&mut self, path: &str, znode: Option<Znode>) {
        self.overlay.get_or_insert_default().insert(path.to_owned(), znode);
    }
}

/// The created znode, as the later operations of the multi see it.
fn created(create: &CreateTxn, session: SessionId, zxid: Zxid, time_ms: i64) -> Znode {
    // A decision does not change the tree's shared lists, so this copy is not shared.
    let acl: AclList = AclLists::default().intern(&create.acl);
    let owner =
        EphemeralOwner::from(EphemeralType::of_created(create.kind, create.ephemeral, session));
    let data = create.data.as_deref().map(Data::copied);
    Znode::created(create.path.clone(), data, acl, owner, zxid, time_ms)
}
