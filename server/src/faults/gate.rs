//! What passes between a client and its connection, and what does not.
//!
//! Frames of one connection come in one by one, and those that wait keep their order; messages leave
//! the outbox in theirs. So a fault loses or delays what passes, and never lets it overtake.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::time::Instant;
use zoolet_core::ConnectionId;
use zoolet_protocol::{ConnectRequest, SessionId, decode_all};

use super::Faults;
use super::rules::{Fate, Whom};
use crate::engine::clock;
use crate::engine::connection::{Connection, Hangup};
use crate::engine::outbox::{Message, Outgoing};
use crate::limits::OUTBOX_MESSAGES_MAX;

/// Where the faults get hold of one connection.
#[derive(Debug)]
pub(crate) struct Gate {
    faults: Faults,
    connection: ConnectionId,
    session: AtomicI64,
    /// Frames that wait to come in. Held while one is handled.
    turn: Mutex<VecDeque<Bytes>>,
    /// Whether the next reply is lost.
    loses_reply: AtomicBool,
    /// Whether the connection ends with it.
    ends_with_reply: AtomicBool,
}

/// When a message may leave.
#[derive(Debug, Default)]
pub(crate) struct Stamp {
    not_before: Option<Instant>,
}

/// What becomes of a message that is to leave.
#[derive(Debug)]
pub(crate) enum Admitted {
    Waits(Stamp),
    Lost,
    /// It is lost, and so is all that would follow.
    Ends,
}

impl Gate {
    pub(crate) fn new(faults: &Faults, connection: ConnectionId) -> Self {
        Self {
            faults: faults.clone(),
            connection,
            session: AtomicI64::new(SessionId::NONE.0),
            turn: Mutex::default(),
            loses_reply: AtomicBool::new(false),
            ends_with_reply: AtomicBool::new(false),
        }
    }

    /// Whose connection it is, once that is known.
    pub(crate) fn serves(&self, session: SessionId) {
        self.session.store(session.0, Ordering::Relaxed);
    }

    pub(super) fn whom(&self) -> Whom {
        let session = SessionId(self.session.load(Ordering::Relaxed));
        Whom { connection: self.connection, session }
    }

    /// Waits until no frame of this connection is being handled.
    pub(super) fn await_turn(&self) {
        drop(self.turn.lock());
    }

    /// What waits to come in never does.
    pub(super) fn forget(&self) {
        self.turn.lock().clear();
    }

    /// What becomes of a message that enters the outbox.
    #[inline]
    pub(crate) fn admit(&self, outgoing: &mut Outgoing) -> Admitted {
        if !self.faults.is_active() && !self.loses_reply() {
            return Admitted::Waits(Stamp::default());
        }
        self.judge(outgoing)
    }

    #[cold]
    fn judge(&self, outgoing: &mut Outgoing) -> Admitted {
        let is_reply = matches!(outgoing.message, Message::Reply(..));
        // Only the request that is being handled is answered, so that the reply is its own.
        if is_reply && self.loses_reply() {
            let ends = self.ends_with_reply.load(Ordering::Relaxed);
            return if ends { Admitted::Ends } else { Admitted::Lost };
        }
        if !self.faults.is_active() {
            return Admitted::Waits(Stamp::default());
        }
        let mut rules = self.faults.rules();
        let whom = self.whom();
        rules.count_held(whom);
        if rules.corrupts(whom) {
            falsify(outgoing);
        }
        let not_before = rules.delay(whom).map(|delay| clock::now() + delay);
        drop(rules);
        if let Some(due) = not_before {
            self.faults.wake_at(due, self.connection);
        }
        self.faults.note();
        Admitted::Waits(Stamp { not_before })
    }

    /// Whether the answer to the request that is being handled is lost.
    #[inline]
    pub(crate) fn loses_reply(&self) -> bool {
        self.loses_reply.load(Ordering::Relaxed)
    }

    /// Whether a message may leave.
    #[inline]
    pub(crate) fn lets_out(&self, stamp: &Stamp) -> bool {
        stamp.not_before.is_none_or(|due| due <= clock::now()) && !self.is_shut()
    }

    /// Whether nothing leaves.
    #[inline]
    pub(super) fn is_shut(&self) -> bool {
        self.faults.is_active() && self.faults.rules().is_shut(self.whom())
    }

    /// Whether nothing of the connection moves, its end included.
    #[inline]
    pub(crate) fn is_frozen(&self) -> bool {
        self.faults.is_active() && self.faults.rules().is_frozen(self.whom())
    }

    /// Waits until it is not frozen.
    pub(crate) async fn lifted(&self) {
        loop {
            let changed = self.faults.changed();
            if !self.is_frozen() {
                return;
            }
            changed.await;
        }
    }

    /// Whether the frame waits; noted, so that it is not forgotten.
    fn holds(&self, connection: &Arc<Connection>) -> bool {
        if !self.faults.is_active() {
            return false;
        }
        let mut rules = self.faults.rules();
        let is_frozen = rules.is_frozen(self.whom());
        if is_frozen {
            rules.hold(connection);
        }
        is_frozen
    }

    fn handle(&self, connection: &Connection, frame: Bytes) -> Result<(), Hangup> {
        if !self.faults.is_active() {
            return connection.handle_frame(frame);
        }
        if !connection.is_established() {
            if self.faults.rules().refuses(self.whom()) {
                connection.peer.outbox.cut();
                return Err(Hangup::Fault);
            }
            return connection.handle_frame(frame);
        }
        let fate = self.faults.rules().judge(self.whom(), &frame);
        self.faults.note();
        match fate {
            Fate::Pass => connection.handle_frame(frame),
            Fate::Drop => {
                connection.lose_frame(&frame);
                Ok(())
            }
            Fate::Fail(code) => connection.refuse_frame(&frame, code),
            Fate::LoseReply | Fate::CutReply => {
                self.ends_with_reply.store(fate == Fate::CutReply, Ordering::Relaxed);
                self.loses_reply.store(true, Ordering::Relaxed);
                let handled = connection.handle_frame(frame);
                self.loses_reply.store(false, Ordering::Relaxed);
                handled
            }
        }
    }

    /// Learns from a handshake whose connection it is to be.
    fn look_at(&self, connection: &Connection, frame: &Bytes) {
        if !connection.is_established()
            && let Ok(request) = decode_all::<ConnectRequest>(frame)
        {
            self.serves(request.session);
        }
    }
}

/// Lets a frame come in, now or later.
pub(crate) fn receive(connection: &Arc<Connection>, frame: Bytes) -> Result<(), Hangup> {
    let gate = connection.peer.outbox.gate();
    let mut waiting = gate.turn.lock();
    if waiting.is_empty() && !gate.faults.is_active() {
        return connection.handle_frame(frame);
    }
    gate.look_at(connection, &frame);
    let must_wait = !waiting.is_empty() || gate.holds(connection);
    if !must_wait {
        return gate.handle(connection, frame);
    }
    if waiting.len() >= OUTBOX_MESSAGES_MAX {
        connection.peer.outbox.cut();
        return Err(Hangup::Fault);
    }
    gate.faults.rules().count_frozen(gate.whom());
    waiting.push_back(frame);
    Ok(())
}

/// Lets the frames come in that wait, in their order, as far as they may.
pub(super) fn let_in(connection: &Arc<Connection>) {
    let outbox = &connection.peer.outbox;
    let gate = outbox.gate();
    // Whoever is woken may send at once, and wait for this very turn.
    outbox.mute();
    let mut waiting = gate.turn.lock();
    while !waiting.is_empty() && !gate.holds(connection) {
        if let Some(frame) = waiting.pop_front() {
            // The end is in the outbox.
            let _hangup = gate.handle(connection, frame);
        }
    }
    drop(waiting);
    outbox.unmute();
}

/// Of a message only the first half arrives, as a frame of that length.
fn falsify(outgoing: &mut Outgoing) {
    let nothing = Message::Event(Bytes::new());
    let frame = std::mem::replace(&mut outgoing.message, nothing).into_frame();
    let half = BytesMut::from(&frame[..frame.len() / 2]).freeze();
    outgoing.message = Message::Event(half);
}
