//! Changes: a transaction is carried out, whether it was just decided or read from a log.
//!
//! This is the only code that changes what outlives a restart. It is total: what a log says that
//! no longer fits, because a snapshot held it already, does nothing, as in ZooKeeper's
//! `DataTree.processTxn`.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
#[cfg(feature = "planted-bugs")]
use zoolet_planted_bugs::{PlantedBug, is_planted};
use zoolet_protocol::{
    ErrorCode, EventType, MultiResult, RawPath, Response, SessionId, Stat, WatchedEvent, ZPath,
    Zxid,
};

use crate::acl::{AclList, Identities};
use crate::core::Core;
use crate::owner::Owner;
use crate::quota::{Change, QuotaZnode, Quotas};
use crate::tree::Znode;
use crate::txn::{CreateTxn, Txn, TxnOp};
use crate::watches::{self, ConnectionId, Kind};

/// What a transaction brought about.
///
/// ```
/// use zoolet_core::{Core, Settings};
/// use zoolet_protocol::{Response, SessionId};
///
/// let mut core = Core::new(Settings::default());
/// let txn = core.prepare_create_session(SessionId(1), 30_000, 0);
/// let effects = core.apply(&txn);
/// assert_eq!(effects.reply, Ok(Response::Empty));
/// assert_eq!(effects.zxid, core.last_zxid());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effects {
    /// The zxid of the transaction, which the reply and the events carry.
    pub zxid: Zxid,
    /// The answer to whoever asked.
    pub reply: Result<Response, ErrorCode>,
    /// What others hear of it, in order, and before the answer is given.
    pub events: Vec<Fired>,
    /// The session that is over with this, if one is.
    pub ended: Option<SessionId>,
}

/// One event and who hears of it.
///
/// ```
/// use zoolet_core::{ConnectionId, Core, Requester, Settings};
/// use zoolet_protocol::{
///     Expect, Lookup, MultiOp, RawPath, SessionId, SetData, Watch, Write, Xid,
/// };
///
/// let mut core = Core::new(Settings::default());
/// core.apply(&core.prepare_create_session(SessionId(1), 30_000, 0));
/// let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
/// let path: RawPath = "/zookeeper".into();
/// core.watch(&Watch::Lookup(Lookup::GetData(path.clone())), &requester);
///
/// let set = MultiOp::SetData(SetData { path, data: None, version: Expect::Any });
/// let effects = core.apply(&core.prepare(&Write::Op(set), &requester, 0));
/// assert_eq!(effects.events[0].receivers, [ConnectionId(1)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    /// What happened.
    pub event: WatchedEvent,
    /// Whose watches it fired, each connection once, in order.
    pub receivers: Vec<ConnectionId>,
    /// Who may know of it. A watch fires for those who may not, and they do not hear of it
    /// (CVE-2024-23944).
    readers: AclList,
}

impl Fired {
    /// Whether everyone may know of it, so that nobody need be asked who they are.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.readers.permits_everyone(zoolet_protocol::Permissions::READ)
    }

    /// Whether a connection with these identities may know of it.
    #[must_use]
    pub fn may_be_told(&self, identities: &Identities) -> bool {
        self.readers.permits(zoolet_protocol::Permissions::READ, identities)
    }
}

/// Who may know of the events of one transaction: a long list is judged once for each connection,
/// whatever number of events it governs.
///
/// ```
/// use zoolet_core::{Audience, ConnectionId, Core, Identities, Requester, Settings};
/// use zoolet_protocol::{
///     Expect, Lookup, MultiOp, RawPath, SessionId, SetData, Watch, Write, Xid,
/// };
///
/// let mut core = Core::new(Settings::default());
/// core.apply(&core.prepare_create_session(SessionId(1), 30_000, 0));
/// let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
/// let path: RawPath = "/zookeeper".into();
/// core.watch(&Watch::Lookup(Lookup::GetData(path.clone())), &requester);
///
/// let set = MultiOp::SetData(SetData { path, data: None, version: Expect::Any });
/// let effects = core.apply(&core.prepare(&Write::Op(set), &requester, 0));
/// let mut audience = Audience::default();
/// assert!(audience.is_everyone(&effects.events[0]));
/// assert!(audience.includes(&effects.events[0], ConnectionId(1), Identities::default));
/// ```
#[derive(Debug, Default)]
pub struct Audience {
    /// By the address of a list, and the connection; for everyone without one.
    verdicts: Option<Box<Verdicts>>,
}

type Verdicts = HashMap<(usize, Option<ConnectionId>), Verdict>;

/// Whether a list lets someone know. The list is kept, so that no other comes to have its address.
#[derive(Debug)]
struct Verdict {
    _list: AclList,
    permits: bool,
}

impl Audience {
    /// Whether everyone may know of an event, so that nobody need be asked who they are.
    pub fn is_everyone(&mut self, fired: &Fired) -> bool {
        self.judge(fired, None, || fired.is_public())
    }

    /// Whether a connection may know of an event. `identities` are those that it has now.
    pub fn includes(
        &mut self,
        fired: &Fired,
        connection: ConnectionId,
        identities: impl FnOnce() -> Identities,
    ) -> bool {
        self.judge(fired, Some(connection), || fired.may_be_told(&identities()))
    }

    fn judge(
        &mut self,
        fired: &Fired,
        connection: Option<ConnectionId>,
        judge: impl FnOnce() -> bool,
    ) -> bool {
        let Some(address) = fired.readers.long_address() else { return judge() };
        let verdict = || Verdict { _list: fired.readers.clone(), permits: judge() };
        let verdicts = self.verdicts.get_or_insert_default();
        verdicts.entry((address, connection)).or_insert_with(verdict).permits
    }
}

/// The zxid and time of the transaction that is carried out, and who did it.
#[derive(Clone, Copy)]
struct At {
    session: SessionId,
    zxid: Zxid,
    time_ms: i64,
}

impl Core {
    /// Carries a transaction out.
    ///
    /// Data is copied, so that the tree does not keep the frame that it came in.
    pub fn apply(&mut self, txn: &Txn) -> Effects {
        let mut events = Vec::new();
        let at = At { session: txn.session, zxid: txn.zxid, time_ms: txn.time_ms };
        let mut ended = None;
        let reply = match &txn.op {
            TxnOp::CreateSession { timeout_ms } => {
                self.sessions.begin(txn.session, *timeout_ms);
                Ok(Response::Empty)
            }
            TxnOp::CloseSession { paths } => {
                // In a log that does not fit, these need not be its ephemerals.
                for path in paths {
                    if !self.sessions.owns(txn.session, path) {
                        self.delete(path, at, &mut events);
                    }
                }
                // Logs from before ZooKeeper 3.6 do not tell them.
                self.delete_ephemerals(txn.session, at, &mut events);
                self.sessions.end(txn.session);
                ended = Some(txn.session);
                Ok(Response::Empty)
            }
            TxnOp::SetAcl { path, acl, version } => {
                let acl = self.tree.acl_lists().intern(acl);
                let set = self.tree.update(path, |znode| {
                    znode.acl = acl;
                    znode.stat.aversion = *version;
                    znode.stat()
                });
                set.map(Response::Stat).ok_or(ErrorCode::NO_NODE)
            }
            // ZooKeeper logs what stands before a refusal as if it had been granted.
            TxnOp::Multi(ops) if ops.iter().any(TxnOp::is_refusal) => {
                #[cfg(feature = "planted-bugs")]
                if is_planted(PlantedBug::MultiHalfDone) {
                    for op in ops.iter().filter(|op| !op.is_refusal()) {
                        self.carry_out(op, at, &mut events);
                    }
                }
                Ok(Response::Multi(ops.iter().map(refused).collect()))
            }
            TxnOp::Multi(ops) => {
                let results = ops.iter().map(|op| self.carry_out(op, at, &mut events));
                Ok(Response::Multi(results.collect()))
            }
            op => match self.carry_out(op, at, &mut events) {
                MultiResult::Create(path) => Ok(Response::Path(RawPath(Some(path)))),
                MultiResult::Create2(path, stat) => Ok(Response::PathStat(path, stat)),
                MultiResult::SetData(stat) => Ok(Response::Stat(stat)),
                MultiResult::Error(code) => Err(code),
                _ => Ok(Response::Empty),
            },
        };
        self.last_zxid = self.last_zxid.max(txn.zxid);
        Effects { zxid: txn.zxid, reply, events, ended }
    }

    /// Carries an operation out that may stand alone or in a multi.
    fn carry_out(&mut self, op: &TxnOp, at: At, events: &mut Vec<Fired>) -> MultiResult {
        match op {
            TxnOp::Create(create) => self.create(create, at, events),
            TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => {
                match self.delete(path, at, events) {
                    Some(()) => MultiResult::Delete,
                    None => MultiResult::Error(ErrorCode::NO_NODE),
                }
            }
            TxnOp::SetData { path, data, version } => {
                match self.set_data(path, data.as_ref(), *version, at, events) {
                    Some(stat) => MultiResult::SetData(stat),
                    None => MultiResult::Error(ErrorCode::NO_NODE),
                }
            }
            TxnOp::Check { .. } => MultiResult::Check,
            TxnOp::Error(code) => MultiResult::Error(*code),
            other => unreachable!("{} stands alone", other.op_code()),
        }
    }

    fn create(&mut self, create: &CreateTxn, at: At, events: &mut Vec<Fired>) -> MultiResult {
        let path = &create.path;
        let acl = self.tree.acl_lists().intern(&create.acl);
        let is_there = self.tree.update(path, |znode| znode.acl = acl.clone()).is_some();
        let Some(parent) = path.parent() else { return MultiResult::Error(ErrorCode::NODE_EXISTS) };
        let raised = self.tree.update(parent, |parent| {
            let cversion = match create.parent_cversion {
                CreateTxn::PARENT_CVERSION_UNKNOWN if is_there => parent.stat.cversion,
                CreateTxn::PARENT_CVERSION_UNKNOWN => parent.stat.cversion.wrapping_add(1),
                cversion => cversion,
            };
            // At the end of the numbers the new one is negative, and the parent stays as it is.
            if cversion > parent.stat.cversion {
                parent.stat.cversion = cversion;
                parent.stat.pzxid = parent.stat.pzxid.max(at.zxid);
            }
        });
        if is_there {
            // ZooKeeper's snapshots may hold a znode and not yet what it did to its parent.
            return MultiResult::Error(ErrorCode::NODE_EXISTS);
        }
        if raised.is_none() {
            return MultiResult::Error(ErrorCode::NO_NODE);
        }
        let owner = Owner::of_created(create.kind, create.ephemeral, at.session);
        self.list(owner, path);
        let data = create.data.as_deref().map(Bytes::copy_from_slice);
        let bytes = data.as_ref().map_or(0, Bytes::len) as i64;
        let znode =
            Znode::created(path.clone(), data, acl.clone(), owner.into(), at.zxid, at.time_ms);
        let stat = znode.stat();
        self.tree.insert(znode);
        match QuotaZnode::at(path) {
            Some(QuotaZnode::Limits(quota)) if !quota.is_empty() => self.quotas.insert(quota),
            Some(QuotaZnode::Stats(quota)) if !quota.is_empty() => {
                Quotas::recount(&mut self.tree, quota);
            }
            _ => {}
        }
        self.quotas.count(&mut self.tree, path, Change { count: 1, bytes });
        self.fire(EventType::NODE_CREATED, path, Kind::Data, &acl, events);
        self.fire_children(parent, events);
        let path = path.as_str().into();
        match create.kind {
            zoolet_protocol::CreateKind::Create => MultiResult::Create(path),
            _ => MultiResult::Create2(path, stat),
        }
    }

    /// Lists a znode where those that go by themselves are looked for.
    fn list(&mut self, owner: Owner, path: &ZPath) {
        match owner {
            Owner::Nobody => {}
            Owner::Session(session) => self.sessions.own(session, path.clone()),
            Owner::Container => {
                self.containers.insert(path.clone());
            }
            Owner::Ttl { .. } => {
                self.ttls.insert(path.clone());
            }
        }
    }

    /// Deletes a znode; `None` if it is not there, or, in a log that does not fit, has children.
    fn delete(&mut self, path: &ZPath, at: At, events: &mut Vec<Fired>) -> Option<()> {
        let parent = path.parent()?;
        self.tree.update(parent, |parent| parent.stat.pzxid = parent.stat.pzxid.max(at.zxid));
        if self.tree.get(path)?.num_children > 0 {
            return None;
        }
        let znode = self.tree.remove(path)?;
        match znode.stat.owner.owner() {
            Owner::Nobody => {}
            Owner::Session(session) => self.sessions.disown(session, path),
            Owner::Container => {
                self.containers.remove(path);
            }
            Owner::Ttl { .. } => {
                self.ttls.remove(path);
            }
        }
        if let Some(QuotaZnode::Limits(quota)) = QuotaZnode::at(path) {
            self.quotas.remove(quota);
        }
        let bytes = -(znode.data_length() as i64);
        self.quotas.count(&mut self.tree, path, Change { count: -1, bytes });
        self.fire_deleted(path, &znode.acl, events);
        self.fire_children(parent, events);
        Some(())
    }

    /// Deletes a session's ephemerals, and tells how many that were. What one after the other would do
    /// for each is done once for many: a session may own hundreds of thousands.
    fn delete_ephemerals(&mut self, session: SessionId, at: At, events: &mut Vec<Fired>) -> usize {
        let paths = self.sessions.disown_all(session);
        let gone = self.tree.remove_all(&paths, at.zxid);
        self.quotas.count_deleted(&mut self.tree, gone.iter().map(Arc::as_ref));
        if !self.watches.is_empty() {
            for znode in &gone {
                self.fire_deleted(&znode.path, &znode.acl, events);
                let parent = znode.path.parent().expect("the root is no ephemeral");
                self.fire_children(parent, events);
            }
        }
        gone.len()
    }

    /// Ends what a recovery has left without an owner, ephemerals of sessions that are neither in the
    /// snapshot nor begun in a log, and tells how many went (`ZooKeeperServer.loadData`). What follows
    /// depends on it, so it must be in a snapshot before anything is logged.
    pub fn end_recovery(&mut self) -> usize {
        #[cfg(feature = "planted-bugs")]
        if is_planted(PlantedBug::NumberReused) {
            self.tree.forget_numbers();
        }
        let mut count = 0;
        for session in self.sessions.unknown() {
            let at = At { session, zxid: self.last_zxid, time_ms: 0 };
            count += self.delete_ephemerals(session, at, &mut Vec::new());
            self.sessions.end(session);
        }
        count
    }

    fn set_data(
        &mut self,
        path: &ZPath,
        data: Option<&Bytes>,
        version: i32,
        at: At,
        events: &mut Vec<Fired>,
    ) -> Option<Stat> {
        let data = data.map(|data| Bytes::copy_from_slice(data));
        let length = data.as_ref().map_or(0, Bytes::len) as i64;
        let (stat, acl, bytes) = self.tree.update(path, |znode| {
            let bytes = length - znode.data_length() as i64;
            znode.data = data;
            znode.stat.version = version;
            znode.stat.mzxid = at.zxid;
            znode.stat.mtime = at.time_ms;
            (znode.stat(), znode.acl.clone(), bytes)
        })?;
        self.quotas.count(&mut self.tree, path, Change { count: 0, bytes });
        self.fire(EventType::NODE_DATA_CHANGED, path, Kind::Data, &acl, events);
        Some(stat)
    }

    fn fire(
        &mut self,
        event_type: EventType,
        path: &str,
        kind: Kind,
        acl: &AclList,
        events: &mut Vec<Fired>,
    ) {
        let receivers = self.watches.trigger(path, kind);
        self.report(event_type, path, receivers, acl, events);
    }

    /// A deletion is heard of once by each connection, whichever of the two tables it is in.
    fn fire_deleted(&mut self, path: &str, acl: &AclList, events: &mut Vec<Fired>) {
        let data = self.watches.trigger(path, Kind::Data);
        let mut child = self.watches.trigger(path, Kind::Child);
        child.retain(|connection| data.binary_search(connection).is_err());
        self.report(EventType::NODE_DELETED, path, data, acl, events);
        self.report(EventType::NODE_DELETED, path, child, acl, events);
    }

    fn fire_children(&mut self, parent: &str, events: &mut Vec<Fired>) {
        let receivers = self.watches.trigger(parent, Kind::Child);
        if receivers.is_empty() {
            return;
        }
        let acl = self.tree.get(parent).map_or(AclList::OPEN, |parent| parent.acl.clone());
        self.report(EventType::NODE_CHILDREN_CHANGED, parent, receivers, &acl, events);
    }

    fn report(
        &self,
        event_type: EventType,
        path: &str,
        receivers: Vec<ConnectionId>,
        acl: &AclList,
        events: &mut Vec<Fired>,
    ) {
        if receivers.is_empty() {
            return;
        }
        let readers = if self.settings.skip_acl { AclList::OPEN } else { acl.clone() };
        events.push(Fired { event: watches::event(event_type, path), receivers, readers });
    }
}

/// What becomes of an operation of a multi that was refused.
fn refused(op: &TxnOp) -> MultiResult {
    match op {
        TxnOp::Error(code) => MultiResult::Error(*code),
        _ => MultiResult::Error(ErrorCode::OK),
    }
}
