//! Decisions: what a write does, in the order of checks that ZooKeeper's `PrepRequestProcessor`
//! has, so that of several errors the same one comes out.
//!
//! A decision looks at the tree through a [`View`], which within a multi also shows what the
//! earlier operations decided.

mod create;
mod view;

use std::borrow::Cow;

#[cfg(feature = "planted-bugs")]
use zoolet_planted_bugs::{PlantedBug, is_planted};
use zoolet_protocol::{
    Check, Delete, ErrorCode, Expect, MultiOp, Permissions, RawPath, Read, Request, Response,
    SessionId, SetAcl, SetData, Write, Xid, ZPath,
};

use self::view::View;
use crate::acl;
use crate::core::{Core, Requester};
use crate::limits::{
    CLOSE_SESSION_BYTES_MAX, QUOTA_COUNTS_PER_MULTI, QUOTA_TEXT_BYTES_MAX, TXN_BYTES_ALWAYS,
    TXN_BYTES_MAX, TXN_BYTES_PER_BYTE,
};
use crate::owner::Owner;
use crate::quota::{Change, QuotaZnode, Track};
use crate::tree::Znode;
use crate::txn::{Txn, TxnOp};
use crate::watches::ConnectionId;

/// A decision: what to do, or why not.
type Decision = Result<TxnOp, ErrorCode>;

impl Core {
    /// Decides what `write` does at `time_ms`, milliseconds since 1970.
    ///
    /// A refusal is a transaction too: like ZooKeeper it takes a zxid and is logged.
    #[must_use]
    pub fn prepare(&self, write: &Write, requester: &Requester, time_ms: i64) -> Txn {
        let decision = match write {
            Write::Op(op) => self.decide(op, requester, &self.view(requester)),
            Write::SetAcl(set_acl) => self.decide_set_acl(set_acl, requester),
            Write::Multi(ops) => self.decide_multi(ops, requester, time_ms),
            // Only the sweeper may: the reference server lets any client delete any empty
            // persistent znode with this, without looking at permissions.
            Write::DeleteContainer(_) => Err(ErrorCode::UNIMPLEMENTED),
            Write::Reconfig(_) if self.settings.reconfig_enabled => Err(ErrorCode::UNIMPLEMENTED),
            Write::Reconfig(_) => Err(ErrorCode::RECONFIG_DISABLED),
            Write::CloseSession => Ok(self.decide_close_session(requester.session)),
        };
        let decision = decision.and_then(|op| match op.about_bytes() {
            ..=TXN_BYTES_ALWAYS => Ok(op),
            // Requests before it created the ephemerals whose paths it has.
            ..=TXN_BYTES_MAX if matches!(write, Write::CloseSession) => Ok(op),
            bytes if bytes <= txn_bytes_max(write.encoded_len()) => Ok(op),
            _ => Err(ErrorCode::BAD_ARGUMENTS),
        });
        self.txn(requester, time_ms, decision.unwrap_or_else(TxnOp::Error))
    }

    /// The begin of a session. Its id is the server's choice and must be new.
    #[must_use]
    pub fn prepare_create_session(&self, session: SessionId, timeout_ms: i32, time_ms: i64) -> Txn {
        self.txn(&of_server(session), time_ms, TxnOp::CreateSession { timeout_ms })
    }

    /// The end of a session that expired.
    #[must_use]
    pub fn prepare_expiry(&self, session: SessionId, time_ms: i64) -> Txn {
        self.txn(&of_server(session), time_ms, self.decide_close_session(session))
    }

    /// The deletion of a znode that [`Core::sweepable`] named. It is looked at again: it may have
    /// a child by now.
    #[must_use]
    pub fn prepare_sweep(&self, path: &ZPath, time_ms: i64) -> Txn {
        let decision = match self.tree.get(path) {
            None => Err(ErrorCode::NO_NODE),
            Some(znode) if znode.num_children > 0 => Err(ErrorCode::NOT_EMPTY),
            Some(znode) => match znode.stat.owner.owner() {
                Owner::Container | Owner::Ttl { .. } => {
                    Ok(TxnOp::DeleteContainer { path: path.clone() })
                }
                Owner::Nobody | Owner::Session(_) => Err(ErrorCode::BAD_VERSION),
            },
        };
        let op = decision.unwrap_or_else(TxnOp::Error);
        self.txn(&of_server(SessionId::NONE), time_ms, op)
    }

    fn decide_close_session(&self, session: SessionId) -> TxnOp {
        let mut bytes = 0;
        let fits = |path: &&ZPath| {
            bytes += 4 + path.len();
            bytes <= CLOSE_SESSION_BYTES_MAX
        };
        let paths = self.sessions.ephemerals(session).take_while(fits).cloned().collect();
        TxnOp::CloseSession { paths }
    }

    /// The tree as a decision for someone sees it.
    fn view<'a>(&'a self, requester: &'a Requester) -> View<'a> {
        View::of(&self.tree, self.judge(requester))
    }

    /// Decides an operation that may stand alone or in a multi.
    fn decide(&self, op: &MultiOp, requester: &Requester, view: &View<'_>) -> Decision {
        match op {
            MultiOp::Create(create) => self.decide_create(create, requester, view),
            MultiOp::Delete(delete) => self.decide_delete(delete, requester, view),
            MultiOp::SetData(set_data) => self.decide_set_data(set_data, requester, view),
            MultiOp::Check(check) => self.decide_check(check, requester, view),
        }
    }

    fn decide_multi(&self, ops: &[MultiOp], requester: &Requester, time_ms: i64) -> Decision {
        let mut view = self.view(requester);
        let mut decided = Vec::with_capacity(ops.len());
        let ops = ops.iter().map(create::normalised).collect::<Result<Vec<_>, _>>()?;
        let (mut counts, mut bytes, mut bytes_max) = (0, 0, None);
        for (index, op) in ops.iter().enumerate() {
            let decision = self.decide(op, requester, &view).and_then(|txn| {
                counts += usize::from(is_count(&txn));
                bytes += txn.about_bytes();
                // Nothing is decided beyond the limit: what is decided takes memory.
                let is_too_long = bytes > TXN_BYTES_ALWAYS
                    && bytes > *bytes_max.get_or_insert_with(|| txn_bytes_max(multi_len(&ops)));
                if counts > QUOTA_COUNTS_PER_MULTI || is_too_long {
                    return Err(ErrorCode::BAD_ARGUMENTS);
                }
                Ok(txn)
            });
            match decision {
                Ok(txn) => {
                    view.assume(&txn, requester.session, self.last_zxid.next(), time_ms);
                    decided.push(txn);
                }
                Err(refusal) => {
                    let error = |place: usize| match place.cmp(&index) {
                        std::cmp::Ordering::Less => ErrorCode::OK,
                        std::cmp::Ordering::Equal => refusal,
                        std::cmp::Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY,
                    };
                    #[cfg(feature = "planted-bugs")]
                    if is_planted(PlantedBug::MultiHalfDone) {
                        let errors = (index..ops.len()).map(|place| TxnOp::Error(error(place)));
                        decided.extend(errors);
                        return Ok(TxnOp::Multi(decided));
                    }
                    let errors = (0..ops.len()).map(|place| TxnOp::Error(error(place)));
                    return Ok(TxnOp::Multi(errors.collect()));
                }
            }
        }
        Ok(TxnOp::Multi(decided))
    }

    /// What the original answers beside [`ErrorCode::MARSHALLING_ERROR`] to a multi or multiRead
    /// with a null path, over which it stumbles: what it had read before. Such a request takes no
    /// zxid. `None` for a request that it can read.
    #[must_use]
    pub fn stumble(&self, request: &Request, requester: &Requester) -> Option<Response> {
        let is_null = |path: &RawPath| path.text().is_none();
        match request {
            Request::Write(Write::Multi(ops)) => {
                let place = ops.iter().position(|op| is_null(op.path()))?;
                // What was refused before ends the list earlier.
                let before = self.decide_multi(&ops[..place], requester, 0).ok()?;
                let TxnOp::Multi(decided) = before else { return None };
                let is_refused = decided.iter().any(|op| matches!(op, TxnOp::Error(_)));
                (!is_refused).then(|| Response::Multi(Vec::new()))
            }
            Request::Read(Read::MultiRead(ops)) => {
                let place = ops.iter().position(|op| is_null(op.path()))?;
                let before = Read::MultiRead(ops[..place].to_vec());
                self.read(&before, requester).ok()
            }
            _ => None,
        }
    }

    fn decide_delete(&self, delete: &Delete, requester: &Requester, view: &View<'_>) -> Decision {
        self.check_session(requester)?;
        let path = text(&delete.path)?;
        let is_built_in =
            matches!(path, "/" | "/zookeeper" | "/zookeeper/quota" | "/zookeeper/config");
        let (parent, _) = path.rsplit_once('/').ok_or(ErrorCode::BAD_ARGUMENTS)?;
        if is_built_in || path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let parent = view.get(parent).ok_or(ErrorCode::NO_NODE)?;
        view.judge.permits(&parent.acl, Permissions::DELETE)?;
        let znode = view.get(path).ok_or(ErrorCode::NO_NODE)?;
        check_version(znode.stat.version, delete.version)?;
        if znode.num_children > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        Ok(TxnOp::Delete { path: znode.path.clone() })
    }

    fn decide_set_data(
        &self,
        set_data: &SetData,
        requester: &Requester,
        view: &View<'_>,
    ) -> Decision {
        self.check_session(requester)?;
        let path = valid(&set_data.path)?;
        let znode = view.get(path).ok_or(ErrorCode::NO_NODE)?;
        view.judge.permits(&znode.acl, Permissions::WRITE)?;
        let data = set_data.data.as_ref();
        if let Some(quota) = QuotaZnode::at(path) {
            let is_too_long = data.is_some_and(|data| data.len() > QUOTA_TEXT_BYTES_MAX);
            // The reference server takes counters that it cannot read, and does not survive counting.
            let is_unreadable =
                matches!(quota, QuotaZnode::Stats(_)) && Track::parse(data).is_none();
            if is_too_long || is_unreadable {
                return Err(ErrorCode::BAD_ARGUMENTS);
            }
        }
        if self.settings.enforce_quota {
            let length = data.map_or(0, bytes::Bytes::len) as i64;
            let change = Change { count: 0, bytes: length - znode.data_length() as i64 };
            self.quotas.check(&self.tree, path, change)?;
        }
        let version = check_version(znode.stat.version, set_data.version)?;
        Ok(TxnOp::SetData { path: znode.path.clone(), data: set_data.data.clone(), version })
    }

    fn decide_set_acl(&self, set_acl: &SetAcl, requester: &Requester) -> Decision {
        self.check_session(requester)?;
        let path = valid(&set_acl.path)?;
        let acl = acl::fix_up(set_acl.acl.as_deref(), &requester.identities, &self.settings)?;
        let znode = self.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        self.judge(requester).permits(&znode.acl, Permissions::ADMIN)?;
        let version = check_version(znode.stat.aversion, set_acl.version)?;
        Ok(TxnOp::SetAcl { path: znode.path.clone(), acl, version })
    }

    fn decide_check(&self, check: &Check, requester: &Requester, view: &View<'_>) -> Decision {
        self.check_session(requester)?;
        let path = valid(&check.path)?;
        let znode = view.get(path).ok_or(ErrorCode::NO_NODE)?;
        view.judge.permits(&znode.acl, Permissions::READ)?;
        let version = check_version(znode.stat.version, check.version)?;
        Ok(TxnOp::Check { path: znode.path.clone(), version })
    }

    fn check_session(&self, requester: &Requester) -> Result<(), ErrorCode> {
        if self.has_session(requester.session) { Ok(()) } else { Err(ErrorCode::SESSION_EXPIRED) }
    }
}

/// The bytes that a request of `asked` bytes may put into the log.
fn txn_bytes_max(asked: usize) -> usize {
    TXN_BYTES_MAX.min(TXN_BYTES_ALWAYS + asked.saturating_mul(TXN_BYTES_PER_BYTE))
}

/// The bytes of the operations of a multi on the wire.
fn multi_len(ops: &[Cow<'_, MultiOp>]) -> usize {
    ops.iter().map(|op| op.encoded_len()).sum()
}

/// Whether it creates a counter, and so counts.
fn is_count(txn: &TxnOp) -> bool {
    match txn {
        TxnOp::Create(create) => matches!(QuotaZnode::at(&create.path), Some(QuotaZnode::Stats(_))),
        _ => false,
    }
}

/// The server itself, on behalf of a session or of nobody.
fn of_server(session: SessionId) -> Requester {
    Requester::new(session, ConnectionId(0), Xid(0))
}

/// The text of a path. Null makes the reference server stumble, and it answers this.
fn text(path: &RawPath) -> Result<&str, ErrorCode> {
    path.text().ok_or(ErrorCode::MARSHALLING_ERROR)
}

/// The text of a path that may name a znode.
fn valid(path: &RawPath) -> Result<&str, ErrorCode> {
    let path = path.text().ok_or(ErrorCode::BAD_ARGUMENTS)?;
    ZPath::check(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
    Ok(path)
}

/// The version that follows, if the present one is the expected one.
fn check_version(version: i32, expect: Expect) -> Result<i32, ErrorCode> {
    if expect.admits(version) {
        Ok(Znode::version_after(version))
    } else {
        Err(ErrorCode::BAD_VERSION)
    }
}
