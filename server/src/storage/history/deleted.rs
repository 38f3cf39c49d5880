//! The znodes that a snapshot lacks, because they were deleted while it was written.

use std::collections::HashSet;

use zoolet_core::{TxnOp, Znode};
use zoolet_protocol::{SessionId, ZPath};

use super::base::Base;
use super::{Gaps, History, Moment};
use crate::storage::LogRecord;

/// A znode that was there after [`Base::after`], and that its snapshot lacks.
///
/// ```
/// use zoolet_server::storage::history::DeletedZnode;
///
/// fn print(deleted: &DeletedZnode) {
///     println!("{} was deleted by {}", deleted.path.as_str(), deleted.at.zxid);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedZnode {
    /// Its path.
    pub path: ZPath,
    /// The session that deleted it, or at whose end the server did.
    pub session: SessionId,
    /// Whether the end of the session deleted it: it was an ephemeral of that session.
    pub is_by_end_of_session: bool,
    /// When it was deleted.
    pub at: Moment,
}

impl History {
    /// The znodes that a state lacks although they were there after [`Base::after`], in the order of their deletion.
    ///
    /// ZooKeeper carries out transactions while it writes a snapshot. Those that delete a znode which the snapshot
    /// lacks, and which no record has created, tell that it was there. They are looked for up to the last transaction
    /// that the snapshot may hold: ZooKeeper since 3.6 writes it behind the znodes. In an older snapshot, or without
    /// digests, only those up to the newest znode are found. Where a log cannot be read, the search ends:
    /// [`History::records`] tells why.
    #[must_use]
    pub fn deleted_while_written(&self, base: &Base) -> Vec<DeletedZnode> {
        if base.snapshot.is_none() || base.holds_nothing_after == Some(base.after) {
            return Vec::new();
        }
        let state = base.core.freeze();
        let znodes = state.znodes();
        let newest = |znode: &&Znode| znode.stat.czxid.max(znode.stat.mzxid).max(znode.stat.pzxid);
        let last = base.holds_nothing_after.or_else(|| znodes.iter().map(newest).max());
        let last = last.unwrap_or(base.after);
        let is_there = |path: &ZPath| znodes.binary_search_by(|it| it.path.cmp(path)).is_ok();
        // What was created since, and what is known to be deleted.
        let mut told: HashSet<ZPath> = HashSet::new();
        let mut deleted = Vec::new();
        let mut records = self.records(base.after, Gaps::Refuse).detached();
        while let Ok(Some(LogRecord { txn, .. })) = records.next_record() {
            if txn.zxid > last {
                break;
            }
            let (session, at) = (txn.session, Moment::of(&txn));
            for op in txn.op.single_operations() {
                let (paths, is_by_end_of_session) = match op {
                    TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => {
                        (std::slice::from_ref(path), false)
                    }
                    TxnOp::CloseSession { paths } => (paths.as_slice(), true),
                    TxnOp::Create(create) => {
                        told.insert(create.path.clone());
                        continue;
                    }
                    _ => continue,
                };
                for path in paths.iter().filter(|path| !is_there(path)) {
                    if told.insert(path.clone()) {
                        let path = path.clone();
                        deleted.push(DeletedZnode { path, session, is_by_end_of_session, at });
                    }
                }
            }
        }
        deleted
    }
}
