//! The configuration of the admin server, by the names of `zoo.cfg`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

#[cfg(feature = "tls")]
use super::https::HttpsConfig;

/// The configuration of the admin server.
///
/// ```
/// use zoolet_server::admin::AdminConfig;
///
/// let config = AdminConfig::default();
/// assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
/// assert_eq!(config.command_url, "/commands");
/// ```
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// `admin.serverAddress` and `admin.serverPort`: 127.0.0.1 and 8080 by default; port 0 picks a
    /// free one. ZooKeeper listens on all interfaces. Here only this machine is served unless the
    /// configuration says otherwise, since whoever reaches the port learns who is connected, which
    /// znodes exist and how the server is configured.
    pub listen: SocketAddr,
    /// `admin.commandURL`: what the paths of all commands begin with. `/commands` by default.
    pub command_url: String,
    /// `admin.idleTimeout`: after how long a connection ends on which nothing moves. 30 s by
    /// default.
    pub idle_timeout: Duration,
    /// `admin.snapshot.enabled`: whether the command `snapshot` works. It does by default.
    pub snapshot_enabled: bool,
    /// `admin.restore.enabled`: whether the command `restore` works. It does by default.
    pub restore_enabled: bool,
    /// `admin.rateLimiterIntervalInMS`: one `restore` is carried out in this time, five minutes by
    /// default, and one `snapshot` in a thousandth of it, as in ZooKeeper, which takes the number
    /// for microseconds there.
    pub rate_limiter_interval: Duration,
    /// `IPAuthenticationProvider.usexforwardedfor`: whether the first address in the header
    /// `X-Forwarded-For` counts as the client's for the scheme `ip`. Off by default, and only right
    /// behind a proxy that sets the header, since any client can write it.
    pub trust_forwarded_for: bool,
    /// `admin.forceHttps` and `admin.portUnification`: HTTPS. `None`, the default, for plaintext.
    #[cfg(feature = "tls")]
    pub https: Option<HttpsConfig>,
    /// The text that the command `initial_configuration` shows: `zoo.cfg`, without passwords.
    pub initial_configuration: Option<String>,
    /// What the command `system_properties` shows beside the properties of the machine: the keys of
    /// `zoo.cfg` that ZooKeeper has as Java properties, without passwords.
    pub properties: BTreeMap<String, String>,
}

impl AdminConfig {
    /// Whether only those are answered who have a certificate.
    pub(super) fn knows_all_clients(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.https.as_ref().is_some_and(HttpsConfig::knows_all_clients);
        #[cfg(not(feature = "tls"))]
        false
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            command_url: "/commands".to_owned(),
            idle_timeout: Duration::from_secs(30),
            snapshot_enabled: true,
            restore_enabled: true,
            rate_limiter_interval: Duration::from_secs(300),
            trust_forwarded_for: false,
            #[cfg(feature = "tls")]
            https: None,
            initial_configuration: None,
            properties: BTreeMap::new(),
        }
    }
}
