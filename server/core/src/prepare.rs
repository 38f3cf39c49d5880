//! Decisions: what a write does. The checks come in the order of ZooKeeper's
//! `PrepRequestProcessor`, so that a request with several faults gets the same error.
//!
//! A decision reads the tree through a [`View`]. Within a multi, the view also shows the decisions
//! about the earlier operations.

mod create;
mod view;

use bytes::Bytes;
use zoolet_protocol::{
    Check, Create, ErrorCode, Expect, MultiOp, Permissions, PlainChange, PlainWrite, RawPath, Read,
    Request, Response, SessionId, SetAcl, SetData, Write, Xid, ZPath, last_slash,
};

use self::create::NewZnode;
use self::view::View;
use crate::acl;
use crate::core::{Core, Requester};
use crate::ephemeral_owner::EphemeralType;
use crate::limits::{
    CLOSE_SESSION_BYTES_MAX, QUOTA_COUNTS_PER_MULTI, QUOTA_TEXT_BYTES_MAX, TXN_BYTES_ALWAYS,
    TXN_BYTES_MAX, TXN_BYTES_PER_BYTE,
};
use crate::quota::{Change, QuotaZnode, StatsTrack};
use crate::tree::{InMulti, LookedUp, Place, Tree, Znode};
use crate::txn::{Decided, Txn, TxnOp};
use crate::watches::ConnectionId;

/// The znode that a request may set or delete.
struct Found<'a> {
    znode: &'a Znode,
    place: Option<Place>,
    /// Where its parent is, as far as that was looked up.
    parent: Option<Place>,
}

impl Found<'_> {
    fn looked_up(&self, tree: &Tree) -> LookedUp {
        tree.looked_up(self.place, self.parent)
    }
}

/// A decision: the change and what was looked up for it, or the error code of the refusal.
type Decision = Result<(TxnOp, LookedUp), ErrorCode>;

impl Core {
    /// Decides what `write` does at the time `time_ms`, in milliseconds since 1970.
    ///
    /// A refused write is a transaction too: as in ZooKeeper, it takes a zxid and is logged.
    #[must_use]
    pub fn prepare(&self, write: &Write, requester: &Requester, time_ms: i64) -> Txn {
        self.decide(write, requester, time_ms).txn
    }

    /// What [`Core::prepare`] does, with the places in the tree that it has looked up.
    #[must_use]
    pub fn decide(&self, write: &Write, requester: &Requester, time_ms: i64) -> Decided {
        let view = || self.view(requester, self.has_session(requester.session));
        let alone = |op| (op, LookedUp::default());
        let mut in_multi = InMulti::new();
        let decision = match write {
            Write::Op(op) => self.decide_op(op, requester, &view()),
            Write::SetAcl(set_acl) => self.decide_set_acl(set_acl, requester, &view()),
            Write::Multi(ops) => {
                self.decide_multi(ops, requester, view(), time_ms, &mut in_multi).map(alone)
            }
            // Only the sweeper may do this. ZooKeeper lets any client delete any empty persistent
            // znode with it, whatever the access control lists say.
            Write::DeleteContainer(_) => Err(ErrorCode::UNIMPLEMENTED),
            Write::Reconfig(_) if self.settings.reconfig_enabled => Err(ErrorCode::UNIMPLEMENTED),
            Write::Reconfig(_) => Err(ErrorCode::RECONFIG_DISABLED),
            Write::CloseSession => Ok(alone(self.decide_close_session(requester.session))),
        };
        let decision = decision.and_then(|decided| match decided.0.about_bytes() {
            ..=TXN_BYTES_ALWAYS => Ok(decided),
            // Earlier requests created the ephemerals whose paths it names.
            ..=TXN_BYTES_MAX if matches!(write, Write::CloseSession) => Ok(decided),
            bytes if bytes <= txn_bytes_max(write.encoded_len()) => Ok(decided),
            _ => Err(ErrorCode::BAD_ARGUMENTS),
        });
        self.decided(requester, time_ms, decision, in_multi)
    }

    /// Decides what a plain write does, as [`Core::decide`] does, in a session that has not ended: the caller
    /// has looked that up ([`Core::has_session`]).
    #[must_use]
    pub fn decide_plain(
        &self,
        write: &PlainWrite<'_>,
        requester: &Requester,
        time_ms: i64,
    ) -> Decided {
        debug_assert!(self.has_session(requester.session), "{} has ended", requester.session);
        const { assert!(PlainWrite::BYTES_MAX <= TXN_BYTES_ALWAYS / 2, "it is never too long") };
        let view = self.view(requester, true);
        let refusal = match write.change {
            PlainChange::Create { kind, path, data, of_everyone, flags } => {
                let acl = || Ok(self.tree.list_of_everyone(of_everyone));
                let create = NewZnode { kind, flags, path: Some(path), data, acl };
                match self.decide_create(create, &view) {
                    Ok((op, looked_up)) => {
                        return self.decided_alone(requester, time_ms, op, looked_up);
                    }
                    Err(code) => code,
                }
            }
            PlainChange::Delete { path, version } => {
                match Self::check_delete(path, version, &view) {
                    Ok(found) => {
                        let op = TxnOp::Delete { path: found.znode.path.clone() };
                        let looked_up = found.looked_up(&self.tree);
                        return self.decided_alone(requester, time_ms, op, looked_up);
                    }
                    Err(code) => code,
                }
            }
            PlainChange::SetData { path, data, version } => {
                match self.check_set_data(path, (data, version), &view) {
                    Ok((found, version)) => {
                        let path = found.znode.path.clone();
                        let data = data.map(Bytes::copy_from_slice);
                        let op = TxnOp::SetData { path, data, version };
                        let looked_up = found.looked_up(&self.tree);
                        return self.decided_alone(requester, time_ms, op, looked_up);
                    }
                    Err(code) => code,
                }
            }
        };
        self.refuse(requester, refusal, time_ms).into()
    }

    /// A decision about a request that is no multi. It is made where it is returned: to move it would take
    /// longer than to decide it.
    #[inline(always)]
    fn decided_alone(
        &self,
        requester: &Requester,
        time_ms: i64,
        op: TxnOp,
        looked_up: LookedUp,
    ) -> Decided {
        Decided { txn: self.txn(requester, time_ms, op), looked_up, in_multi: InMulti::new() }
    }

    fn decided(
        &self,
        requester: &Requester,
        time_ms: i64,
        decision: Decision,
        in_multi: InMulti,
    ) -> Decided {
        let refused = |code| (TxnOp::Error(code), LookedUp::default());
        let (op, looked_up) = decision.unwrap_or_else(refused);
        Decided { txn: self.txn(requester, time_ms, op), looked_up, in_multi }
    }

    /// Decides the creation of a session. The server chooses the id, which must be new.
    #[must_use]
    pub fn prepare_create_session(&self, session: SessionId, timeout_ms: i32, time_ms: i64) -> Txn {
        self.txn(&of_server(session), time_ms, TxnOp::CreateSession { timeout_ms })
    }

    /// Decides the end of a session that has expired.
    #[must_use]
    pub fn prepare_expiry(&self, session: SessionId, time_ms: i64) -> Txn {
        self.txn(&of_server(session), time_ms, self.decide_close_session(session))
    }

    /// Decides the deletion of a znode that [`Core::sweepable`] returned. It is refused if the znode has a
    /// child by now, is gone, or is neither a container nor a TTL znode. As with ZooKeeper nothing else is checked
    /// again: a TTL znode whose data was set since is deleted.
    #[must_use]
    pub fn prepare_sweep(&self, path: &ZPath, time_ms: i64) -> Txn {
        let decision = match self.tree.get(path) {
            None => Err(ErrorCode::NO_NODE),
            Some(znode) if znode.num_children > 0 => Err(ErrorCode::NOT_EMPTY),
            Some(znode) => match znode.stat.ephemeral_owner.ephemeral_type() {
                EphemeralType::Container | EphemeralType::Ttl { .. } => {
                    Ok(TxnOp::DeleteContainer { path: path.clone() })
                }
                EphemeralType::Persistent | EphemeralType::Ephemeral(_) => {
                    Err(ErrorCode::BAD_VERSION)
                }
            },
        };
        let op = decision.unwrap_or_else(TxnOp::Error);
        self.txn(&of_server(SessionId::NONE), time_ms, op)
    }

    /// The transactions with which recovery ends: they delete the ephemerals of sessions that
    /// neither the snapshot holds nor the log creates (`ZooKeeperServer.loadData`).
    ///
    /// They take no zxid of their own and are not logged. What is logged afterwards depends on
    /// them, so a snapshot of the state after them must be written first.
    #[must_use]
    pub fn prepare_orphan_removal(&self) -> Vec<Txn> {
        let removal = |session| Txn {
            zxid: self.last_zxid,
            ..self.txn(&of_server(session), 0, self.decide_close_session(session))
        };
        self.sessions.unknown().into_iter().map(removal).collect()
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

    /// The tree as a decision about a request of `requester` sees it.
    fn view<'a>(&'a self, requester: &'a Requester, has_session: bool) -> View<'a> {
        View::of(&self.tree, self.authorizer(requester), has_session)
    }

    /// Decides a single operation or one of a multi.
    fn decide_op(&self, op: &MultiOp, requester: &Requester, view: &View<'_>) -> Decision {
        match op {
            MultiOp::Create(create) => {
                let Create { kind, path, data, acl, flags } = create;
                let acl = || self.list_to_set(acl.as_deref(), requester);
                let (path, data) = (path.text(), data.as_deref());
                self.decide_create(NewZnode { kind: *kind, flags: *flags, path, data, acl }, view)
            }
            MultiOp::Delete(delete) => {
                view.check_session()?;
                let path = text(&delete.path)?.as_bytes();
                let found = Self::check_delete(path, delete.version, view)?;
                let op = TxnOp::Delete { path: found.znode.path.clone() };
                Ok((op, found.looked_up(&self.tree)))
            }
            MultiOp::SetData(SetData { path, data, version }) => {
                view.check_session()?;
                let path = path.text().ok_or(ErrorCode::BAD_ARGUMENTS)?;
                let set = (data.as_deref(), *version);
                let (found, version) = self.check_set_data(path.as_bytes(), set, view)?;
                let (path, data) = (found.znode.path.clone(), data.clone());
                Ok((TxnOp::SetData { path, data, version }, found.looked_up(&self.tree)))
            }
            MultiOp::Check(check) => Self::decide_check(check, view),
        }
    }

    /// Decides the operations of a multi, and tells for each what was looked up for it.
    fn decide_multi(
        &self,
        ops: &[MultiOp],
        requester: &Requester,
        mut view: View<'_>,
        time_ms: i64,
        in_multi: &mut InMulti,
    ) -> Result<TxnOp, ErrorCode> {
        ops.iter().try_for_each(create::check_in_multi)?;
        let mut decided = Vec::with_capacity(ops.len());
        in_multi.reserve_exact(ops.len());
        let (mut counts, mut bytes, mut bytes_max) = (0, 0, None);
        for (index, op) in ops.iter().enumerate() {
            let op = create::normalised(op);
            let decision = self.decide_op(&op, requester, &view).and_then(|(txn, looked_up)| {
                counts += usize::from(is_count(&txn));
                bytes += txn.about_bytes();
                // Decisions take memory, so the first one beyond the limit refuses the multi.
                let is_too_long = bytes > TXN_BYTES_ALWAYS
                    && bytes > *bytes_max.get_or_insert_with(|| txn_bytes_max(multi_len(ops)));
                if counts > QUOTA_COUNTS_PER_MULTI || is_too_long {
                    return Err(ErrorCode::BAD_ARGUMENTS);
                }
                Ok((txn, looked_up))
            });
            match decision {
                Ok((txn, looked_up)) => {
                    // None comes after the last.
                    if index + 1 < ops.len() {
                        let zxid = self.last_zxid.next();
                        view.assume(&txn, looked_up, requester.session, zxid, time_ms);
                    }
                    decided.push(txn);
                    in_multi.push(looked_up);
                }
                Err(refusal) => {
                    let error = |place: usize| match place.cmp(&index) {
                        std::cmp::Ordering::Less => ErrorCode::OK,
                        std::cmp::Ordering::Equal => refusal,
                        std::cmp::Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY,
                    };
                    let errors = (0..ops.len()).map(|place| TxnOp::Error(error(place)));
                    return Ok(TxnOp::Multi(errors.collect()));
                }
            }
        }
        Ok(TxnOp::Multi(decided))
    }

    /// The body of the reply to a multi or multiRead with a null path. ZooKeeper throws when it
    /// reaches the null path; its reply has the error [`ErrorCode::MARSHALLING_ERROR`] and contains
    /// the results of the operations before that. Such a request takes no zxid. `None` for any
    /// other request.
    #[must_use]
    pub fn reply_before_null_path(
        &self,
        request: &Request,
        requester: &Requester,
    ) -> Option<Response> {
        let is_null = |path: &RawPath| path.text().is_none();
        match request {
            Request::Write(Write::Multi(ops)) => {
                let place = ops.iter().position(|op| is_null(op.path()))?;
                // An operation that is refused earlier ends the multi before the null path.
                let view = self.view(requester, self.has_session(requester.session));
                let (before, looked_up) = (&ops[..place], &mut InMulti::new());
                let before = self.decide_multi(before, requester, view, 0, looked_up).ok()?;
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

    /// Checks a delete in a session that lives. A path that is not in UTF-8 has no znode.
    fn check_delete<'v>(
        path: &[u8],
        version: Expect,
        view: &'v View<'_>,
    ) -> Result<Found<'v>, ErrorCode> {
        let is_built_in =
            matches!(path, b"/" | b"/zookeeper" | b"/zookeeper/quota" | b"/zookeeper/config");
        let parent = before_name(path).ok_or(ErrorCode::BAD_ARGUMENTS)?;
        if is_built_in {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let found = Self::check_delete_below(parent, path, version, view);
        found.map_err(|code| unless_null(path, code))
    }

    fn check_delete_below<'v>(
        parent: &[u8],
        path: &[u8],
        version: Expect,
        view: &'v View<'_>,
    ) -> Result<Found<'v>, ErrorCode> {
        let (parent_place, parent) = view.look_up_parent(parent);
        let parent = parent.ok_or(ErrorCode::NO_NODE)?;
        view.authorizer.permits(&parent.acl, Permissions::DELETE)?;
        let (place, znode) = view.look_up(path);
        let znode = znode.ok_or(ErrorCode::NO_NODE)?;
        check_version(znode.stat.version, version)?;
        if znode.num_children > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        Ok(Found { znode, place, parent: parent_place })
    }

    /// Checks a `setData` in a session that lives. Returns the version after it, too.
    fn check_set_data<'v>(
        &self,
        path: &[u8],
        (data, expect): (Option<&[u8]>, Expect),
        view: &'v View<'_>,
    ) -> Result<(Found<'v>, i32), ErrorCode> {
        let (place, znode) = view.look_up(path);
        // A path that leads to a znode is valid, but for the empty one, which leads to the root.
        let Some(znode) = znode.filter(|_| !path.is_empty()) else {
            // ZooKeeper reads what is not UTF-8 as U+FFFD, which is not valid in a path.
            let text = std::str::from_utf8(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
            ZPath::check(text).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
            return Err(ErrorCode::NO_NODE);
        };
        let path = &znode.path;
        view.authorizer.permits(&znode.acl, Permissions::WRITE)?;
        if let Some(quota) = QuotaZnode::at(path) {
            let is_too_long = data.is_some_and(|data| data.len() > QUOTA_TEXT_BYTES_MAX);
            // ZooKeeper accepts counters that it cannot parse, and fails when it next counts.
            let is_unreadable =
                matches!(quota, QuotaZnode::Stats(_)) && StatsTrack::parse_text(data).is_none();
            if is_too_long || is_unreadable {
                return Err(ErrorCode::BAD_ARGUMENTS);
            }
        }
        if self.settings.enforce_quota {
            let length = data.map_or(0, <[u8]>::len) as i64;
            let change = Change { count: 0, bytes: length - znode.data_length() as i64 };
            self.quotas.admit(&self.tree, path, change)?;
        }
        let version = check_version(znode.stat.version, expect)?;
        Ok((Found { znode, place, parent: None }, version))
    }

    fn decide_set_acl(&self, set_acl: &SetAcl, requester: &Requester, view: &View<'_>) -> Decision {
        view.check_session()?;
        let path = valid(&set_acl.path)?;
        let acl = acl::fix_up(set_acl.acl.as_deref(), &requester.identities, &self.settings)?;
        let place = self.tree.find(path);
        let znode = self.tree.at(place).ok_or(ErrorCode::NO_NODE)?;
        view.authorizer.permits(&znode.acl, Permissions::ADMIN)?;
        let version = check_version(znode.stat.aversion, set_acl.version)?;
        let op = TxnOp::SetAcl { path: znode.path.clone(), acl, version };
        Ok((op, self.tree.looked_up(Some(place), None)))
    }

    fn decide_check(check: &Check, view: &View<'_>) -> Decision {
        view.check_session()?;
        let path = valid(&check.path)?;
        let znode = view.get(path).ok_or(ErrorCode::NO_NODE)?;
        view.authorizer.permits(&znode.acl, Permissions::READ)?;
        let version = check_version(znode.stat.version, check.version)?;
        Ok((TxnOp::Check { path: znode.path.clone(), version }, LookedUp::default()))
    }
}

/// The bytes that a request of `request_bytes` may write to the log.
fn txn_bytes_max(request_bytes: usize) -> usize {
    TXN_BYTES_MAX.min(TXN_BYTES_ALWAYS + request_bytes.saturating_mul(TXN_BYTES_PER_BYTE))
}

/// The bytes of the operations of a multi on the wire.
fn multi_len(ops: &[MultiOp]) -> usize {
    ops.iter().map(|op| create::normalised(op).encoded_len()).sum()
}

/// Whether it creates the counters of a quota, for which all znodes below a path are counted.
fn is_count(txn: &TxnOp) -> bool {
    match txn {
        TxnOp::Create(create) => matches!(QuotaZnode::at(&create.path), Some(QuotaZnode::Stats(_))),
        _ => false,
    }
}

/// The server itself as a requester, on behalf of `session`.
fn of_server(session: SessionId) -> Requester {
    Requester::new(session, ConnectionId(0), Xid(0))
}

/// The text of a path. ZooKeeper throws on a null path, and replies with `MarshallingError`.
fn text(path: &RawPath) -> Result<&str, ErrorCode> {
    path.text().ok_or(ErrorCode::MARSHALLING_ERROR)
}

/// The refusal of a write to `path`. ZooKeeper refuses a path with a null character before it looks for
/// anything else. No znode has such a path, so that only a refusal looks for one.
fn unless_null(path: &[u8], refusal: ErrorCode) -> ErrorCode {
    if path.contains(&0) { ErrorCode::BAD_ARGUMENTS } else { refusal }
}

/// What stands before the last slash of a path: that of the parent, but the empty string for a child
/// of the root. `None` if the text has no slash.
fn before_name(path: &[u8]) -> Option<&[u8]> {
    Some(&path[..last_slash(path)?])
}

/// The text of a valid path.
fn valid(path: &RawPath) -> Result<&str, ErrorCode> {
    let path = path.text().ok_or(ErrorCode::BAD_ARGUMENTS)?;
    ZPath::check(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
    Ok(path)
}

/// The next version, if the present one is the expected one.
fn check_version(version: i32, expect: Expect) -> Result<i32, ErrorCode> {
    if expect.admits(version) {
        Ok(Znode::version_after(version))
    } else {
        Err(ErrorCode::BAD_VERSION)
    }
}
