//! The options by which a command speaks TLS with a server.

use std::path::PathBuf;

use clap::Args;
use zoolet_client::tls::{ClientTls, ClientTlsOptions, HostnameVerification, Store, TlsError};

/// Any of them turns TLS on: nobody who names a certificate means to send plaintext.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsOptions {
    /// Connect by TLS, as each of the following options does too
    #[arg(long, env = "ZOOLET_TLS")]
    tls: bool,

    /// The certificates that are trusted: PEM, PKCS12 or JKS [default: those of this system]
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_CA")]
    tls_ca: Option<PathBuf>,

    /// The file that has the password of --tls-ca
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_CA_PASSWORD_FILE", requires = "tls_ca")]
    tls_ca_password_file: Option<PathBuf>,

    /// The certificate to show to the server, with its private key: PEM, PKCS12 or JKS
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_CERT")]
    tls_cert: Option<PathBuf>,

    /// The private key in PEM, if it is not in the file of --tls-cert
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The file that has the password of --tls-cert or --tls-key
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_PASSWORD_FILE", requires = "tls_cert")]
    tls_password_file: Option<PathBuf>,

    /// The name that the server's certificate must have [default: the host of --server]
    #[arg(long, value_name = "NAME", env = "ZOOLET_TLS_SERVER_NAME")]
    #[arg(conflicts_with = "tls_no_hostname_verification")]
    tls_server_name: Option<String>,

    /// Accept a trusted certificate whatever its name is: whoever has one can pose as the server
    #[arg(long)]
    tls_no_hostname_verification: bool,
}

impl TlsOptions {
    /// What the options say of TLS, with the files read; `None` for plaintext.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if a file cannot be used.
    pub(crate) fn load(&self) -> Result<Option<ClientTls>, TlsError> {
        if !self.is_on() {
            return Ok(None);
        }
        let mut options = ClientTlsOptions::new();
        if let Some(path) = &self.tls_ca {
            options = options.trust_store(store(path, self.tls_ca_password_file.as_ref()));
        }
        if let Some(path) = &self.tls_cert {
            let mut key_store = store(path, self.tls_password_file.as_ref());
            if let Some(key) = &self.tls_key {
                key_store = key_store.key_file(key);
            }
            options = options.key_store(key_store);
        }
        if let Some(name) = &self.tls_server_name {
            options = options.server_name(name);
        }
        if self.tls_no_hostname_verification {
            options = options.hostname_verification(HostnameVerification::Off);
        }
        ClientTls::load(options).map(Some)
    }

    /// Whether the command is to speak TLS.
    pub(crate) fn is_on(&self) -> bool {
        self.tls
            || self.tls_ca.is_some()
            || self.tls_cert.is_some()
            || self.tls_server_name.is_some()
            || self.tls_no_hostname_verification
    }
}

fn store(path: &PathBuf, password_file: Option<&PathBuf>) -> Store {
    let store = Store::new(path);
    match password_file {
        Some(password_file) => store.password_file(password_file),
        None => store,
    }
}
