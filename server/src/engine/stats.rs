//! The counters of the server and of each connection.
//!
//! - `connection` is what is counted for one connection, `operations` for one operation.
//! - `namespaces` is what is counted for one top-level znode.
//! - `turn` is what the requests of one turn count; they tell it together, before their replies leave. So
//!   do the events of one transaction, before their receivers are woken.
//!
//! Numbers are read one at a time, so a report may show a request that is counted in one of them and
//! not yet in another.

mod connection;
mod namespaces;
mod operations;
mod turn;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use zoolet_protocol::Xid;

pub(crate) use self::connection::{ConnectionStats, LastRequest};
pub(crate) use self::namespaces::{NamespaceCounters, Namespaces, bytes_of};
pub(crate) use self::operations::{Operations, four_letters};
pub(crate) use self::turn::{EventCounts, TurnCounts};
use crate::engine::message::Message;
use crate::measure::{Counter, Spread, Summarised, Summary, Tally, Window};
use crate::storage::stats::StorageStats;

/// The counters of the server.
///
/// What follows ZooKeeper's `ServerMetrics` is named after it; `engine/metrics` has the table.
#[derive(Debug, Default)]
pub(crate) struct ServerStats {
    pub(crate) received: Spread,
    pub(crate) sent: Spread,
    pub(crate) bytes_received: Spread,
    pub(crate) response_bytes: Spread,
    pub(crate) watch_bytes: Spread,
    pub(crate) response_sizes: Sizes,
    pub(crate) operations: Operations,
    pub(crate) namespaces: Namespaces,
    /// From the arrival of a request that changes nothing until its reply is in the outbox, in
    /// milliseconds.
    pub(crate) read_latency: Summary,
    /// The same for a request that changes something, so without the wait for the disk.
    pub(crate) update_handled: Summary,
    pub(crate) close_session_time: Summary,
    /// The handshakes.
    pub(crate) connection_requests: Counter,
    pub(crate) connection_token_deficit: Summary,
    pub(crate) connections_rejected: Counter,
    pub(crate) connections_dropped: Counter,
    pub(crate) sessionless_expired: Counter,
    pub(crate) sessions_expired: Counter,
    pub(crate) sessions_revalidated: Counter,
    pub(crate) auth_failed: Counter,
    pub(crate) ensemble_auth_succeeded: Counter,
    pub(crate) ensemble_auth_failed: Counter,
    /// The names of ensembles that were empty, or not compared for want of a name.
    pub(crate) ensemble_auth_skipped: Counter,
    /// Connections without TLS, from other machines and from this one.
    pub(crate) plaintext_remote: Counter,
    pub(crate) plaintext_local: Counter,
    /// TLS handshakes that are under way.
    pub(crate) outstanding_handshakes: AtomicUsize,
    pub(crate) handshakes_exceeded: Counter,
    pub(crate) unsuccessful_handshakes: Counter,
    pub(crate) insecure_admin: Counter,
    /// Counted under the lock of the state.
    pub(crate) commits: Tally,
    pub(crate) stale_requests: Counter,
    pub(crate) stale_requests_dropped: Counter,
    pub(crate) stale_replies: Counter,
    pub(crate) throttled_operations: Counter,
    pub(crate) large_requests_rejected: Counter,
    pub(crate) request_throttle_waits: Counter,
    pub(crate) request_throttle_time: Summary,
    /// How many watches an event fired: of a creation, a deletion, a change of data, a change of
    /// the children.
    pub(crate) watches_fired: [Summary; 4],
    pub(crate) snapshots_rate_limited: Counter,
    pub(crate) restore_time: Summary,
    pub(crate) restore_errors: Counter,
    pub(crate) restores_rate_limited: Counter,
    pub(crate) containers_swept: Counter,
    /// The logs with an incomplete end, left by a crash, that the start has cut.
    pub(crate) log_tails_cut: Counter,
    /// How long after its timeout a session expired, in milliseconds.
    pub(crate) expiry_lag: Summary,
    /// The clients that a write has woken.
    pub(crate) clients_woken: Counter,
    /// The turns that ended at a limit, with requests left.
    pub(crate) turns_cut: Counter,
    /// The turns that took so long that the next one waits for others.
    pub(crate) expensive_turns: Counter,
    /// The connections that were cut because the client did not read.
    pub(crate) outboxes_overflowed: Counter,
    /// What the log counts; `None` in memory only.
    pub(crate) storage: Option<Arc<StorageStats>>,
    windows: Windows,
}

/// When the windows of the summaries were last moved.
#[derive(Debug, Default)]
struct Windows {
    moved_ms: AtomicU64,
}

impl ServerStats {
    pub(crate) fn new(storage: Option<Arc<StorageStats>>) -> Self {
        Self { storage, ..Self::default() }
    }

    /// Counts a connection without TLS.
    pub(crate) fn plaintext_connection(&self, address: Option<SocketAddr>) {
        match address {
            Some(address) if !address.ip().is_loopback() => self.plaintext_remote.add(1),
            _ => self.plaintext_local.add(1),
        }
    }

    /// Counts a frame that came in.
    pub(crate) fn frame_received(&self, bytes: usize) {
        self.received.add(1);
        self.bytes_received.add(4 + bytes as u64);
    }

    /// Counts a message that enters an outbox, with the bytes of its frame.
    pub(crate) fn message_sent(&self, message: &Message, bytes: usize) {
        self.sent.add(1);
        match message {
            Message::Connected(_) => return,
            // As in ZooKeeper, where these do not reach the end of the pipeline.
            Message::Reply(header, _) if matches!(header.xid, Xid::PING | Xid::AUTH) => {}
            Message::Reply(..) => self.response_bytes.add(bytes as u64),
            Message::Event(_) => self.watch_bytes.add(bytes as u64),
        }
        self.response_sizes.record(bytes);
    }

    /// How long requests take that change something, the wait for the disk included.
    pub(crate) fn update_latency(&self, window: Window) -> Summarised {
        match &self.storage {
            Some(storage) => storage.update_latency.summarise(window),
            None => self.update_handled.summarise(window),
        }
    }

    /// How long all requests take: minimum, average and maximum in milliseconds.
    pub(crate) fn latency_ms(&self) -> (u64, f64, u64) {
        let reads = self.read_latency.summarise(Window::All);
        let all = reads.and(&self.update_latency(Window::All));
        (all.min, all.average(), all.max)
    }

    /// The requests that were carried out and whose replies wait for the disk.
    pub(crate) fn outstanding_requests(&self) -> u64 {
        self.storage.as_ref().map_or(0, |storage| storage.outstanding())
    }

    /// Moves the windows of all summaries, once for each `interval_ms` that has passed.
    pub(crate) fn move_windows(&self, now_ms: u64, interval_ms: u64) {
        let moved_ms = self.windows.moved_ms.load(Ordering::Relaxed);
        let moves = now_ms.saturating_sub(moved_ms) / interval_ms;
        let next_ms = moved_ms + moves * interval_ms;
        let exchanged = self.windows.moved_ms.compare_exchange(
            moved_ms,
            next_ms,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        // Another thread moves them otherwise.
        if moves > 0 && exchanged.is_ok() {
            // More moves than a window has moments change nothing.
            for _ in 0..moves.min(6) {
                self.summaries().for_each(Summary::rotate);
                self.namespaces.each(Summary::rotate);
            }
        }
    }

    fn summaries(&self) -> impl Iterator<Item = &Summary> {
        let own = [
            &self.read_latency,
            &self.update_handled,
            &self.close_session_time,
            &self.connection_token_deficit,
            &self.request_throttle_time,
            &self.restore_time,
            &self.expiry_lag,
        ];
        let storage = self.storage.iter().flat_map(|storage| storage.summaries());
        own.into_iter().chain(&self.watches_fired).chain(storage)
    }

    /// Resets what the word `srst` resets without a metrics provider of its own: everything that
    /// ZooKeeper's `ServerMetrics` counts.
    pub(crate) fn reset(&self) {
        self.reset_requests();
        for bytes in [&self.bytes_received, &self.response_bytes, &self.watch_bytes] {
            bytes.reset();
        }
        self.summaries().for_each(Summary::reset);
        self.namespaces.reset();
        self.operations.reset();
        self.commits.reset();
        self.counters().for_each(Counter::reset);
    }

    /// Resets what the word `srst` resets with a metrics provider whose counters only grow.
    pub(crate) fn reset_requests(&self) {
        self.received.reset();
        self.sent.reset();
        self.response_sizes.reset();
    }

    fn counters(&self) -> impl Iterator<Item = &Counter> {
        [
            &self.connection_requests,
            &self.connections_rejected,
            &self.connections_dropped,
            &self.sessionless_expired,
            &self.sessions_expired,
            &self.sessions_revalidated,
            &self.ensemble_auth_succeeded,
            &self.ensemble_auth_failed,
            &self.ensemble_auth_skipped,
            &self.handshakes_exceeded,
            &self.unsuccessful_handshakes,
            &self.insecure_admin,
            &self.stale_requests,
            &self.stale_requests_dropped,
            &self.stale_replies,
            &self.throttled_operations,
            &self.large_requests_rejected,
            &self.request_throttle_waits,
            &self.snapshots_rate_limited,
            &self.restore_errors,
            &self.restores_rate_limited,
            &self.containers_swept,
            &self.clients_woken,
            &self.turns_cut,
            &self.expensive_turns,
            &self.outboxes_overflowed,
        ]
        .into_iter()
    }
}

/// The bytes of replies and events: of the last, the least and the greatest (`BufferStats`).
#[derive(Debug)]
pub(crate) struct Sizes {
    last: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl Default for Sizes {
    fn default() -> Self {
        let none = || AtomicU64::new(Self::NONE);
        Self { last: none(), min: none(), max: AtomicU64::new(0) }
    }
}

impl Sizes {
    const NONE: u64 = u64::MAX;

    fn record(&self, bytes: usize) {
        let bytes = bytes as u64;
        // Mostly it is as long as the one before, and a load takes the cache line from no other core.
        if self.last.load(Ordering::Relaxed) != bytes {
            self.last.store(bytes, Ordering::Relaxed);
        }
        if bytes < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(bytes, Ordering::Relaxed);
        }
        if bytes > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// Last, minimum and maximum; -1 if there was none.
    pub(crate) fn values(&self) -> [i64; 3] {
        if self.last.load(Ordering::Relaxed) == Self::NONE {
            return [-1; 3];
        }
        [&self.last, &self.min, &self.max].map(|size| size.load(Ordering::Relaxed) as i64)
    }

    fn reset(&self) {
        self.last.store(Self::NONE, Ordering::Relaxed);
        self.min.store(Self::NONE, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
    }
}
