//! One connection under faults: which frames come in, and which messages leave.
//!
//! Frames of a connection come in one at a time, and those that wait keep their order; messages
//! leave the outbox in theirs. So a fault loses or delays what passes, but never changes its order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use zoolet_core::ConnectionId;
use zoolet_protocol::{ConnectRequest, OpCode, SessionId, Xid, decode_all, decode_request};
use zoolet_server::hooks::{Admission, Closed, HookedConnection, HookedServer, Message};
use zoolet_server::limits::OUTBOX_MESSAGES_MAX;

use crate::clock;
use crate::faults::rules::{Action, RuleBook};
use crate::faults::scope::Client;
use crate::faults::{Fate, Scope};
use crate::limits::MOVED_TIME_MAX;
use crate::observe::observations::Observations;
use crate::observe::recording::Interference;

/// One connection under faults.
#[derive(Debug)]
pub(crate) struct Gate {
    connection: ConnectionId,
    rules: Arc<RuleBook>,
    observations: Arc<Observations>,
    /// The session of the connection, once the server has answered its handshake.
    session: AtomicI64,
    /// The session that its handshake names.
    requested_session: AtomicI64,
    /// Locked while a frame is handled.
    turn: Mutex<Turn>,
    /// When delayed messages may leave, by their numbers.
    delayed: Mutex<BTreeMap<u64, Instant>>,
    /// What happens to the replies with these xids, which are still to come.
    reply_fates: Mutex<Vec<(Xid, Fate)>>,
    /// Whether there are any; read for every message.
    has_reply_fates: AtomicBool,
    /// Whether no task may be woken that might send a frame.
    is_muted: AtomicBool,
}

/// The frames of a frozen connection.
#[derive(Default)]
struct Turn {
    waiting: VecDeque<Bytes>,
    /// Keeps the connection while frames wait, also when its client is gone: they still come in, as
    /// from a socket.
    connection: Option<Arc<dyn HookedConnection>>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

/// The server of a gate, and the runtime on which it runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) server: Weak<dyn HookedServer>,
    pub(crate) runtime: Handle,
}

impl Gate {
    pub(crate) fn new(
        connection: ConnectionId,
        rules: Arc<RuleBook>,
        observations: Arc<Observations>,
    ) -> Self {
        Self {
            connection,
            rules,
            observations,
            session: AtomicI64::new(SessionId::NONE.0),
            requested_session: AtomicI64::new(SessionId::NONE.0),
            turn: Mutex::default(),
            delayed: Mutex::default(),
            reply_fates: Mutex::default(),
            has_reply_fates: AtomicBool::new(false),
            is_muted: AtomicBool::new(false),
        }
    }

    pub(crate) fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// The session that the connection serves, [`SessionId::NONE`] before the handshake.
    pub(crate) fn session(&self) -> SessionId {
        SessionId(self.session.load(Ordering::Relaxed))
    }

    /// The client, by the session that it serves or that its handshake names.
    pub(crate) fn client(&self) -> Client {
        let session = match self.session() {
            SessionId::NONE => SessionId(self.requested_session.load(Ordering::Relaxed)),
            session => session,
        };
        Client { connection: self.connection, session }
    }

    /// Waits until no frame of this connection is being handled.
    pub(crate) fn await_turn(&self) {
        drop(self.turn.lock());
    }

    /// Loses the frames that wait to come in.
    pub(crate) fn discard_frames(&self) {
        let turn = std::mem::take(&mut *self.turn.lock());
        // Dropping the last reference to a connection calls the hooks.
        drop(turn);
    }

    /// Lets delayed messages leave at once.
    pub(crate) fn end_delays(&self) {
        self.delayed.lock().clear();
    }

    /// Whether nothing comes in or leaves.
    pub(crate) fn is_frozen(&self) -> bool {
        self.rules.is_active() && self.rules.with(|rules| rules.is_frozen(self.client()))
    }

    /// Whether nothing leaves.
    pub(crate) fn is_held(&self) -> bool {
        self.rules.is_active() && self.rules.with(|rules| rules.is_held(self.client()))
    }

    pub(crate) fn may_wake(&self) -> bool {
        !self.is_muted.load(Ordering::SeqCst)
    }

    /// Lets a frame come in now, or later if the connection is frozen.
    pub(crate) fn receive(
        &self,
        connection: Arc<dyn HookedConnection>,
        frame: Bytes,
        server: &Weak<dyn HookedServer>,
    ) -> Result<(), Closed> {
        let mut turn = self.turn.lock();
        if !connection.is_established()
            && let Ok(request) = decode_all::<ConnectRequest>(&frame)
        {
            self.requested_session.store(request.session.0, Ordering::Relaxed);
        }
        if turn.waiting.is_empty() && !self.is_frozen() {
            return self.handle(&*connection, frame, server);
        }
        if turn.waiting.len() >= OUTBOX_MESSAGES_MAX {
            connection.cut();
            return Err(Closed);
        }
        self.rules.with(|rules| rules.count_frozen(self.client()));
        turn.waiting.push_back(frame);
        turn.connection = Some(connection);
        Ok(())
    }

    /// Lets the frames that wait come in, in their order, until the connection is frozen again.
    pub(crate) fn let_in(&self, server: &Arc<dyn HookedServer>) {
        let mut turn = self.turn.lock();
        let Some(connection) = turn.connection.clone() else { return };
        // A woken task may send a frame from this very thread, and would wait for this turn.
        self.is_muted.store(true, Ordering::SeqCst);
        while !turn.waiting.is_empty() && !self.is_frozen() {
            if let Some(frame) = turn.waiting.pop_front() {
                // The client learns of the end from the outbox.
                let _closed = self.handle(&*connection, frame, &Arc::downgrade(server));
            }
        }
        if turn.waiting.is_empty() {
            turn.connection = None;
        }
        drop(turn);
        self.is_muted.store(false, Ordering::SeqCst);
        server.wake(self.connection);
    }

    /// Handles a frame as the rules say. The caller holds the turn.
    fn handle(
        &self,
        connection: &dyn HookedConnection,
        frame: Bytes,
        server: &Weak<dyn HookedServer>,
    ) -> Result<(), Closed> {
        let is_established = connection.is_established();
        let fate = match self.rules.is_active() {
            false => Fate::Pass,
            true if is_established => self.rules.judge(self.client(), &frame),
            true if self.rules.with(|rules| rules.refuses(self.client())) => {
                connection.cut();
                return Err(Closed);
            }
            true => Fate::Pass,
        };
        if let Fate::Drop | Fate::CutBefore | Fate::ExpireBefore = fate {
            return self.lose(fate, connection, &frame, server);
        }
        if !connection.is_open() {
            return Err(Closed);
        }
        let is_understood = self.observe(is_established, &frame);
        let handled = self.carry_out(fate, connection, frame.clone());
        let is_answered = connection.answers_at_once();
        if is_answered {
            self.observations.handled(self.connection);
        }
        if !is_understood {
            self.observations.unreadable(&frame);
        }
        self.observations.changed();
        match fate {
            Fate::CutAfter if is_answered => connection.finish(),
            Fate::ExpireAfter if is_answered => self.expire(server),
            _ => return handled,
        }
        Err(Closed)
    }

    /// Loses a request, which the server does not carry out.
    fn lose(
        &self,
        fate: Fate,
        connection: &dyn HookedConnection,
        frame: &Bytes,
        server: &Weak<dyn HookedServer>,
    ) -> Result<(), Closed> {
        self.observations.lost(self.connection, frame);
        match fate {
            Fate::CutBefore => connection.cut(),
            Fate::ExpireBefore => self.expire(server),
            _ => return Ok(()),
        }
        Err(Closed)
    }

    /// Expires the session of the connection, which ends when its messages have left.
    fn expire(&self, server: &Weak<dyn HookedServer>) {
        if let Some(server) = server.upgrade() {
            server.expire(self.session());
        }
    }

    /// Has the server carry out a frame, and does with its reply what `fate` says.
    fn carry_out(
        &self,
        fate: Fate,
        connection: &dyn HookedConnection,
        frame: Bytes,
    ) -> Result<(), Closed> {
        match fate {
            Fate::Fail(code) => {
                self.observations.interfere(self.connection, Interference::Refused);
                connection.refuse(frame, code)
            }
            Fate::LoseReply | Fate::CutReply | Fate::Delay(_) => {
                self.await_reply(&frame, fate);
                let handled = connection.handle(frame);
                if connection.answers_at_once() {
                    // Without a reply by now there is none.
                    self.change_reply_fates(Vec::clear);
                }
                handled
            }
            Fate::CutAfter | Fate::ExpireAfter if !connection.answers_at_once() => {
                self.await_reply(&frame, fate);
                connection.handle(frame)
            }
            Fate::Freeze if !connection.answers_at_once() => {
                // A server that stands still would not pass the request on.
                let (hold, _) = self.rules.with(|rules| rules.add(Scope::Server, Action::Hold));
                let handled = connection.handle(frame);
                self.rules.with(|rules| {
                    rules.add(Scope::Server, Action::Freeze);
                    rules.remove(|rule| rule.id == hold);
                });
                handled
            }
            Fate::Freeze => {
                // The reply waits in the outbox from the first moment on.
                self.rules.with(|rules| rules.add(Scope::Server, Action::Freeze));
                connection.handle(frame)
            }
            _ => connection.handle(frame),
        }
    }

    /// Counts a frame, and returns whether it is a handshake or a request.
    fn observe(&self, is_established: bool, frame: &Bytes) -> bool {
        let client = Client { connection: self.connection, session: self.session() };
        self.observations.frame_received(client, frame);
        if is_established {
            let decoded = decode_request(frame);
            let understood = decoded.inspect(|(header, request)| {
                self.observations.requested(client, frame, *header, request.as_ref().ok());
            });
            understood.is_ok()
        } else {
            let decoded = decode_all::<ConnectRequest>(frame);
            decoded.inspect(|request| self.observations.handshake(client, request)).is_ok()
        }
    }

    /// Decides about a message that enters the outbox.
    pub(crate) fn send(
        &self,
        number: u64,
        message: &mut Message,
        running: Option<&Running>,
    ) -> Admission {
        if let Message::Connected(response) = &message {
            self.session.store(response.session.0, Ordering::Relaxed);
            self.rules.connected(response.session);
        }
        let fate = match message {
            Message::Reply(header, _) => self.take_reply_fate(header.xid),
            Message::Connected(_) | Message::Event(_) => Fate::Pass,
        };
        let is_lost = matches!(fate, Fate::LoseReply | Fate::CutReply);
        let client = Client { connection: self.connection, session: self.session() };
        self.observations.sent(client, message, is_lost);
        match fate {
            Fate::LoseReply => return Admission::Drop,
            Fate::CutReply => return Admission::End,
            _ => {}
        }
        if self.rules.is_active() {
            self.change(number, message, running);
        }
        match fate {
            Fate::Delay(delay) => self.delay(number, delay.min(MOVED_TIME_MAX), running),
            Fate::CutAfter => return Admission::Last,
            Fate::ExpireAfter => expire_soon(client.session, running),
            _ => {}
        }
        Admission::Queue
    }

    /// The reply to a request that is about to be handled has this fate.
    fn await_reply(&self, frame: &Bytes, fate: Fate) {
        if let Ok((header, _)) = decode_request(frame) {
            // The reply to a ping has the xid of one, whatever the client sent.
            let xid = if header.op == OpCode::PING { Xid::PING } else { header.xid };
            self.change_reply_fates(|fates| fates.push((xid, fate)));
        }
    }

    /// What happens to the reply with this xid.
    fn take_reply_fate(&self, xid: Xid) -> Fate {
        if !self.has_reply_fates.load(Ordering::Relaxed) {
            return Fate::Pass;
        }
        self.change_reply_fates(|fates| {
            let place = fates.iter().position(|(awaited, _)| *awaited == xid);
            place.map_or(Fate::Pass, |place| fates.remove(place).1)
        })
    }

    fn change_reply_fates<T>(&self, change: impl FnOnce(&mut Vec<(Xid, Fate)>) -> T) -> T {
        let mut fates = self.reply_fates.lock();
        let result = change(&mut fates);
        self.has_reply_fates.store(!fates.is_empty(), Ordering::Relaxed);
        result
    }

    /// Corrupts or delays a message if a rule says so.
    fn change(&self, number: u64, message: &mut Message, running: Option<&Running>) {
        let client = self.client();
        let delay = self.rules.with(|rules| {
            rules.count_held(client);
            if rules.corrupts(client) {
                corrupt(message);
            }
            rules.delay(client)
        });
        if let Some(delay) = delay {
            self.delay(number, delay, running);
        }
    }

    /// Lets a message leave later.
    fn delay(&self, number: u64, delay: Duration, running: Option<&Running>) {
        let due = clock::now() + delay;
        let mut delayed = self.delayed.lock();
        let last = delayed.entry(number).or_insert(due);
        *last = due.max(*last);
        drop(delayed);
        wake_at(due, self.connection, running);
    }

    /// Whether the message with this number may leave now.
    pub(crate) fn may_leave(&self, number: u64) -> bool {
        let mut delayed = self.delayed.lock();
        let is_due = delayed.get(&number).is_none_or(|due| *due <= clock::now());
        if is_due && !delayed.is_empty() {
            // Those before it have left.
            *delayed = delayed.split_off(&number);
        }
        drop(delayed);
        is_due && !self.is_held()
    }
}

/// Expires a session once no lock of the server is held.
fn expire_soon(session: SessionId, running: Option<&Running>) {
    let Some(Running { server, runtime }) = running.cloned() else { return };
    runtime.spawn(async move {
        if let Some(server) = server.upgrade() {
            server.expire(session);
        }
    });
}

/// Wakes the sender of a connection's messages at `due`.
fn wake_at(due: Instant, connection: ConnectionId, running: Option<&Running>) {
    let Some(Running { server, runtime }) = running.cloned() else { return };
    runtime.spawn(async move {
        tokio::time::sleep_until(due).await;
        if let Some(server) = server.upgrade() {
            server.wake(connection);
        }
    });
}

/// Replaces a message by the first half of its frame.
fn corrupt(message: &mut Message) {
    let frame = std::mem::replace(message, Message::Event(Bytes::new())).into_frame();
    // A copy, so that the corrupted message does not keep the whole frame.
    *message = Message::Event(Bytes::copy_from_slice(&frame[..frame.len() / 2]));
}
