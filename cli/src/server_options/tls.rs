//! The options of TLS for clients.

use std::path::PathBuf;

use clap::Args;
use zoolet_server::TlsConfig;
use zoolet_server::tls::{
    ClientAuth, HostnameVerification, Protocol, ServerTls, ServerTlsOptions, Store, StoreType,
    TlsError, cipher_suite_names,
};

use super::access::Secret;
use super::values::{self, BadValue, HostPort};

/// A field is `None` unless a file or a flag sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct TlsOptions {
    /// Where clients connect that speak TLS; port 0 picks a free port
    #[arg(long, value_name = "PORT", value_parser = values::port, help_heading = TLS)]
    pub(crate) secure_client_port: Option<u16>,

    /// The interface that --secure-client-port is opened on [default: all]
    #[arg(long, value_name = "HOST", value_parser = values::host, help_heading = TLS)]
    pub(crate) secure_client_port_address: Option<String>,

    /// Let the plaintext port speak TLS too [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = TLS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) client_port_unification: Option<bool>,

    /// Read the certificates again when their files change [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = TLS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) client_cert_reload: Option<bool>,

    /// How many handshakes may be under way at once; -1 for any number [default: -1]
    #[arg(long, value_name = "COUNT", value_parser = handshakes, help_heading = TLS)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) netty_server_outstanding_handshake_limit: Option<HandshakeLimit>,

    /// The server's private key and certificates: PEM, PKCS12 or JKS
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub(crate) ssl_key_store_location: Option<PathBuf>,

    /// The file that has the password of the key store
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub(crate) ssl_key_store_password_path: Option<PathBuf>,

    /// The type of the key store: PEM, PKCS12 or JKS [default: by the end of its name]
    #[arg(long, value_name = "TYPE", value_parser = store_type, help_heading = TLS)]
    pub(crate) ssl_key_store_type: Option<StoreType>,

    /// The certificates by which clients are verified: PEM, PKCS12 or JKS
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub(crate) ssl_trust_store_location: Option<PathBuf>,

    /// The file that has the password of the trust store
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub(crate) ssl_trust_store_password_path: Option<PathBuf>,

    /// The type of the trust store: PEM, PKCS12 or JKS [default: by the end of its name]
    #[arg(long, value_name = "TYPE", value_parser = store_type, help_heading = TLS)]
    pub(crate) ssl_trust_store_type: Option<StoreType>,

    /// Whether clients show certificates: none, want or need [default: need]
    #[arg(long, value_name = "MODE", value_parser = client_auth, help_heading = TLS)]
    pub(crate) ssl_client_auth: Option<ClientAuth>,

    /// The versions of TLS, with commas between [default: TLSv1.2,TLSv1.3]
    #[arg(long, value_name = "NAMES", value_parser = protocols, help_heading = TLS)]
    pub(crate) ssl_enabled_protocols: Option<Protocols>,

    /// The cipher suites by Java's names, with commas between, the best first [default: all]
    #[arg(long, value_name = "NAMES", value_parser = cipher_suites, help_heading = TLS)]
    pub(crate) ssl_ciphersuites: Option<CipherSuites>,

    /// Whether a client's certificate must have its address, unless --ssl-hostname-verification is
    /// false [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = TLS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) ssl_client_hostname_verification: Option<bool>,

    /// Whether certificates must have the names of hosts at all [default: true]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = TLS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) ssl_hostname_verification: Option<bool>,

    /// Certificates that are revoked, a list in PEM or DER; may be given several times
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub(crate) ssl_crl_file: Vec<PathBuf>,

    /// `ssl.keyStore.password`. No flag: others see the command line.
    #[arg(skip)]
    pub(crate) key_store_password: Option<Secret>,

    /// `ssl.trustStore.password`.
    #[arg(skip)]
    pub(crate) trust_store_password: Option<Secret>,

    /// `ssl.protocol`, which decides if `ssl.enabledProtocols` does not.
    #[arg(skip)]
    pub(crate) protocol: Option<Protocols>,

    /// `ssl.crl`.
    #[arg(skip)]
    pub(crate) crl: Option<bool>,

    /// `ssl.ocsp`.
    #[arg(skip)]
    pub(crate) ocsp: Option<bool>,

    /// `ssl.context.supplier.class`.
    #[arg(skip)]
    pub(crate) context_supplier: Option<String>,

    /// `ssl.authProvider`.
    #[arg(skip)]
    pub(crate) auth_provider: Option<String>,
}

impl TlsOptions {
    /// Where clients connect that speak TLS.
    ///
    /// # Errors
    ///
    /// [`TlsContradiction`] if there is an address without a port.
    pub(crate) fn listen(&self) -> Result<Option<HostPort>, TlsContradiction> {
        match (&self.secure_client_port_address, self.secure_client_port) {
            (Some(_), None) => Err(TlsContradiction::NoSecureClientPort),
            (_, None) => Ok(None),
            (host, Some(port)) => {
                let host = host.clone().unwrap_or_else(|| "0.0.0.0".to_owned());
                Ok(Some(HostPort { host, port }))
            }
        }
    }

    /// The configuration, without an address; `None` if no port speaks TLS. It reads the stores.
    ///
    /// # Errors
    ///
    /// The first [`TlsContradiction`].
    pub(crate) fn config(&self) -> Result<Option<TlsConfig>, TlsContradiction> {
        let is_unified = self.client_port_unification == Some(true);
        if self.listen()?.is_none() && !is_unified {
            return Ok(None);
        }
        self.refuse_unsupported()?;
        let mut config = TlsConfig::new(ServerTls::load(self.server_options()?)?);
        config.port_unification = is_unified;
        config.certificate_reload = self.client_cert_reload == Some(true);
        config.outstanding_handshakes_max =
            self.netty_server_outstanding_handshake_limit.and_then(|HandshakeLimit(max)| max);
        Ok(Some(config))
    }

    /// Whether something is set that has no effect, because no port speaks TLS.
    pub(crate) fn is_idle(&self) -> bool {
        !self.speaks_tls() && *self != Self::default()
    }

    /// Whether a port speaks TLS.
    pub(super) fn speaks_tls(&self) -> bool {
        self.secure_client_port.is_some()
            || self.secure_client_port_address.is_some()
            || self.client_port_unification == Some(true)
    }

    /// Whether clients are asked for certificates.
    pub(super) fn asks_for_certificates(&self) -> bool {
        self.speaks_tls() && self.ssl_client_auth != Some(ClientAuth::None)
    }

    /// What would make access easier if it were ignored.
    fn refuse_unsupported(&self) -> Result<(), TlsContradiction> {
        if self.ocsp == Some(true) {
            return Err(TlsContradiction::Ocsp);
        }
        if self.crl == Some(true) && self.ssl_crl_file.is_empty() {
            return Err(TlsContradiction::NoCrlFile);
        }
        if let Some(class) = &self.context_supplier {
            return Err(TlsContradiction::ContextSupplier(class.clone()));
        }
        match &self.auth_provider {
            Some(scheme) if scheme != "x509" => Err(TlsContradiction::AuthProvider(scheme.clone())),
            _ => Ok(()),
        }
    }

    fn server_options(&self) -> Result<ServerTlsOptions, TlsContradiction> {
        let key_store = store(
            self.ssl_key_store_location.as_ref(),
            self.key_store_password.as_ref(),
            self.ssl_key_store_password_path.as_ref(),
            self.ssl_key_store_type,
        );
        let trust_store = store(
            self.ssl_trust_store_location.as_ref(),
            self.trust_store_password.as_ref(),
            self.ssl_trust_store_password_path.as_ref(),
            self.ssl_trust_store_type,
        );
        let mut options = ServerTlsOptions::new(key_store.ok_or(TlsContradiction::NoKeyStore)?)
            .client_auth(self.ssl_client_auth.unwrap_or_default())
            .crl_files(self.ssl_crl_file.clone());
        if let Some(trust_store) = trust_store {
            options = options.trust_store(trust_store);
        }
        if let Some(protocols) = self.ssl_enabled_protocols.as_ref().or(self.protocol.as_ref()) {
            options = options.protocols(protocols.iter());
        }
        if let Some(suites) = &self.ssl_ciphersuites {
            options = options.cipher_suites(suites.iter());
        }
        // As `X509Util.createTrustManager`, which wants both.
        let verifies_hosts = self.ssl_hostname_verification != Some(false)
            && self.ssl_client_hostname_verification == Some(true);
        if verifies_hosts {
            options = options.client_hostname_verification(HostnameVerification::On);
        }
        Ok(options)
    }
}

/// The store that these options describe, if they name a file.
pub(super) fn store(
    location: Option<&PathBuf>,
    password: Option<&Secret>,
    password_file: Option<&PathBuf>,
    store_type: Option<StoreType>,
) -> Option<Store> {
    let mut store = Store::new(location?);
    if let Some(password) = password {
        store = store.password(password.expose().into());
    }
    if let Some(path) = password_file {
        store = store.password_file(path);
    }
    if let Some(store_type) = store_type {
        store = store.store_type(store_type);
    }
    Some(store)
}

/// Options of TLS that exclude one another, or cannot be kept.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsContradiction {
    #[error(
        "secureClientPortAddress is set but secureClientPort is not; set both (--secure-client-port too)"
    )]
    NoSecureClientPort,
    #[error(
        "secureClientPort and client.portUnification need a private key and a certificate; name them \
         by ssl.keyStore.location (--ssl-key-store-location)"
    )]
    NoKeyStore,
    #[error(
        "ssl.ocsp=true asks authorities over the network whether certificates are revoked, which \
         zoolet does not; remove it, and give a list of them by zoolet.ssl.crlFile"
    )]
    Ocsp,
    #[error(
        "ssl.crl=true has Java download the lists of revoked certificates, which zoolet does not; \
         give a list by zoolet.ssl.crlFile"
    )]
    NoCrlFile,
    #[error(
        "ssl.context.supplier.class names the Java class {0}, which zoolet cannot run; remove it, \
         and set ssl.keyStore.location and ssl.trustStore.location"
    )]
    ContextSupplier(String),
    #[error(
        "ssl.authProvider={0} has a Java class verify clients, which zoolet cannot run; remove it, \
         and set ssl.trustStore.location"
    )]
    AuthProvider(String),
    #[error(
        "clients have to show certificates, and no trust store tells which are trusted; name one by \
         ssl.trustStore.location (--ssl-trust-store-location), or do without client certificates by \
         ssl.clientAuth=none (--ssl-client-auth none)"
    )]
    NoTrustStore,
    #[error("{0}")]
    Unusable(String),
}

impl From<TlsError> for TlsContradiction {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::NoTrustStore => Self::NoTrustStore,
            error => Self::Unusable(error.to_string()),
        }
    }
}

/// A limit of handshakes, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HandshakeLimit(Option<usize>);

/// `Integer.getInteger`; ZooKeeper limits nothing at 0 and below.
pub(crate) fn handshakes(text: &str) -> Result<HandshakeLimit, BadValue> {
    let limit = values::decoded(text, i64::from(i32::MIN)..=i64::from(i32::MAX))
        .map_err(|_| BadValue::NotInRangeNorMinusOne(1..=i64::from(i32::MAX), "any number"))?;
    Ok(HandshakeLimit(usize::try_from(limit).ok().filter(|limit| *limit > 0)))
}

/// Versions of TLS, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protocols(Vec<Protocol>);

impl Protocols {
    pub(super) fn iter(&self) -> impl Iterator<Item = Protocol> {
        self.0.iter().copied()
    }
}

/// The value of `ssl.enabledProtocols`. Those that are obsolete are left out: TLS 1.1 and older, which no
/// client needs.
pub(crate) fn protocols(text: &str) -> Result<Protocols, BadValue> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mut protocols = Vec::new();
    for name in names {
        match name.parse() {
            Ok(protocol) => protocols.push(protocol),
            Err(_) if OBSOLETE_PROTOCOLS.contains(&name) => {}
            Err(_) => return Err(BadValue::NotProtocols),
        }
    }
    if protocols.is_empty() { Err(BadValue::NotProtocols) } else { Ok(Protocols(protocols)) }
}

/// The value of `ssl.protocol`: the protocol of Java's `SSLContext`, which stands for those that it
/// enables.
pub(crate) fn context_protocol(text: &str) -> Result<Protocols, BadValue> {
    match text {
        "TLS" | "TLSv1.3" => Ok(Protocols(Protocol::ALL.to_vec())),
        "TLSv1.2" => Ok(Protocols(vec![Protocol::Tls12])),
        _ => Err(BadValue::NotProtocols),
    }
}

const OBSOLETE_PROTOCOLS: [&str; 5] = ["TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello", "SSLv2"];

/// Cipher suites, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CipherSuites(Vec<String>);

impl CipherSuites {
    pub(super) fn iter(&self) -> impl Iterator<Item = String> {
        self.0.iter().cloned()
    }
}

/// The value of `ssl.ciphersuites`. Those that are not supported are left out.
pub(crate) fn cipher_suites(text: &str) -> Result<CipherSuites, BadValue> {
    let known: Vec<_> = cipher_suite_names().collect();
    let names = text.split(',').map(|name| name.trim().to_owned());
    let names: Vec<_> = names.filter(|name| known.contains(name)).collect();
    if names.is_empty() { Err(BadValue::NotCipherSuites) } else { Ok(CipherSuites(names)) }
}

pub(crate) fn store_type(text: &str) -> Result<StoreType, BadValue> {
    text.parse().map_err(|_| BadValue::NotAStoreType)
}

pub(crate) fn client_auth(text: &str) -> Result<ClientAuth, BadValue> {
    text.parse().map_err(|_| BadValue::NotAClientAuth)
}

const TLS: &str = "TLS";

#[cfg(test)]
mod tests {
    use super::*;

    /// A port for TLS, and what the test chooses.
    fn refusal(choose: fn(&mut TlsOptions)) -> TlsContradiction {
        let mut options = TlsOptions { secure_client_port: Some(0), ..TlsOptions::default() };
        options.ssl_key_store_location = Some("/nowhere/key.pem".into());
        choose(&mut options);
        options.config().unwrap_err()
    }

    #[test]
    fn what_would_make_access_easier_if_it_were_ignored_is_refused() {
        assert_eq!(refusal(|it| it.ocsp = Some(true)), TlsContradiction::Ocsp);
        assert_eq!(refusal(|it| it.crl = Some(true)), TlsContradiction::NoCrlFile);
        let class = || "org.example.Supplier".to_owned();
        assert_eq!(
            refusal(|it| it.context_supplier = Some("org.example.Supplier".to_owned())),
            TlsContradiction::ContextSupplier(class()),
        );
        assert_eq!(
            refusal(|it| it.auth_provider = Some("org.example.Supplier".to_owned())),
            TlsContradiction::AuthProvider(class()),
        );
        assert_eq!(refusal(|it| it.ssl_key_store_location = None), TlsContradiction::NoKeyStore);
        let no_port = refusal(|it| {
            it.secure_client_port = None;
            it.secure_client_port_address = Some("localhost".to_owned());
        });
        assert_eq!(no_port, TlsContradiction::NoSecureClientPort);
        let unreadable = refusal(|it| it.crl = Some(false)).to_string();
        assert!(unreadable.contains("/nowhere/key.pem"), "{unreadable}");
    }

    #[test]
    fn without_a_port_for_tls_nothing_is_read() {
        let mut options = TlsOptions::default();
        assert!(!options.is_idle());
        options.ssl_key_store_location = Some("/nowhere/key.pem".into());
        assert!(options.is_idle());
        assert!(options.config().unwrap().is_none());
    }

    #[test]
    fn old_protocols_and_cipher_suites_are_left_out_of_those_that_remain() {
        assert_eq!(protocols("TLSv1, TLSv1.2"), Ok(Protocols(vec![Protocol::Tls12])));
        assert_eq!(protocols("TLSv1.1"), Err(BadValue::NotProtocols));
        assert_eq!(protocols("TLSv1.4,TLSv1.2"), Err(BadValue::NotProtocols));
        let strong = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        let both = format!("TLS_RSA_WITH_AES_128_CBC_SHA, {strong}");
        assert_eq!(cipher_suites(&both), Ok(CipherSuites(vec![strong.to_owned()])));
        assert_eq!(cipher_suites("TLS_RSA_WITH_AES_128_CBC_SHA"), Err(BadValue::NotCipherSuites));
    }

    #[test]
    fn a_password_is_not_shown() {
        let password = Some(Secret::from("changeit"));
        let options = TlsOptions { key_store_password: password, ..TlsOptions::default() };
        assert!(!format!("{options:?}").contains("changeit"));
    }
}
