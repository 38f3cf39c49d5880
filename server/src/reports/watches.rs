//! The watches by path and by session: only those on data, as in ZooKeeper's reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use zoolet_core::{ConnectionId, Core, WatchSummary};
use zoolet_protocol::SessionId;

use crate::engine::lock::Engine;
use crate::limits::REPORT_SLICE;

/// Their totals.
pub(crate) fn summary(engine: &Engine) -> WatchSummary {
    engine.inspect(Core::watch_summary)
}

/// Each watched path with a session that watches it, ordered by both.
pub(crate) fn by_path(engine: &Engine) -> Vec<(Arc<str>, SessionId)> {
    let mut watches = Vec::new();
    for peer in engine.registry.peers() {
        let session = peer.stats.session();
        watches.extend(watched(engine, peer.id).map(|path| (path, session)));
    }
    watches.sort_unstable();
    watches
}

/// The sessions with the watches of their connections, in order. A session briefly has two
/// connections when its client reconnects.
pub(crate) fn by_session(engine: &Engine) -> BTreeMap<SessionId, Vec<ConnectionId>> {
    let mut connections: BTreeMap<SessionId, Vec<ConnectionId>> = BTreeMap::new();
    for peer in engine.registry.peers() {
        connections.entry(peer.stats.session()).or_default().push(peer.id);
    }
    connections
}

/// The paths on which a connection has a data or exist watch, in order. They are read in slices.
pub(crate) fn watched(engine: &Engine, connection: ConnectionId) -> impl Iterator<Item = Arc<str>> {
    let mut last: Option<Arc<str>> = None;
    let slices = std::iter::from_fn(move || {
        let look = |core: &Core| core.watched_after(connection, last.as_deref(), REPORT_SLICE);
        let slice = engine.inspect(look);
        last = Some(Arc::clone(&slice.last()?.0));
        Some(slice)
    });
    slices.flatten().filter(|(_, is_data)| *is_data).map(|(path, _)| path)
}
