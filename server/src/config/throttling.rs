//! How the server slows clients down, by the names of `zoo.cfg`.

use std::time::Duration;

/// How the server slows down clients that ask for more than it can do, and which it turns away.
/// Everything is off by default. In any case the server reads no more from a client for which too
/// much waits, nor from any while too much waits for the disk ([`limits`](crate::limits)).
///
/// In process nothing waits: a request is carried out on the thread that sends it.
///
/// A request is *outstanding* while its reply waits for the disk: this server carries a request out
/// as soon as it has read it. Without a data directory no request is ever outstanding.
///
/// ```
/// use zoolet_server::Throttling;
///
/// let throttling = Throttling { global_outstanding_limit: Some(1_000), ..Throttling::default() };
/// assert_eq!(throttling.max_requests, None);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Throttling {
    /// `globalOutstandingLimit`: while more writes than this wait for the disk, the server reads no
    /// request of a client for which a reply waits too. `None`, the default, for no limit; 1000 in
    /// ZooKeeper.
    pub global_outstanding_limit: Option<u64>,
    /// `request_throttle_max_requests`: while so many writes wait for the disk, no request of any
    /// client is carried out. `None`, the default, for no limit.
    pub max_requests: Option<u64>,
    /// `request_throttle_stall_time`: how long a connection waits before it looks again whether its
    /// requests may be carried out; the disk wakes it earlier. 100 ms by default.
    pub stall_time: Duration,
    /// `request_throttle_drop_stale`: whether stale requests that have waited because of
    /// `max_requests` are dropped, and their connections with them. They are by default. Requests of a
    /// closed connection are dropped in any case.
    pub drop_stale: bool,
    /// `request_stale_latency_check`: a request is stale if it has waited for longer than the timeout
    /// of its session. Off by default.
    pub stale_latency_check: bool,
    /// `throttled_op_wait_time`: a request that has waited longer because of `max_requests` is
    /// answered with the error `THROTTLEDOP` instead of being carried out, except for pings and for
    /// what begins or ends a session. `None`, the default, for never.
    pub throttled_op_wait: Option<Duration>,
    /// `largeRequestThreshold`: requests of more bytes are large. `None`, the default, if none is.
    pub large_request_bytes_min: Option<usize>,
    /// `largeRequestMaxBytes`: the bytes of all large requests that may be in memory at the same
    /// time; the connection of one that exceeds them is closed. 100 MiB by default.
    pub large_requests_bytes_max: usize,
    /// `connection_throttle_*`: how many clients may begin or resume a session.
    pub connections: Option<ConnectionThrottling>,
}

impl Default for Throttling {
    fn default() -> Self {
        Self {
            global_outstanding_limit: None,
            max_requests: None,
            stall_time: Duration::from_millis(100),
            drop_stale: true,
            stale_latency_check: false,
            throttled_op_wait: None,
            large_request_bytes_min: None,
            large_requests_bytes_max: 100 << 20,
            connections: None,
        }
    }
}

/// How many clients may begin or resume a session (`BlueThrottle`): each takes a token from a bucket
/// that fills with time, and is turned away if there is none. Under constant load those that come
/// just after the others would never get one; with `freeze_time` clients are turned away at random
/// instead, with a probability that follows the load.
///
/// ```
/// use zoolet_server::ConnectionThrottling;
///
/// // At once 200 clients, and then 50 a second.
/// let throttling = ConnectionThrottling {
///     fill_time_ms: 20,
///     ..ConnectionThrottling::of_tokens(200)
/// };
/// assert_eq!(throttling.fill_count, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConnectionThrottling {
    /// `connection_throttle_tokens`: the tokens in a full bucket, at least 1.
    pub tokens: u32,
    /// `connection_throttle_fill_time`: in so many milliseconds `fill_count` tokens are added. 1 by
    /// default, and at least 1.
    pub fill_time_ms: u32,
    /// `connection_throttle_fill_count`: 1 by default.
    pub fill_count: u32,
    /// `connection_throttle_freeze_time`: how often the probability changes at most, in
    /// milliseconds. `None`, the default, if clients are not turned away at random.
    pub freeze_time_ms: Option<u32>,
    /// `connection_throttle_drop_increase`: what is added to the probability while the bucket is
    /// empty. 0.02 by default.
    pub drop_increase: f64,
    /// `connection_throttle_drop_decrease`: what is taken from it while the bucket is full enough.
    /// 0.002 by default.
    pub drop_decrease: f64,
    /// `connection_throttle_decrease_ratio`: the part of the bucket that may be missing then. 0 by
    /// default.
    pub decrease_ratio: f64,
    /// `connection_throttle_weight_enabled`: what clients take, if not one token each. The bucket
    /// and what is added to it are then counted in new sessions.
    pub weights: Option<SessionWeights>,
}

/// What a client takes from the bucket.
///
/// ```
/// use zoolet_server::SessionWeights;
///
/// assert_eq!(SessionWeights::default(), SessionWeights { new: 3, renewed: 2 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionWeights {
    /// `connection_throttle_global_session_weight`: for a new session. 3 by default.
    pub new: u32,
    /// `connection_throttle_renew_session_weight`: for a session that is resumed. 2 by default.
    pub renewed: u32,
}

impl Default for SessionWeights {
    fn default() -> Self {
        Self { new: 3, renewed: 2 }
    }
}

impl ConnectionThrottling {
    /// ZooKeeper's defaults with a number of tokens.
    #[must_use]
    pub fn of_tokens(tokens: u32) -> Self {
        Self {
            tokens,
            fill_time_ms: 1,
            fill_count: 1,
            freeze_time_ms: None,
            drop_increase: 0.02,
            drop_decrease: 0.002,
            decrease_ratio: 0.0,
            weights: None,
        }
    }
}
