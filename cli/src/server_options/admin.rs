//! The options of the admin server.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use zoolet_server::admin::AdminConfig;

use super::https::{HttpsContradiction, HttpsOptions};
use super::put;
use super::values::{self, BadValue, HostPort};

/// A field is `None` unless a file or a flag sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct AdminOptions {
    /// Answer ZooKeeper's admin commands over HTTP here, as 127.0.0.1:8080; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", help_heading = ADMIN)]
    #[arg(conflicts_with_all = ["admin_server_address", "admin_server_port"])]
    pub(crate) admin: Option<HostPort>,

    /// Answer admin commands at --admin-server-address and --admin-server-port [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ADMIN)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) admin_enable_server: Option<bool>,

    /// The interface for admin commands [default: 127.0.0.1; all in ZooKeeper]
    #[arg(long, value_name = "HOST", value_parser = values::host, help_heading = ADMIN)]
    pub(crate) admin_server_address: Option<String>,

    /// The port for admin commands [default: 8080]
    #[arg(long, value_name = "PORT", value_parser = values::port, help_heading = ADMIN)]
    pub(crate) admin_server_port: Option<u16>,

    /// What the paths of admin commands begin with [default: /commands]
    #[arg(long, value_name = "PATH", value_parser = values::some_text, help_heading = ADMIN)]
    pub(crate) admin_command_url: Option<String>,

    /// End a connection for admin commands on which nothing moves for so long [default: 30000]
    #[arg(long, value_name = "MS", value_parser = milliseconds, help_heading = ADMIN)]
    pub(crate) admin_idle_timeout: Option<Duration>,

    /// Let those with all permissions on / take snapshots over HTTP [default: true]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ADMIN)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) admin_snapshot_enabled: Option<bool>,

    /// Let those with all permissions on / replace all data over HTTP [default: true]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ADMIN)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) admin_restore_enabled: Option<bool>,

    /// Allow one restore over HTTP in this time, and a thousand snapshots [default: 300000]
    #[arg(long, value_name = "MS", value_parser = interval, help_heading = ADMIN)]
    pub(crate) admin_rate_limiter_interval_in_ms: Option<Duration>,

    /// Take the client's address from X-Forwarded-For, as a proxy writes it [default: false]
    #[arg(long = "ip-authentication-provider-usexforwardedfor", value_name = "BOOL")]
    #[arg(value_parser = values::boolean, help_heading = ADMIN)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) trust_forwarded_for: Option<bool>,

    /// The options of HTTPS.
    #[command(flatten)]
    pub(crate) https: HttpsOptions,

    /// The text of the configuration file, without passwords.
    #[arg(skip)]
    pub(crate) initial_configuration: Option<String>,

    /// What ZooKeeper has as Java properties, without passwords.
    #[arg(skip)]
    pub(crate) properties: BTreeMap<String, String>,
}

/// The admin server that is asked for.
#[derive(Debug, Clone)]
pub(crate) struct AdminServer {
    pub(crate) listen: HostPort,
    /// Without its address.
    pub(crate) config: AdminConfig,
}

impl AdminOptions {
    /// The admin server, if one is asked for.
    ///
    /// # Errors
    ///
    /// [`HttpsContradiction`] if it is to speak TLS and cannot.
    pub(crate) fn server(&self) -> Result<Option<AdminServer>, HttpsContradiction> {
        if self.admin.is_none() && self.admin_enable_server != Some(true) {
            return Ok(None);
        }
        let listen = self.admin.clone().unwrap_or_else(|| HostPort {
            host: self.admin_server_address.clone().unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: self.admin_server_port.unwrap_or(8080),
        });
        let mut config = AdminConfig {
            https: self.https.config()?,
            initial_configuration: self.initial_configuration.clone(),
            properties: self.properties.clone(),
            ..AdminConfig::default()
        };
        put(&mut config.command_url, self.admin_command_url.clone());
        put(&mut config.idle_timeout, self.admin_idle_timeout);
        put(&mut config.snapshot_enabled, self.admin_snapshot_enabled);
        put(&mut config.restore_enabled, self.admin_restore_enabled);
        put(&mut config.trust_forwarded_for, self.trust_forwarded_for);
        put(&mut config.rate_limiter_interval, self.admin_rate_limiter_interval_in_ms);
        Ok(Some(AdminServer { listen, config }))
    }

    /// Remarks about options that are valid, but have no effect or one that may surprise.
    pub(super) fn remarks(&self) -> impl Iterator<Item = &'static str> {
        let quorum = self.https.has_idle_stores().then_some(
            "ssl.quorum.* has no effect without admin.forceHttps=true or admin.portUnification=true: \
             zoolet is a single node, and only its admin server uses them",
        );
        let half_open = self.https.is_half_open().then_some(
            "with admin.portUnification=true the admin server answers plaintext too, for which \
             admin.needClientAuth has no effect; admin.forceHttps=true refuses it",
        );
        [self.idle_remark(), quorum, half_open].into_iter().flatten()
    }

    fn idle_remark(&self) -> Option<&'static str> {
        let https = HttpsOptions {
            admin_force_https: self.https.admin_force_https,
            admin_port_unification: self.https.admin_port_unification,
            admin_need_client_auth: self.https.admin_need_client_auth,
            ..HttpsOptions::default()
        };
        let chosen = Self {
            https,
            admin_enable_server: None,
            initial_configuration: None,
            properties: BTreeMap::new(),
            ..self.clone()
        };
        let is_idle =
            self.admin.is_none() && self.admin_enable_server.is_none() && chosen != Self::default();
        is_idle.then_some(
            "what is set about the admin server has no effect without admin.enableServer=true: it is \
             on by default in ZooKeeper up to 3.9, and off here",
        )
    }
}

/// More than no time.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, BadValue> {
    Ok(Duration::from_millis(values::decoded(text, 1..=values::INT_MAX)? as u64))
}

/// Any time, and none if calls are not to be limited.
pub(crate) fn interval(text: &str) -> Result<Duration, BadValue> {
    Ok(Duration::from_millis(values::whole(text, 0..=values::INT_MAX)? as u64))
}

pub(super) const ADMIN: &str = "Admin server";
