//! Sees everything that goes over the wire and into the log, and compares it with the model.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;
use zoolet_protocol::{
    ConnectResponse, Incoming, Response, decode_all, decode_incoming, decode_request,
};
use zoolet_testkit::sim::parts::Tap;

use super::log_tap::Logged;
use super::model::{ConnectionId, Message, Model, Now};

/// How many trace lines are kept.
const TRACE_LINES_MAX: usize = 60;

/// Checks a run.
#[derive(Debug)]
pub(crate) struct Oracle {
    inner: Mutex<Inner>,
    /// Notified when a violation was found, which ends the run.
    pub(crate) stop: Notify,
    start: Instant,
    timeouts_ms: std::ops::RangeInclusive<i32>,
    keeps_trace: bool,
    /// Whether the model computes what the server should send. It models a single server only.
    has_model: bool,
}

#[derive(Debug)]
struct Inner {
    model: Model,
    hash: DefaultHasher,
    violation: Option<String>,
    trace: VecDeque<String>,
    messages: u64,
    counts: Counts,
    /// Whether the disk has failed an operation since the server started.
    has_disk_failed: bool,
    server_start: Instant,
    /// The wall time at the start of the server.
    wall_start_ms: i64,
}

/// How often each kind of event happened.
pub type Counts = BTreeMap<&'static str, u64>;

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// A hash of all messages on the wire and of their times: equal runs have equal hashes.
    pub hash: u64,
    /// The first violation.
    pub violation: Option<String>,
    /// How many messages were compared with the model.
    pub messages: u64,
    /// How often each kind of event happened.
    pub counts: Counts,
    /// The last messages, one a line, where [`Options::keeps_trace`](crate::Options::keeps_trace) is set.
    pub trace: Vec<String>,
}

#[allow(clippy::disallowed_methods, reason = "the time of the run is tokio's")]
impl Oracle {
    pub(crate) fn new(
        tick_ms: u64,
        timeouts_ms: std::ops::RangeInclusive<i32>,
        keeps_trace: bool,
    ) -> Self {
        let now = Instant::now();
        let inner = Inner {
            model: Model::new(tick_ms),
            hash: DefaultHasher::new(),
            violation: None,
            trace: VecDeque::new(),
            messages: 0,
            counts: Counts::new(),
            has_disk_failed: false,
            server_start: now,
            wall_start_ms: 0,
        };
        let inner = Mutex::new(inner);
        let stop = Notify::new();
        Self { inner, stop, start: now, timeouts_ms, keeps_trace, has_model: true }
    }

    /// The checks of what clients observe.
    pub(crate) fn without_model(keeps_trace: bool) -> Self {
        Self { has_model: false, ..Self::new(1, 0..=0, keeps_trace) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self, inner: &Inner) -> Now {
        let now = Instant::now();
        let since = |start: Instant| i64::try_from((now - start).as_millis()).unwrap_or(i64::MAX);
        Now {
            ms: since(self.start).unsigned_abs(),
            wall_ms: inner.wall_start_ms + since(inner.server_start),
        }
    }

    /// The time of the run in milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now(&self.lock()).ms
    }

    /// Reads the model.
    pub(crate) fn inspect<T>(&self, look: impl FnOnce(&Model) -> T) -> T {
        look(&self.lock().model)
    }

    /// Changes the model, and records a violation.
    fn check(&self, inner: &mut Inner, check: impl FnOnce(&mut Model, Now) -> Result<(), String>) {
        if !self.has_model {
            return;
        }
        let now = self.now(inner);
        if let Err(violation) = check(&mut inner.model, now) {
            self.note(inner, violation);
        }
    }

    fn note(&self, inner: &mut Inner, violation: String) {
        if inner.violation.is_none() {
            let now = self.now(inner).ms;
            self.tell(inner, || format!("VIOLATION {violation}"));
            inner.violation = Some(format!("at {now} ms: {violation}"));
            self.stop.notify_one();
        }
    }

    /// Records a violation.
    pub(crate) fn violation(&self, violation: impl Into<String>) {
        self.note(&mut self.lock(), violation.into());
    }

    fn tell(&self, inner: &mut Inner, line: impl FnOnce() -> String) {
        if self.keeps_trace && inner.violation.is_none() {
            let now = self.now(inner).ms;
            if inner.trace.len() == TRACE_LINES_MAX {
                inner.trace.pop_front();
            }
            inner.trace.push_back(format!("{now:>6} {}", line()));
        }
    }

    /// Adds a line to the trace.
    pub(crate) fn remark(&self, line: impl FnOnce() -> String) {
        self.tell(&mut self.lock(), line);
    }

    /// Counts an event that must happen in some runs, since the simulation proves nothing without
    /// it.
    pub(crate) fn count(&self, what: &'static str) {
        *self.lock().counts.entry(what).or_default() += 1;
    }

    fn add(&self, inner: &mut Inner, direction: u8, id: ConnectionId, frame: &[u8]) {
        let now = self.now(inner).ms;
        (direction, now, id, frame).hash(&mut inner.hash);
        inner.messages += 1;
    }

    /// The server is about to handle a frame.
    fn request(&self, id: ConnectionId, frame: &Bytes) {
        let mut inner = self.lock();
        self.add(&mut inner, 0, id, frame);
        self.tell(&mut inner, || {
            let mut line = format!("{id:>3} -> ");
            match decode_request(frame) {
                Ok((header, Ok(request))) => {
                    let _ = write!(line, "{:?} {request:?}", header.xid);
                }
                _ => line.push_str("handshake"),
            }
            line
        });
        self.check(&mut inner, |model, now| model.request(id, frame, &self.timeouts_ms, now));
    }

    /// The server has handled or refused the frame.
    fn handled(&self, id: ConnectionId, was_taken: bool, was_open: bool) {
        let mut inner = self.lock();
        if inner.has_disk_failed || !self.has_model {
            return;
        }
        if was_open && !was_taken {
            self.note(&mut inner, format!("{id} was cut off by the server"));
        }
        self.check(&mut inner, |model, _| model.handled());
    }

    /// The server sent a frame.
    fn response(&self, id: ConnectionId, frame: &Bytes) {
        let mut inner = self.lock();
        self.add(&mut inner, 1, id, frame);
        if !self.has_model {
            return self.tell(&mut inner, || match decode_incoming(frame) {
                Ok(incoming) => format!("{id:>3} <- {incoming:?}"),
                Err(_) => format!("{id:>3} <- handshake"),
            });
        }
        let message = read(&inner.model, id, frame);
        self.tell(&mut inner, || format!("{id:>3} <- {message:?}"));
        self.check(&mut inner, |model, _| model.received(id, &message?));
    }

    pub(crate) fn logged(&self, logged: &Logged) {
        let mut inner = self.lock();
        self.tell(&mut inner, || format!("    log {logged:?}"));
        self.check(&mut inner, |model, now| model.logged(logged, now));
    }

    pub(crate) fn disk_failed(&self) {
        self.lock().has_disk_failed = true;
    }

    /// From now on a write may fail, and survive or not.
    pub(crate) fn arm(&self) {
        self.lock().model.is_armed = true;
    }

    /// The server is gone.
    pub(crate) fn crashed(&self) {
        let mut inner = self.lock();
        self.tell(&mut inner, || "the server is gone".to_owned());
        // What a stopping server writes matters to no client.
        inner.has_disk_failed = true;
        *inner.counts.entry("servers lost").or_default() += 1;
        inner.model.crash();
    }

    /// A server is about to start.
    pub(crate) fn starts(&self, wall_start_ms: i64) {
        let mut inner = self.lock();
        self.tell(&mut inner, || "the server is started".to_owned());
        inner.has_disk_failed = false;
        inner.server_start = Instant::now();
        inner.wall_start_ms = wall_start_ms;
        inner.model.restart();
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let mut inner = self.lock();
        if self.has_model {
            let Model { expired, survived, undone, .. } = inner.model;
            inner.counts.insert("sessions expired", expired);
            inner.counts.insert("unanswered writes survived", survived);
            inner.counts.insert("unanswered writes lost", undone);
        }
        Verdict {
            hash: inner.hash.finish(),
            violation: inner.violation.clone(),
            messages: inner.messages,
            counts: inner.counts.clone(),
            trace: inner.trace.iter().cloned().collect(),
        }
    }
}

impl Tap for Oracle {
    fn opened(&self, id: ConnectionId, _link: usize) {
        self.lock().model.open(id);
    }

    fn closed(&self, id: ConnectionId) {
        let mut inner = self.lock();
        self.tell(&mut inner, || format!("{id:>3} gone"));
        inner.model.close(id);
    }

    fn arrived(&self, id: ConnectionId, frame: &Bytes, handle: &mut dyn FnMut() -> bool) {
        let was_open = self.inspect(|model| model.is_open(id));
        self.request(id, frame);
        let was_taken = handle();
        self.handled(id, was_taken, was_open);
    }

    fn sent(&self, id: ConnectionId, frame: &Bytes) {
        self.response(id, frame);
    }

    fn drained(&self, id: ConnectionId) {
        let mut inner = self.lock();
        if inner.has_disk_failed {
            return;
        }
        if let Some(missing) = inner.model.next_expected(id).cloned() {
            self.note(&mut inner, format!("{id} did not receive {missing:?}"));
        }
    }
}

/// Decodes a frame.
fn read(model: &Model, id: ConnectionId, frame: &Bytes) -> Result<Message, String> {
    let unreadable = |error| format!("{id} received a frame that cannot be decoded: {error}");
    if model.is_shaking(id) {
        let ConnectResponse { session, timeout_ms, .. } = decode_all(frame).map_err(unreadable)?;
        return Ok(Message::Connected { session, timeout_ms });
    }
    match decode_incoming(frame).map_err(unreadable)? {
        Incoming::Event { zxid, event } => Ok(Message::Event(zxid, event)),
        Incoming::Reply { header, body } => {
            let op = model.next_op(id, header.xid);
            let op = op.ok_or_else(|| format!("{id} received {header:?} without a request"))?;
            let response = Response::decode_error(op, &body).map_err(unreadable)?;
            Ok(Message::Reply(op, header, response))
        }
    }
}
