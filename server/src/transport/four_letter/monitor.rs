//! `mntr`: the metrics, one `zk_key<TAB>value` a line.

use std::fmt::{self, Write};

use crate::engine::lock::Engine;
use crate::engine::metrics;
use crate::reports::VERSION;

pub(super) fn write(engine: &Engine, out: &mut impl Write) -> fmt::Result {
    metrics::monitor(engine, VERSION)
        .iter()
        .try_for_each(|(key, value)| writeln!(out, "zk_{key}\t{value}"))
}
