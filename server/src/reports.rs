//! What the server tells about itself, as values. The four-letter words and the pages for
//! administrators give them their formats.
//!
//! Reports that grow with the number of connections, sessions or watches are read in slices, between
//! which the engine's lock is released.

pub(crate) mod chunks;
pub(crate) mod configuration;
pub(crate) mod connections;
pub(crate) mod environment;
pub(crate) mod numbers;
pub(crate) mod permits;
pub(crate) mod sessions;
pub(crate) mod watches;

use crate::engine::lock::Engine;
use crate::engine::metrics::MetricsProvider;

/// The version in reports: programs conclude from it what the server supports.
pub const VERSION: &str =
    concat!("3.9.4-zoolet-", env!("CARGO_PKG_VERSION"), ", built on 2026-11-20 00:00 UTC");

/// The trace mask with which ZooKeeper starts. It has no effect here.
pub(crate) const DEFAULT_TRACE_MASK: i64 = 306;

/// Resets what is counted of each connection: `crst`.
pub(crate) fn reset_connections(engine: &Engine) {
    for peer in engine.registry.peers() {
        peer.stats.reset();
    }
}

/// Resets what is counted of the server: `srst`.
pub(crate) fn reset_server(engine: &Engine) {
    match engine.config.metrics_provider {
        MetricsProvider::Default => engine.stats.reset(),
        MetricsProvider::Prometheus(_) => engine.stats.reset_requests(),
    }
}

/// A number as ZooKeeper shows averages: as Java prints a double that was rounded to four places.
pub(crate) fn average_text(value: f64) -> String {
    let rounded = (value * 10_000.0).round() / 10_000.0;
    if rounded.fract() == 0.0 { format!("{rounded:.1}") } else { rounded.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_printed_as_java_does() {
        assert_eq!(average_text(0.0), "0.0");
        assert_eq!(average_text(0.123_456), "0.1235");
        assert_eq!(average_text(12.5), "12.5");
    }
}
