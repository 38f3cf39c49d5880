//! The configuration of a server.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;

use crate::cipher_suites::provider;
use crate::own::{self, Expired};
use crate::reload::Reloading;
use crate::trust::Trust;
use crate::{ClientAuth, HostnameVerification, Protocol, Store, TlsError, clock, verifiers};

/// What a server needs for TLS. The defaults are ZooKeeper's, except that TLS 1.2 and 1.3 are both
/// spoken.
///
/// ```
/// use zoolet_tls::{ClientAuth, Protocol, ServerTlsOptions, Store};
///
/// let options = ServerTlsOptions::new(Store::new("/etc/zoolet/server.pem"))
///     .trust_store(Store::new("/etc/zoolet/ca.pem"))
///     .client_auth(ClientAuth::Want)
///     .protocols([Protocol::Tls13]);
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing until they are loaded"]
pub struct ServerTlsOptions {
    key_store: Store,
    trust_store: Option<Store>,
    client_auth: ClientAuth,
    protocols: Vec<Protocol>,
    cipher_suites: Vec<String>,
    crl_files: Vec<PathBuf>,
    client_hostname_verification: HostnameVerification,
}

impl ServerTlsOptions {
    /// The server's private key and certificates: `ssl.keyStore.location` and the like.
    pub fn new(key_store: Store) -> Self {
        Self {
            key_store,
            trust_store: None,
            client_auth: ClientAuth::default(),
            protocols: Protocol::ALL.to_vec(),
            cipher_suites: Vec::new(),
            crl_files: Vec::new(),
            client_hostname_verification: HostnameVerification::Off,
        }
    }

    /// The certificates by which clients are verified: `ssl.trustStore.location` and the like. It is
    /// needed, unless clients are not asked for certificates. ZooKeeper would take the public
    /// authorities that Java trusts, and so admit everybody who has a certificate of a web site.
    pub fn trust_store(mut self, store: Store) -> Self {
        self.trust_store = Some(store);
        self
    }

    /// Whether clients show certificates: `ssl.clientAuth`. By default they must. Unless it is
    /// [`ClientAuth::None`] no TLS session is resumed: each handshake verifies the certificate.
    pub fn client_auth(mut self, client_auth: ClientAuth) -> Self {
        self.client_auth = client_auth;
        self
    }

    /// The versions of TLS: `ssl.enabledProtocols`. By default 1.2 and 1.3.
    pub fn protocols(mut self, protocols: impl IntoIterator<Item = Protocol>) -> Self {
        self.protocols = protocols.into_iter().collect();
        self
    }

    /// The cipher suites, the preferred one first: `ssl.ciphersuites`. By default all of
    /// [`cipher_suite_names`](crate::cipher_suite_names). A version of TLS for which none is given is
    /// not spoken.
    pub fn cipher_suites(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.cipher_suites = names.into_iter().map(Into::into).collect();
        self
    }

    /// Files with certificate revocation lists, in PEM or DER. With one, each certificate of a
    /// client's chain must be of an issuer that has a list, which has not expired and does not
    /// have the certificate.
    ///
    /// ZooKeeper has no key for files: its `ssl.crl` has Java download the lists from the addresses
    /// that are in the certificates. zoolet downloads nothing.
    pub fn crl_files(mut self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.crl_files = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Whether the certificate of a client must have the address from which it connects as a subject
    /// alternative name: `ssl.clientHostnameVerification`, if `ssl.hostnameVerification` is on.
    /// Off by default. [`ServerTls::verify_client_host`] does it. The name of the address is not
    /// asked for (`ssl.allowReverseDnsLookup`).
    pub fn client_hostname_verification(mut self, verification: HostnameVerification) -> Self {
        self.client_hostname_verification = verification;
        self
    }

    fn paths(&self) -> Vec<PathBuf> {
        let stores = [Some(&self.key_store), self.trust_store.as_ref()];
        let paths = stores.into_iter().flatten().flat_map(Store::paths).map(ToOwned::to_owned);
        paths.chain(self.crl_files.iter().cloned()).collect()
    }

    fn load(&self, expired: Expired) -> Result<Loaded, TlsError> {
        let (provider, protocols) = provider(&self.cipher_suites, &self.protocols)?;
        let provider = Arc::new(provider);
        let certified = own::load(&self.key_store, &provider, expired)?;
        let versions: Vec<_> = protocols.into_iter().map(Protocol::version).collect();
        let clients = match self.client_auth {
            ClientAuth::None => None,
            asked => {
                let store = Some(self.trust_store.as_ref().ok_or(TlsError::NoTrustStore)?);
                let trust = Trust::load(store, &self.crl_files, Arc::clone(&provider))?;
                Some(verifiers::clients(trust, asked)?)
            }
        };
        let verifier = clients.clone().unwrap_or_else(WebPkiClientVerifier::no_client_auth);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        if self.client_auth != ClientAuth::None {
            // A resumed TLS session would have the identity of the one before without a look at the
            // certificate, which may have expired since, or at the lists of revoked ones.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Loaded { config: Arc::new(config), clients })
    }
}

/// What is made of the files.
#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// What verifies clients; `None` if they are not asked for certificates.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// The TLS of a server: its configuration, which follows its files.
///
/// ```no_run
/// use zoolet_tls::{ServerTls, ServerTlsOptions, Store, TlsError};
///
/// # fn example() -> Result<(), TlsError> {
/// let options = ServerTlsOptions::new(Store::new("/etc/zoolet/server.pem"))
///     .trust_store(Store::new("/etc/zoolet/ca.pem"));
/// let tls = ServerTls::load(options)?;
/// let for_one_handshake = tls.config();
/// # let _ = for_one_handshake;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ServerTls {
    options: ServerTlsOptions,
    loaded: Reloading<Loaded>,
}

impl ServerTls {
    /// Reads the stores. An own certificate that is not valid now is warned of in the log.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or used, or the options do not go together. The text names the file
    /// and the cure.
    pub fn load(options: ServerTlsOptions) -> Result<Self, TlsError> {
        let loaded = Reloading::load(options.paths(), || options.load(Expired::Warned))?;
        Ok(Self { options, loaded })
    }

    /// The configuration for a handshake. Connections keep the one with which they began.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.current().config)
    }

    /// Makes a new configuration if a file has changed: its length, its times, or which file its path
    /// leads to behind symbolic links. It reads files, and so may block for a moment.
    ///
    /// # Errors
    ///
    /// If that fails; also if the new certificate is not valid now. The old configuration stays. The
    /// error is returned once for each state of the files, or again and again if a file cannot be
    /// read. A certificate that is valid later is loaded by the first call then.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        self.loaded.reload_if_changed(|| self.options.load(Expired::Refused))
    }

    /// Whether clients are asked for certificates.
    #[must_use]
    pub fn client_auth(&self) -> ClientAuth {
        self.options.client_auth
    }

    /// Verifies a client's certificates, its own first, that came by another way than a handshake
    /// with this configuration.
    ///
    /// # Errors
    ///
    /// [`TlsError::ClientCertificate`]; also if this configuration does not ask clients for
    /// certificates.
    pub fn verify_client(&self, certificates: &[CertificateDer<'_>]) -> Result<(), TlsError> {
        let refused = |reason: &str| TlsError::ClientCertificate(reason.to_owned());
        let loaded = self.loaded.current();
        let clients = loaded.clients.as_ref();
        let clients = clients.ok_or_else(|| refused("no trust store tells which are trusted"))?;
        let (own, issuers) = certificates.split_first().ok_or_else(|| refused("there is none"))?;
        let verified = clients.verify_client_cert(own, issuers, clock::now());
        verified.map(|_| ()).map_err(|error| refused(&error.to_string()))
    }

    /// Checks that the certificate of a client, which a handshake has verified, was made for the
    /// address from which the client connects. Does nothing unless
    /// [`client_hostname_verification`](ServerTlsOptions::client_hostname_verification) is on.
    ///
    /// # Errors
    ///
    /// [`TlsError::ClientHost`].
    pub fn verify_client_host(
        &self,
        certificate: &CertificateDer<'_>,
        address: IpAddr,
    ) -> Result<(), TlsError> {
        if self.options.client_hostname_verification == HostnameVerification::Off {
            return Ok(());
        }
        let name = ServerName::from(address.to_canonical());
        ParsedCertificate::try_from(certificate)
            .and_then(|parsed| verify_server_name(&parsed, &name))
            .map_err(|error| TlsError::ClientHost { address, reason: error.to_string() })
    }
}
