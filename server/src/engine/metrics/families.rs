//! All metrics with their values: the names of a standalone ZooKeeper 3.9.5, and our own.

use std::sync::atomic::Ordering;

use zoolet_core::Core;

use super::number::rounded;
use super::process::open_descriptors;
use crate::engine::lock::Engine;
use crate::engine::stats::NamespaceCounters;
use crate::measure::{Summarised, Summary, Window};

/// A metric and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) value: Value,
}

/// The value of a metric. A set has a value for each namespace that was used.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Gauge(Number),
    Counter(u64),
    Summary(Detail, Summarised),
    GaugeSet(Vec<(String, i64)>),
    CounterSet(Vec<(String, u64)>),
    SummarySet(Detail, Vec<(String, Summarised)>),
    /// A metric of the process: with its description, and whether it only grows.
    Process(&'static str, Growth, f64),
}

/// Java's type of a gauge, which `mntr` shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(i64),
    Real(f64),
}

/// The quantiles that a summary has (`DetailLevel`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Basic,
    Advanced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    OnlyGrows,
    GrowsAndShrinks,
}

/// All metrics of a server. The quantiles are those of a window.
pub(super) fn of(engine: &Engine, window: Window) -> Vec<Family> {
    engine.stats.move_windows(engine.clock.now_ms(), engine.config.metrics_provider.interval_ms());
    let mut table = Table { families: Vec::new(), window };
    gauges(&mut table, engine);
    counters(&mut table, engine);
    operations(&mut table, engine);
    summaries(&mut table, engine);
    storage(&mut table, engine);
    namespaces(&mut table, engine);
    own(&mut table, engine);
    table.families
}

struct Table {
    families: Vec<Family>,
    window: Window,
}

impl Table {
    fn put(&mut self, name: &str, value: Value) {
        self.families.push(Family { name: name.to_owned(), value });
    }

    fn gauge(&mut self, name: &str, value: impl TryInto<i64>) {
        self.put(name, Value::Gauge(Number::Whole(value.try_into().unwrap_or(i64::MAX))));
    }

    fn real(&mut self, name: &str, value: f64) {
        self.put(name, Value::Gauge(Number::Real(value)));
    }

    fn counter(&mut self, name: &str, value: u64) {
        self.put(name, Value::Counter(value));
    }

    fn basic(&mut self, name: &str, summary: &Summary) {
        self.summarised(name, Detail::Basic, summary.summarise(self.window));
    }

    fn advanced(&mut self, name: &str, summary: &Summary) {
        self.summarised(name, Detail::Advanced, summary.summarise(self.window));
    }

    fn summarised(&mut self, name: &str, detail: Detail, summarised: Summarised) {
        self.put(name, Value::Summary(detail, summarised));
    }

    /// Metrics that a standalone ZooKeeper shows and never changes, or of which nothing here has the
    /// meaning.
    fn unused(&mut self, names: &str, value: &Value) {
        for name in names.split_whitespace() {
            self.put(name, value.clone());
        }
    }
}

/// ZooKeeper's counters that stay 0 here: of ensembles, of the Java virtual machine, and of its caches,
/// queues and threads.
const UNUSED_COUNTERS: &str = "
    looking_count diff_count snap_count revalidate_count proposal_count
    learner_proposal_received_count learner_commit_received_count
    quit_leading_due_to_disloyal_voter skip_learner_request_to_next_processor_count
    requests_not_forwarded_to_commit_processor request_commit_queued
    add_dead_watcher_stall_time dead_watchers_queued dead_watchers_cleared
    response_packet_cache_hits response_packet_cache_misses
    response_packet_get_children_cache_hits response_packet_get_children_cache_misses
    outstanding_changes_queued outstanding_changes_removed
    digest_mismatches_count cnxn_closed_without_zk_server_running";

const UNUSED_BASIC: &str = "
    follower_sync_time observer_sync_time election_time inflight_snap_count inflight_diff_count
    prep_processor_queue_size proposal_process_time unavailable_time leader_unavailable_time
    requests_in_session_queue pending_session_queue_size reads_after_write_in_session_queue
    reads_issued_from_session_queue session_queues_drained
    time_waiting_empty_pool_in_commit_processor_read_ms write_batch_time_in_commit_processor
    concurrent_request_processing_in_commit_processor read_commit_proc_req_queued
    write_commit_proc_req_queued commit_commit_proc_req_queued read_commit_proc_issued
    write_commit_proc_issued commit_process_time netty_queued_buffer_capacity
    learner_request_processor_queue_size socket_closing_time";

const UNUSED_ADVANCED: &str = "
    dead_watchers_cleaner_latency prep_processor_queue_time_ms read_commitproc_time_ms
    write_commitproc_time_ms local_write_committed_time_ms server_write_committed_time_ms
    om_proposal_process_time_ms om_commit_process_time_ms read_final_proc_time_ms
    write_final_proc_time_ms proposal_latency proposal_ack_creation_latency
    commit_propagation_latency quorum_ack_latency jvm_pause_time_ms";

fn gauges(table: &mut Table, engine: &Engine) {
    let stats = &engine.stats;
    let totals = engine.inspect(Core::totals);
    let (least, average, greatest) = stats.latency_ms();
    let [last_size, min_size, max_size] = stats.response_sizes.values();
    table.real("avg_latency", rounded(average));
    table.gauge("max_latency", greatest);
    table.gauge("min_latency", least);
    table.gauge("packets_received", stats.received.value());
    table.gauge("packets_sent", stats.sent.value());
    table.gauge("num_alive_connections", engine.registry.peer_count());
    table.gauge("outstanding_requests", stats.outstanding_requests());
    table.gauge("uptime", engine.clock.now_ms());
    table.gauge("znode_count", totals.znodes);
    table.gauge("watch_count", totals.watches);
    table.gauge("ephemerals_count", totals.ephemerals);
    table.gauge("approximate_data_size", totals.data_bytes);
    table.gauge("global_sessions", totals.sessions);
    table.gauge("local_sessions", 0);
    if let Some((open, most)) = open_descriptors() {
        table.gauge("open_file_descriptor_count", open);
        table.gauge("max_file_descriptor_count", most);
    }
    table.real("connection_drop_probability", engine.throttle.drop_probability());
    table.gauge("last_client_response_size", last_size);
    table.gauge("max_client_response_size", max_size);
    table.gauge("min_client_response_size", min_size);
    table.gauge("outstanding_tls_handshake", stats.outstanding_handshakes.load(Ordering::Relaxed));
    table.gauge("auth_failed_count", stats.auth_failed.value());
    table.gauge("non_mtls_remote_conn_count", stats.plaintext_remote.value());
    table.gauge("non_mtls_local_conn_count", stats.plaintext_local.value());
}

fn counters(table: &mut Table, engine: &Engine) {
    let stats = &engine.stats;
    let errors = stats.storage.as_ref().map_or(0, |storage| storage.snapshot_errors.value());
    table.counter("snapshot_error_count", errors);
    table.counter("snapshot_rate_limited_count", stats.snapshots_rate_limited.value());
    table.counter("restore_error_count", stats.restore_errors.value());
    table.counter("restore_rate_limited_count", stats.restores_rate_limited.value());
    table.counter("commit_count", stats.commits.value());
    table.counter("connection_request_count", stats.connection_requests.value());
    table.counter("connection_rejected", stats.connections_rejected.value());
    table.counter("connection_drop_count", stats.connections_dropped.value());
    table.counter("connection_revalidate_count", stats.sessions_revalidated.value());
    table.counter("sessionless_connections_expired", stats.sessionless_expired.value());
    table.counter("stale_sessions_expired", stats.sessions_expired.value());
    table.counter("bytes_received_count", stats.bytes_received.value());
    table.counter("response_bytes", stats.response_bytes.value());
    table.counter("watch_bytes", stats.watch_bytes.value());
    table.counter("unrecoverable_error_count", u64::from(engine.durable().has_failed()));
    table.counter("ensemble_auth_success", stats.ensemble_auth_succeeded.value());
    table.counter("ensemble_auth_fail", stats.ensemble_auth_failed.value());
    table.counter("ensemble_auth_skip", stats.ensemble_auth_skipped.value());
    table.counter("throttled_ops", stats.throttled_operations.value());
    table.counter("stale_requests", stats.stale_requests.value());
    table.counter("stale_requests_dropped", stats.stale_requests_dropped.value());
    table.counter("stale_replies", stats.stale_replies.value());
    table.counter("request_throttle_wait_count", stats.request_throttle_waits.value());
    table.counter("large_requests_rejected", stats.large_requests_rejected.value());
    table.counter("unsuccessful_handshake", stats.unsuccessful_handshakes.value());
    table.counter("insecure_admin_count", stats.insecure_admin.value());
    table.counter("tls_handshake_exceeded", stats.handshakes_exceeded.value());
    table.unused(UNUSED_COUNTERS, &Value::Counter(0));
}

/// ZooKeeper has these from 3.10 on.
fn operations(table: &mut Table, engine: &Engine) {
    let stats = &engine.stats;
    let mut total = 0;
    for (name, count) in stats.operations.values() {
        table.counter(&format!("op_count_{name}"), count);
        total += count;
    }
    table.counter("op_count_total", total);
    // Each request is prepared once, and so is what the server does by itself.
    let by_itself = stats.sessions_expired.value() + stats.containers_swept.value();
    table.counter("prep_processor_request_queued", total + by_itself);
}

fn summaries(table: &mut Table, engine: &Engine) {
    let stats = &engine.stats;
    let reads = stats.read_latency.summarise(table.window);
    let updates = stats.update_handled.summarise(table.window);
    table.summarised("prep_process_time", Detail::Basic, reads.and(&updates));
    table.summarised("readlatency", Detail::Advanced, reads);
    table.summarised("updatelatency", Detail::Advanced, stats.update_latency(table.window));
    table.advanced("close_session_prep_time", &stats.close_session_time);
    table.advanced("request_throttle_queue_time_ms", &stats.request_throttle_time);
    table.basic("connection_token_deficit", &stats.connection_token_deficit);
    table.basic("restore_time", &stats.restore_time);
    for (kind, fired) in
        ["created", "deleted", "changed", "children"].iter().zip(&stats.watches_fired)
    {
        table.basic(&format!("node_{kind}_watch_count"), fired);
    }
    let nothing = Summarised::default();
    table.unused(UNUSED_BASIC, &Value::Summary(Detail::Basic, nothing.clone()));
    table.unused(UNUSED_ADVANCED, &Value::Summary(Detail::Advanced, nothing));
}

fn storage(table: &mut Table, engine: &Engine) {
    // A server in memory has the same names.
    let of_memory = Default::default();
    let storage = engine.stats.storage.as_ref().unwrap_or(&of_memory);
    table.counter("sync_processor_request_queued", storage.appended.value());
    table.basic("fsynctime", &storage.fsync_time);
    table.basic("snapshottime", &storage.snapshot_time);
    table.basic("dbinittime", &storage.init_time);
    table.basic("startup_txns_loaded", &storage.startup_txns);
    table.basic("startup_txns_load_time", &storage.startup_txns_time);
    table.basic("startup_snap_load_time", &storage.startup_snapshot_time);
    table.basic("sync_processor_queue_size", &storage.queue_size);
    table.basic("sync_process_time", &storage.flush_time);
    table.basic("sync_processor_batch_size", &storage.batch_size);
    table.advanced("sync_processor_queue_and_flush_time_ms", &storage.queue_and_flush_time);
    table.advanced("sync_processor_queue_time_ms", &storage.queue_time);
    table.advanced("sync_processor_queue_flush_time_ms", &storage.flush_time);
    table.advanced("propagation_latency", &storage.queue_and_flush_time);
    table.basic("zoolet_batch_bytes", &storage.batch_bytes);
    table.counter("zoolet_slow_syncs", storage.slow_syncs.value());
}

fn namespaces(table: &mut Table, engine: &Engine) {
    let all = engine.stats.namespaces.all();
    let summarised = |summary: fn(&NamespaceCounters) -> &Summary| {
        let values = all
            .iter()
            .map(|(name, counters)| (name.clone(), summary(counters).summarise(table.window)));
        values.filter(|(_, summarised)| summarised.count > 0).collect::<Vec<_>>()
    };
    let (reads, writes) = (summarised(|of| &of.reads), summarised(|of| &of.writes));
    let refused = all.iter().map(|(name, of)| (name.clone(), of.quota_exceeded.value()));
    let refused = refused.filter(|(_, count)| *count > 0).collect();
    table.put("read_per_namespace", Value::SummarySet(Detail::Basic, reads));
    table.put("write_per_namespace", Value::SummarySet(Detail::Basic, writes));
    table.put("quota_exceeded_error_per_namespace", Value::CounterSet(refused));
    let quotas = engine.inspect(Core::top_level_quotas);
    let names = ["count_limit", "count_usage", "bytes_limit", "bytes_usage"];
    for (index, name) in names.iter().enumerate() {
        let values = quotas.iter().map(|(quota, values)| (quota.clone(), values[index]));
        let value = Value::GaugeSet(values.collect());
        table.put(&format!("quota_{name}_per_namespace"), value);
    }
    table.put("learner_handler_qp_size", Value::SummarySet(Detail::Basic, Vec::new()));
    table.put("learner_handler_qp_time_ms", Value::SummarySet(Detail::Advanced, Vec::new()));
    table.put("ack_latency", Value::SummarySet(Detail::Advanced, Vec::new()));
}

/// What only this server has.
fn own(table: &mut Table, engine: &Engine) {
    let stats = &engine.stats;
    table.basic("zoolet_expiry_lag_ms", &stats.expiry_lag);
    table.counter("zoolet_clients_woken", stats.clients_woken.value());
    table.counter("zoolet_turns_cut", stats.turns_cut.value());
    table.counter("zoolet_expensive_turns", stats.expensive_turns.value());
    table.counter("zoolet_outboxes_overflowed", stats.outboxes_overflowed.value());
    table.counter("zoolet_containers_swept", stats.containers_swept.value());
    table.counter("zoolet_log_tails_cut", stats.log_tails_cut.value());
    let (lines, lost) = engine.audit.as_ref().map_or((0, 0), crate::engine::audit::Audit::counts);
    table.counter("zoolet_audit_lines", lines);
    table.counter("zoolet_audit_lines_lost", lost);
    table.counter("zoolet_namespaces_left_out", stats.namespaces.left_out.value());
}
