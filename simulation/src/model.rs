//! What a ZooKeeper server does, written as simply as possible and independently: it shares only
//! the records of the wire with the server. It receives each request before the server does, and
//! computes which messages each connection should receive, in which order.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zoolet_protocol::{
    ConnectRequest, Create, CreateKind, ErrorCode, MultiOp, MultiReadOp, MultiResult, OpCode,
    Password, Read, ReplyHeader, Request, RequestHeader, Response, SessionId, SessionRequest,
    SetWatches, Watch, WatchedEvent, Write, Xid, Zxid, decode_all, decode_request,
};

use super::connection::Connection;
use super::log_tap::Logged;
use super::tree::{Change, Tree};

/// A connection's number.
pub(crate) type ConnectionId = u64;

/// The time of the run, and the wall time of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) ms: u64,
    pub(crate) wall_ms: i64,
}

/// A message that a connection should receive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expected {
    /// The zxid on which it depends.
    pub(crate) after: Zxid,
    pub(crate) message: Message,
}

/// A message from the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    Connected { session: SessionId, timeout_ms: i32 },
    Reply(OpCode, ReplyHeader, Response),
    Event(Zxid, WatchedEvent),
}

#[derive(Debug, Clone)]
struct SessionState {
    timeout_ms: i32,
    last_heard_ms: u64,
    connection: Option<ConnectionId>,
}

/// The state before a write that may not survive.
#[derive(Debug)]
struct Before {
    zxid: Zxid,
    tree: Tree,
    sessions: BTreeMap<SessionId, SessionState>,
}

/// The model of a server.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) tree: Tree,
    pub(crate) zxid: Zxid,
    sessions: BTreeMap<SessionId, SessionState>,
    /// All sessions that ever existed.
    known_sessions: BTreeSet<SessionId>,
    connections: BTreeMap<ConnectionId, Connection>,
    tick_ms: u64,
    /// The last zxid that a client has learned of.
    told: Zxid,
    /// The write that was requested and is not in the log yet.
    unlogged: Option<Zxid>,
    /// The connection that is opening a session.
    creating: Option<(ConnectionId, i32)>,
    /// Whether the next write may fail, so that the state before it must be kept.
    pub(crate) is_armed: bool,
    before: Vec<Before>,
    /// The possible states after the crash, until the first write tells which one survived.
    is_recovering: bool,
    /// The numbers of expired sessions, and of the writes in flight at a crash that survived and
    /// that did not.
    pub(crate) expired: u64,
    pub(crate) survived: u64,
    pub(crate) undone: u64,
}

type Checked<T = ()> = Result<T, String>;

impl Model {
    pub(crate) fn new(tick_ms: u64) -> Self {
        Self {
            tree: Tree::default(),
            zxid: Zxid::ZERO,
            sessions: BTreeMap::new(),
            known_sessions: BTreeSet::new(),
            connections: BTreeMap::new(),
            tick_ms,
            told: Zxid::ZERO,
            unlogged: None,
            creating: None,
            is_armed: false,
            before: Vec::new(),
            is_recovering: false,
            expired: 0,
            survived: 0,
            undone: 0,
        }
    }

    pub(crate) fn open(&mut self, id: ConnectionId) {
        self.connections.insert(id, Connection::open());
    }

    /// The server has closed a connection.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id)
            && let Some(session) = connection.session
            && let Some(state) = self.sessions.get_mut(&session)
            && state.connection == Some(id)
        {
            state.connection = None;
        }
    }

    /// The number of live sessions.
    pub(crate) fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the server handles requests of a connection.
    pub(crate) fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.is_open)
    }

    /// The server and its connections are gone. The writes in flight may survive.
    pub(crate) fn crash(&mut self) {
        self.connections.clear();
        (self.unlogged, self.creating) = (None, None);
    }

    /// A server starts again. Each session has its full timeout from now on.
    pub(crate) fn restart(&mut self) {
        self.is_recovering = true;
    }

    fn recovered(&mut self, reached: Zxid, now: Now) -> Checked {
        self.is_recovering = false;
        if reached < self.told {
            return Err(format!(
                "lost: {} was acknowledged, and the server starts at {reached}",
                self.told
            ));
        }
        self.survived += u64::from(!self.before.is_empty() && reached > self.told);
        while self.zxid > reached {
            self.undone += 1;
            let Some(before) = self.before.pop() else {
                return Err(format!(
                    "lost: {} was durable, and the server starts at {reached}",
                    self.zxid
                ));
            };
            for session in self.sessions.keys() {
                if !before.sessions.contains_key(session) {
                    // No client had learned of it.
                    self.known_sessions.remove(session);
                }
            }
            (self.zxid, self.tree, self.sessions) = (before.zxid, before.tree, before.sessions);
        }
        if self.zxid != reached {
            return Err(format!("the server has reached {reached}, the model {}", self.zxid));
        }
        self.before.clear();
        self.is_armed = false;
        for state in self.sessions.values_mut() {
            (state.last_heard_ms, state.connection) = (now.ms, None);
        }
        Ok(())
    }

    /// Takes the next zxid, and keeps the state before it if the write may fail.
    fn next_zxid(&mut self) -> Zxid {
        if self.is_armed {
            self.before.push(Before {
                zxid: self.zxid,
                tree: self.tree.clone(),
                sessions: self.sessions.clone(),
            });
        }
        self.zxid = Zxid(self.zxid.0 + 1);
        self.zxid
    }

    /// A transaction is in the log: that of the present request, or one of the server's own.
    pub(crate) fn logged(&mut self, logged: &Logged, now: Now) -> Checked {
        if self.is_recovering {
            self.recovered(Zxid(logged.zxid.0 - 1), now)?;
        }
        if self.unlogged.is_some_and(|zxid| zxid == logged.zxid) {
            self.unlogged = None;
            return Ok(());
        }
        if logged.zxid.0 != self.zxid.0 + 1 {
            return Err(format!("{logged:?} is logged after {}", self.zxid));
        }
        let zxid = self.next_zxid();
        self.expired += u64::from(logged.op == OpCode::CLOSE_SESSION);
        match logged.op {
            OpCode::CREATE_SESSION => self.begin_session(logged.session, zxid, now),
            OpCode::CLOSE_SESSION => self.expire(logged.session, zxid, now),
            OpCode::DELETE_CONTAINER => {
                let path = logged.path.clone().unwrap_or_default();
                let change = self.tree.sweep(&path, zxid);
                let change = change.ok_or_else(|| {
                    format!("{path} is deleted by the sweeper, which should keep it")
                })?;
                self.fire(zxid, &change);
                Ok(())
            }
            // The znode could no longer be swept.
            OpCode::ERROR if logged.session.is_none() => Ok(()),
            _ => Err(format!("no request explains the log record {logged:?}")),
        }
    }

    fn begin_session(&mut self, session: SessionId, zxid: Zxid, now: Now) -> Checked {
        let Some((id, timeout_ms)) = self.creating.take() else {
            return Err(format!("no client opened the session {session}"));
        };
        if !self.known_sessions.insert(session) {
            return Err(format!("the session id {session} is given twice"));
        }
        let state = SessionState { timeout_ms, last_heard_ms: now.ms, connection: Some(id) };
        self.sessions.insert(session, state);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.session = Some(session);
        }
        self.expect(id, zxid, Message::Connected { session, timeout_ms });
        Ok(())
    }

    fn expire(&mut self, session: SessionId, zxid: Zxid, now: Now) -> Checked {
        let Some(state) = self.sessions.get(&session) else {
            return Err(format!("the session {session} ends, and does not exist"));
        };
        let due_ms = state.last_heard_ms + state.timeout_ms.unsigned_abs() as u64;
        if now.ms < due_ms {
            return Err(format!("the session {session} ends {} ms too early", due_ms - now.ms));
        }
        self.end_session(session, zxid);
        Ok(())
    }

    fn end_session(&mut self, session: SessionId, zxid: Zxid) {
        for change in self.tree.delete_ephemerals(session, zxid) {
            self.fire(zxid, &change);
        }
        if let Some(id) = self.sessions.remove(&session).and_then(|state| state.connection)
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.is_open = false;
        }
    }

    /// Checks that no session outlived its timeout.
    fn check_expiry(&self, now: Now) -> Checked {
        for (session, state) in &self.sessions {
            let latest_ms =
                state.last_heard_ms + state.timeout_ms.unsigned_abs() as u64 + 2 * self.tick_ms;
            if now.ms > latest_ms {
                return Err(format!("the session {session} outlives its timeout"));
            }
        }
        Ok(())
    }

    fn expect(&mut self, id: ConnectionId, after: Zxid, message: Message) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.expected.push_back(Expected { after, message });
        }
    }

    /// The server receives a frame.
    pub(crate) fn request(
        &mut self,
        id: ConnectionId,
        frame: &Bytes,
        timeouts_ms: &std::ops::RangeInclusive<i32>,
        now: Now,
    ) -> Checked {
        if !self.is_recovering {
            self.check_expiry(now)?;
        }
        let Some(connection) = self.connections.get(&id).filter(|connection| connection.is_open)
        else {
            return Ok(());
        };
        let Some(session) = connection.session else {
            let request: ConnectRequest = decode_all(frame).map_err(|error| error.to_string())?;
            return self.shake_hands(id, &request, timeouts_ms, now);
        };
        let (header, request) = decode_request(frame).map_err(|error| error.to_string())?;
        let request = request.map_err(|error| error.to_string())?;
        if let Some(state) = self.sessions.get_mut(&session) {
            state.last_heard_ms = now.ms;
        }
        match request {
            Request::Read(read) => {
                let result = self.read(session, &read);
                self.reply(id, header, result);
            }
            Request::Watch(watch) => {
                let result = self.watch(id, &watch);
                self.reply(id, header, result);
            }
            Request::Write(write) => self.write(id, session, header, &write, now)?,
            Request::Session(SessionRequest::Ping) => {
                let header = RequestHeader { xid: Xid::PING, ..header };
                self.reply(id, header, Ok(Response::Empty));
            }
            other => return Err(format!("the model knows no {}", other.op_code())),
        }
        Ok(())
    }

    /// The server has handled the frame.
    pub(crate) fn handled(&mut self) -> Checked {
        match self.unlogged.take() {
            Some(zxid) => Err(format!("{zxid} was not logged")),
            None => Ok(()),
        }
    }

    fn shake_hands(
        &mut self,
        id: ConnectionId,
        request: &ConnectRequest,
        timeouts_ms: &std::ops::RangeInclusive<i32>,
        now: Now,
    ) -> Checked {
        if !self.is_recovering && request.last_zxid_seen > self.zxid {
            return Err(format!("a client has seen {}", request.last_zxid_seen));
        }
        let timeout_ms = request.timeout_ms.clamp(*timeouts_ms.start(), *timeouts_ms.end());
        if request.session.is_none() {
            self.creating = Some((id, timeout_ms));
            return Ok(());
        }
        let session = request.session;
        let Some(state) = self.sessions.get_mut(&session) else {
            let refused = Message::Connected { session: SessionId::NONE, timeout_ms: 0 };
            self.expect(id, self.zxid, refused);
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.is_open = false;
            }
            return Ok(());
        };
        if request.password != Password::of(session) {
            return Err("a client has the wrong password".to_owned());
        }
        (state.timeout_ms, state.last_heard_ms) = (timeout_ms, now.ms);
        let displaced = state.connection.replace(id);
        if let Some(displaced) = displaced.and_then(|id| self.connections.get_mut(&id)) {
            // Its waiting messages are lost.
            displaced.is_open = false;
            displaced.expected.clear();
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.session = Some(session);
        }
        self.expect(id, self.zxid, Message::Connected { session, timeout_ms });
        Ok(())
    }

    fn reply(
        &mut self,
        id: ConnectionId,
        header: RequestHeader,
        result: Result<Response, ErrorCode>,
    ) {
        let zxid = self.zxid;
        let (err, response) = match result {
            Ok(response) => (ErrorCode::OK, response),
            Err(code) => (code, Response::Empty),
        };
        let reply = ReplyHeader { xid: header.xid, zxid, err };
        self.expect(id, zxid, Message::Reply(header.op, reply, response));
    }

    fn read(&self, session: SessionId, read: &Read) -> Result<Response, ErrorCode> {
        let text = |path: &zoolet_protocol::RawPath| path.text().unwrap_or_default().to_owned();
        match read {
            Read::Lookup(lookup) => self.tree.look_up(lookup),
            Read::Sync(path) => Ok(Response::Path(path.clone())),
            Read::GetEphemerals(prefix) => {
                let prefix = text(prefix);
                let paths = self.tree.ephemerals(session);
                let below = paths.iter().filter(|path| path.starts_with(&prefix));
                Ok(Response::Names(below.map(String::as_str).collect()))
            }
            Read::GetAllChildrenNumber(path) => self.tree.descendants(&text(path)),
            Read::MultiRead(ops) => {
                let read = |op: &MultiReadOp| match self.tree.look_up(&op.to_lookup()) {
                    Ok(Response::Data(data, stat)) => MultiResult::Data(data, stat),
                    Ok(Response::Names(names)) => MultiResult::Children(names),
                    Ok(_) => MultiResult::Error(ErrorCode::OK),
                    Err(code) => MultiResult::Error(code),
                };
                Ok(Response::Multi(ops.iter().map(read).collect()))
            }
            Read::GetAcl(_) | Read::CheckWatches(_) => Err(ErrorCode::UNIMPLEMENTED),
        }
    }

    fn watch(&mut self, id: ConnectionId, watch: &Watch) -> Result<Response, ErrorCode> {
        if let Watch::Set(lists) | Watch::Set2(lists) = watch {
            self.set_watches(id, lists);
            return Ok(Response::Empty);
        }
        let connection = self.connections.entry(id).or_default();
        match watch {
            Watch::Lookup(lookup) => {
                let found = self.tree.look_up(lookup);
                connection.look(lookup, found.is_ok());
                found
            }
            Watch::Add(add) => {
                connection.add(add);
                Ok(Response::Number(0))
            }
            Watch::Remove(remove) if connection.remove(remove) => Ok(Response::Empty),
            Watch::Remove(_) => Err(ErrorCode::NO_WATCHER),
            Watch::Set(_) | Watch::Set2(_) => Ok(Response::Empty),
        }
    }

    /// Sets watches again, after the events of the missed changes.
    fn set_watches(&mut self, id: ConnectionId, lists: &SetWatches) {
        let connection = self.connections.entry(id).or_default();
        for (event_type, path) in connection.set_watches(lists, &self.tree) {
            let event = Message::Event(Zxid::NONE, WatchedEvent::new(event_type, path));
            self.expect(id, self.zxid, event);
        }
    }

    fn write(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        header: RequestHeader,
        write: &Write,
        now: Now,
    ) -> Checked {
        let zxid = self.next_zxid();
        self.unlogged = Some(zxid);
        match write {
            Write::Op(op) => {
                let done = self.tree.carry_out(op, session, zxid, now.wall_ms);
                let result = done.map(|(result, changes)| {
                    changes.iter().for_each(|change| self.fire(zxid, change));
                    response(op, result)
                });
                self.reply(id, header, result);
            }
            Write::Multi(ops) => {
                let results = self.multi(session, ops, zxid, now.wall_ms);
                self.reply(id, header, Ok(Response::Multi(results)));
            }
            Write::CloseSession => {
                self.end_session(session, zxid);
                self.reply(id, header, Ok(Response::Empty));
            }
            other => return Err(format!("the model knows no {}", other.op_code())),
        }
        self.tree.check_fences()
    }

    /// All operations of a multi, or none.
    fn multi(
        &mut self,
        session: SessionId,
        ops: &[MultiOp],
        zxid: Zxid,
        wall_ms: i64,
    ) -> Vec<MultiResult> {
        let mut tree = self.tree.clone();
        let (mut results, mut changes) = (Vec::new(), Vec::new());
        for (place, op) in ops.iter().enumerate() {
            match tree.carry_out(op, session, zxid, wall_ms) {
                Ok((result, changed)) => {
                    results.push(result);
                    changes.extend(changed);
                }
                Err(code) => {
                    let error = |other: usize| match other.cmp(&place) {
                        std::cmp::Ordering::Less => ErrorCode::OK,
                        std::cmp::Ordering::Equal => code,
                        std::cmp::Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY,
                    };
                    return (0..ops.len()).map(|other| MultiResult::Error(error(other))).collect();
                }
            }
        }
        self.tree = tree;
        changes.iter().for_each(|change| self.fire(zxid, change));
        results
    }

    /// Sends the events of a change to all connections that watch for it.
    fn fire(&mut self, zxid: Zxid, change: &Change) {
        for connection in self.connections.values_mut() {
            for (event_type, path) in connection.hears_of(change) {
                let event = Message::Event(zxid, WatchedEvent::new(event_type, path.as_str()));
                connection.expected.push_back(Expected { after: zxid, message: event });
            }
        }
    }

    /// The server sent a message: it must be the expected one.
    pub(crate) fn received(&mut self, id: ConnectionId, message: &Message) -> Checked {
        let connection = self.connections.get_mut(&id);
        let expected = connection.and_then(|connection| connection.expected.pop_front());
        let Some(expected) = expected else {
            return Err(format!("an unexpected message: {message:?}"));
        };
        if expected.message != *message {
            let expected = expected.message;
            return Err(format!("\n  sent:     {message:?}\n  expected: {expected:?}"));
        }
        self.told = self.told.max(expected.after);
        Ok(())
    }

    /// The messages that the connection should still receive.
    pub(crate) fn next_expected(&self, id: ConnectionId) -> Option<&Expected> {
        self.connections.get(&id).and_then(|connection| connection.expected.front())
    }

    /// The operation of the next reply.
    pub(crate) fn next_op(&self, id: ConnectionId, xid: Xid) -> Option<OpCode> {
        let expected = &self.connections.get(&id)?.expected;
        expected.iter().find_map(|expected| match &expected.message {
            Message::Reply(op, header, _) if header.xid == xid => Some(*op),
            _ => None,
        })
    }

    /// Whether the connection is still opening its session.
    pub(crate) fn is_shaking(&self, id: ConnectionId) -> bool {
        let front = self.next_expected(id);
        front.is_some_and(|front| matches!(front.message, Message::Connected { .. }))
    }
}

/// The response to a single operation.
fn response(op: &MultiOp, result: MultiResult) -> Response {
    match (op, result) {
        (
            MultiOp::Create(Create { kind: CreateKind::Create, .. }),
            MultiResult::Create(path) | MultiResult::Create2(path, _),
        ) => Response::Path(path.into()),
        (_, MultiResult::Create2(path, stat)) => Response::PathStat(path, stat),
        (_, MultiResult::SetData(stat)) => Response::Stat(stat),
        _ => Response::Empty,
    }
}
