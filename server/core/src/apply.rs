//! Changes: [`Core::apply`] carries out a transaction, whether it was just decided or read from a
//! log.
//!
//! This is the only code that changes what survives a restart. It is total: it accepts every
//! transaction that a decision makes or a log may hold. A log may repeat what its snapshot holds
//! already; at the end of the log the state is the same as without the repetition, as with
//! ZooKeeper's `DataTree.processTxn`.

mod done;

use std::iter;

use bytes::Bytes;
use hashbrown::HashMap;
use smallvec::SmallVec;
use zoolet_protocol::{
    CreateKind, ErrorCode, EventType, MultiResult, PlainReply, RawPath, Response, SessionId,
    WatchedEvent, ZPath, Zxid,
};

use self::done::{Done, stat_of};
use crate::acl::{AclList, Identities};
use crate::core::Core;
use crate::ephemeral_owner::EphemeralType;
use crate::quota::{Change, QuotaZnode, Quotas};
use crate::tree::{Data, LookedUp, Place, Tree, Znode};
use crate::txn::{CreateTxn, Decided, Txn, TxnOp};
use crate::watches::{ConnectionId, Receivers, Table};

/// The result of a transaction: the reply, the events and the session that ended.
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
pub struct Effects<Reply = Response> {
    /// The zxid of the transaction. The reply and the events carry it.
    pub zxid: Zxid,
    /// The reply to the client that sent the request.
    pub reply: Result<Reply, ErrorCode>,
    /// The events, in order. A client receives its events before the reply.
    pub events: Vec<FiredEvent>,
    /// The session that the transaction closed, if it closed one.
    pub ended: Option<SessionId>,
}

impl<'a, Reply: From<PlainReply<'a>>> Effects<Reply> {
    /// The effects of a transaction of one operation. The tree must not have changed since.
    ///
    /// Inlined, so that they are built in place: to move them takes longer than some operations.
    #[inline(always)]
    fn of_single(
        done: Result<Done<'a>, ErrorCode>,
        tree: &Tree,
        zxid: Zxid,
        events: Vec<FiredEvent>,
    ) -> Self {
        // An empty list is made anew in place of being moved, for the same reason.
        let events = if events.is_empty() { Vec::new() } else { events };
        let effects = |reply| Self { zxid, reply, events, ended: None };
        match done {
            Ok(Done::Set(place, length)) => {
                effects(Ok(PlainReply::Stat(stat_of(place, length, tree)).into()))
            }
            Ok(Done::Created(path)) => effects(Ok(PlainReply::Path(path).into())),
            Ok(Done::CreatedWithStat(path, stat)) => {
                effects(Ok(PlainReply::PathStat(path, stat).into()))
            }
            Ok(Done::Deleted | Done::Checked) => effects(Ok(PlainReply::Empty.into())),
            Err(code) => effects(Err(code)),
        }
    }
}

/// One event and the connections whose watches it fired.
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
/// assert_eq!(effects.events[0].receivers[..], [ConnectionId(1)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiredEvent {
    /// The event as it is sent.
    pub event: WatchedEvent,
    /// The connections whose watches it fired, each once, ordered by id.
    pub receivers: SmallVec<[ConnectionId; 2]>,
    /// Who may read the znode. The event fires the watch of a connection that may not read it too, but is not
    /// sent to that (CVE-2024-23944).
    acl: AclList,
}

impl FiredEvent {
    /// Whether everyone may read the znode, so that no connection's identities matter.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.acl.permits_everyone(zoolet_protocol::Permissions::READ)
    }

    /// Whether a connection with these identities may read the znode.
    #[must_use]
    pub fn may_be_told(&self, identities: &Identities) -> bool {
        self.acl.permits(zoolet_protocol::Permissions::READ, identities)
    }
}

/// Decides which connections may read the events of one transaction. It evaluates a long access
/// control list once for each connection, however many events the list governs.
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
    /// The results so far, by the address of the list and the connection; `None` means everyone.
    results: Option<Box<AudienceResults>>,
}

type AudienceResults = HashMap<(usize, Option<ConnectionId>), AudienceResult>;

/// Whether a list permits reading. It keeps the list alive, so that no other list gets its address.
#[derive(Debug)]
struct AudienceResult {
    _list: AclList,
    permits: bool,
}

impl Audience {
    /// Whether everyone may read an event, so that no connection's identities matter.
    pub fn is_everyone(&mut self, fired: &FiredEvent) -> bool {
        self.evaluate(fired, None, || fired.is_public())
    }

    /// Whether a connection may read an event. `identities` returns those that the connection has
    /// now.
    pub fn includes(
        &mut self,
        fired: &FiredEvent,
        connection: ConnectionId,
        identities: impl FnOnce() -> Identities,
    ) -> bool {
        self.evaluate(fired, Some(connection), || fired.may_be_told(&identities()))
    }

    fn evaluate(
        &mut self,
        fired: &FiredEvent,
        connection: Option<ConnectionId>,
        permits: impl FnOnce() -> bool,
    ) -> bool {
        let Some(address) = fired.acl.long_address() else { return permits() };
        let result = || AudienceResult { _list: fired.acl.clone(), permits: permits() };
        let results = self.results.get_or_insert_default();
        results.entry((address, connection)).or_insert_with(result).permits
    }
}

/// The first capacity of the list of events: most changes fire one or two.
const EVENTS_AT_FIRST: usize = 2;

/// The header of the transaction that is being carried out.
#[derive(Clone, Copy)]
struct Header {
    session: SessionId,
    zxid: Zxid,
    time_ms: i64,
}

impl Core {
    /// Carries out a transaction.
    ///
    /// The tree shares the data of a create with the transaction, and copies those of a `setData`, so that it does
    /// not keep the frame alive in which they came.
    pub fn apply(&mut self, txn: &Txn) -> Effects {
        self.apply_with(txn, &LookedUp::default(), &[])
    }

    /// Carries out a transaction, as [`Core::apply`] does. It uses the places that the decision has
    /// looked up, if no znode came or went in this state machine since, and looks them up again
    /// otherwise. The result is the same.
    pub fn apply_decided(&mut self, decided: &Decided) -> Effects {
        self.apply_with(&decided.txn, &decided.looked_up, &decided.in_multi)
    }

    fn apply_with(&mut self, txn: &Txn, looked_up: &LookedUp, in_multi: &[LookedUp]) -> Effects {
        let mut events = Vec::new();
        let header = Header { session: txn.session, zxid: txn.zxid, time_ms: txn.time_ms };
        let mut ended = None;
        let reply = match &txn.op {
            TxnOp::CreateSession { timeout_ms } => {
                self.sessions.create(txn.session, *timeout_ms);
                Ok(Response::Empty)
            }
            TxnOp::CloseSession { paths } => {
                // A log that does not fit its snapshot may name paths that the session does not
                // own.
                for path in paths {
                    if !self.sessions.owns(txn.session, path) {
                        self.delete(path, &LookedUp::default(), header, &mut events);
                    }
                }
                // Logs from before ZooKeeper 3.6 do not name the ephemerals.
                self.delete_ephemerals(txn.session, header, &mut events);
                self.sessions.close(txn.session);
                ended = Some(txn.session);
                Ok(Response::Empty)
            }
            TxnOp::SetAcl { path, acl, version } => {
                let acl = self.tree.acl_lists().intern(acl);
                let place = self.tree.place(looked_up, path);
                let set = self.tree.update_at(place, |znode| {
                    znode.acl = acl;
                    znode.stat.aversion = *version;
                    znode.stat()
                });
                set.map(Response::Stat).ok_or(ErrorCode::NO_NODE)
            }
            // ZooKeeper logs the operations before a refused one as if they had been done.
            TxnOp::Multi(ops) if ops.iter().any(TxnOp::is_refusal) => {
                Ok(Response::Multi(ops.iter().map(refused).collect()))
            }
            TxnOp::Multi(ops) => {
                // An operation that lets a znode come or go ends what was looked up for those after it.
                let unknown = LookedUp::default();
                let looked_up = in_multi.iter().chain(iter::repeat(&unknown));
                let result = |(op, at)| {
                    let done = self.carry_out(op, at, header, &mut events);
                    Done::result(&done, &self.tree)
                };
                Ok(Response::Multi(ops.iter().zip(looked_up).map(result).collect()))
            }
            op => return self.apply_single(op, looked_up, header),
        };
        self.last_zxid = self.last_zxid.max(txn.zxid);
        Effects { zxid: txn.zxid, reply, events, ended }
    }

    /// Carries out the transaction of a plain write ([`Core::decide_plain`]), once, as [`Core::apply_decided`] does.
    /// The effects borrow from the transaction, and the data of a create move from there into the tree.
    ///
    /// # Panics
    ///
    /// If no plain write has such a transaction: it is of several operations, of a session or of an access control
    /// list.
    ///
    /// ```
    /// use zoolet_core::{ConnectionId, Core, Requester, Settings};
    /// use zoolet_protocol::{
    ///     Expect, MultiOp, PlainReply, PlainWrite, Request, SessionId, SetData, Write, Xid,
    ///     encode_request,
    /// };
    ///
    /// let mut core = Core::new(Settings::default());
    /// core.apply(&core.prepare_create_session(SessionId(1), 30_000, 0));
    /// let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
    /// let set = SetData { path: "/".into(), data: None, version: Expect::Any };
    /// let frame = encode_request(Xid(1), &Request::Write(Write::Op(MultiOp::SetData(set))));
    /// let write = PlainWrite::decode(&frame).unwrap();
    /// let mut decided = core.decide_plain(&write, &requester, 7);
    /// let effects = core.apply_plain(&mut decided);
    /// assert!(matches!(effects.reply, Ok(PlainReply::Stat(stat)) if stat.mtime == 7));
    /// ```
    pub fn apply_plain<'a>(&mut self, decided: &'a mut Decided) -> Effects<PlainReply<'a>> {
        let Decided { txn, looked_up, .. } = decided;
        let Txn { session, zxid, time_ms, ref mut op, .. } = *txn;
        let header = Header { session, zxid, time_ms };
        let mut events = Vec::new();
        let done = match op {
            TxnOp::Create(create) => {
                let data = create.data.take();
                self.create(create, data, looked_up, header, &mut events)
            }
            op => self.carry_out(op, looked_up, header, &mut events),
        };
        self.last_zxid = self.last_zxid.max(zxid);
        Effects::of_single(done, &self.tree, zxid, events)
    }

    /// Carries out a transaction of one operation, as most are.
    #[inline]
    fn apply_single(&mut self, op: &TxnOp, looked_up: &LookedUp, header: Header) -> Effects {
        let mut events = Vec::new();
        let done = self.carry_out(op, looked_up, header, &mut events);
        self.last_zxid = self.last_zxid.max(header.zxid);
        Effects::of_single(done, &self.tree, header.zxid, events)
    }

    /// Carries out a single operation or one of a multi.
    fn carry_out<'a>(
        &mut self,
        op: &'a TxnOp,
        looked_up: &LookedUp,
        header: Header,
        events: &mut Vec<FiredEvent>,
    ) -> Result<Done<'a>, ErrorCode> {
        match op {
            TxnOp::Create(create) => {
                self.create(create, create.data.clone(), looked_up, header, events)
            }
            TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => {
                let deleted = self.delete(path, looked_up, header, events);
                deleted.map(|()| Done::Deleted).ok_or(ErrorCode::NO_NODE)
            }
            TxnOp::SetData { path, data, version } => {
                let place = self.tree.place(looked_up, path);
                let set = self.set_data(path, place, (data.as_ref(), *version), header, events);
                set.map(|length| Done::Set(place, length)).ok_or(ErrorCode::NO_NODE)
            }
            TxnOp::Check { .. } => Ok(Done::Checked),
            TxnOp::Error(code) => Err(*code),
            other => unreachable!("{} stands alone", other.op_code()),
        }
    }

    /// Creates a znode. Its data come beside the transaction: a plain write takes them out of it.
    fn create<'a>(
        &mut self,
        create: &'a CreateTxn,
        data: Option<Data>,
        looked_up: &LookedUp,
        header: Header,
        events: &mut Vec<FiredEvent>,
    ) -> Result<Done<'a>, ErrorCode> {
        let path = &create.path;
        let acl = self.tree.acl_lists().intern(&create.acl);
        let Some(places) = self.tree.places(looked_up, path) else {
            self.tree.update(path, |root| root.acl = acl);
            return Err(ErrorCode::NODE_EXISTS);
        };
        if places.znode.has_znode() {
            self.tree.update_at(places.znode, |znode| znode.acl = acl);
            // A snapshot of ZooKeeper's may hold a znode, but not yet the change of its parent.
            let cversion = create.parent_cversion;
            if cversion != CreateTxn::PARENT_CVERSION_UNKNOWN {
                let raise = |parent: &mut Znode| raise_cversion(parent, cversion, header.zxid);
                self.tree.update_at(places.parent, raise);
            }
            return Err(ErrorCode::NODE_EXISTS);
        }
        let ephemeral_type =
            EphemeralType::of_created(create.kind, create.ephemeral, header.session);
        let bytes = data.as_ref().map_or(0, |data| data.len()) as i64;
        let made = || {
            let owner = ephemeral_type.into();
            Znode::created(path.clone(), data, acl, owner, header.zxid, header.time_ms)
        };
        let inserted = self.tree.insert_at(places, path, made, |parent| {
            let cversion = match create.parent_cversion {
                CreateTxn::PARENT_CVERSION_UNKNOWN => parent.stat.cversion.wrapping_add(1),
                cversion => cversion,
            };
            raise_cversion(parent, cversion, header.zxid);
        });
        let place = inserted.ok_or(ErrorCode::NO_NODE)?;
        let done = match create.kind {
            CreateKind::Create => Done::Created(path),
            _ => Done::CreatedWithStat(path, self.tree.at(place).expect("it is there").stat()),
        };
        self.index(ephemeral_type, path);
        match QuotaZnode::at(path) {
            Some(QuotaZnode::Limits(quota)) if !quota.is_empty() => self.quotas.insert(quota),
            Some(QuotaZnode::Stats(quota)) if !quota.is_empty() => {
                Quotas::recount(&mut self.tree, quota);
            }
            _ => {}
        }
        self.quotas.count(&mut self.tree, path, Change { count: 1, bytes });
        self.fire(EventType::NODE_CREATED, (path, place), Table::Data, events);
        self.fire_children((path, places.parent), events);
        Ok(done)
    }

    /// Lists a znode that the server deletes by itself, so that it is found when its time has come.
    pub(crate) fn index(&mut self, ephemeral_type: EphemeralType, path: &ZPath) {
        match ephemeral_type {
            EphemeralType::Persistent => {}
            EphemeralType::Ephemeral(session) => self.sessions.own(session, path.clone()),
            EphemeralType::Container => {
                self.containers.insert(path.clone());
            }
            EphemeralType::Ttl { .. } => {
                self.ttls.insert(path.clone());
            }
        }
    }

    /// Deletes a znode. `None` if it does not exist or, in a log that does not fit, if it has
    /// children.
    fn delete(
        &mut self,
        path: &ZPath,
        looked_up: &LookedUp,
        header: Header,
        events: &mut Vec<FiredEvent>,
    ) -> Option<()> {
        let places = self.tree.places(looked_up, path)?;
        let has_watches = !self.watches.is_empty();
        let look = |znode: &Znode| {
            let acl = has_watches.then(|| znode.acl.for_reading());
            (znode.stat.ephemeral_owner.ephemeral_type(), znode.data_length(), acl)
        };
        let (ephemeral_type, data_bytes, acl) =
            self.tree.remove_at(places, path, look, |parent| {
                parent.stat.pzxid = parent.stat.pzxid.max(header.zxid);
            })?;
        match ephemeral_type {
            EphemeralType::Persistent => {}
            EphemeralType::Ephemeral(session) => self.sessions.disown(session, path),
            EphemeralType::Container => {
                self.containers.remove(path);
            }
            EphemeralType::Ttl { .. } => {
                self.ttls.remove(path);
            }
        }
        if let Some(QuotaZnode::Limits(quota)) = QuotaZnode::at(path) {
            self.quotas.remove(quota);
        }
        let bytes = -(data_bytes as i64);
        self.quotas.count(&mut self.tree, path, Change { count: -1, bytes });
        if let Some(acl) = &acl {
            self.fire_deleted((path, places.znode.hash()), acl, events);
            self.fire_children((path, places.parent), events);
        }
        Some(())
    }

    /// Deletes the ephemerals of a session. It changes each parent and each quota once for all
    /// siblings, because a session may own hundreds of thousands of ephemerals.
    fn delete_ephemerals(
        &mut self,
        session: SessionId,
        header: Header,
        events: &mut Vec<FiredEvent>,
    ) {
        let paths = self.sessions.disown_all(session);
        let gone = self.tree.remove_all(&paths, header.zxid);
        if gone.len() < paths.len() {
            // In a log that does not fit, an ephemeral may have children. Such a znode stays.
            let is_left = |path: &ZPath| self.tree.get(path).is_some();
            for path in paths.iter().filter(|path| is_left(path)) {
                self.sessions.own(session, path.clone());
            }
        }
        self.quotas.count_deleted(&mut self.tree, gone.iter());
        if !self.watches.is_empty() {
            let hasher = self.tree.hasher().clone();
            for Znode { path, acl, .. } in &gone {
                self.fire_deleted((path, hasher.hash(path)), acl, events);
                let parent = path.parent().expect("the root is not an ephemeral");
                self.fire_children((path, Place::of_hash(hasher.hash(parent))), events);
            }
        }
    }

    fn set_data(
        &mut self,
        path: &ZPath,
        place: Place,
        (data, version): (Option<&Bytes>, i32),
        header: Header,
        events: &mut Vec<FiredEvent>,
    ) -> Option<usize> {
        let length = data.map_or(0, Bytes::len);
        let bytes = self.tree.update_at(place, |znode| {
            let bytes = length as i64 - znode.data_length() as i64;
            Data::set(&mut znode.data, data.map(|data| &**data));
            znode.stat.version = version;
            znode.stat.mzxid = header.zxid;
            znode.stat.mtime = header.time_ms;
            bytes
        })?;
        self.quotas.count(&mut self.tree, path, Change { count: 0, bytes });
        self.fire(EventType::NODE_DATA_CHANGED, (path, place), Table::Data, events);
        Some(length)
    }

    /// Fires the watches of a znode that exists. Beside the path is its place: with its hash, and mostly
    /// with its slot.
    fn fire(
        &mut self,
        event_type: EventType,
        (path, place): (&str, Place),
        table: Table,
        events: &mut Vec<FiredEvent>,
    ) {
        if self.watches.is_empty() {
            return;
        }
        let receivers = self.watches.trigger(path, place.hash(), table);
        if receivers.is_empty() {
            return;
        }
        match self.tree.at(place).or_else(|| self.tree.get(path)) {
            Some(Znode { path, acl, .. }) => {
                self.report(event_type, path.into(), receivers, acl, events);
            }
            None => self.report(event_type, path.into(), receivers, &AclList::OPEN, events),
        }
    }

    /// Fires the data and child watches of a deleted znode. Each connection receives one event,
    /// even if it has watches in both tables.
    fn fire_deleted(
        &mut self,
        (path, hash): (&ZPath, u32),
        acl: &AclList,
        events: &mut Vec<FiredEvent>,
    ) {
        let data = self.watches.trigger(path, hash, Table::Data);
        let mut child = self.watches.trigger(path, hash, Table::Child);
        child.retain(|connection| data.binary_search(connection).is_err());
        for receivers in [data, child] {
            self.report(EventType::NODE_DELETED, path.into(), receivers, acl, events);
        }
    }

    /// Fires the child watches of the parent of a znode that came or went. The parent's place is beside
    /// the path.
    fn fire_children(&mut self, (path, place): (&ZPath, Place), events: &mut Vec<FiredEvent>) {
        if self.watches.is_empty() {
            return;
        }
        let Some(parent) = path.parent() else { return };
        self.fire(EventType::NODE_CHILDREN_CHANGED, (parent, place), Table::Child, events);
    }

    fn report(
        &self,
        event_type: EventType,
        path: RawPath,
        receivers: Receivers,
        acl: &AclList,
        events: &mut Vec<FiredEvent>,
    ) {
        if receivers.is_empty() {
            return;
        }
        let acl = if self.settings.skip_acl { AclList::OPEN } else { acl.for_reading() };
        if events.is_empty() {
            *events = Vec::with_capacity(EVENTS_AT_FIRST);
        }
        events.push(FiredEvent { event: WatchedEvent::new(event_type, path), receivers, acl });
    }
}

/// Gives a parent the cversion of a created child.
fn raise_cversion(parent: &mut Znode, cversion: i32, zxid: Zxid) {
    // After 2^31 - 1 the new cversion is negative; then the parent keeps its cversion.
    if cversion > parent.stat.cversion {
        parent.stat.cversion = cversion;
        parent.stat.pzxid = parent.stat.pzxid.max(zxid);
    }
}

/// The result of one operation of a refused multi.
fn refused(op: &TxnOp) -> MultiResult {
    match op {
        TxnOp::Error(code) => MultiResult::Error(*code),
        _ => MultiResult::Error(ErrorCode::OK),
    }
}
