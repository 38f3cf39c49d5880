//! A state machine from what a snapshot holds.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Acl, SessionId, ZPath, Zxid};

use crate::acl::AclList;
use crate::core::Core;
use crate::owner::Owner;
use crate::quota::{QuotaZnode, Quotas};
use crate::settings::Settings;
use crate::tree::{Persisted, Tree, Znode};

/// Takes the parts of a snapshot in their order, and makes a [`Core`] of them.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_core::{Core, Persisted, Restore, Settings};
/// use zoolet_protocol::{SessionId, ZPath, Zxid};
///
/// # fn main() -> Result<(), zoolet_core::RestoreError> {
/// let mut restore = Restore::new(Settings::default());
/// restore.session(SessionId(1), 30_000);
/// restore.znode(ZPath::root(), Some(Bytes::new()), None, Persisted::default())?;
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

/// What a [`Restore`] made.
///
/// ```
/// use zoolet_core::{Persisted, Restore, Settings};
/// use zoolet_protocol::{ZPath, Zxid};
///
/// # fn main() -> Result<(), zoolet_core::RestoreError> {
/// let mut restore = Restore::new(Settings::default());
/// restore.znode(ZPath::root(), None, None, Persisted::default())?;
/// assert_eq!(restore.finish(Zxid(7))?.core.totals().sessions, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Restored {
    /// The state of the snapshot.
    pub core: Core,
    /// How many built-in znodes were not in it, and are there now.
    pub built_ins_added: usize,
}

/// Why a snapshot makes no tree.
///
/// ```
/// use zoolet_core::{Persisted, Restore, Settings};
/// use zoolet_protocol::ZPath;
///
/// let path = ZPath::parse("/a/b").unwrap();
/// let mut restore = Restore::new(Settings::default());
/// let error = restore.znode(path, None, None, Persisted::default()).unwrap_err();
/// assert_eq!(error.to_string(), "/a/b comes before its parent");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A znode whose parent was not there when it came.
    #[error("{0} comes before its parent")]
    ParentMissing(ZPath),
    /// A znode that came before.
    #[error("{0} is there twice")]
    Twice(ZPath),
    /// There was no root.
    #[error("there is no root")]
    RootMissing,
}

impl Restore {
    /// A state machine with nothing in it.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { core: Core::new(settings), has_root: false }
    }

    /// Adds a session and its timeout in milliseconds.
    pub fn session(&mut self, session: SessionId, timeout_ms: i32) {
        self.core.sessions.begin(session, timeout_ms);
    }

    /// Adds a znode, the root first and each after its parent. `acl` is `None` for the list that
    /// is written nowhere: everything to everyone.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] if it does not fit.
    pub fn znode(
        &mut self,
        path: ZPath,
        data: Option<Bytes>,
        acl: Option<Arc<[Acl]>>,
        stat: Persisted,
    ) -> Result<(), RestoreError> {
        if path.is_root() {
            if std::mem::replace(&mut self.has_root, true) {
                return Err(RestoreError::Twice(path));
            }
            let mut root = Znode { path, data, acl: AclList::OPEN, stat, num_children: 0 };
            self.core.tree = Tree::with_root(root.clone());
            if let Some(acl) = acl {
                root.acl = self.core.tree.acl_lists().intern(&acl);
                self.core.tree.update("/", |znode| *znode = root);
            }
            return Ok(());
        }
        if !self.has_root {
            return Err(RestoreError::ParentMissing(path));
        }
        if path.parent().is_none_or(|parent| self.core.tree.get(parent).is_none()) {
            return Err(RestoreError::ParentMissing(path));
        }
        if self.core.tree.get(&path).is_some() {
            return Err(RestoreError::Twice(path));
        }
        let acl = acl.map_or(AclList::OPEN, |acl| self.core.tree.acl_lists().intern(&acl));
        match stat.owner.owner() {
            Owner::Session(session) => self.core.sessions.own(session, path.clone()),
            Owner::Container => drop(self.core.containers.insert(path.clone())),
            Owner::Ttl { .. } => drop(self.core.ttls.insert(path.clone())),
            Owner::Nobody => {}
        }
        if let Some(QuotaZnode::Limits(quota)) = QuotaZnode::at(&path)
            && !quota.is_empty()
        {
            self.core.quotas.insert(quota);
        }
        self.core.tree.insert(Znode { path, data, acl, stat, num_children: 0 });
        Ok(())
    }

    /// The state as it was after `zxid`, with the counters of quotas counted anew.
    ///
    /// # Errors
    ///
    /// [`RestoreError::RootMissing`] if there was no root.
    pub fn finish(self, zxid: Zxid) -> Result<Restored, RestoreError> {
        let Self { mut core, has_root } = self;
        if !has_root {
            return Err(RestoreError::RootMissing);
        }
        core.last_zxid = zxid;
        for quota in core.quotas.paths() {
            Quotas::recount(&mut core.tree, &quota);
        }
        let built_ins_added = core.tree.insert_built_ins();
        Ok(Restored { core, built_ins_added })
    }
}
