//! What happens in a run: a hash of everything, the first violation, and, where a story is wanted,
//! each event.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use zoolet_core::Core;
use zoolet_protocol::{
    ConnectResponse, ErrorCode, EventType, Incoming, OpCode, Request, RequestHeader, SessionId,
    Xid, decode_all, decode_incoming, decode_request,
};

use super::hash::RunHash;
use super::request_text;
use super::tap::{ConnectionNumber, Tap};
use super::violation::{Violation, ViolationKind, one_line};
use crate::clock::now;
use crate::limits::SIM_ENTRIES_MAX;

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    Machine(usize),
    /// The server, or the ensemble.
    Server,
}

/// One event of a run.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) ms: u64,
    pub(super) lane: Lane,
    pub(super) what: What,
}

/// What happened.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// A request arrived at the server.
    Request {
        op: OpCode,
        text: String,
    },
    /// The client received the reply.
    Reply {
        text: String,
        code: ErrorCode,
    },
    /// The client received an event.
    Event {
        event: EventType,
        path: String,
    },
    /// A session was opened or taken up again, at one server of several.
    Session {
        session: SessionId,
        is_new: bool,
        server: Option<usize>,
    },
    /// The server refused to take up a session, which has expired.
    SessionOver,
    /// A connection was lost at the server.
    Disconnected,
    /// A fault, for a time or at once.
    Fault {
        text: String,
        for_ms: Option<u64>,
    },
    Entered {
        section: String,
        number: u64,
        token: Option<i64>,
    },
    Left {
        section: String,
        number: u64,
    },
    /// What the user's code says.
    Note(String),
    /// A machine or the server starts, stops or finishes.
    State(String),
    Violation(String),
}

/// Finds the server that serves a session.
pub(super) type ServerOf = dyn Fn(SessionId) -> Option<usize> + Send + Sync;

/// Looks at a state of the znodes: at this one, or at the present one.
type StateLook = dyn Fn(Option<&Core>) + Send + Sync;

/// The record of one run.
pub(super) struct Record {
    inner: Mutex<Inner>,
    /// Notified when a violation was found, which ends the run.
    pub(super) stop: Notify,
    start: Instant,
    keeps_entries: bool,
    /// Called with each state of the znodes.
    state_look: Mutex<Option<Arc<StateLook>>>,
    /// Weak, since the servers have the record.
    server_of: Mutex<Option<Weak<ServerOf>>>,
}

#[derive(Default)]
struct Inner {
    hash: RunHash,
    messages: u64,
    faults: u64,
    violation: Option<Violation>,
    entries: Vec<Entry>,
    connections: BTreeMap<ConnectionNumber, Seen>,
    /// The machine of each session.
    owners: BTreeMap<SessionId, usize>,
    requests: BTreeMap<usize, Requests>,
}

/// How many requests of a machine have arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// Those that may change something.
    pub(super) writes: u32,
    /// Of these, those that create an ephemeral znode, as an attempt to acquire a lock does.
    pub(super) ephemerals: u32,
    /// Of these, those that the server has carried out.
    pub(super) ephemerals_created: u32,
}

/// What was seen of a connection.
struct Seen {
    machine: usize,
    /// [`SessionId::NONE`] before the handshake is answered.
    session: SessionId,
    /// The session that the handshake asks for.
    asked: SessionId,
    is_shaking: bool,
    is_received: bool,
    requests: BTreeMap<Xid, (OpCode, String)>,
    /// The requests for ephemeral znodes that are not answered.
    ephemerals: BTreeMap<Xid, OpCode>,
}

impl Record {
    pub(super) fn new(keeps_entries: bool) -> Self {
        Self {
            inner: Mutex::default(),
            stop: Notify::new(),
            start: now(),
            keeps_entries,
            state_look: Mutex::default(),
            server_of: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// The time of the run in milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.ms_of(now())
    }

    fn ms_of(&self, at: Instant) -> u64 {
        u64::try_from((at - self.start).as_millis()).unwrap_or(u64::MAX)
    }

    /// Calls this with each state of the znodes from now on, in their order. It may be called with one
    /// state several times, and under the lock of an ensemble.
    pub(super) fn look_at_states(&self, look: Arc<StateLook>) {
        *self.state_look.lock() = Some(look);
    }

    /// The present state of the znodes may be another one than before. No server is locked.
    pub(super) fn state_changed(&self) {
        self.look(None);
    }

    /// This state of the znodes was committed, and another is about to be.
    pub(super) fn state_committed(&self, state: &Core) {
        self.look(Some(state));
    }

    fn look(&self, state: Option<&Core>) {
        let look = self.state_look.lock().clone();
        if let Some(look) = look {
            look(state);
        }
    }

    /// Asks this which of several servers serves a session.
    pub(super) fn ask_server_of(&self, server_of: &Arc<ServerOf>) {
        *self.server_of.lock() = Some(Arc::downgrade(server_of));
    }

    fn server_of(&self, session: SessionId) -> Option<usize> {
        let server_of = self.server_of.lock().as_ref().and_then(Weak::upgrade);
        server_of.and_then(|server_of| server_of(session))
    }

    /// Adds an event, which is a part of the hash in any case.
    pub(super) fn add(&self, lane: Lane, what: impl FnOnce() -> What) {
        let ms = self.now_ms();
        let mut inner = self.lock();
        let what = what();
        let lane_number = match lane {
            Lane::Machine(machine) => machine + 1,
            Lane::Server => 0,
        };
        inner.hash.add([ms, lane_number as u64], format!("{what:?}").as_bytes());
        inner.faults += u64::from(matches!(what, What::Fault { .. }));
        self.keep(&mut inner, ms, lane, || what);
    }

    /// Adds an event that follows from messages, which are hashed themselves.
    fn keep(&self, inner: &mut Inner, ms: u64, lane: Lane, what: impl FnOnce() -> What) {
        if !self.keeps_entries || inner.violation.is_some() {
            return;
        }
        match inner.entries.len() {
            ..SIM_ENTRIES_MAX => inner.entries.push(Entry { ms, lane, what: what() }),
            SIM_ENTRIES_MAX => {
                let what = What::State("no more events are kept: there are too many".to_owned());
                inner.entries.push(Entry { ms, lane: Lane::Server, what });
            }
            _ => {}
        }
    }

    /// A request has arrived. Its reply will tell what it was.
    fn keep_request(
        &self,
        inner: &mut Inner,
        ms: u64,
        number: ConnectionNumber,
        header: RequestHeader,
        request: &Request,
    ) {
        if !self.keeps_entries {
            return;
        }
        let Some(connection) = inner.connections.get_mut(&number) else { return };
        let (lane, text) = (Lane::Machine(connection.machine), request_text::of(request));
        connection.requests.insert(header.xid, (header.op, text.clone()));
        self.keep(inner, ms, lane, || What::Request { op: header.op, text });
    }

    /// Adds a warning of a recipe. It is no part of the hash, since a subscriber of the test may get it in
    /// place of this record.
    pub(super) fn warning(&self, text: &str) {
        let (ms, text) = (self.now_ms(), format!("warning: {}", one_line(text)));
        self.keep(&mut self.lock(), ms, Lane::Server, || What::Note(text));
    }

    /// Records the first violation, which ends the run.
    pub(super) fn violation(&self, lane: Lane, kind: ViolationKind, text: impl AsRef<str>) {
        self.violation_at(now(), lane, kind, text);
    }

    /// Records the first violation, which ends the run, and which happened at this time.
    pub(super) fn violation_at(
        &self,
        at: Instant,
        lane: Lane,
        kind: ViolationKind,
        text: impl AsRef<str>,
    ) {
        let ms = self.ms_of(at);
        let mut inner = self.lock();
        if inner.violation.is_some() {
            return;
        }
        let text = one_line(text.as_ref());
        inner.hash.add([ms], text.as_bytes());
        if self.keeps_entries {
            inner.entries.retain(|entry| entry.ms <= ms);
            // Also after the last of the others that are kept: it is what the story is about.
            inner.entries.push(Entry { ms, lane, what: What::Violation(text.clone()) });
        }
        inner.violation = Some(Violation { kind, text, ms });
        self.stop.notify_one();
    }

    pub(super) fn has_violation(&self) -> bool {
        self.lock().violation.is_some()
    }

    /// The sessions of the open connections of a machine.
    pub(super) fn sessions_of(&self, machine: usize) -> Vec<SessionId> {
        let inner = self.lock();
        let its = inner.connections.values().filter(|connection| connection.machine == machine);
        let mut sessions: Vec<_> = its.map(|connection| connection.session).collect();
        sessions.retain(|session| !session.is_none());
        sessions
    }

    /// All sessions that these machines have ever had.
    pub(super) fn sessions_ever_of(&self, of: impl Fn(usize) -> bool) -> Vec<SessionId> {
        let inner = self.lock();
        let its = inner.owners.iter().filter(|(_, owner)| of(**owner));
        its.map(|(session, _)| *session).collect()
    }

    /// The server has expired a session, of which its client learns later.
    pub(super) fn expired(&self, session: SessionId) {
        let owner = self.lock().owners.get(&session).copied();
        let lane = owner.map_or(Lane::Server, Lane::Machine);
        self.add(lane, || What::State(format!("the server expires its session {session}")));
    }

    /// How many requests of a machine have arrived.
    pub(super) fn requests_of(&self, machine: usize) -> Requests {
        self.lock().requests.get(&machine).copied().unwrap_or_default()
    }

    /// How many faults have happened.
    pub(super) fn faults(&self) -> u64 {
        self.lock().faults
    }

    pub(super) fn finish(&self) -> (u64, u64, Option<Violation>, Vec<Entry>) {
        let mut inner = self.lock();
        let entries = std::mem::take(&mut inner.entries);
        (inner.hash.value(), inner.messages, inner.violation.clone(), entries)
    }
}

impl Seen {
    /// Whether a frame to the client is the reply that an ephemeral znode was created.
    fn is_ephemeral_created(&mut self, frame: &Bytes) -> bool {
        if self.ephemerals.is_empty() {
            return false;
        }
        let Ok(Incoming::Reply { header, body }) = decode_incoming(frame) else { return false };
        let Some(op) = self.ephemerals.remove(&header.xid) else { return false };
        header.err == ErrorCode::OK && request_text::refused(op, &body).is_none()
    }
}

impl Inner {
    fn add_frame(&mut self, direction: u8, ms: u64, number: ConnectionNumber, frame: &[u8]) {
        self.hash.add([direction.into(), ms, number], frame);
        self.messages += 1;
    }
}

impl Tap for Record {
    fn opened(&self, number: ConnectionNumber, link: usize) {
        let connection = Seen {
            machine: link,
            session: SessionId::NONE,
            asked: SessionId::NONE,
            is_shaking: true,
            is_received: false,
            requests: BTreeMap::new(),
            ephemerals: BTreeMap::new(),
        };
        self.lock().connections.insert(number, connection);
    }

    fn closed(&self, number: ConnectionNumber) {
        let ms = self.now_ms();
        let mut inner = self.lock();
        let Some(connection) = inner.connections.remove(&number) else { return };
        if !connection.session.is_none() {
            let lane = Lane::Machine(connection.machine);
            self.keep(&mut inner, ms, lane, || What::Disconnected);
        }
    }

    fn arrived(&self, number: ConnectionNumber, frame: &Bytes, handle: &mut dyn FnMut() -> bool) {
        let ms = self.now_ms();
        let mut inner = self.lock();
        inner.add_frame(0, ms, number, frame);
        if let Some(connection) = inner.connections.get_mut(&number) {
            if connection.is_shaking {
                connection.asked = request_text::asked_session(frame);
            } else if let Ok((header, Ok(request))) = decode_request(frame)
                && !matches!(request, Request::Session(_))
            {
                let is_ephemeral = request_text::creates_ephemeral(&request);
                if is_ephemeral {
                    connection.ephemerals.insert(header.xid, header.op);
                }
                let machine = connection.machine;
                let requests = inner.requests.entry(machine).or_default();
                requests.writes += u32::from(request_text::may_change(&request));
                requests.ephemerals += u32::from(is_ephemeral);
                self.keep_request(&mut inner, ms, number, header, &request);
            }
        }
        drop(inner);
        handle();
        self.state_changed();
    }

    fn sent(&self, number: ConnectionNumber, frame: &Bytes) {
        let ms = self.now_ms();
        let mut inner = self.lock();
        inner.add_frame(1, ms, number, frame);
        let Some(connection) = inner.connections.get_mut(&number) else { return };
        if !connection.is_shaking {
            let was_created = connection.is_ephemeral_created(frame);
            let machine = connection.machine;
            let requests = inner.requests.entry(machine).or_default();
            requests.ephemerals_created += u32::from(was_created);
            return;
        }
        connection.is_shaking = false;
        let Ok(response) = decode_all::<ConnectResponse>(frame) else { return };
        if response.is_refused() {
            return;
        }
        connection.session = response.session;
        let machine = connection.machine;
        inner.owners.insert(response.session, machine);
    }

    fn received(&self, number: ConnectionNumber, frame: &Bytes) {
        if !self.keeps_entries {
            return;
        }
        let ms = self.now_ms();
        let mut inner = self.lock();
        let Some(connection) = inner.connections.get_mut(&number) else { return };
        let lane = Lane::Machine(connection.machine);
        if !std::mem::replace(&mut connection.is_received, true) {
            let (session, asked) = (connection.session, connection.asked);
            // A server may be about to add an event.
            drop(inner);
            let server = self.server_of(session);
            let what = match session.is_none() {
                true => What::SessionOver,
                false => What::Session { session, is_new: session != asked, server },
            };
            return self.keep(&mut self.lock(), ms, lane, || what);
        }
        let what = match decode_incoming(frame) {
            Ok(Incoming::Event { event, .. }) => {
                What::Event { event: event.event_type, path: event.path.to_string() }
            }
            Ok(Incoming::Reply { header, body }) => {
                let Some((op, text)) = connection.requests.remove(&header.xid) else { return };
                match request_text::refused(op, &body) {
                    Some((number, code)) => {
                        What::Reply { text: format!("{text}: operation {number}"), code }
                    }
                    None => What::Reply { text, code: header.err },
                }
            }
            Err(_) => return,
        };
        self.keep(&mut inner, ms, lane, || what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_violation_of_a_long_run_is_kept_and_the_end_of_the_rest_is_told() {
        let record = Record::new(true);
        for _ in 0..SIM_ENTRIES_MAX + 5 {
            record.add(Lane::Machine(0), || What::Note(String::new()));
        }
        record.violation(Lane::Machine(0), ViolationKind::End, "it is wrong");
        let (_, _, _, entries) = record.finish();
        assert_eq!(entries.len(), SIM_ENTRIES_MAX + 2);
        let [.., end, violation] = &entries[..] else { unreachable!("there are many") };
        assert!(matches!(&end.what, What::State(text) if text.contains("no more events")));
        assert!(matches!(&violation.what, What::Violation(_)));
    }
}
