//! The events of a cache.

use std::sync::Arc;

use zoolet_protocol::Zxid;

use super::limits::ZNODE_OVERHEAD_BYTES;
use super::znode::CachedZnode;

/// A change of a cache, after it was made.
///
/// Events of znodes come in the order of their zxids; behind a server before 3.9, whose events have
/// none, in the order in which they arrived. An event after a resync has the zxid of the
/// change that it reports too; several changes of a znode while there was no connection are one
/// event.
///
/// ```
/// use zoolet_recipes::CacheEvent;
/// use zoolet_recipes::protocol::Zxid;
///
/// let event = CacheEvent::Initialized { zxid: Zxid(7) };
/// assert!(event.path().is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent {
    /// A znode was created. Where its data was set again before it could be read, it has the later
    /// data.
    Created {
        /// The transaction that created it, or made it known.
        zxid: Zxid,
        /// The znode.
        znode: Arc<CachedZnode>,
    },
    /// The data of a znode was set.
    Changed {
        /// The transaction that set it.
        zxid: Zxid,
        /// The znode as the cache had it before.
        before: Arc<CachedZnode>,
        /// The znode.
        znode: Arc<CachedZnode>,
    },
    /// A znode was deleted. Descendants are reported before their ancestors.
    Deleted {
        /// The transaction that deleted it. If the znode was deleted while there was no connection:
        /// that transaction or a later one.
        zxid: Zxid,
        /// The znode as the cache had it last.
        znode: Arc<CachedZnode>,
    },
    /// The cache has the whole tree for the first time.
    Initialized {
        /// The last transaction that is in the cache.
        zxid: Zxid,
    },
    /// The connection was lost, or so much has changed at once that the cache reads everything
    /// again: it may be old from now on, until [`CacheEvent::Resynced`].
    Suspended,
    /// The session has expired. The cache goes on with the next one.
    Lost,
    /// The cache has the whole tree again.
    Resynced {
        /// The last transaction that is in the cache.
        zxid: Zxid,
    },
}

impl CacheEvent {
    /// The znode that was created, changed or deleted.
    #[must_use]
    pub fn znode(&self) -> Option<&Arc<CachedZnode>> {
        match self {
            Self::Created { znode, .. }
            | Self::Changed { znode, .. }
            | Self::Deleted { znode, .. } => Some(znode),
            Self::Initialized { .. } | Self::Suspended | Self::Lost | Self::Resynced { .. } => None,
        }
    }

    /// The memory that its znodes take, about.
    pub(crate) fn bytes(&self) -> usize {
        let before = match self {
            Self::Changed { before, .. } => Some(before),
            _ => None,
        };
        let znodes = self.znode().into_iter().chain(before);
        znodes.map(|znode| ZNODE_OVERHEAD_BYTES + znode.path.len() + znode.data.len()).sum()
    }

    /// The path of the znode that was created, changed or deleted.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.znode().map(|znode| znode.path.as_str())
    }

    /// The zxid, if the event has one.
    #[must_use]
    pub fn zxid(&self) -> Option<Zxid> {
        match self {
            Self::Created { zxid, .. }
            | Self::Changed { zxid, .. }
            | Self::Deleted { zxid, .. }
            | Self::Initialized { zxid }
            | Self::Resynced { zxid } => Some(*zxid),
            Self::Suspended | Self::Lost => None,
        }
    }
}
