//! `mntr`: the metrics, one `zk_key<TAB>value` a line, under ZooKeeper's names.
//!
//! Metrics of an ensemble, such as the number of followers, are left out.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use crate::engine::lock::Engine;
use crate::engine::stats::Latency;
use crate::reports::{VERSION, average_text};

pub(super) fn text(engine: &Engine) -> String {
    let mut lines = Lines(String::new());
    lines.put("version", VERSION);
    lines.put("server_state", "standalone");
    gauges(&mut lines, engine);
    counters(&mut lines, engine);
    operations(&mut lines, engine);
    latencies(&mut lines, engine);
    lines.0
}

struct Lines(String);

impl Lines {
    fn put(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "zk_{key}\t{value}");
    }

    /// A summary: average, minimum, maximum, count and sum.
    fn summary(&mut self, name: &str, latency: &Latency) {
        let (least, average, greatest) = latency.summary_ms();
        self.put(&format!("avg_{name}"), average_text(average));
        self.put(&format!("min_{name}"), least);
        self.put(&format!("max_{name}"), greatest);
        let (count, sum_ms) = latency.count_and_sum_ms();
        self.put(&format!("cnt_{name}"), count);
        self.put(&format!("sum_{name}"), sum_ms);
    }
}

fn gauges(lines: &mut Lines, engine: &Engine) {
    let stats = &engine.stats;
    let totals = engine.inspect(zoolet_core::Core::totals);
    let (least, average, greatest) = stats.latency.summary_ms();
    lines.put("avg_latency", average_text(average));
    lines.put("max_latency", greatest);
    lines.put("min_latency", least);
    lines.put("packets_received", stats.received.value());
    lines.put("packets_sent", stats.sent.value());
    lines.put("num_alive_connections", engine.registry.peer_count());
    lines.put("outstanding_requests", 0);
    lines.put("uptime", engine.clock.now_ms());
    lines.put("znode_count", totals.znodes);
    lines.put("watch_count", totals.watches);
    lines.put("ephemerals_count", totals.ephemerals);
    lines.put("approximate_data_size", totals.data_bytes);
    lines.put("global_sessions", totals.sessions);
    lines.put("local_sessions", 0);
    if let Some((open, limit)) = file_descriptors() {
        lines.put("open_file_descriptor_count", open);
        lines.put("max_file_descriptor_count", limit);
    }
    lines.put("auth_failed_count", stats.auth_failed.value());
    lines.put("non_mtls_remote_conn_count", stats.plaintext_remote.value());
    lines.put("non_mtls_local_conn_count", stats.plaintext_local.value());
    lines.put("outstanding_tls_handshake", stats.outstanding_handshakes.load(Ordering::Relaxed));
    for (name, [count_limit, count, bytes_limit, bytes]) in
        engine.inspect(zoolet_core::Core::top_level_quotas)
    {
        lines.put(&format!("{name}_quota_count_limit_per_namespace"), count_limit);
        lines.put(&format!("{name}_quota_count_usage_per_namespace"), count);
        lines.put(&format!("{name}_quota_bytes_limit_per_namespace"), bytes_limit);
        lines.put(&format!("{name}_quota_bytes_usage_per_namespace"), bytes);
    }
}

fn counters(lines: &mut Lines, engine: &Engine) {
    let stats = &engine.stats;
    lines.put("commit_count", stats.commits.value());
    lines.put("connection_request_count", stats.connections_accepted.value());
    lines.put("connection_rejected", stats.connections_rejected.value());
    lines.put("connection_drop_count", stats.connections_dropped.value());
    lines.put("connection_revalidate_count", stats.sessions_revalidated.value());
    lines.put("bytes_received_count", stats.bytes_received.value());
    lines.put("sessionless_connections_expired", stats.sessionless_expired.value());
    lines.put("stale_sessions_expired", stats.sessions_expired.value());
    lines.put("ensemble_auth_success", stats.ensemble_auth_succeeded.value());
    lines.put("ensemble_auth_fail", stats.ensemble_auth_failed.value());
    lines.put("ensemble_auth_skip", stats.ensemble_auth_skipped.value());
    lines.put("stale_requests_dropped", stats.stale_requests_dropped.value());
    lines.put("unsuccessful_handshake", stats.unsuccessful_handshakes.value());
    lines.put("tls_handshake_exceeded", stats.handshakes_exceeded.value());
    let kinds = ["created", "deleted", "changed", "children"];
    for (kind, counter) in kinds.iter().zip(&stats.watches_fired) {
        lines.put(&format!("sum_node_{kind}_watch_count"), counter.value());
    }
    lines.put("container_deleted_count", stats.containers_swept.value());
    // ZooKeeper has no such metric: it cuts an incomplete log without reporting it.
    lines.put("log_tails_cut", stats.log_tails_cut.value());
}

fn operations(lines: &mut Lines, engine: &Engine) {
    let mut total = 0;
    for (name, count) in engine.stats.operations() {
        lines.put(&format!("op_count_{name}"), count);
        total += count;
    }
    lines.put("op_count_total", total);
}

fn latencies(lines: &mut Lines, engine: &Engine) {
    lines.summary("readlatency", &engine.stats.read_latency);
    lines.summary("updatelatency", &engine.stats.update_latency);
}

/// The open file descriptors and their limit, where the system tells them.
fn file_descriptors() -> Option<(usize, u64)> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    let limit = line.split_whitespace().nth(3)?.parse().ok()?;
    Some((open, limit))
}
