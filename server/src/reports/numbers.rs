//! The numbers of the server as a whole (`ServerStats`).

use zoolet_protocol::Zxid;

use crate::engine::lock::Engine;

/// What `srvr` shows.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) latency_min_ms: u64,
    pub(crate) latency_average_ms: f64,
    pub(crate) latency_max_ms: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) connections: usize,
    pub(crate) outstanding: u64,
    pub(crate) zxid: Zxid,
    pub(crate) znodes: usize,
}

impl Numbers {
    pub(crate) fn of(engine: &Engine) -> Self {
        let stats = &engine.stats;
        let (latency_min_ms, latency_average_ms, latency_max_ms) = stats.latency_ms();
        let (zxid, znodes) = engine.inspect(|core| (core.last_zxid(), core.totals().znodes));
        Self {
            latency_min_ms,
            latency_average_ms,
            latency_max_ms,
            received: stats.received.value(),
            sent: stats.sent.value(),
            connections: engine.registry.peer_count(),
            outstanding: stats.outstanding_requests(),
            zxid,
            znodes,
        }
    }
}
