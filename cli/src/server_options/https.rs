//! The options of HTTPS for the admin server, whose keys are those of ZooKeeper's `ssl.quorum`.

use std::path::PathBuf;

use clap::Args;
use zoolet_server::admin::HttpsConfig;
use zoolet_server::tls::{ClientAuth, ServerTls, ServerTlsOptions, StoreType, TlsError};

use super::access::Secret;
use super::admin::ADMIN;
use super::tls::{CipherSuites, Protocols, cipher_suites, protocols, store, store_type};
use super::values;

/// A field is `None` unless a file or a flag sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct HttpsOptions {
    /// Answer admin commands by HTTPS, and by nothing else [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ADMIN)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) admin_force_https: Option<bool>,

    /// Answer admin commands by HTTPS too, on the same port [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ADMIN)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) admin_port_unification: Option<bool>,

    /// Clients of HTTPS must show a certificate that --ssl-quorum-trust-store-location verifies
    /// [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ADMIN)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) admin_need_client_auth: Option<bool>,

    /// The admin server's private key and certificates: PEM, PKCS12 or JKS
    #[arg(long, value_name = "FILE", help_heading = ADMIN)]
    pub(crate) ssl_quorum_key_store_location: Option<PathBuf>,

    /// The file that has the password of this key store
    #[arg(long, value_name = "FILE", help_heading = ADMIN)]
    pub(crate) ssl_quorum_key_store_password_path: Option<PathBuf>,

    /// The type of this key store: PEM, PKCS12 or JKS [default: by the end of its name]
    #[arg(long, value_name = "TYPE", value_parser = store_type, help_heading = ADMIN)]
    pub(crate) ssl_quorum_key_store_type: Option<StoreType>,

    /// The certificates by which the admin server verifies clients: PEM, PKCS12 or JKS
    #[arg(long, value_name = "FILE", help_heading = ADMIN)]
    pub(crate) ssl_quorum_trust_store_location: Option<PathBuf>,

    /// The file that has the password of this trust store
    #[arg(long, value_name = "FILE", help_heading = ADMIN)]
    pub(crate) ssl_quorum_trust_store_password_path: Option<PathBuf>,

    /// The type of this trust store: PEM, PKCS12 or JKS [default: by the end of its name]
    #[arg(long, value_name = "TYPE", value_parser = store_type, help_heading = ADMIN)]
    pub(crate) ssl_quorum_trust_store_type: Option<StoreType>,

    /// The admin server's versions of TLS, with commas between [default: TLSv1.2,TLSv1.3]
    #[arg(long, value_name = "NAMES", value_parser = protocols, help_heading = ADMIN)]
    pub(crate) ssl_quorum_enabled_protocols: Option<Protocols>,

    /// The admin server's cipher suites by Java's names, the best first [default: all]
    #[arg(long, value_name = "NAMES", value_parser = cipher_suites, help_heading = ADMIN)]
    pub(crate) ssl_quorum_ciphersuites: Option<CipherSuites>,

    /// Read the admin server's certificates again when their files change [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ADMIN)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) ssl_quorum_reload_cert_files: Option<bool>,

    /// Certificates that are revoked for the admin server, a list in PEM or DER; may be given several
    /// times
    #[arg(long, value_name = "FILE", help_heading = ADMIN)]
    pub(crate) ssl_quorum_crl_file: Vec<PathBuf>,

    /// `ssl.quorum.keyStore.password`. No flag: others see the command line.
    #[arg(skip)]
    pub(crate) key_store_password: Option<Secret>,

    /// `ssl.quorum.trustStore.password`.
    #[arg(skip)]
    pub(crate) trust_store_password: Option<Secret>,
}

impl HttpsOptions {
    /// The configuration; `None` for plaintext. It reads the stores.
    ///
    /// # Errors
    ///
    /// The first [`HttpsContradiction`].
    pub(super) fn config(&self) -> Result<Option<HttpsConfig>, HttpsContradiction> {
        let needs_certificates = self.admin_need_client_auth == Some(true);
        if !self.is_on() {
            return match needs_certificates {
                true => Err(HttpsContradiction::Plaintext),
                false => Ok(None),
            };
        }
        let key_store = store(
            self.ssl_quorum_key_store_location.as_ref(),
            self.key_store_password.as_ref(),
            self.ssl_quorum_key_store_password_path.as_ref(),
            self.ssl_quorum_key_store_type,
        );
        let key_store = key_store.ok_or(HttpsContradiction::NoKeyStore)?;
        let trust_store = store(
            self.ssl_quorum_trust_store_location.as_ref(),
            self.trust_store_password.as_ref(),
            self.ssl_quorum_trust_store_password_path.as_ref(),
            self.ssl_quorum_trust_store_type,
        );
        // As Jetty, which asks for certificates if it must have one, and otherwise not.
        let mut options = ServerTlsOptions::new(key_store).client_auth(ClientAuth::None);
        if needs_certificates {
            let trust_store = trust_store.ok_or(HttpsContradiction::NoTrustStore)?;
            options = options
                .client_auth(ClientAuth::Need)
                .trust_store(trust_store)
                .crl_files(self.ssl_quorum_crl_file.clone());
        }
        if let Some(protocols) = &self.ssl_quorum_enabled_protocols {
            options = options.protocols(protocols.iter());
        }
        if let Some(suites) = &self.ssl_quorum_ciphersuites {
            options = options.cipher_suites(suites.iter());
        }
        let mut config = HttpsConfig::new(ServerTls::load(options)?);
        // `admin.forceHttps` wins.
        config.port_unification = self.admin_force_https != Some(true);
        config.certificate_reload = self.ssl_quorum_reload_cert_files == Some(true);
        Ok(Some(config))
    }

    fn is_on(&self) -> bool {
        self.admin_force_https == Some(true) || self.admin_port_unification == Some(true)
    }

    /// Whether keys and certificates are set that nobody uses, as in a file for an ensemble.
    pub(super) fn has_idle_stores(&self) -> bool {
        let stores = Self {
            admin_force_https: None,
            admin_port_unification: None,
            admin_need_client_auth: None,
            ..self.clone()
        };
        !self.is_on() && stores != Self::default()
    }

    /// Whether clients have to show certificates, and those who speak plaintext need none.
    pub(super) fn is_half_open(&self) -> bool {
        self.admin_need_client_auth == Some(true)
            && self.admin_port_unification == Some(true)
            && self.admin_force_https != Some(true)
    }
}

/// Options of HTTPS that exclude one another, or cannot be kept.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpsContradiction {
    #[error(
        "admin.forceHttps and admin.portUnification need a private key and a certificate; name them \
         by ssl.quorum.keyStore.location, which ZooKeeper's admin server uses too"
    )]
    NoKeyStore,
    #[error(
        "admin.needClientAuth needs the certificates by which clients are verified; name them by \
         ssl.quorum.trustStore.location"
    )]
    NoTrustStore,
    #[error(
        "admin.needClientAuth asks for certificates, but the admin server speaks plaintext, and \
         would answer everybody; set admin.forceHttps=true"
    )]
    Plaintext,
    #[error("{0}")]
    Unusable(String),
}

impl From<TlsError> for HttpsContradiction {
    fn from(error: TlsError) -> Self {
        Self::Unusable(format!("the admin server's TLS cannot be used: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_answer_more_people_than_it_says_is_refused() {
        let force = HttpsOptions { admin_force_https: Some(true), ..HttpsOptions::default() };
        assert_eq!(force.config().unwrap_err(), HttpsContradiction::NoKeyStore);
        let key_store = HttpsOptions {
            ssl_quorum_key_store_location: Some("/nowhere/key.pem".into()),
            ..force
        };
        let unreadable = key_store.config().unwrap_err().to_string();
        assert!(unreadable.contains("/nowhere/key.pem"), "{unreadable}");
        let need = HttpsOptions { admin_need_client_auth: Some(true), ..key_store };
        assert_eq!(need.config().unwrap_err(), HttpsContradiction::NoTrustStore);
        let plain = HttpsOptions { admin_force_https: None, ..need };
        assert_eq!(plain.config().unwrap_err(), HttpsContradiction::Plaintext);
        assert!(plain.has_idle_stores());
    }

    #[test]
    fn without_https_nothing_is_read() {
        let options = HttpsOptions {
            ssl_quorum_key_store_location: Some("/nowhere/key.pem".into()),
            ..HttpsOptions::default()
        };
        assert!(options.config().unwrap().is_none());
        assert!(options.has_idle_stores());
        assert!(!HttpsOptions::default().has_idle_stores());
    }
}
