//! Makes a state machine from the contents of a snapshot.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Acl, SessionId, ZPath, Zxid};

use crate::acl::AclList;
use crate::core::Core;
use crate::quota::{QuotaZnode, Quotas};
use crate::settings::Settings;
use crate::tree::{Data, LookedUp, StatPersisted, Tree, Znode};

/// Takes the parts of a snapshot in their order and makes a [`Core`] of them.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_core::{Core, StatPersisted, Restore, Settings};
/// use zoolet_protocol::{SessionId, ZPath, Zxid};
///
/// # fn main() -> Result<(), zoolet_core::RestoreError> {
/// let mut restore = Restore::new(Settings::default());
/// restore.session(SessionId(1), 30_000);
/// restore.znode(ZPath::root(), Some(Bytes::new()), None, StatPersisted::default())?;
/// let restored = restore.finish(Zxid(7))?;
/// assert_eq!(restored.built_ins_added, 3);
/// assert_eq!(restored.core.last_zxid(), Zxid(7));
/// assert!(restored.core.has_session(SessionId(1)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Restore {
    core: Core,
    has_root: bool,
}

/// The result of a [`Restore`].
///
/// ```
/// use zoolet_core::{StatPersisted, Restore, Settings};
/// use zoolet_protocol::{ZPath, Zxid};
///
/// # fn main() -> Result<(), zoolet_core::RestoreError> {
/// let mut restore = Restore::new(Settings::default());
/// restore.znode(ZPath::root(), None, None, StatPersisted::default())?;
/// assert_eq!(restore.finish(Zxid(7))?.core.totals().sessions, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Restored {
    /// The state of the snapshot.
    pub core: Core,
    /// The number of built-in znodes that the snapshot did not contain, and that were created.
    pub built_ins_added: usize,
}

/// Why the contents of a snapshot are not a tree.
///
/// ```
/// use zoolet_core::{StatPersisted, Restore, Settings};
/// use zoolet_protocol::ZPath;
///
/// let path = ZPath::parse("/a/b").unwrap();
/// let mut restore = Restore::new(Settings::default());
/// let error = restore.znode(path, None, None, StatPersisted::default()).unwrap_err();
/// assert_eq!(error.to_string(), "the snapshot has /a/b before its parent");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A znode comes before its parent, or has none.
    #[error("the snapshot has {0} before its parent")]
    ParentMissing(ZPath),
    /// A path comes twice.
    #[error("the snapshot has {0} twice")]
    Twice(ZPath),
    /// There is no root.
    #[error("the snapshot has no root")]
    RootMissing,
}

impl Restore {
    /// Starts with an empty state machine.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { core: Core::new(settings), has_root: false }
    }

    /// Adds a session and its timeout in milliseconds.
    pub fn session(&mut self, session: SessionId, timeout_ms: i32) {
        self.core.sessions.create(session, timeout_ms);
    }

    /// Adds a znode. The root comes first, and every other znode after its parent. `acl` is `None`
    /// for [`AclList::OPEN`], which snapshots do not store.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] if the znode comes before its parent, or twice.
    pub fn znode(
        &mut self,
        path: ZPath,
        data: Option<Bytes>,
        acl: Option<Arc<[Acl]>>,
        stat: StatPersisted,
    ) -> Result<(), RestoreError> {
        let data = data.as_deref().map(Data::copied);
        if path.is_root() {
            if std::mem::replace(&mut self.has_root, true) {
                return Err(RestoreError::Twice(path));
            }
            let mut root = Znode::restored(path, data, AclList::OPEN, stat);
            self.core.tree = Tree::with_root(root.clone(), self.core.tree.hasher().clone());
            if let Some(acl) = acl {
                root.acl = self.core.tree.acl_lists().intern(&acl);
                self.core.tree.update("/", |znode| *znode = root);
            }
            return Ok(());
        }
        if !self.has_root {
            return Err(RestoreError::ParentMissing(path));
        }
        let tree = &self.core.tree;
        let places = tree.places(&LookedUp::default(), &path);
        let Some(places) = places.filter(|places| places.parent.has_znode()) else {
            return Err(RestoreError::ParentMissing(path));
        };
        if places.znode.has_znode() {
            return Err(RestoreError::Twice(path));
        }
        let acl = acl.map_or(AclList::OPEN, |acl| self.core.tree.acl_lists().intern(&acl));
        self.core.index(stat.ephemeral_owner.ephemeral_type(), &path);
        if let Some(QuotaZnode::Limits(quota)) = QuotaZnode::at(&path)
            && !quota.is_empty()
        {
            self.core.quotas.insert(quota);
        }
        let restored = || Znode::restored(path.clone(), data, acl, stat);
        let inserted = self.core.tree.insert_at(places, &path, restored, |_| {});
        inserted.expect("the parent is there");
        Ok(())
    }

    /// The state after the transaction `zxid`. The counters of all quotas are counted again.
    ///
    /// # Errors
    ///
    /// [`RestoreError::RootMissing`] if no root was added.
    pub fn finish(self, zxid: Zxid) -> Result<Restored, RestoreError> {
        let Self { mut core, has_root } = self;
        if !has_root {
            return Err(RestoreError::RootMissing);
        }
        core.last_zxid = zxid;
        let built_ins_added = core.tree.insert_built_ins();
        for quota in core.quotas.paths() {
            Quotas::recount(&mut core.tree, &quota);
        }
        Ok(Restored { core, built_ins_added })
    }
}
