//! The configuration of a server, by the names of `zoo.cfg`.

mod throttling;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use zoolet_core::Settings;
use zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT;

use crate::engine::audit::AuditLog;
use crate::engine::clock::WallTime;
use crate::engine::metrics::MetricsProvider;
use crate::limits::{SESSIONLESS_TIMEOUT, SHUTDOWN_TIMEOUT};
use crate::sasl::Sasl;
use crate::session_key::SessionKey;
use crate::storage::StorageConfig;

pub use self::throttling::{ConnectionThrottling, SessionWeights, Throttling};
#[cfg(feature = "tls")]
use crate::transport::tls::TlsConfig;

/// The configuration of a server. The defaults are ZooKeeper's.
///
/// ```
/// use zoolet_server::Config;
///
/// let config = Config { tick_time_ms: 2_000, ..Config::default() };
/// assert_eq!(config.session_timeouts_ms(), Ok(4_000..=40_000));
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The address to listen on; `None`, the default, for in-process clients only. Port 0 picks a
    /// free one.
    pub listen: Option<SocketAddr>,
    /// TLS for clients; `None`, the default, for none.
    #[cfg(feature = "tls")]
    pub tls: Option<TlsConfig>,
    /// `tickTime`: the granularity of session expiry, in milliseconds. 3000 by default.
    pub tick_time_ms: u32,
    /// `minSessionTimeout` in milliseconds; two ticks by default.
    pub min_session_timeout_ms: Option<i32>,
    /// `maxSessionTimeout` in milliseconds; twenty ticks by default.
    pub max_session_timeout_ms: Option<i32>,
    /// `maxClientCnxns`: the limit of connections from one address; 0 for no limit. 60 by default.
    pub max_client_connections: usize,
    /// `maxCnxns`: the limit of connections in total; 0, the default, for no limit.
    pub max_connections: usize,
    /// `clientPortListenBacklog`: how many connections the system queues; 1024 by default.
    pub listen_backlog: Option<u32>,
    /// `jute.maxbuffer`: the limit of a frame from a client, in bytes. 0xfffff by default.
    pub frame_bytes_max: usize,
    /// `clientTcpKeepAlive`: off by default.
    pub tcp_keep_alive: bool,
    /// `4lw.commands.whitelist`: the enabled four-letter words; only `srvr` by default.
    pub four_letter_words: FourLetterWhitelist,
    /// `enforce.auth.enabled` and `enforce.auth.schemes`: off by default.
    pub enforce_auth: EnforceAuth,
    /// How clients authenticate by SASL; not at all by default. ZooKeeper reads it from the section
    /// `Server` of a JAAS file.
    pub sasl: Option<Sasl>,
    /// The secret from which the passwords of sessions are derived. `None` by default: they are
    /// ZooKeeper's, which are not secret.
    pub session_key: Option<SessionKey>,
    /// `znode.container.checkIntervalMs`: how often the server looks for due containers and TTL
    /// znodes. One minute by default.
    pub container_check_interval: Duration,
    /// `znode.container.maxPerMinute`: how many of them it deletes per minute at most. 10,000 by
    /// default.
    pub container_max_per_minute: u32,
    /// `znode.container.maxNeverUsedIntervalMs`: the age at which it deletes a container that never
    /// had a child, in milliseconds; 0 for never. Five minutes by default.
    pub container_max_never_used_ms: i64,
    /// The data directory; `None`, the default, to keep the data in memory only.
    pub storage: Option<StorageConfig>,
    /// `audit.enable`: where the audit log goes; `None`, the default, for nowhere.
    pub audit: Option<AuditLog>,
    /// `metricsProvider.className`: in which form the metrics are shown.
    pub metrics_provider: MetricsProvider,
    /// `nio.sessionlessCnxnTimeout`: how long a connection may be without a session. 10 s by
    /// default.
    pub sessionless_timeout: Duration,
    /// `nio.shutdownTimeout`: how long a shutdown waits for clients to read their messages. 5 s by
    /// default.
    pub shutdown_timeout: Duration,
    /// How clients are slowed down that ask for more than the server can do; not at all by default.
    pub throttling: Throttling,
    /// The clock of the times in a Stat.
    pub wall_time: WallTime,
    /// For tests that repeat: decides the ids of sessions, of which their passwords derive, and which
    /// clients are turned away where chance decides. `None`, the default, for ids that derive from
    /// the wall time, as ZooKeeper's do, and for chance.
    ///
    /// A server that keeps its data can be started again with the same seed. One that does not needs
    /// another seed, or a client of the first may take over a session of the second. The nonces of
    /// [SASL](Self::sasl) are never from a seed.
    pub seed: Option<u64>,
    /// The settings of the state machine.
    pub settings: Settings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: None,
            #[cfg(feature = "tls")]
            tls: None,
            tick_time_ms: 3_000,
            min_session_timeout_ms: None,
            max_session_timeout_ms: None,
            max_client_connections: 60,
            max_connections: 0,
            listen_backlog: None,
            frame_bytes_max: FRAME_BYTES_MAX_DEFAULT,
            tcp_keep_alive: false,
            four_letter_words: FourLetterWhitelist::default(),
            enforce_auth: EnforceAuth::Off,
            sasl: None,
            session_key: None,
            container_check_interval: Duration::from_secs(60),
            container_max_per_minute: 10_000,
            container_max_never_used_ms: 300_000,
            storage: None,
            audit: None,
            metrics_provider: MetricsProvider::Default,
            sessionless_timeout: SESSIONLESS_TIMEOUT,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            throttling: Throttling::default(),
            wall_time: WallTime::Machine,
            seed: None,
            settings: Settings::default(),
        }
    }
}

impl Config {
    /// The session timeouts that a client may negotiate, in milliseconds.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the minimum is above the maximum, or the tick is 0.
    pub fn session_timeouts_ms(&self) -> Result<std::ops::RangeInclusive<i32>, ConfigError> {
        if self.tick_time_ms == 0 {
            return Err(ConfigError::NoTick);
        }
        let ticks =
            |count: u32| i32::try_from(self.tick_time_ms.saturating_mul(count)).unwrap_or(i32::MAX);
        let min = self.min_session_timeout_ms.unwrap_or_else(|| ticks(2));
        let max = self.max_session_timeout_ms.unwrap_or_else(|| ticks(20));
        if min > max {
            return Err(ConfigError::SessionTimeouts { min, max });
        }
        Ok(min..=max)
    }

    /// Checks that no settings contradict each other.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first contradiction.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.session_timeouts_ms()?;
        if let EnforceAuth::Schemes(schemes) = &self.enforce_auth {
            if schemes.is_empty() {
                return Err(ConfigError::NoAuthSchemes);
            }
            let is_missing = |scheme: &&String| !self.settings.has_scheme(scheme);
            if let Some(scheme) = schemes.iter().find(is_missing) {
                return Err(ConfigError::UnknownAuthScheme(scheme.clone()));
            }
        }
        Ok(())
    }
}

/// Settings that contradict each other.
///
/// ```
/// use zoolet_server::{Config, ConfigError};
///
/// let config = Config { min_session_timeout_ms: Some(100_000), ..Config::default() };
/// assert_eq!(
///     config.check(),
///     Err(ConfigError::SessionTimeouts { min: 100_000, max: 60_000 }),
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The tick is 0.
    #[error("tickTime is 0; it must be at least 1 millisecond")]
    NoTick,
    /// The minimum timeout is above the maximum.
    #[error("minSessionTimeout ({min} ms) is above maxSessionTimeout ({max} ms)")]
    SessionTimeouts {
        /// `minSessionTimeout`.
        min: i32,
        /// `maxSessionTimeout`.
        max: i32,
    },
    /// Authentication is enforced without a scheme.
    #[error("enforce.auth.enabled is set, but enforce.auth.schemes names no scheme")]
    NoAuthSchemes,
    /// Authentication is enforced by a scheme that the server does not have.
    #[error(
        "authentication by the scheme {0:?} is enforced, but the server has no provider for it; name \
         one with authProvider.{0}, or another scheme in enforce.auth.schemes"
    )]
    UnknownAuthScheme(String),
}

/// Whether a client must authenticate before its first request.
///
/// ```
/// use zoolet_server::EnforceAuth;
///
/// let enforce = EnforceAuth::Schemes(vec!["digest".to_owned()]);
/// assert_ne!(enforce, EnforceAuth::Off);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EnforceAuth {
    /// It need not authenticate.
    #[default]
    Off,
    /// It must authenticate by one of these schemes.
    Schemes(Vec<String>),
}

impl EnforceAuth {
    /// Whether authentication is enforced, and this scheme is one that satisfies it.
    pub(crate) fn accepts(&self, scheme: &str) -> bool {
        match self {
            Self::Off => false,
            Self::Schemes(schemes) => schemes.iter().any(|accepted| accepted == scheme),
        }
    }
}

/// The enabled four-letter words: `4lw.commands.whitelist`. `srvr` is always enabled.
///
/// ```
/// use zoolet_server::FourLetterWhitelist;
///
/// let some: FourLetterWhitelist = "ruok, mntr".parse().unwrap();
/// assert!(some.contains("ruok") && some.contains("srvr") && !some.contains("dump"));
/// assert!("*".parse::<FourLetterWhitelist>().unwrap().contains("dump"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FourLetterWhitelist {
    all: bool,
    words: BTreeSet<String>,
}

impl FourLetterWhitelist {
    /// Enables all words.
    #[must_use]
    pub fn all() -> Self {
        Self { all: true, words: BTreeSet::new() }
    }

    /// Whether a word is enabled.
    #[must_use]
    pub fn contains(&self, word: &str) -> bool {
        self.all || word == "srvr" || self.words.contains(word)
    }
}

impl std::str::FromStr for FourLetterWhitelist {
    type Err = std::convert::Infallible;

    /// Parses a comma-separated list; `*` enables all words.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: BTreeSet<_> =
            text.split(',').map(|word| word.trim().to_owned()).filter(|w| !w.is_empty()).collect();
        Ok(Self { all: words.contains("*"), words })
    }
}
