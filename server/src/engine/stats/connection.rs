//! The counters of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};

use zoolet_protocol::{OpCode, SessionId, Xid, Zxid};

use super::ServerStats;
use crate::engine::message::Message;
use crate::measure::{Latency, Tally};

/// The counters of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionStats {
    /// When it was opened, in milliseconds since 1970.
    pub(crate) established_ms: i64,
    /// Counted under the lock of the connection, as is `latency`.
    pub(crate) received: Tally,
    /// The messages that entered the outbox, counted under its lock.
    pub(super) pushed: Tally,
    /// The replies that did not, counted under the lock of the connection.
    pub(super) passed: Tally,
    pub(crate) latency: Latency,
    session: AtomicI64,
    timeout_ms: AtomicU64,
    received_ms: AtomicU64,
    last: Last,
    /// The server's counters, which count everything as well.
    pub(crate) server: Arc<ServerStats>,
}

/// The last request of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastRequest {
    pub(crate) op: OpCode,
    pub(crate) xid: Xid,
    pub(crate) zxid: Zxid,
    /// When the server replied, in milliseconds since its start.
    pub(crate) replied_ms: u64,
    pub(crate) latency_ms: u64,
}

/// A [`LastRequest`] that each request overwrites field by field, so a report may mix two requests.
#[derive(Debug)]
struct Last {
    op: AtomicI32,
    xid: AtomicI32,
    zxid: AtomicI64,
    replied_ms: AtomicU64,
    latency_ms: AtomicU64,
}

impl Default for Last {
    fn default() -> Self {
        Self {
            op: AtomicI32::new(OpCode::NOTIFICATION.0),
            xid: AtomicI32::new(-1),
            zxid: AtomicI64::new(-1),
            replied_ms: AtomicU64::new(0),
            latency_ms: AtomicU64::new(0),
        }
    }
}

impl Last {
    fn store(&self, last: &LastRequest) {
        self.op.store(last.op.0, Ordering::Relaxed);
        self.xid.store(last.xid.0, Ordering::Relaxed);
        self.zxid.store(last.zxid.0, Ordering::Relaxed);
        self.replied_ms.store(last.replied_ms, Ordering::Relaxed);
        self.latency_ms.store(last.latency_ms, Ordering::Relaxed);
    }

    fn load(&self) -> LastRequest {
        LastRequest {
            op: OpCode(self.op.load(Ordering::Relaxed)),
            xid: Xid(self.xid.load(Ordering::Relaxed)),
            zxid: Zxid(self.zxid.load(Ordering::Relaxed)),
            replied_ms: self.replied_ms.load(Ordering::Relaxed),
            latency_ms: self.latency_ms.load(Ordering::Relaxed),
        }
    }
}

impl ConnectionStats {
    pub(crate) fn new(server: Arc<ServerStats>, established_ms: i64) -> Self {
        Self {
            established_ms,
            received: Tally::default(),
            pushed: Tally::default(),
            passed: Tally::default(),
            latency: Latency::default(),
            session: AtomicI64::new(0),
            timeout_ms: AtomicU64::new(0),
            received_ms: AtomicU64::new(0),
            last: Last::default(),
            server,
        }
    }

    /// Counts a message that enters the outbox, with the bytes of its frame.
    pub(crate) fn message_sent(&self, message: &Message, bytes: usize) {
        self.pushed.add(1);
        self.server.message_sent(message, bytes);
    }

    /// The messages that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.pushed.value().wrapping_add(self.passed.value())
    }

    /// Notes when a request came in that is carried out next.
    pub(crate) fn request_began(&self, received_ms: u64) {
        self.received_ms.store(received_ms, Ordering::Relaxed);
    }

    /// When the request that is being carried out came in, in milliseconds since the server's start.
    pub(crate) fn request_received_ms(&self) -> u64 {
        self.received_ms.load(Ordering::Relaxed)
    }

    /// Counts so many requests that were carried out, with the milliseconds that each took and whether
    /// they change something.
    pub(super) fn replied(&self, (latency_ms, is_update): (u64, bool), requests: u64) {
        self.latency.record(latency_ms, requests);
        match is_update {
            true => self.server.update_handled.record_times(latency_ms, requests),
            false => self.server.read_latency.record_times(latency_ms, requests),
        }
    }

    pub(super) fn note_last(&self, last: &LastRequest) {
        self.last.store(last);
    }

    pub(crate) fn established(&self, session: SessionId, timeout_ms: i32) {
        self.session.store(session.0, Ordering::Relaxed);
        self.timeout_ms.store(u64::try_from(timeout_ms).unwrap_or(0), Ordering::Relaxed);
    }

    /// The session, [`SessionId::NONE`] before the handshake.
    pub(crate) fn session(&self) -> SessionId {
        SessionId(self.session.load(Ordering::Relaxed))
    }

    pub(crate) fn timeout_ms(&self) -> u64 {
        self.timeout_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn last(&self) -> LastRequest {
        self.last.load()
    }

    /// Resets what the word `crst` resets.
    pub(crate) fn reset(&self) {
        self.received.reset();
        self.pushed.reset();
        self.passed.reset();
        self.latency.reset();
        self.last.store(&Last::default().load());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::TurnCounts;
    use super::*;

    #[test]
    fn events_that_others_push_during_a_turn_and_its_replies_are_all_counted() {
        const EACH: u64 = 200_000;
        let stats = ConnectionStats::new(Arc::default(), 0);
        let event = Message::Event(Bytes::new());
        std::thread::scope(|scope| {
            scope.spawn(|| (0..EACH).for_each(|_| stats.message_sent(&event, 0)));
            let mut counts = TurnCounts::default();
            for _ in 0..EACH {
                counts.reply_sent(&stats, Xid(1), 16);
                counts.tell(&stats);
            }
        });
        assert_eq!(stats.sent(), 2 * EACH);
        stats.reset();
        assert_eq!(stats.sent(), 0);
    }
}
