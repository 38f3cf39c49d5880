//! The counters of the server and of each connection.
//!
//! Counters only grow until an administrator resets them. They are read one at a time, so a report
//! may show a request that is counted in one counter and not yet in another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use zoolet_protocol::{OpCode, SessionId, Xid, Zxid};

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Request latencies in milliseconds: minimum, maximum, count and sum.
#[derive(Debug)]
pub(crate) struct Latency {
    count: Counter,
    sum_ms: Counter,
    min_ms: AtomicU64,
    max_ms: AtomicU64,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            count: Counter::default(),
            sum_ms: Counter::default(),
            min_ms: AtomicU64::new(u64::MAX),
            max_ms: AtomicU64::new(0),
        }
    }
}

impl Latency {
    pub(crate) fn record(&self, ms: u64) {
        self.count.add(1);
        // Mostly nothing changes, and a load is cheaper than a write to a shared cache line.
        if ms > 0 {
            self.sum_ms.add(ms);
        }
        if ms < self.min_ms.load(Ordering::Relaxed) {
            self.min_ms.fetch_min(ms, Ordering::Relaxed);
        }
        if ms > self.max_ms.load(Ordering::Relaxed) {
            self.max_ms.fetch_max(ms, Ordering::Relaxed);
        }
    }

    /// Minimum, average and maximum; all 0 if nothing was recorded.
    pub(crate) fn summary_ms(&self) -> (u64, f64, u64) {
        let count = self.count.value();
        if count == 0 {
            return (0, 0.0, 0);
        }
        let average = self.sum_ms.value() as f64 / count as f64;
        (self.min_ms.load(Ordering::Relaxed), average, self.max_ms.load(Ordering::Relaxed))
    }

    /// The number of recorded latencies, and their sum.
    pub(crate) fn count_and_sum_ms(&self) -> (u64, u64) {
        (self.count.value(), self.sum_ms.value())
    }

    pub(crate) fn reset(&self) {
        self.count.reset();
        self.sum_ms.reset();
        self.min_ms.store(u64::MAX, Ordering::Relaxed);
        self.max_ms.store(0, Ordering::Relaxed);
    }
}

/// The operations that have counters of their own, under the names of ZooKeeper's metrics.
pub(crate) const COUNTED_OPERATIONS: [(&str, &[OpCode]); 23] = [
    ("add_watch", &[OpCode::ADD_WATCH]),
    ("check", &[OpCode::CHECK]),
    ("check_watches", &[OpCode::CHECK_WATCHES]),
    ("close_session", &[OpCode::CLOSE_SESSION]),
    ("create", &[OpCode::CREATE, OpCode::CREATE2, OpCode::CREATE_CONTAINER, OpCode::CREATE_TTL]),
    ("create_session", &[OpCode::CREATE_SESSION]),
    ("delete", &[OpCode::DELETE, OpCode::DELETE_CONTAINER]),
    ("exists", &[OpCode::EXISTS]),
    ("get_acl", &[OpCode::GET_ACL]),
    ("get_all_children_number", &[OpCode::GET_ALL_CHILDREN_NUMBER]),
    ("get_children", &[OpCode::GET_CHILDREN, OpCode::GET_CHILDREN2]),
    ("get_data", &[OpCode::GET_DATA]),
    ("get_ephemerals", &[OpCode::GET_EPHEMERALS]),
    ("multi", &[OpCode::MULTI]),
    ("multi_read", &[OpCode::MULTI_READ]),
    ("ping", &[OpCode::PING]),
    ("reconfig", &[OpCode::RECONFIG]),
    ("remove_watches", &[OpCode::REMOVE_WATCHES]),
    ("set_acl", &[OpCode::SET_ACL]),
    ("set_data", &[OpCode::SET_DATA]),
    ("set_watches", &[OpCode::SET_WATCHES, OpCode::SET_WATCHES2]),
    ("sync", &[OpCode::SYNC]),
    ("who_am_i", &[OpCode::WHO_AM_I]),
];

/// The index of each operation's counter, by the operation's code.
const COUNTED_AT: [Option<u8>; 128] = {
    let mut counted_at = [None; 128];
    let mut index = 0;
    while index < COUNTED_OPERATIONS.len() {
        let ops = COUNTED_OPERATIONS[index].1;
        let mut of = 0;
        while of < ops.len() {
            if ops[of].0 >= 0 {
                counted_at[ops[of].0 as usize] = Some(index as u8);
            }
            of += 1;
        }
        index += 1;
    }
    counted_at
};

/// The index of an operation's counter. The operations that create and close a session have
/// negative codes.
fn counted_at(op: OpCode) -> Option<usize> {
    match usize::try_from(op.0) {
        Ok(code) => COUNTED_AT.get(code).copied().flatten().map(usize::from),
        Err(_) => COUNTED_OPERATIONS.iter().position(|(_, ops)| ops.contains(&op)),
    }
}

/// The counters of the server.
#[derive(Debug, Default)]
pub(crate) struct ServerStats {
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) latency: Latency,
    pub(crate) read_latency: Latency,
    pub(crate) update_latency: Latency,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_rejected: Counter,
    pub(crate) connections_dropped: Counter,
    pub(crate) sessionless_expired: Counter,
    pub(crate) sessions_expired: Counter,
    pub(crate) sessions_revalidated: Counter,
    pub(crate) auth_failed: Counter,
    /// TLS handshakes that failed, and connections that were closed because too many handshakes
    /// were under way.
    pub(crate) unsuccessful_handshakes: Counter,
    pub(crate) handshakes_exceeded: Counter,
    /// TLS handshakes that are under way.
    pub(crate) outstanding_handshakes: AtomicUsize,
    /// Connections without TLS, from other machines and from this one.
    pub(crate) plaintext_remote: Counter,
    pub(crate) plaintext_local: Counter,
    pub(crate) ensemble_auth_succeeded: Counter,
    pub(crate) ensemble_auth_failed: Counter,
    /// The names of ensembles that were empty, or not compared for want of a name.
    pub(crate) ensemble_auth_skipped: Counter,
    pub(crate) commits: Counter,
    pub(crate) stale_requests_dropped: Counter,
    pub(crate) watches_fired: [Counter; 4],
    pub(crate) containers_swept: Counter,
    /// The logs with an incomplete end, left by a crash, that the start has cut.
    pub(crate) log_tails_cut: Counter,
    operations: [Counter; COUNTED_OPERATIONS.len()],
}

impl ServerStats {
    /// Counts a request by its operation.
    pub(crate) fn count(&self, op: OpCode) {
        if let Some(index) = counted_at(op) {
            self.operations[index].add(1);
        }
    }

    /// The number of requests for each operation, under its metric's name.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = COUNTED_OPERATIONS.iter().map(|(name, _)| *name);
        names.zip(self.operations.iter().map(Counter::value))
    }

    /// Counts a connection without TLS.
    pub(crate) fn plaintext_connection(&self, address: Option<SocketAddr>) {
        match address {
            Some(address) if !address.ip().is_loopback() => self.plaintext_remote.add(1),
            _ => self.plaintext_local.add(1),
        }
    }

    /// Resets what the word `srst` resets.
    pub(crate) fn reset(&self) {
        self.received.reset();
        self.sent.reset();
        self.latency.reset();
    }
}

/// The counters of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionStats {
    /// When it was opened, in milliseconds since 1970.
    pub(crate) established_ms: i64,
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
    pub(crate) latency: Latency,
    session: AtomicI64,
    timeout_ms: AtomicU64,
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
            received: Counter::default(),
            sent: Counter::default(),
            latency: Latency::default(),
            session: AtomicI64::new(0),
            timeout_ms: AtomicU64::new(0),
            last: Last::default(),
            server,
        }
    }

    /// Counts a frame that came in.
    pub(crate) fn frame_received(&self, bytes: usize) {
        self.received.add(1);
        self.server.received.add(1);
        self.server.bytes_received.add(4 + bytes as u64);
    }

    /// Counts a message that enters the outbox.
    pub(crate) fn message_sent(&self) {
        self.sent.add(1);
        self.server.sent.add(1);
    }

    /// Counts a request that was carried out.
    pub(crate) fn replied(&self, last: &LastRequest) {
        self.latency.record(last.latency_ms);
        self.server.latency.record(last.latency_ms);
        if is_update(last.op) {
            self.server.update_latency.record(last.latency_ms);
        } else {
            self.server.read_latency.record(last.latency_ms);
        }
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

    /// When the server last replied, in milliseconds since its start.
    pub(crate) fn last_replied_ms(&self) -> u64 {
        self.last.replied_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn last(&self) -> LastRequest {
        self.last.load()
    }

    /// Resets what the word `crst` resets.
    pub(crate) fn reset(&self) {
        self.received.reset();
        self.sent.reset();
        self.latency.reset();
    }
}

fn is_update(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::CREATE
            | OpCode::CREATE2
            | OpCode::CREATE_CONTAINER
            | OpCode::CREATE_TTL
            | OpCode::DELETE
            | OpCode::SET_DATA
            | OpCode::SET_ACL
            | OpCode::MULTI
            | OpCode::RECONFIG
            | OpCode::CREATE_SESSION
            | OpCode::CLOSE_SESSION
    )
}

/// The four letters by which the word `cons` shows an operation (`FinalRequestProcessor.lastOp`).
pub(crate) fn four_letters(op: OpCode) -> &'static str {
    match op {
        OpCode::CREATE_SESSION => "SESS",
        OpCode::PING => "PING",
        OpCode::MULTI => "MULT",
        OpCode::MULTI_READ => "MLTR",
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => "CREA",
        OpCode::DELETE | OpCode::DELETE_CONTAINER => "DELE",
        OpCode::SET_DATA => "SETD",
        OpCode::RECONFIG => "RECO",
        OpCode::SET_ACL => "SETA",
        OpCode::CLOSE_SESSION => "CLOS",
        OpCode::SYNC => "SYNC",
        OpCode::CHECK => "CHEC",
        OpCode::EXISTS => "EXIS",
        OpCode::GET_DATA => "GETD",
        OpCode::SET_WATCHES => "SETW",
        OpCode::SET_WATCHES2 => "STW2",
        OpCode::ADD_WATCH => "ADDW",
        OpCode::GET_ACL => "GETA",
        OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => "GETC",
        OpCode::GET_ALL_CHILDREN_NUMBER => "GETACN",
        OpCode::CHECK_WATCHES => "CHKW",
        OpCode::REMOVE_WATCHES => "REMW",
        OpCode::WHO_AM_I => "HOMI",
        OpCode::GET_EPHEMERALS => "GETE",
        _ => "NA",
    }
}
