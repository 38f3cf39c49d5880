//! The options of a server that is started from a command line.
//!
//! The flags are the keys of `zoo.cfg` in kebab case. A [`ZooCfg`](crate::zoo_cfg::ZooCfg) fills
//! the same struct from a file, and flags override it.

pub(crate) mod access;
pub(crate) mod admin;
pub(crate) mod https;
mod idle;
pub(crate) mod monitoring;
mod session_key;
pub(crate) mod storage;
pub(crate) mod throttling;
pub(crate) mod tls;
pub(crate) mod values;

use std::time::Duration;

use clap::Args;
use zoolet_server::{Config, ConfigError, FourLetterWhitelist, Settings};

use self::access::{AccessOptions, SaslContradiction};
use self::admin::AdminOptions;
use self::https::HttpsContradiction;
use self::monitoring::MonitoringOptions;
use self::session_key::{SessionKeyError, session_key};
use self::storage::StorageOptions;
use self::throttling::ThrottlingOptions;
use self::tls::{TlsContradiction, TlsOptions};
use self::values::{BadValue, HostPort};

/// A field is `None` unless a file or a flag sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct ServerOptions {
    /// Where clients connect; port 0 picks a free port [default: 127.0.0.1:2181]
    #[arg(short, long, value_name = "HOST:PORT", help_heading = LISTENING)]
    #[arg(conflicts_with_all = ["client_port", "client_port_address"])]
    pub(crate) listen: Option<HostPort>,

    /// As --listen, on all interfaces unless --client-port-address names one
    #[arg(long, value_name = "PORT", value_parser = values::port, help_heading = LISTENING)]
    pub(crate) client_port: Option<u16>,

    /// The interface that --client-port is opened on, by name or address
    #[arg(long, value_name = "HOST", value_parser = values::host, help_heading = LISTENING)]
    pub(crate) client_port_address: Option<String>,

    /// How many connections may wait to be accepted [default: the system's]
    #[arg(long, value_name = "COUNT", value_parser = values::listen_backlog)]
    #[arg(allow_negative_numbers = true, help_heading = LISTENING)]
    pub(crate) client_port_listen_backlog: Option<u32>,

    /// Let the system probe connections on which nothing happens [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = LISTENING)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) client_tcp_keep_alive: Option<bool>,

    /// The unit of time: sessions end at multiples of it [default: 3000]
    #[arg(long, value_name = "MS", value_parser = values::tick_time, help_heading = SESSIONS)]
    pub(crate) tick_time: Option<u32>,

    /// The least session timeout that a client is given [default: 2 ticks]
    #[arg(long, value_name = "MS", value_parser = values::session_timeout)]
    #[arg(allow_negative_numbers = true, help_heading = SESSIONS)]
    pub(crate) min_session_timeout: Option<i32>,

    /// The greatest session timeout that a client is given [default: 20 ticks]
    #[arg(long, value_name = "MS", value_parser = values::session_timeout)]
    #[arg(allow_negative_numbers = true, help_heading = SESSIONS)]
    pub(crate) max_session_timeout: Option<i32>,

    /// How many connections one address may have; 0 for any number [default: 60]
    #[arg(long, value_name = "COUNT", value_parser = values::connections_from_one_address)]
    #[arg(allow_negative_numbers = true, help_heading = LIMITS)]
    pub(crate) max_client_cnxns: Option<usize>,

    /// How many connections there may be in all; 0 for any number [default: 0]
    #[arg(long, value_name = "COUNT", value_parser = values::connections)]
    #[arg(allow_negative_numbers = true, help_heading = LIMITS)]
    pub(crate) max_cnxns: Option<usize>,

    /// The longest request, hence about the most data of a znode [default: 1048575]
    #[arg(long, value_name = "BYTES", value_parser = values::frame_bytes, help_heading = LIMITS)]
    pub(crate) jute_maxbuffer: Option<usize>,

    /// Refuse what exceeds a hard quota [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = LIMITS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) enforce_quota: Option<bool>,

    /// The options of access control and authentication.
    #[command(flatten)]
    pub(crate) access: AccessOptions,

    /// Allow znodes with a time to live [default: true; false in ZooKeeper]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ZNODES)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) extended_types_enabled: Option<bool>,

    /// How often to look for containers and TTL znodes that may go [default: 60000]
    #[arg(long, value_name = "MS", value_parser = values::check_interval, help_heading = ZNODES)]
    pub(crate) znode_container_check_interval_ms: Option<Duration>,

    /// How many of them may go in a minute [default: 10000]
    #[arg(long, value_name = "COUNT", value_parser = values::per_minute, help_heading = ZNODES)]
    pub(crate) znode_container_max_per_minute: Option<u32>,

    /// When a container goes that never had a child; 0 for never [default: 300000]
    #[arg(long, value_name = "MS", value_parser = values::never_used_ms, help_heading = ZNODES)]
    pub(crate) znode_container_max_never_used_interval_ms: Option<i64>,

    /// Which four-letter words are answered, with commas between, or * for all [default: srvr]
    #[arg(long = "4lw-commands-whitelist", value_name = "WORDS", help_heading = OPERATIONS)]
    #[arg(value_parser = values::four_letter_words)]
    pub(crate) four_letter_words: Option<String>,

    /// Answer a reconfiguration as ZooKeeper does that has it enabled [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = OPERATIONS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) reconfig_enabled: Option<bool>,

    /// The options of metrics and of the audit log.
    #[command(flatten)]
    pub(crate) monitoring: MonitoringOptions,
    /// The options of the admin server.
    #[command(flatten)]
    pub(crate) admin: AdminOptions,

    /// The options that slow clients down.
    #[command(flatten)]
    pub(crate) throttling: ThrottlingOptions,

    /// The options of the data directory.
    #[command(flatten)]
    pub(crate) storage: StorageOptions,

    /// The options of TLS for clients.
    #[command(flatten)]
    pub(crate) tls: TlsOptions,

    /// `readonlymode.enabled`, which on one node only allows the word `isro`.
    #[arg(skip)]
    pub(crate) readonly_mode: Option<bool>,
}

impl ServerOptions {
    /// Where to listen.
    ///
    /// # Errors
    ///
    /// [`Contradiction`] if there is an address without a port.
    pub(crate) fn listen(&self) -> Result<Option<HostPort>, Contradiction> {
        if let Some(listen) = &self.listen {
            return Ok(Some(listen.clone()));
        }
        let (host, port) = match (&self.client_port_address, self.client_port) {
            (Some(_), None) => return Err(Contradiction::NoClientPort),
            (Some(host), Some(port)) => (host.as_str(), port),
            (None, Some(port)) => ("0.0.0.0", port),
            // With secureClientPort alone, ZooKeeper opens no other port.
            (None, None) if self.tls.secure_client_port.is_some() => return Ok(None),
            (None, None) => ("127.0.0.1", 2181),
        };
        Ok(Some(HostPort { host: host.to_owned(), port }))
    }

    /// Whether nothing says on which port to listen.
    #[cfg(unix)]
    pub(crate) fn names_no_port(&self) -> bool {
        self.listen.is_none() && self.client_port.is_none() && self.tls.secure_client_port.is_none()
    }

    /// The configuration of the server. Its addresses are not in it: see [`ServerOptions::listen`] and
    /// [`TlsOptions::listen`].
    ///
    /// # Errors
    ///
    /// The first [`Contradiction`].
    pub(crate) fn config(&self) -> Result<Config, Contradiction> {
        let mut config = Config {
            min_session_timeout_ms: self.min_session_timeout.filter(|&ms| ms >= 0),
            max_session_timeout_ms: self.max_session_timeout.filter(|&ms| ms >= 0),
            listen_backlog: self.client_port_listen_backlog.filter(|&backlog| backlog > 0),
            four_letter_words: self.four_letter_whitelist(),
            enforce_auth: self.access.enforce_auth(),
            sasl: self.access.sasl()?,
            storage: self.storage.config()?,
            throttling: self.throttling.config(),
            tls: self.tls.config()?,
            audit: self.monitoring.audit(),
            metrics_provider: self.monitoring.provider(),
            ..Config::default()
        };
        put(&mut config.tick_time_ms, self.tick_time);
        put(&mut config.sessionless_timeout, self.throttling.sessionless_timeout);
        put(&mut config.shutdown_timeout, self.throttling.shutdown_timeout);
        put(&mut config.max_client_connections, self.max_client_cnxns);
        put(&mut config.max_connections, self.max_cnxns);
        put(&mut config.frame_bytes_max, self.jute_maxbuffer);
        put(&mut config.tcp_keep_alive, self.client_tcp_keep_alive);
        put(&mut config.container_check_interval, self.znode_container_check_interval_ms);
        put(&mut config.container_max_per_minute, self.znode_container_max_per_minute);
        let max_never_used = self.znode_container_max_never_used_interval_ms;
        put(&mut config.container_max_never_used_ms, max_never_used);
        self.put_settings(&mut config.settings);
        self.access.put_settings(&mut config.settings)?;
        // As `QuorumPeerConfig.configureSSLAuth`.
        config.settings.x509_scheme |= config.tls.is_some();
        config.check()?;
        if self.access.secret_session_passwords == Some(true) && !self.storage.lacks_directory() {
            config.session_key = Some(session_key(self.storage.data_dir.as_deref())?);
        }
        Ok(config)
    }

    /// Remarks about options that are valid, but have no effect or one that may surprise.
    pub(crate) fn remarks(&self) -> Vec<&'static str> {
        let mut remarks = self.access.remarks();
        remarks.extend(self.monitoring.remarks());
        remarks.extend(self.admin.remarks());
        if self.storage.is_idle() {
            remarks.push("what is set about files has no effect without dataDir: nothing is kept");
        }
        if self.storage.ignores_directory() {
            remarks.push(
                "durability memory: the data directory is neither read nor written, so the server \
                 starts empty, and its data are lost when it stops",
            );
        }
        if self.jute_maxbuffer.is_some_and(|bytes| bytes < HANDSHAKE_BYTES) {
            remarks.push(
                "jute.maxbuffer is in bytes, and shorter than the request that begins a session",
            );
        }
        remarks.extend(idle::remarks(self));
        remarks
    }

    fn put_settings(&self, settings: &mut Settings) {
        put(&mut settings.ttl_znodes, self.extended_types_enabled);
        put(&mut settings.enforce_quota, self.enforce_quota);
        put(&mut settings.reconfig_enabled, self.reconfig_enabled);
    }

    fn four_letter_whitelist(&self) -> FourLetterWhitelist {
        let words = self.four_letter_words.as_deref().unwrap_or_default();
        let readonly = if self.readonly_mode == Some(true) { ",isro" } else { "" };
        match format!("{words}{readonly}").parse() {
            Ok(whitelist) => whitelist,
            Err(infallible) => match infallible {},
        }
    }
}

/// ServerOptions that exclude one another.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Contradiction {
    #[error("clientPortAddress is set but clientPort is not; set both, or --listen HOST:PORT")]
    NoClientPort,
    #[error("--durability says that writes survive; say where they are kept, with --data-dir DIR")]
    NoDataDir,
    #[error("--super-digest {0}")]
    SuperDigest(BadValue),
    #[error(
        "the hash in superDigest has not the length of one by digestAlg; compute it by that \
         algorithm"
    )]
    SuperDigestOfOtherAlgorithm,
    #[error(transparent)]
    Sasl(#[from] SaslContradiction),
    #[error(transparent)]
    Https(#[from] HttpsContradiction),
    #[error(transparent)]
    Tls(#[from] TlsContradiction),
    #[error(transparent)]
    SessionKey(#[from] SessionKeyError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

fn put<T>(slot: &mut T, option: Option<T>) {
    if let Some(option) = option {
        *slot = option;
    }
}

/// The length of the request with which a client begins a session.
const HANDSHAKE_BYTES: usize = 45;

const LISTENING: &str = "Listening";
const SESSIONS: &str = "Sessions";
const LIMITS: &str = "Limits";
const ZNODES: &str = "Containers and TTL znodes";
const OPERATIONS: &str = "Operations";

#[cfg(test)]
mod tests;
