//! The state machine: its state, and queries of that state.

use std::collections::BTreeSet;
use std::sync::Arc;

use zoolet_protocol::{ErrorCode, Permissions, SessionId, Xid, ZPath, Zxid};

use crate::acl::{Authorizer, Identities};
use crate::ephemeral_owner::EphemeralType;
use crate::quota::Quotas;
use crate::sessions::{FrozenSessions, Sessions};
use crate::settings::Settings;
use crate::tree::{FrozenTree, Tree, Znode};
use crate::txn::{Txn, TxnOp};
use crate::watches::{ConnectionId, WatchSummary, WatchersByPath, Watches};

/// The state of one server: its tree of znodes, its sessions and its watches.
///
/// Invariants:
///
/// - Only [`Core::apply`] changes what survives a restart.
/// - Every znode but the root has a parent, which lists and counts it.
/// - Every ephemeral is listed with its session; every container and TTL znode is listed for the
///   sweeper; every watch is listed by its path and by its connection; every total is the sum of
///   its parts. [`Core::check`] compares them all.
///
/// The [front page of the crate](crate) shows a write from the request to the reply.
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
    /// The containers, for the sweeper.
    pub(crate) containers: BTreeSet<ZPath>,
    /// The TTL znodes, for the sweeper.
    pub(crate) ttls: BTreeSet<ZPath>,
    pub(crate) watches: Watches,
    pub(crate) last_zxid: Zxid,
}

/// The sender of a request.
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
    /// The session of the client.
    pub session: SessionId,
    /// The connection over which the request came. Watches belong to it.
    pub connection: ConnectionId,
    /// The xid of the request. The transaction carries it.
    pub xid: Xid,
    /// The identities that the connection had when the request arrived.
    pub identities: Identities,
}

impl Requester {
    /// A requester without identities.
    #[must_use]
    pub fn new(session: SessionId, connection: ConnectionId, xid: Xid) -> Self {
        Self { session, connection, xid, identities: Identities::default() }
    }
}

/// The totals that monitoring shows.
///
/// ```
/// use zoolet_core::{Core, Settings};
///
/// assert_eq!(Core::new(Settings::default()).totals().sessions, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Znodes. The root counts twice, as in ZooKeeper, where it has two names.
    pub znodes: usize,
    /// The bytes of all paths and all data.
    pub data_bytes: usize,
    /// Ephemeral znodes.
    pub ephemerals: usize,
    /// Data watches and child watches.
    pub watches: usize,
    /// Sessions.
    pub sessions: usize,
}

impl Core {
    /// The state of a new server: the built-in znodes, and zxid 0.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let tree = Tree::new();
        Self {
            settings,
            watches: Watches::new(tree.hasher().clone()),
            tree,
            sessions: Sessions::default(),
            quotas: Quotas::default(),
            containers: BTreeSet::new(),
            ttls: BTreeSet::new(),
            last_zxid: Zxid::ZERO,
        }
    }

    /// The state of a new server, but for the zxid: the first transaction follows `zxid`.
    ///
    /// ```
    /// use zoolet_core::{Core, Settings};
    /// use zoolet_protocol::Zxid;
    ///
    /// let core = Core::starting_after(Settings::default(), Zxid(7));
    /// assert_eq!((core.last_zxid(), core.totals().sessions), (Zxid(7), 0));
    /// ```
    #[must_use]
    pub fn starting_after(settings: Settings, zxid: Zxid) -> Self {
        Self { last_zxid: zxid, ..Self::new(settings) }
    }

    /// The settings with which it was made.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The zxid of the last transaction that was applied.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Whether a session was created and has not ended.
    #[must_use]
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contain(session)
    }

    /// All sessions with their timeouts in milliseconds, ordered by id.
    #[must_use]
    pub fn sessions(&self) -> Vec<(SessionId, i32)> {
        self.sessions.timeouts()
    }

    /// The sessions that own ephemerals, ordered by id.
    #[must_use]
    pub fn owners(&self) -> Vec<SessionId> {
        self.sessions.owner_ids()
    }

    /// The sessions that own ephemerals with the paths of these, ordered by id and path.
    #[must_use]
    pub fn ephemeral_owners(&self) -> Vec<(SessionId, Vec<ZPath>)> {
        self.sessions.owners()
    }

    /// At most `most` ephemerals of a session whose paths come after `path`, in order. A long
    /// listing calls this repeatedly with the last path, and can release the lock between the
    /// calls.
    #[must_use]
    pub fn ephemerals_after(&self, session: SessionId, path: &str, most: usize) -> Vec<ZPath> {
        self.sessions.ephemerals_after(session, path).take(most).cloned().collect()
    }

    /// The totals of the data watches, as `wchs` shows them.
    #[must_use]
    pub fn watch_summary(&self) -> WatchSummary {
        self.watches.summary()
    }

    /// At most `most` paths that a connection watches and that come after `path`, in order, each
    /// with whether it has a data watch, as `wchc` and `wchp` show.
    #[must_use]
    pub fn watched_after(
        &self,
        connection: ConnectionId,
        path: Option<&str>,
        most: usize,
    ) -> Vec<(Arc<str>, bool)> {
        self.watches.watched_after(connection, path, most)
    }

    /// Every watched path with its watchers and their modes, ordered by path and connection.
    #[must_use]
    pub fn watchers(&self) -> WatchersByPath {
        self.watches.watchers()
    }

    /// Whether the access control list of a znode gives each single permission to one of
    /// `identities`, or the settings skip such lists; `false` if there is no such znode.
    #[must_use]
    pub fn permits_everything(&self, path: &str, identities: &Identities) -> bool {
        let Some(znode) = self.tree.get(path) else { return false };
        let authorizer = Authorizer::new(identities, &self.settings);
        let each = [
            Permissions::READ,
            Permissions::WRITE,
            Permissions::CREATE,
            Permissions::DELETE,
            Permissions::ADMIN,
        ];
        each.into_iter().all(|permission| authorizer.permits(&znode.acl, permission).is_ok())
    }

    /// Whether there is a znode at `path`, whatever its access control list says.
    #[must_use]
    pub fn has_znode(&self, path: &str) -> bool {
        self.tree.get(path).is_some()
    }

    /// The totals that monitoring shows.
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

    /// The quotas of the znodes below the root: the name, and then the limit of the count, the
    /// count, the limit of the bytes and the bytes. -1 stands for a value that is not set.
    #[must_use]
    pub fn top_level_quotas(&self) -> Vec<(String, [i64; 4])> {
        let values = |(name, limits, stats): (
            String,
            crate::quota::StatsTrack,
            crate::quota::StatsTrack,
        )| {
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

    /// Removes at most `most` watches of a closed connection. Returns whether there may be more: a
    /// caller with a lock can release it between the calls.
    pub fn remove_watches_of(&mut self, connection: ConnectionId, most: usize) -> bool {
        self.watches.remove_all_of(connection, most)
    }

    /// All znodes as they are now, for counting. This takes microseconds. Later changes do not show
    /// in the result.
    #[must_use]
    pub fn freeze_tree(&self) -> FrozenTree {
        self.tree.freeze()
    }

    /// Everything that survives a restart, as it is now. This takes microseconds, whatever the
    /// number of znodes and sessions. Later changes do not show in the result.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        Frozen { zxid: self.last_zxid, sessions: self.sessions.freeze(), tree: self.tree.freeze() }
    }

    /// Decides what a requester may do.
    pub(crate) fn authorizer<'a>(&self, requester: &'a Requester) -> Authorizer<'a> {
        Authorizer::new(&requester.identities, &self.settings)
    }

    /// The transaction of a write whose body could not be decoded. It is refused with `code`.
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

/// The part of the state that survives a restart, at one moment: what a snapshot file holds.
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
    /// The zxid of the last transaction that it contains.
    pub zxid: Zxid,
    sessions: FrozenSessions,
    tree: FrozenTree,
}

impl Frozen {
    /// The sessions and their timeouts in milliseconds, ordered by id.
    #[must_use]
    pub fn sessions(&self) -> Vec<(SessionId, i32)> {
        self.sessions.timeouts()
    }

    /// The number of znodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.count
    }

    /// The number of znodes as [`Totals::znodes`] counts them: the root counts twice.
    #[must_use]
    pub fn counted(&self) -> usize {
        self.len() + 1
    }

    /// The number of TTL znodes.
    #[must_use]
    pub fn ttl_znodes(&self) -> usize {
        let kind = |znode: &Znode| znode.stat.ephemeral_owner.ephemeral_type();
        self.tree.iter().filter(|znode| matches!(kind(znode), EphemeralType::Ttl { .. })).count()
    }

    /// Always false: the built-in znodes always exist.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.count == 0
    }

    /// The znodes ordered by path, so that each comes after its parent.
    #[must_use]
    pub fn znodes(&self) -> Vec<&Znode> {
        let mut znodes: Vec<_> = self.tree.iter().collect();
        znodes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        znodes
    }
}
