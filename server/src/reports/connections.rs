//! The connections, one by one (`ServerCnxn.getConnectionInfo`).

use zoolet_core::ConnectionId;
use zoolet_protocol::SessionId;

use crate::engine::lock::Engine;
use crate::engine::registry::Peer;
use crate::engine::stats::LastRequest;

/// The interest bits of a Java selector: read, and write while messages wait.
const INTEREST_READ: u8 = 1;
const INTEREST_WRITE: u8 = 4;

/// A connection.
#[derive(Debug)]
pub(crate) struct ConnectionReport {
    /// The client's address.
    pub(crate) address: String,
    /// Whether it came to the port that speaks only TLS.
    #[cfg_attr(not(feature = "admin"), expect(dead_code, reason = "the admin server tells it"))]
    pub(crate) is_secure: bool,
    /// The bits of a Java selector.
    pub(crate) interest: u8,
    /// The messages that wait for the client.
    pub(crate) outstanding: usize,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// `None` before the handshake.
    pub(crate) session: Option<SessionReport>,
}

/// What is known of a connection with a session.
#[derive(Debug)]
pub(crate) struct SessionReport {
    pub(crate) session: SessionId,
    /// When the connection was opened, in milliseconds since 1970.
    pub(crate) established_ms: i64,
    pub(crate) timeout_ms: u64,
    pub(crate) last: LastRequest,
    pub(crate) latency_min_ms: u64,
    pub(crate) latency_average_ms: u64,
    pub(crate) latency_max_ms: u64,
}

/// All connections, in the order in which they were opened. `asker` is the connection that has sent
/// a four-letter word: the server reads nothing more from it.
pub(crate) fn connections(
    engine: &Engine,
    asker: Option<ConnectionId>,
) -> impl Iterator<Item = ConnectionReport> {
    engine.registry.peers().into_iter().map(move |peer| ConnectionReport::of(&peer, asker))
}

impl ConnectionReport {
    fn of(peer: &Peer, asker: Option<ConnectionId>) -> Self {
        let outstanding = peer.outbox.waiting_messages();
        let interest = match outstanding {
            _ if asker == Some(peer.id) => 0,
            0 => INTEREST_READ,
            _ => INTEREST_READ | INTEREST_WRITE,
        };
        Self {
            address: peer.address_text(),
            is_secure: peer.is_secure,
            interest,
            outstanding,
            received: peer.stats.received.value(),
            sent: peer.stats.sent(),
            session: SessionReport::of(peer),
        }
    }
}

impl SessionReport {
    fn of(peer: &Peer) -> Option<Self> {
        let stats = &peer.stats;
        let session = Some(stats.session()).filter(|session| !session.is_none())?;
        let (latency_min_ms, average_ms, latency_max_ms) = stats.latency.summary_ms();
        Some(Self {
            session,
            established_ms: stats.established_ms,
            timeout_ms: stats.timeout_ms(),
            last: stats.last(),
            latency_min_ms,
            latency_average_ms: average_ms as u64,
            latency_max_ms,
        })
    }
}
