//! The configuration of a client.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;

use crate::cipher_suites::provider;
use crate::own::{self, Expired};
use crate::reload::Reloading;
use crate::trust::Trust;
use crate::{HostnameVerification, Protocol, Store, TlsError, verifiers};

/// What a client needs for TLS. By default it trusts whom this system trusts, and shows no
/// certificate.
///
/// ```
/// use zoolet_tls::{ClientTlsOptions, Store};
///
/// let options = ClientTlsOptions::new()
///     .trust_store(Store::new("/etc/zoolet/ca.pem"))
///     .key_store(Store::new("/etc/zoolet/client.pem"));
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing until they are loaded"]
pub struct ClientTlsOptions {
    trust_store: Option<Store>,
    key_store: Option<Store>,
    protocols: Vec<Protocol>,
    cipher_suites: Vec<String>,
    crl_files: Vec<PathBuf>,
    hostname_verification: HostnameVerification,
    server_name: Option<String>,
    setting_names: SettingNames,
}

/// What the users of a program call the settings of [`ClientTlsOptions`]. Messages about failed
/// connections name those that they can change.
///
/// ```
/// use zoolet_tls::{ClientTlsOptions, SettingNames};
///
/// let names = SettingNames { key_store: "--cert", ..SettingNames::default() };
/// let options = ClientTlsOptions::new().setting_names(names);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingNames {
    /// Where the client's certificate is set; `ClientTlsOptions::key_store` by default.
    pub key_store: &'static str,
    /// Where it is set whom to trust; `ClientTlsOptions::trust_store` by default.
    pub trust_store: &'static str,
    /// Where the name of the server is set; `ClientTlsOptions::server_name` by default.
    pub server_name: &'static str,
}

impl Default for SettingNames {
    fn default() -> Self {
        Self {
            key_store: "ClientTlsOptions::key_store",
            trust_store: "ClientTlsOptions::trust_store",
            server_name: "ClientTlsOptions::server_name",
        }
    }
}

impl Default for ClientTlsOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientTlsOptions {
    /// A client that trusts whom this system trusts, and shows no certificate.
    pub fn new() -> Self {
        Self {
            trust_store: None,
            key_store: None,
            protocols: Protocol::ALL.to_vec(),
            cipher_suites: Vec::new(),
            crl_files: Vec::new(),
            hostname_verification: HostnameVerification::On,
            server_name: None,
            setting_names: SettingNames::default(),
        }
    }

    /// The certificates by which servers are verified: `zookeeper.ssl.trustStore.location` and the
    /// like of ZooKeeper's client.
    pub fn trust_store(mut self, store: Store) -> Self {
        self.trust_store = Some(store);
        self
    }

    /// The client's private key and certificates: `zookeeper.ssl.keyStore.location` and the like. A
    /// server of ZooKeeper wants one unless its `ssl.clientAuth` says otherwise.
    pub fn key_store(mut self, store: Store) -> Self {
        self.key_store = Some(store);
        self
    }

    /// The versions of TLS: `zookeeper.ssl.enabledProtocols`. By default 1.2 and 1.3.
    pub fn protocols(mut self, protocols: impl IntoIterator<Item = Protocol>) -> Self {
        self.protocols = protocols.into_iter().collect();
        self
    }

    /// The cipher suites, the preferred one first: `zookeeper.ssl.ciphersuites`. By default all of
    /// [`cipher_suite_names`](crate::cipher_suite_names). A version of TLS for which none is given is
    /// not spoken.
    pub fn cipher_suites(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.cipher_suites = names.into_iter().map(Into::into).collect();
        self
    }

    /// Files with certificate revocation lists, in PEM or DER, as for a server:
    /// [`ServerTlsOptions::crl_files`](crate::ServerTlsOptions::crl_files).
    pub fn crl_files(mut self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.crl_files = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Whether the server's certificate must have the host to which the client connects as a subject
    /// alternative name: `zookeeper.ssl.hostnameVerification`. On by default.
    ///
    /// **Off is dangerous**: everybody who has a certificate of an authority that is trusted can pose
    /// as the server. The certificate must still be trusted and valid.
    pub fn hostname_verification(mut self, verification: HostnameVerification) -> Self {
        self.hostname_verification = verification;
        self
    }

    /// The name that the server's certificate must have, in place of the host to which the client
    /// connects. For servers that are reached by another name or address than they were given.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// What messages call the settings, for a program whose users know them by other names.
    pub fn setting_names(mut self, names: SettingNames) -> Self {
        self.setting_names = names;
        self
    }

    fn paths(&self) -> Vec<PathBuf> {
        let stores = [&self.key_store, &self.trust_store];
        let paths = stores.into_iter().flatten().flat_map(Store::paths).map(ToOwned::to_owned);
        paths.chain(self.crl_files.iter().cloned()).collect()
    }

    fn config(&self, expired: Expired) -> Result<ClientConfig, TlsError> {
        let (provider, protocols) = provider(&self.cipher_suites, &self.protocols)?;
        let provider = Arc::new(provider);
        let versions: Vec<_> = protocols.into_iter().map(Protocol::version).collect();
        let trust = Trust::load(self.trust_store.as_ref(), &self.crl_files, Arc::clone(&provider))?;
        let servers = verifiers::servers(trust, self.hostname_verification)?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)?
            // "Dangerous" is the verifier that one writes; this one verifies chains as rustls does.
            .dangerous()
            .with_custom_certificate_verifier(servers);
        let mut config = match &self.key_store {
            None => builder.with_no_client_auth(),
            Some(store) => {
                let certified = own::load(store, &provider, expired)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        // A resumed TLS session would not look at the server's certificate, which may have expired or
        // been revoked since.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// The TLS of a client: its configuration, which follows its files, and the names of servers.
///
/// ```no_run
/// use zoolet_tls::{ClientTls, ClientTlsOptions, Store, TlsError};
///
/// # fn example() -> Result<(), TlsError> {
/// let options = ClientTlsOptions::new().trust_store(Store::new("/etc/zoolet/ca.pem"));
/// let tls = ClientTls::load(options)?;
/// let (config, name) = (tls.config(), tls.server_name("zk1.example.org")?);
/// # let _ = (config, name);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ClientTls {
    options: ClientTlsOptions,
    config: Reloading<ClientConfig>,
}

impl ClientTls {
    /// Reads the stores. An own certificate that is not valid now is warned of in the log.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or used, or the options do not go together. The text names the file
    /// and the cure.
    pub fn load(options: ClientTlsOptions) -> Result<Self, TlsError> {
        if let Some(name) = &options.server_name {
            parse_name(name)?;
        }
        let config = Reloading::load(options.paths(), || options.config(Expired::Warned))?;
        Ok(Self { options, config })
    }

    /// What messages call the settings.
    #[must_use]
    pub fn setting_names(&self) -> SettingNames {
        self.options.setting_names
    }

    /// The configuration for a handshake. Connections keep the one with which they began.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.current()
    }

    /// As [`ServerTls::reload_if_changed`](crate::ServerTls::reload_if_changed).
    ///
    /// # Errors
    ///
    /// If that fails. The old configuration stays.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        self.config.reload_if_changed(|| self.options.config(Expired::Refused))
    }

    /// The name that a server's certificate must have, if the client connects to this host: the one
    /// that the options set, or the host itself, a name or an IP address.
    ///
    /// # Errors
    ///
    /// [`TlsError::ServerName`] if it is neither.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        parse_name(self.options.server_name.as_deref().unwrap_or(host))
    }
}

fn parse_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| TlsError::ServerName { name: name.to_owned() })
}
