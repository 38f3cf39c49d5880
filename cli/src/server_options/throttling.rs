//! The options that slow clients down, or turn them away.

use std::time::Duration;

use clap::Args;
use zoolet_server::{ConnectionThrottling, SessionWeights, Throttling};

use super::put;
use super::values::{self, BadValue};

/// A field is `None` unless a file or a flag sets it.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct ThrottlingOptions {
    /// Read nothing of a client that waits for the disk while more writes do; 0 for any number
    #[arg(long, value_name = "COUNT", value_parser = count, help_heading = THROTTLING)]
    pub(crate) global_outstanding_limit: Option<u64>,

    /// Carry nothing out while so many writes wait for the disk; 0 for any number [default: 0]
    #[arg(long, value_name = "COUNT", value_parser = count, help_heading = THROTTLING)]
    pub(crate) request_throttle_max_requests: Option<u64>,

    /// How long to wait at most before looking again [default: 100]
    #[arg(long, value_name = "MS", value_parser = time, help_heading = THROTTLING)]
    pub(crate) request_throttle_stall_time: Option<Duration>,

    /// Drop stale requests that have waited, and their connections [default: true]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = THROTTLING)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) request_throttle_drop_stale: Option<bool>,

    /// A request is stale if it has waited for longer than its session's timeout [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = THROTTLING)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) request_stale_latency_check: Option<bool>,

    /// Answer with an error what has waited for longer; 0 for never [default: 0]
    #[arg(long, value_name = "MS", value_parser = any_time, help_heading = THROTTLING)]
    pub(crate) throttled_op_wait_time: Option<Duration>,

    /// Requests of more bytes are large; -1 if none is [default: -1]
    #[arg(long, value_name = "BYTES", value_parser = threshold, help_heading = THROTTLING)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) large_request_threshold: Option<i64>,

    /// The bytes of all large requests that may be in memory [default: 104857600]
    #[arg(long, value_name = "BYTES", value_parser = values::frame_bytes)]
    #[arg(help_heading = THROTTLING)]
    pub(crate) large_request_max_bytes: Option<usize>,

    /// How many clients may begin sessions at once; 0 for any number [default: 0]
    #[arg(long, value_name = "COUNT", value_parser = tokens, help_heading = THROTTLING)]
    pub(crate) connection_throttle_tokens: Option<u32>,

    /// In so many milliseconds --connection-throttle-fill-count more may [default: 1]
    #[arg(long, value_name = "MS", value_parser = positive, help_heading = THROTTLING)]
    pub(crate) connection_throttle_fill_time: Option<u32>,

    /// See --connection-throttle-fill-time [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = tokens, help_heading = THROTTLING)]
    pub(crate) connection_throttle_fill_count: Option<u32>,

    /// Turn clients away at random, and adapt to the load so often; -1 for never [default: -1]
    #[arg(long, value_name = "MS", value_parser = freeze_time, help_heading = THROTTLING)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) connection_throttle_freeze_time: Option<i64>,

    /// What the probability grows by while no more may begin [default: 0.02]
    #[arg(long, value_name = "NUMBER", value_parser = share, help_heading = THROTTLING)]
    pub(crate) connection_throttle_drop_increase: Option<f64>,

    /// What the probability falls by while enough may begin [default: 0.002]
    #[arg(long, value_name = "NUMBER", value_parser = share, help_heading = THROTTLING)]
    pub(crate) connection_throttle_drop_decrease: Option<f64>,

    /// The part of --connection-throttle-tokens that may be missing then [default: 0]
    #[arg(long, value_name = "NUMBER", value_parser = share, help_heading = THROTTLING)]
    pub(crate) connection_throttle_decrease_ratio: Option<f64>,

    /// Whether new and resumed sessions count by their weights [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = THROTTLING)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) connection_throttle_weight_enabled: Option<bool>,

    /// The weight of a new session [default: 3]
    #[arg(long, value_name = "COUNT", value_parser = positive, help_heading = THROTTLING)]
    pub(crate) connection_throttle_global_session_weight: Option<u32>,

    /// The weight of a resumed session [default: 2]
    #[arg(long, value_name = "COUNT", value_parser = positive, help_heading = THROTTLING)]
    pub(crate) connection_throttle_renew_session_weight: Option<u32>,

    /// How long a connection may be without a session [default: 10000]
    #[arg(long = "nio-sessionless-cnxn-timeout", value_name = "MS", value_parser = time)]
    #[arg(help_heading = THROTTLING)]
    pub(crate) sessionless_timeout: Option<Duration>,

    /// How long a shutdown waits for clients to read their messages [default: 5000]
    #[arg(long = "nio-shutdown-timeout", value_name = "MS", value_parser = time)]
    #[arg(help_heading = THROTTLING)]
    pub(crate) shutdown_timeout: Option<Duration>,
}

// The floating-point numbers are never NaN.
impl Eq for ThrottlingOptions {}

impl ThrottlingOptions {
    pub(super) fn config(&self) -> Throttling {
        let some = |count: Option<u64>| count.filter(|&count| count > 0);
        let mut throttling = Throttling {
            global_outstanding_limit: some(self.global_outstanding_limit),
            max_requests: some(self.request_throttle_max_requests),
            throttled_op_wait: self.throttled_op_wait_time.filter(|time| !time.is_zero()),
            large_request_bytes_min: self
                .large_request_threshold
                .and_then(|bytes| usize::try_from(bytes).ok()),
            connections: self.connections(),
            ..Throttling::default()
        };
        put(&mut throttling.stall_time, self.request_throttle_stall_time);
        put(&mut throttling.drop_stale, self.request_throttle_drop_stale);
        put(&mut throttling.stale_latency_check, self.request_stale_latency_check);
        put(&mut throttling.large_requests_bytes_max, self.large_request_max_bytes);
        throttling
    }

    /// Whether a weight of sessions is set.
    pub(super) fn has_weights(&self) -> bool {
        self.connection_throttle_global_session_weight.is_some()
            || self.connection_throttle_renew_session_weight.is_some()
    }

    /// Whether it is set how clients are turned away at random.
    pub(super) fn has_drops(&self) -> bool {
        self.connection_throttle_drop_increase.is_some()
            || self.connection_throttle_drop_decrease.is_some()
            || self.connection_throttle_decrease_ratio.is_some()
    }

    fn connections(&self) -> Option<ConnectionThrottling> {
        let tokens = self.connection_throttle_tokens.filter(|&tokens| tokens > 0)?;
        let mut throttling = ConnectionThrottling::of_tokens(tokens);
        put(&mut throttling.fill_time_ms, self.connection_throttle_fill_time);
        put(&mut throttling.fill_count, self.connection_throttle_fill_count);
        let freeze_time = self.connection_throttle_freeze_time;
        throttling.freeze_time_ms = freeze_time.and_then(|ms| u32::try_from(ms).ok());
        put(&mut throttling.drop_increase, self.connection_throttle_drop_increase);
        put(&mut throttling.drop_decrease, self.connection_throttle_drop_decrease);
        put(&mut throttling.decrease_ratio, self.connection_throttle_decrease_ratio);
        if self.connection_throttle_weight_enabled == Some(true) {
            let mut weights = SessionWeights::default();
            put(&mut weights.new, self.connection_throttle_global_session_weight);
            put(&mut weights.renewed, self.connection_throttle_renew_session_weight);
            throttling.weights = Some(weights);
        }
        Some(throttling)
    }
}

pub(crate) fn count(text: &str) -> Result<u64, BadValue> {
    Ok(values::decoded(text, 0..=values::INT_MAX)? as u64)
}

pub(crate) fn tokens(text: &str) -> Result<u32, BadValue> {
    Ok(values::decoded(text, 0..=values::INT_MAX)? as u32)
}

pub(crate) fn positive(text: &str) -> Result<u32, BadValue> {
    Ok(values::decoded(text, 1..=values::INT_MAX)? as u32)
}

pub(crate) fn time(text: &str) -> Result<Duration, BadValue> {
    Ok(Duration::from_millis(values::decoded(text, 1..=values::INT_MAX)? as u64))
}

pub(crate) fn any_time(text: &str) -> Result<Duration, BadValue> {
    Ok(Duration::from_millis(values::decoded(text, 0..=values::INT_MAX)? as u64))
}

/// ZooKeeper takes 0 and what is below -1 for -1.
pub(crate) fn threshold(text: &str) -> Result<i64, BadValue> {
    let bytes = values::decoded(text, values::INT_MIN..=values::INT_MAX)
        .map_err(|_| BadValue::NotInRangeNorMinusOne(1..=values::INT_MAX, "none"))?;
    Ok(if bytes > 0 { bytes } else { -1 })
}

pub(crate) fn freeze_time(text: &str) -> Result<i64, BadValue> {
    values::decoded(text, -1..=values::INT_MAX)
        .map_err(|_| BadValue::NotInRangeNorMinusOne(0..=values::INT_MAX, "never"))
}

/// A number from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, BadValue> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(BadValue::NotAShare),
    }
}

const THROTTLING: &str = "Throttling";
