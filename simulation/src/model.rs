//! What a ZooKeeper server does, written anew and as plainly as can be: nothing here is shared with the
//! server but the records of the wire. Told each request before the server has it, it says what each
//! connection is to be sent, and in which order.

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

/// A connection, by a number of its own.
pub(crate) type ConnectionId = u64;

/// The time of the run, and the wall time of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) ms: u64,
    pub(crate) wall_ms: i64,
}

/// What a connection is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expected {
    /// The change on which it depends.
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

/// The state before a change that may not survive.
#[derive(Debug)]
struct Before {
    zxid: Zxid,
    tree: Tree,
    sessions: BTreeMap<SessionId, SessionState>,
}

/// A server as it should be.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) tree: Tree,
    pub(crate) zxid: Zxid,
    sessions: BTreeMap<SessionId, SessionState>,
    /// All sessions that ever were.
    known_sessions: BTreeSet<SessionId>,
    connections: BTreeMap<ConnectionId, Connection>,
    tick_ms: u64,
    /// The last change that somebody was told of.
    told: Zxid,
    /// The write that was asked for and is not in the log yet.
    unlogged: Option<Zxid>,
    /// The connection that is being given a new session.
    creating: Option<(ConnectionId, i32)>,
    /// Whether the next write may fail, so that what was before must be kept.
    pub(crate) is_armed: bool,
    before: Vec<Before>,
    /// What the crash may have left: nothing until the first write after it tells.
    is_recovering: bool,
    /// How many sessions have expired, and how many writes were under way in a crash and survived, or
    /// did not.
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

    /// A connection is gone, as the server sees it.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id)
            && let Some(session) = connection.session
            && let Some(state) = self.sessions.get_mut(&session)
            && state.connection == Some(id)
        {
            state.connection = None;
        }
    }

    /// How many sessions live.
    pub(crate) fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the server takes requests of a connection.
    pub(crate) fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.is_open)
    }

    /// The server is gone, and its connections with it. What it was doing may survive or not.
    pub(crate) fn crash(&mut self) {
        self.connections.clear();
        (self.unlogged, self.creating) = (None, None);
    }

    /// A server is started again. Sessions have their full time from now on.
    pub(crate) fn restart(&mut self) {
        self.is_recovering = true;
    }

    fn recovered(&mut self, reached: Zxid, now: Now) -> Checked {
        self.is_recovering = false;
        if reached < self.told {
            return Err(format!("lost: {} was told of, and {reached} is left", self.told));
        }
        self.survived += u64::from(!self.before.is_empty() && reached > self.told);
        while self.zxid > reached {
            self.undone += 1;
            let Some(before) = self.before.pop() else {
                return Err(format!("lost: {} was durable, and {reached} is left", self.zxid));
            };
            for session in self.sessions.keys() {
                if !before.sessions.contains_key(session) {
                    // Nobody was told of it.
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

    /// The next change, with the state before it kept if that may be needed.
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
                let change = change.ok_or_else(|| format!("{path} is swept, and should not be"))?;
                self.fire(zxid, &change);
                Ok(())
            }
            // What was to be swept was not fit for it any more.
            OpCode::ERROR if logged.session.is_none() => Ok(()),
            _ => Err(format!("{logged:?} was asked for by nobody")),
        }
    }

    fn begin_session(&mut self, session: SessionId, zxid: Zxid, now: Now) -> Checked {
        let Some((id, timeout_ms)) = self.creating.take() else {
            return Err(format!("the session {session} was asked for by nobody"));
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
            return Err(format!("the session {session} ends, and is none"));
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

    /// Sessions that should be over by now are.
    fn check_expiry(&self, now: Now) -> Checked {
        for (session, state) in &self.sessions {
            let latest_ms =
                state.last_heard_ms + state.timeout_ms.unsigned_abs() as u64 + 2 * self.tick_ms;
            if now.ms > latest_ms {
                return Err(format!("the session {session} lives on after its time"));
            }
        }
        Ok(())
    }

    fn expect(&mut self, id: ConnectionId, after: Zxid, message: Message) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.expected.push_back(Expected { after, message });
        }
    }

    /// The server gets a frame.
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

    /// The frame was handled.
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
            // What waited there is lost.
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

    /// Watches are registered again, and what was missed is told first.
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

    /// All, or none.
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

    /// Tells a change to all who watch for it.
    fn fire(&mut self, zxid: Zxid, change: &Change) {
        for connection in self.connections.values_mut() {
            for (event_type, path) in connection.hears_of(change) {
                let event = Message::Event(zxid, WatchedEvent::new(event_type, path.as_str()));
                connection.expected.push_back(Expected { after: zxid, message: event });
            }
        }
    }

    /// A message that the server sent: the one that was to come.
    pub(crate) fn received(&mut self, id: ConnectionId, message: &Message) -> Checked {
        let connection = self.connections.get_mut(&id);
        let expected = connection.and_then(|connection| connection.expected.pop_front());
        let Some(expected) = expected else {
            return Err(format!("a message that nothing explains: {message:?}"));
        };
        if expected.message != *message {
            let expected = expected.message;
            return Err(format!("\n  sent:     {message:?}\n  expected: {expected:?}"));
        }
        self.told = self.told.max(expected.after);
        Ok(())
    }

    /// What else the connection is to be sent.
    pub(crate) fn next_expected(&self, id: ConnectionId) -> Option<&Expected> {
        self.connections.get(&id).and_then(|connection| connection.expected.front())
    }

    /// The operation to which the next reply is the answer.
    pub(crate) fn next_op(&self, id: ConnectionId, xid: Xid) -> Option<OpCode> {
        let expected = &self.connections.get(&id)?.expected;
        expected.iter().find_map(|expected| match &expected.message {
            Message::Reply(op, header, _) if header.xid == xid => Some(*op),
            _ => None,
        })
    }

    /// Whether the connection has not been given its session.
    pub(crate) fn is_shaking(&self, id: ConnectionId) -> bool {
        let front = self.next_expected(id);
        front.is_some_and(|front| matches!(front.message, Message::Connected { .. }))
    }
}

/// The answer to an operation that stands alone.
fn response(op: &MultiOp, result: MultiResult) -> Response {
    match (op, result) {
        (
            MultiOp::Create(Create { kind: CreateKind::Create, .. }),
            MultiResult::Create(path) | MultiResult::Create2(path, _),
        ) => Response::Path(zoolet_protocol::RawPath(Some(path))),
        (_, MultiResult::Create2(path, stat)) => Response::PathStat(path, stat),
        (_, MultiResult::SetData(stat)) => Response::Stat(stat),
        _ => Response::Empty,
    }
}
