//! What slows clients down, or turns them away.

use super::{Key, put};
use crate::server_options::{throttling, values};

pub(super) const KEYS: &[Key] = &[
    ("globalOutstandingLimit", |c, v| {
        put(&mut c.throttling.global_outstanding_limit, throttling::count(v))
    }),
    ("request_throttle_max_requests", |c, v| {
        put(&mut c.throttling.request_throttle_max_requests, throttling::count(v))
    }),
    ("request_throttle_stall_time", |c, v| {
        put(&mut c.throttling.request_throttle_stall_time, throttling::time(v))
    }),
    ("request_throttle_drop_stale", |c, v| {
        put(&mut c.throttling.request_throttle_drop_stale, values::boolean(v))
    }),
    ("request_stale_latency_check", |c, v| {
        put(&mut c.throttling.request_stale_latency_check, values::boolean(v))
    }),
    ("throttled_op_wait_time", |c, v| {
        put(&mut c.throttling.throttled_op_wait_time, throttling::any_time(v))
    }),
    ("largeRequestThreshold", |c, v| {
        put(&mut c.throttling.large_request_threshold, throttling::threshold(v))
    }),
    ("largeRequestMaxBytes", |c, v| {
        put(&mut c.throttling.large_request_max_bytes, values::frame_bytes(v))
    }),
    ("connection_throttle_tokens", |c, v| {
        put(&mut c.throttling.connection_throttle_tokens, throttling::tokens(v))
    }),
    ("connection_throttle_fill_time", |c, v| {
        put(&mut c.throttling.connection_throttle_fill_time, throttling::positive(v))
    }),
    ("connection_throttle_fill_count", |c, v| {
        put(&mut c.throttling.connection_throttle_fill_count, throttling::tokens(v))
    }),
    ("connection_throttle_freeze_time", |c, v| {
        put(&mut c.throttling.connection_throttle_freeze_time, throttling::freeze_time(v))
    }),
    ("connection_throttle_drop_increase", |c, v| {
        put(&mut c.throttling.connection_throttle_drop_increase, throttling::share(v))
    }),
    ("connection_throttle_drop_decrease", |c, v| {
        put(&mut c.throttling.connection_throttle_drop_decrease, throttling::share(v))
    }),
    ("connection_throttle_decrease_ratio", |c, v| {
        put(&mut c.throttling.connection_throttle_decrease_ratio, throttling::share(v))
    }),
    ("connection_throttle_weight_enabled", |c, v| {
        put(&mut c.throttling.connection_throttle_weight_enabled, values::boolean(v))
    }),
    ("connection_throttle_global_session_weight", |c, v| {
        put(&mut c.throttling.connection_throttle_global_session_weight, throttling::positive(v))
    }),
    ("connection_throttle_renew_session_weight", |c, v| {
        put(&mut c.throttling.connection_throttle_renew_session_weight, throttling::positive(v))
    }),
    ("nio.sessionlessCnxnTimeout", |c, v| {
        put(&mut c.throttling.sessionless_timeout, throttling::time(v))
    }),
    ("nio.shutdownTimeout", |c, v| put(&mut c.throttling.shutdown_timeout, throttling::time(v))),
];
