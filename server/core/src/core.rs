//! The state machine itself: what it holds, and which of its rooms a request goes to.

use std::collections::BTreeSet;
use std::sync::Arc;

use zoolet_protocol::{ErrorCode, SessionId, Xid, ZPath, Zxid};

use crate::acl::{Identities, Judge};
use crate::owner::Owner;
use crate::quota::Quotas;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::tree::{FrozenTree, Tree, Znode};
use crate::txn::{Txn, TxnOp};
use crate::watches::{ConnectionId, WatchSummary, WatchersByPath, Watches};

/// The state of one server: tree, sessions, watches.
///
/// Invariants, asserted where they are made and where they are relied upon:
///
/// - Every znode but the root has a parent, which counts it.
/// - Every ephemeral is among those of its session; every container and TTL znode is among those
///   that the sweeper looks at.
/// - Only [`Core::apply`] changes what outlives a restart.
///
/// See the [crate's page](crate) for the way of a write.
///
/// ```
/// use zoolet_core::{Core, Settings};
///
/// let core = Core::new(Settings::default());
/// assert_eq!(core.totals().znodes, 5); // the root counts twice, as in ZooKeeper
/// ```
#[derive(Debug)]
pub struct Core {
    pub(crate) settings: Settings,
    pub(crate) tree: Tree,
    pub(crate) sessions: Sessions,
    pub(crate) quotas: Quotas,
    /// The znodes that the sweeper looks at.
    pub(crate) containers: BTreeSet<ZPath>,
    pub(crate) ttls: BTreeSet<ZPath>,
    pub(crate) watches: Watches,
    pub(crate) last_zxid: Zxid,
}

/// Who asks.
///
/// ```
/// use zoolet_core::{ConnectionId, Requester};
/// use zoolet_protocol::{SessionId, Xid};
///
/// let requester = Requester::new(SessionId(1), ConnectionId(7), Xid(3));
/// assert!(!requester.identities.are_super());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// Whose session it is.
    pub session: SessionId,
    /// Over which connection, for the watches.
    pub connection: ConnectionId,
    /// The request's xid, for the transaction.
    pub xid: Xid,
    /// Who the connection was when the request arrived.
    pub identities: Identities,
}

impl Requester {
    /// Someone without identities.
    #[must_use]
    pub fn new(session: SessionId, connection: ConnectionId, xid: Xid) -> Self {
        Self { session, connection, xid, identities: Identities::default() }
    }
}

/// Numbers for monitoring.
///
/// ```
/// use zoolet_core::{Core, Settings};
///
/// assert_eq!(Core::new(Settings::default()).totals().sessions, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Znodes; the root counts twice, as in ZooKeeper, where it has two names.
    pub znodes: usize,
    /// The bytes of all paths and data.
    pub data_bytes: usize,
    /// Ephemeral znodes.
    pub ephemerals: usize,
    /// Watches on data and on children.
    pub watches: usize,
    /// Sessions.
    pub sessions: usize,
}

impl Core {
    /// A server that has seen nothing: the built-in znodes, zxid 0.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            tree: Tree::new(),
            sessions: Sessions::default(),
            quotas: Quotas::default(),
            containers: BTreeSet::new(),
            ttls: BTreeSet::new(),
            watches: Watches::default(),
            last_zxid: Zxid::ZERO,
        }
    }

    /// The settings it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The zxid of the last transaction that was applied.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Whether a session has begun and not ended.
    #[must_use]
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contain(session)
    }

    /// All sessions and the timeouts, in milliseconds, with which they were created.
    #[must_use]
    pub fn sessions(&self) -> Vec<(SessionId, i32)> {
        self.sessions.timeouts()
    }

    /// The sessions that own ephemerals, in order.
    #[must_use]
    pub fn owners(&self) -> Vec<SessionId> {
        self.sessions.owner_ids()
    }

    /// The sessions that own ephemerals, and these.
    #[must_use]
    pub fn ephemeral_owners(&self) -> Vec<(SessionId, Vec<ZPath>)> {
        self.sessions.owners()
    }

    /// The ephemerals of a session after `path`, `most` of them in order: a listing that lets go of the
    /// lock between its parts goes on from the last one.
    #[must_use]
    pub fn ephemerals_after(&self, session: SessionId, path: &str, most: usize) -> Vec<ZPath> {
        self.sessions.ephemerals_after(session, path).take(most).cloned().collect()
    }

    /// How much is watched, of data and existence.
    #[must_use]
    pub fn watch_summary(&self) -> WatchSummary {
        self.watches.summary()
    }

    /// The paths after `path` that a connection watches, `most` of them in order, and of each whether
    /// its data or existence is watched, as `wchc` and `wchp` tell.
    #[must_use]
    pub fn watched_after(
        &self,
        connection: ConnectionId,
        path: Option<&str>,
        most: usize,
    ) -> Vec<(Arc<str>, bool)> {
        self.watches.watched_after(connection, path, most)
    }

    /// Every path that is watched, by whom and how, ordered by path and connection.
    #[must_use]
    pub fn watchers(&self) -> WatchersByPath {
        self.watches.watchers()
    }

    /// Whether there is a znode at `path`, whoever may know of it.
    #[must_use]
    pub fn has_znode(&self, path: &str) -> bool {
        self.tree.get(path).is_some()
    }

    /// Numbers for monitoring.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            znodes: self.tree.count() + 1,
            data_bytes: self.tree.size_bytes(),
            ephemerals: self.sessions.ephemeral_count(),
            watches: self.watches.count(),
            sessions: self.sessions.len(),
        }
    }

    /// The quotas of top-level znodes: name, and the values of count limit, count, bytes limit,
    /// bytes; -1 where none is set.
    #[must_use]
    pub fn top_level_quotas(&self) -> Vec<(String, [i64; 4])> {
        let values = |(name, limits, stats): (String, crate::quota::Track, crate::quota::Track)| {
            let limit = |hard: &str, soft: &str| match limits.value(hard) {
                -1 => limits.value(soft),
                hard => hard,
            };
            let count = limit("countHardLimit", "count");
            let bytes = limit("byteHardLimit", "bytes");
            (name, [count, stats.value("count"), bytes, stats.value("bytes")])
        };
        self.quotas.top_level(&self.tree).into_iter().map(values).collect()
    }

    /// Takes back at most `most` watches of a connection, which is gone, and tells whether there may
    /// be more.
    pub fn forget(&mut self, connection: ConnectionId, most: usize) -> bool {
        self.watches.forget(connection, most)
    }

    /// All znodes as they are now, to be counted. Takes microseconds; changes after it do not show in it.
    #[must_use]
    pub fn freeze_tree(&self) -> FrozenTree {
        self.tree.freeze()
    }

    /// Everything that outlives a restart, as it is now. Takes microseconds, whatever the number
    /// of znodes; changes after it do not show in it.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        Frozen {
            zxid: self.last_zxid,
            sessions: self.sessions.timeouts(),
            tree: self.tree.freeze(),
        }
    }

    /// The containers and TTL znodes that may go at `now_ms`: those without children that had one
    /// or, if `never_used_ms` is not 0, are older than that; and those whose time is over
    /// (`ContainerManager`).
    #[must_use]
    pub fn sweepable(&self, now_ms: i64, never_used_ms: i64) -> Vec<ZPath> {
        let age = |znode: &Znode| now_ms.saturating_sub(znode.stat.mtime);
        let is_due = |znode: &&Znode| {
            znode.num_children == 0
                && match znode.stat.owner.owner() {
                    Owner::Container => {
                        znode.stat.cversion > 0
                            || (never_used_ms != 0 && age(znode) > never_used_ms)
                    }
                    Owner::Ttl { ttl_ms } => age(znode) > ttl_ms,
                    Owner::Nobody | Owner::Session(_) => false,
                }
        };
        let candidates = self.containers.iter().chain(&self.ttls);
        candidates
            .filter_map(|path| self.tree.get(path))
            .filter(is_due)
            .map(|znode| znode.path.clone())
            .collect()
    }

    /// Judges what a requester may do.
    pub(crate) fn judge<'a>(&self, requester: &'a Requester) -> Judge<'a> {
        Judge::new(&requester.identities, &self.settings)
    }

    /// The transaction of a write that is refused before it is looked at: one whose body could
    /// not be read.
    #[must_use]
    pub fn refuse(&self, requester: &Requester, code: ErrorCode, time_ms: i64) -> Txn {
        self.txn(requester, time_ms, TxnOp::Error(code))
    }

    pub(crate) fn txn(&self, requester: &Requester, time_ms: i64, op: TxnOp) -> Txn {
        Txn {
            session: requester.session,
            cxid: requester.xid,
            zxid: self.last_zxid.next(),
            time_ms,
            op,
        }
    }
}

/// The state of a server at one moment, as a snapshot needs it.
///
/// ```
/// use zoolet_core::{Core, Settings};
///
/// let frozen = Core::new(Settings::default()).freeze();
/// assert_eq!(frozen.len(), 4);
/// assert_eq!(frozen.counted(), Core::new(Settings::default()).totals().znodes);
/// ```
#[derive(Debug, Clone)]
pub struct Frozen {
    /// The last transaction that is in it.
    pub zxid: Zxid,
    /// The sessions and their timeouts in milliseconds.
    pub sessions: Vec<(SessionId, i32)>,
    tree: FrozenTree,
}

impl Frozen {
    /// How many znodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.count
    }

    /// The znodes as a server counts them that has started with this: the root counts twice, as in
    /// [`Totals`].
    #[must_use]
    pub fn counted(&self) -> usize {
        self.len() + 1
    }

    /// Never: the built-in znodes are always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.count == 0
    }

    /// The znodes in the order of their paths, so that each comes after its parent.
    #[must_use]
    pub fn znodes(&self) -> Vec<&Znode> {
        let mut znodes: Vec<_> = self.tree.iter().collect();
        znodes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        znodes
    }
}
