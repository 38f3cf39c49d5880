//! The sessions by the time of their expiry, and their ephemeral znodes.

use std::collections::BTreeMap;

use zoolet_core::Core;
use zoolet_protocol::{SessionId, ZPath};

use crate::engine::lock::Engine;
use crate::limits::REPORT_SLICE;

/// The sessions that expire at each tick, by the tick in milliseconds of the server's clock.
pub(crate) fn by_expiry(engine: &Engine) -> BTreeMap<u64, Vec<SessionId>> {
    let tick_ms = u64::from(engine.config.tick_time_ms);
    let mut buckets: BTreeMap<u64, Vec<SessionId>> = BTreeMap::new();
    for liveness in engine.registry.sessions() {
        buckets.entry(liveness.expires_ms(tick_ms)).or_default().push(liveness.session);
    }
    buckets
}

/// The sessions that own ephemeral znodes, in order.
pub(crate) fn owners(engine: &Engine) -> Vec<SessionId> {
    engine.inspect(Core::owners)
}

/// The ephemeral znodes of a session, in order. They are read in slices.
pub(crate) fn ephemerals(engine: &Engine, session: SessionId) -> impl Iterator<Item = ZPath> {
    let mut last = String::new();
    let slices = std::iter::from_fn(move || {
        let slice = engine.inspect(|core| core.ephemerals_after(session, &last, REPORT_SLICE));
        last = slice.last()?.to_string();
        Some(slice)
    });
    slices.flatten()
}

/// A connection in the list of those that end if their clients send nothing more.
#[derive(Debug)]
pub(crate) struct EndingConnection {
    pub(crate) address: String,
    pub(crate) session: SessionId,
}

/// The connections by the time at which they end if the client sends nothing more: when the session
/// expires, or without a session when the time for the handshake is over. In milliseconds since 1970.
pub(crate) fn connections_by_end(engine: &Engine) -> BTreeMap<i64, Vec<EndingConnection>> {
    let tick_ms = u64::from(engine.config.tick_time_ms);
    let start_ms = start_ms(engine);
    let sessionless_ms = engine.config.sessionless_timeout.as_millis() as i64;
    let mut buckets: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    for peer in engine.registry.peers() {
        let session = peer.stats.session();
        let ends_ms = match engine.registry.session(session) {
            Some(liveness) => start_ms + liveness.expires_ms(tick_ms) as i64,
            None => peer.stats.established_ms + sessionless_ms,
        };
        let connection = EndingConnection { address: peer.address_text(), session };
        buckets.entry(ends_ms).or_default().push(connection);
    }
    buckets
}

/// When the server's clock began, in milliseconds since 1970.
pub(crate) fn start_ms(engine: &Engine) -> i64 {
    engine.clock.wall_ms() - engine.clock.now_ms() as i64
}
