//! The answered requests of a session, and which of them the leader has heard of.
//!
//! A follower tells its leader which sessions it has heard from when the leader pings it, which the
//! leader does each half tick. A leader that stands still sends no pings, while its followers go on to
//! answer reads. So a request counts only if the leader is known to have pinged the follower after
//! it. What one server sends to another arrives in order:
//!
//! - The leader answers a `sync` or a write at a moment between its sending and its reply. Its last
//!   ping before that is not older than half a tick, or is overdue and follows at once.
//! - The client has the reply, so the follower has all that the leader had sent before it. A ping
//!   that was overdue is assumed to arrive within [`PING_WITHIN`] of the reply.
//! - The follower's answer to the ping, which reports the sessions, is on the way to the leader before
//!   any later request of the client.
//!
//! So when the leader handles a write that was sent [`PING_WITHIN`] after the reply to such a request,
//! it has heard of all that was answered half a tick before that request was sent.

use std::collections::VecDeque;
use std::time::Duration;

use super::earlier;
use crate::clock::Instant;
use crate::limits::{LEADER_REPLIES_MAX, TOUCHES_MAX};

/// The part of the session timeout that half a tick is at most. A timeout has at least two ticks,
/// unless an administrator sets `minSessionTimeout` lower.
pub(super) const HALF_TICK: u32 = 4;
/// The part of the session timeout within which a ping that is overdue reaches the follower after the
/// reply to another request: the leader runs, so that only its threads take their turns.
pub(super) const PING_WITHIN: u32 = 24;
/// Answered requests are remembered if they are at least this part of the session timeout apart.
const TOUCH_PRECISION: u32 = 32;
/// Replies of the leader are remembered if they are at least this part of the session timeout
/// apart.
const REPLY_PRECISION: u32 = 24;

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) sent: Instant,
    pub(super) answered: Instant,
}

/// The answered requests of one connection.
#[derive(Debug)]
pub(super) struct Answered {
    timeout: Duration,
    /// When the handshake was sent. The leader answers it, so it touches the session there.
    handshake: Instant,
    /// The server that answered these has *touched* the session, as ZooKeeper says: its timeout
    /// began anew.
    touches: VecDeque<Exchange>,
    /// The leader has answered these.
    by_leader: VecDeque<Exchange>,
}

impl Answered {
    pub(super) fn new(timeout: Duration, handshake: Instant) -> Self {
        let (touches, by_leader) = (VecDeque::new(), VecDeque::new());
        Self { timeout, handshake, touches, by_leader }
    }

    /// When the handshake was sent.
    pub(super) fn handshake(&self) -> Instant {
        self.handshake
    }

    /// All was sent so much earlier. The moments of the replies are not moved: a reply may have come
    /// after the suspension.
    pub(super) fn move_back(&mut self, by: Duration) {
        self.handshake = earlier(self.handshake, by);
        for exchange in self.touches.iter_mut().chain(&mut self.by_leader) {
            exchange.sent = earlier(exchange.sent, by);
        }
    }

    /// Any request was answered.
    pub(super) fn add(&mut self, exchange: Exchange) {
        let apart = self.timeout / TOUCH_PRECISION;
        remember(&mut self.touches, exchange, apart, TOUCHES_MAX);
    }

    /// The leader has answered a request.
    pub(super) fn add_of_leader(&mut self, exchange: Exchange) {
        let apart = self.timeout / REPLY_PRECISION;
        remember(&mut self.by_leader, exchange, apart, LEADER_REPLIES_MAX);
    }

    /// When the last request was sent that had touched the session at the leader before a write
    /// that was sent at `write`.
    pub(super) fn heard_of_before(&self, write: Instant) -> Instant {
        let within = self.timeout / PING_WITHIN;
        let mut replies = self.by_leader.iter().rev();
        let reply = replies.find(|reply| reply.answered + within <= write);
        reply.map_or(self.handshake, |reply| self.heard_of_by(reply))
    }

    /// When the last request was sent of which the leader has heard by a write that follows this
    /// reply.
    fn heard_of_by(&self, reply: &Exchange) -> Instant {
        self.heard_of_by_sync(reply.sent)
    }

    /// When the last request was sent of which the leader has heard by a write that follows a `sync`
    /// that is sent at this time.
    pub(super) fn heard_of_by_sync(&self, sync: Instant) -> Instant {
        let within = self.timeout / HALF_TICK;
        let mut touches = self.touches.iter().rev();
        let touch = touches.find(|touch| touch.answered + within <= sync);
        touch.map_or(self.handshake, |touch| touch.sent.max(self.handshake))
    }

    /// From when on the follower has reported the first touch that `helps`, by when its request was
    /// sent and when it is reported.
    pub(super) fn first_reported(
        &self,
        helps: impl Fn(Instant, Instant) -> bool,
    ) -> Option<Instant> {
        let reported = |touch: &Exchange| touch.answered + self.timeout / HALF_TICK;
        self.touches.iter().find(|touch| helps(touch.sent, reported(touch))).map(reported)
    }

    /// When the last request was sent that is remembered.
    pub(super) fn last_sent(&self) -> Instant {
        self.touches.back().map_or(self.handshake, |touch| touch.sent)
    }

    /// How long the leader took to answer the last time; at most the session timeout, as what was sent
    /// before the machine was suspended looks older than it is.
    pub(super) fn round_trip_of_leader(&self) -> Duration {
        let last = self.by_leader.back();
        let taken = last.map_or(Duration::ZERO, |reply| reply.answered - reply.sent);
        taken.min(self.timeout)
    }

    /// The writes that prove something without another `sync`: from when on each does, and when the
    /// last request was sent of which the leader has heard by it. First the one that does so now.
    pub(super) fn writes_of_use(&self, now: Instant) -> impl Iterator<Item = (Instant, Instant)> {
        let from = |reply: &Exchange| reply.answered + self.timeout / PING_WITHIN;
        let present = self.by_leader.iter().rev().find(|reply| from(reply) <= now);
        let replies = present.into_iter().chain(self.by_leader.back());
        replies.map(move |reply| (from(reply), self.heard_of_by(reply)))
    }
}

/// Adds an exchange if it was sent at least `apart` after the last one of the list.
fn remember(list: &mut VecDeque<Exchange>, exchange: Exchange, apart: Duration, max: usize) {
    if list.back().is_some_and(|last| exchange.sent < last.sent + apart) {
        return;
    }
    if list.len() >= max {
        list.pop_front();
    }
    list.push_back(exchange);
}
