//! The metrics that several benches share.

use super::values::{Metric, Unit};

pub(super) const HAND_OVERS: Metric =
    Metric { key: "hand_overs", heading: "hand-overs", unit: Unit::Count };
pub(super) const PER_SECOND: Metric =
    Metric { key: "per_second", heading: "rate", unit: Unit::PerSecond };
pub(super) const REQUESTS: Metric =
    Metric { key: "requests_each", heading: "requests", unit: Unit::Count };
pub(super) const EVENTS: Metric =
    Metric { key: "events_each", heading: "events", unit: Unit::Count };
pub(super) const BYTES: Metric = Metric { key: "bytes_each", heading: "bytes", unit: Unit::Bytes };
pub(super) const CPU: Metric =
    Metric { key: "server_cpu_us_each", heading: "server CPU", unit: Unit::Microseconds };
pub(super) const MEMORY: Metric =
    Metric { key: "server_memory_bytes", heading: "server memory", unit: Unit::Bytes };
pub(super) const ROUND_TRIP: Metric =
    Metric { key: "round_trip_p50_us", heading: "one request", unit: Unit::Microseconds };
