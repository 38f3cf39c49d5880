//! The options by which a command speaks TLS with a server.

use std::path::{Path, PathBuf};

use clap::Args;
use zoolet_client::tls::{
    ClientTls, ClientTlsOptions, FileProblem, HostnameVerification, SettingNames, Store, TlsError,
    TlsFile,
};

/// Any of them turns TLS on: nobody who names a certificate means to send plaintext.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsOptions {
    /// Connect by TLS, as each of the following options does too
    #[arg(long, env = "ZOOLET_TLS", help_heading = TLS)]
    tls: bool,

    /// The certificates that are trusted: PEM, PKCS12 or JKS [default: those of this system]
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_CA")]
    #[arg(help_heading = TLS)]
    tls_ca: Option<PathBuf>,

    /// The file that has the password of --tls-ca
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_CA_PASSWORD_FILE", requires = "tls_ca")]
    #[arg(help_heading = TLS)]
    tls_ca_password_file: Option<PathBuf>,

    /// The certificate to show to the server, with its private key: PEM, PKCS12 or JKS
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_CERT")]
    #[arg(help_heading = TLS)]
    tls_cert: Option<PathBuf>,

    /// The private key in PEM, if it is not in the file of --tls-cert
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_KEY", requires = "tls_cert")]
    #[arg(help_heading = TLS)]
    tls_key: Option<PathBuf>,

    /// The file that has the password of --tls-cert or --tls-key
    #[arg(long, value_name = "FILE", env = "ZOOLET_TLS_PASSWORD_FILE", requires = "tls_cert")]
    #[arg(help_heading = TLS)]
    tls_password_file: Option<PathBuf>,

    /// The name that the server's certificate must have [default: the host of --server]
    #[arg(long, value_name = "NAME", env = "ZOOLET_TLS_SERVER_NAME")]
    #[arg(conflicts_with = "tls_no_hostname_verification")]
    #[arg(help_heading = TLS)]
    tls_server_name: Option<String>,

    /// Accept a trusted certificate whatever its name is: whoever has one can pose as the server
    #[arg(long)]
    #[arg(help_heading = TLS)]
    tls_no_hostname_verification: bool,
}

impl TlsOptions {
    /// What the options say of TLS, with the files read; `None` for plaintext.
    ///
    /// # Errors
    ///
    /// [`TlsFailure`] if a file cannot be used.
    pub(crate) fn load(&self) -> Result<Option<ClientTls>, TlsFailure> {
        if self.is_on() { self.stores().map(Some) } else { Ok(None) }
    }

    /// What the options say of TLS, for a connection that speaks it in any case.
    ///
    /// # Errors
    ///
    /// [`TlsFailure`] if a file cannot be used.
    pub(crate) fn stores(&self) -> Result<ClientTls, TlsFailure> {
        let mut options = ClientTlsOptions::new().setting_names(NAMES);
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
        ClientTls::load(options).map_err(|error| self.failure(&error))
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

const TLS: &str = "TLS";

/// What messages about failed connections call the options.
const NAMES: SettingNames = SettingNames {
    key_store: "--tls-cert",
    trust_store: "--tls-ca",
    server_name: "--tls-server-name",
};

/// Why the options of TLS cannot be used, in the words of the options.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TlsFailure(String);

impl TlsOptions {
    fn failure(&self, error: &TlsError) -> TlsFailure {
        TlsFailure(match error {
            TlsError::Io { file, path, source } => {
                format!("cannot read {} {}: {source}", self.option(*file, path), path.display())
            }
            TlsError::File { file, path, problem } => {
                let option = self.option(*file, path);
                format!("{option} {}: {}", path.display(), self.problem(*file, problem))
            }
            TlsError::ServerName { .. } => format!("--tls-server-name: {error}"),
            TlsError::SystemTrust(reason) => format!(
                "without --tls-ca the certificates of this system are trusted, and they cannot be \
                 used: {reason}; give --tls-ca"
            ),
            error => error.to_string(),
        })
    }

    /// The option that names a file.
    fn option(&self, file: TlsFile, path: &Path) -> &'static str {
        match file {
            TlsFile::PrivateKey => "--tls-key",
            TlsFile::TrustStore => "--tls-ca",
            TlsFile::PasswordFile if self.tls_ca_password_file.as_deref() == Some(path) => {
                "--tls-ca-password-file"
            }
            TlsFile::PasswordFile => "--tls-password-file",
            _ => "--tls-cert",
        }
    }

    fn problem(&self, file: TlsFile, problem: &FileProblem) -> String {
        let is_trust_store = file == TlsFile::TrustStore;
        let password =
            if is_trust_store { "--tls-ca-password-file" } else { "--tls-password-file" };
        match problem {
            FileProblem::UnknownType => {
                "its name does not tell its type; let it end with .pem, .p12 or .jks".to_owned()
            }
            FileProblem::NoPassword => {
                format!("it is encrypted; give the file that has its password by {password}")
            }
            FileProblem::WrongPassword => {
                format!("it was damaged, or {password} has another password than it")
            }
            FileProblem::NoPrivateKey if file == TlsFile::KeyStore => {
                "it has no private key; give the file that has it by --tls-key".to_owned()
            }
            FileProblem::NoPrivateKey => "it has no private key in PEM".to_owned(),
            FileProblem::NoCertificate(_) if file == TlsFile::KeyStore => {
                "it has no certificate; give the file that has it by --tls-cert, and the one with \
                 the private key by --tls-key"
                    .to_owned()
            }
            FileProblem::KeyMismatch { .. } if self.tls_key.is_some() => {
                format!("{problem}. Is --tls-key the key of this certificate?")
            }
            problem => problem.to_string(),
        }
    }
}

fn store(path: &PathBuf, password_file: Option<&PathBuf>) -> Store {
    let store = Store::new(path);
    match password_file {
        Some(password_file) => store.password_file(password_file),
        None => store,
    }
}
