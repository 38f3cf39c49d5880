//! What the requests of a turn count, and the events of a transaction.

use zoolet_protocol::{OpCode, Xid};

use super::ServerStats;
use super::connection::{ConnectionStats, LastRequest};
use super::namespaces::LastNamespace;
use super::operations::is_update;
use crate::measure::Repeats;

/// What the requests of a turn have counted and no report shows yet. Most of a turn's requests count the
/// same, and so cost one addition to a number that others share instead of many.
#[derive(Debug, Default)]
pub(crate) struct TurnCounts {
    /// The frames, and their bytes with the lengths before them.
    received: u64,
    bytes_received: u64,
    operations: Repeats<i32>,
    /// The replies that did not go through the outbox, which counts those that do.
    sent: u64,
    response_bytes: u64,
    response_sizes: Repeats<usize>,
    /// Milliseconds, and whether the request changes something.
    latencies: Repeats<(u64, bool)>,
    last: Option<LastRequest>,
    /// The namespace that the connection has used last.
    pub(crate) namespace: LastNamespace,
}

impl TurnCounts {
    /// Counts frames that came in, with their bytes and the lengths before them.
    pub(crate) fn frames_received(&mut self, frames: usize, bytes: usize) {
        self.received += frames as u64;
        self.bytes_received += bytes as u64;
    }

    /// Counts a frame that came in, with the bytes of its payload.
    pub(crate) fn frame_received(&mut self, bytes: usize) {
        self.frames_received(1, 4 + bytes);
    }

    /// Counts a request.
    pub(crate) fn request_began(&mut self, stats: &ConnectionStats, op: OpCode) {
        self.requests_began(stats, op, 1);
    }

    /// Counts requests of one operation.
    pub(crate) fn requests_began(&mut self, stats: &ConnectionStats, op: OpCode, requests: usize) {
        if let Some((op, times)) = self.operations.add(op.0, requests as u64) {
            stats.server.operations.count(OpCode(op), times);
        }
    }

    /// Counts a reply that does not go through the outbox, with the bytes of its frame.
    pub(crate) fn reply_sent(&mut self, stats: &ConnectionStats, xid: Xid, bytes: usize) {
        self.sent += 1;
        if !matches!(xid, Xid::PING | Xid::AUTH) {
            self.response_bytes += bytes as u64;
        }
        if let Some((bytes, _)) = self.response_sizes.add(bytes, 1) {
            stats.server.response_sizes.record(bytes);
        }
    }

    /// Counts so many requests that were carried out, of which this is the last.
    pub(crate) fn replied(&mut self, stats: &ConnectionStats, last: LastRequest, requests: u64) {
        let latency = (last.latency_ms, is_update(last.op));
        if let Some((latency, times)) = self.latencies.add(latency, requests) {
            stats.replied(latency, times);
        }
        if last.op == OpCode::CLOSE_SESSION {
            stats.server.close_session_time.record(last.latency_ms);
        }
        self.last = Some(last);
    }

    /// Adds everything to the numbers that reports show.
    pub(crate) fn tell(&mut self, stats: &ConnectionStats) {
        let server = &*stats.server;
        if self.received > 0 {
            let frames = std::mem::take(&mut self.received);
            stats.received.add(frames);
            server.received.add(frames);
            server.bytes_received.add(std::mem::take(&mut self.bytes_received));
        }
        if let Some((op, times)) = self.operations.take() {
            server.operations.count(OpCode(op), times);
        }
        if self.sent > 0 {
            let replies = std::mem::take(&mut self.sent);
            stats.passed.add(replies);
            server.sent.add(replies);
            server.response_bytes.add(std::mem::take(&mut self.response_bytes));
        }
        if let Some((bytes, _)) = self.response_sizes.take() {
            server.response_sizes.record(bytes);
        }
        if let Some((latency, times)) = self.latencies.take() {
            stats.replied(latency, times);
        }
        if let Some(last) = self.last.take() {
            stats.note_last(&last);
        }
        self.namespace.tell();
    }
}

/// What the events of a transaction count for the server. They are pushed under one lock.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    events: u64,
    bytes: u64,
}

impl EventCounts {
    /// Counts an event that enters an outbox, with the bytes of its frame.
    pub(crate) fn event_sent(&mut self, stats: &ConnectionStats, bytes: usize) {
        stats.pushed.add(1);
        self.events += 1;
        self.bytes += bytes as u64;
        stats.server.response_sizes.record(bytes);
    }

    /// Adds everything to the numbers that reports show.
    pub(crate) fn tell(&self, server: &ServerStats) {
        if self.events > 0 {
            server.sent.add(self.events);
            server.watch_bytes.add(self.bytes);
        }
    }
}
