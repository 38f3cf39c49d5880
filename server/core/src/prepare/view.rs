//! The tree as a decision sees it. Within a multi, an overlay shows the decisions about the earlier
//! operations. If the multi is refused, the overlay is dropped.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;
use zoolet_protocol::{ErrorCode, SessionId, ZPath, Zxid};

use crate::acl::{AclList, AclLists, Authorizer};
use crate::ephemeral_owner::{EphemeralOwner, EphemeralType};
use crate::tree::{Data, LookedUp, Place, Tree, Znode, or_root};
use crate::txn::{CreateTxn, TxnOp};

pub(super) struct View<'a> {
    tree: &'a Tree,
    /// `None` until an operation of a multi has changed something.
    overlay: Option<Overlay>,
    /// Decides what the requester may do.
    pub(super) authorizer: Authorizer<'a>,
    has_session: bool,
}

/// The most changed znodes that are looked for one after the other.
const COMPARED_MAX: usize = 8;

/// How many changed znodes are stored inline: the release of a lock changes one znode and its directory.
const CHANGED_INLINE: usize = 2;

/// The znodes that a multi has changed so far, each once.
#[derive(Default)]
struct Overlay {
    changed: SmallVec<[Changed; CHANGED_INLINE]>,
    /// Where each of them is, once they are more than [`COMPARED_MAX`].
    index: Option<HashMap<Arc<[u8]>, usize>>,
}

/// A znode that a multi has changed.
struct Changed {
    path: ZPath,
    /// `None` if it was deleted.
    znode: Option<Znode>,
    /// Where the tree has it, as far as that was looked up.
    place: Option<Place>,
}

impl Overlay {
    fn get(&self, path: &[u8]) -> Option<&Changed> {
        match &self.index {
            None => self.changed.iter().find(|changed| changed.path.as_bytes() == path),
            Some(index) => index.get(path).map(|place| &self.changed[*place]),
        }
    }

    fn put(&mut self, new: Changed) {
        let known = match &self.index {
            None => self.changed.iter().position(|changed| changed.path == new.path),
            Some(index) => index.get(new.path.as_bytes()).copied(),
        };
        if let Some(known) = known {
            self.changed[known] = new;
            return;
        }
        self.changed.push(new);
        if self.changed.len() > COMPARED_MAX {
            let index = self.index.get_or_insert_default();
            let rest = self.changed.iter().enumerate().skip(index.len());
            index.extend(rest.map(|(place, changed)| (changed.path.to_shared_bytes(), place)));
        }
    }
}

impl<'a> View<'a> {
    /// The tree without an overlay.
    pub(super) fn of(tree: &'a Tree, authorizer: Authorizer<'a>, has_session: bool) -> Self {
        Self { tree, overlay: None, authorizer, has_session }
    }

    /// `SessionExpired`, unless the session of the requester lives.
    pub(super) fn check_session(&self) -> Result<(), ErrorCode> {
        if self.has_session { Ok(()) } else { Err(ErrorCode::SESSION_EXPIRED) }
    }

    /// The znode at `path`.
    pub(super) fn get(&self, path: &str) -> Option<&Znode> {
        self.look_up(path.as_bytes()).1
    }

    /// The znode at `path`, and where the tree has it, whatever the overlay shows; unknown of a znode that
    /// an earlier operation has created.
    pub(super) fn look_up(&self, path: &[u8]) -> (Option<Place>, Option<&Znode>) {
        self.look_up_with(Tree::find_bytes, path)
    }

    /// [`View::look_up`] of a znode below which one is to be created or deleted.
    pub(super) fn look_up_parent(&self, path: &[u8]) -> (Option<Place>, Option<&Znode>) {
        self.look_up_with(Tree::find_parent, path)
    }

    fn look_up_with(
        &self,
        find: impl FnOnce(&Tree, &[u8]) -> Place,
        path: &[u8],
    ) -> (Option<Place>, Option<&Znode>) {
        let path = or_root(path);
        if let Some(overlay) = &self.overlay
            && let Some(changed) = overlay.get(path)
        {
            return (changed.place, changed.znode.as_ref());
        }
        let place = find(self.tree, path);
        (Some(place), self.tree.at(place))
    }

    /// Adds a decision to the overlay, with what was looked up for it.
    pub(super) fn assume(
        &mut self,
        op: &TxnOp,
        looked_up: LookedUp,
        session: SessionId,
        zxid: Zxid,
        time_ms: i64,
    ) {
        match op {
            TxnOp::Create(create) => {
                let parent = create.path.parent().expect("a decision never creates the root");
                self.change(parent, looked_up.parent(), |parent| {
                    parent.num_children += 1;
                    // In ZooKeeper the cversion of a parent in the overlay overflows, unlike a
                    // stored one.
                    parent.stat.cversion = create.parent_cversion;
                    parent.stat.pzxid = zxid;
                });
                let znode = created(create, session, zxid, time_ms);
                self.put(&create.path, Some(znode), None);
            }
            TxnOp::Delete { path } => {
                let parent = path.parent().expect("a decision never deletes the root");
                self.change(parent, looked_up.parent(), |parent| {
                    parent.num_children -= 1;
                    parent.stat.pzxid = zxid;
                });
                self.put(path, None, None);
            }
            TxnOp::SetData { path, data, version } => {
                self.change(path, looked_up.znode(), |znode| {
                    znode.data = data.as_deref().map(Data::copied);
                    znode.stat.version = *version;
                    znode.stat.mzxid = zxid;
                    znode.stat.mtime = time_ms;
                });
            }
            TxnOp::Check { .. } => {}
            other => unreachable!("{} is not an operation of a multi", other.op_code()),
        }
    }

    /// Changes a znode in the overlay. It is at this place of the tree, as far as that is known.
    fn change(&mut self, path: &str, known: Option<Place>, change: impl FnOnce(&mut Znode)) {
        let find = |tree: &Tree, path: &[u8]| known.unwrap_or_else(|| tree.find_bytes(path));
        let (place, znode) = self.look_up_with(find, path.as_bytes());
        let mut znode = znode.expect("a decision changes only znodes that exist").clone();
        change(&mut znode);
        let path = znode.path.clone();
        self.put(&path, Some(znode), place);
    }

    fn put(&mut self, path: &ZPath, znode: Option<Znode>, place: Option<Place>) {
        self.overlay.get_or_insert_default().put(Changed { path: path.clone(), znode, place });
    }
}

/// The created znode, as the later operations of the multi see it.
fn created(create: &CreateTxn, session: SessionId, zxid: Zxid, time_ms: i64) -> Znode {
    // A decision does not change the tree's shared lists, so this copy is not shared.
    let acl: AclList = AclLists::default().intern(&create.acl);
    let owner =
        EphemeralOwner::from(EphemeralType::of_created(create.kind, create.ephemeral, session));
    Znode::created(create.path.clone(), create.data.clone(), acl, owner, zxid, time_ms)
}
