//! Why TLS cannot be set up.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// Why TLS cannot be set up. The text names the file, the cause and the cure, and nothing secret.
///
/// ```
/// use zoolet_tls::{ServerTls, ServerTlsOptions, Store, TlsError};
///
/// let error = ServerTls::load(ServerTlsOptions::new(Store::new("/none.pem"))).unwrap_err();
/// assert!(matches!(error, TlsError::Io { .. }));
/// assert!(error.to_string().starts_with("cannot read the key store /none.pem: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {file} {}: {source}", path.display())]
    Io {
        /// What the file is for.
        file: TlsFile,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file was read, and cannot be used.
    #[error("the {file} {}: {problem}", path.display())]
    File {
        /// What the file is for.
        file: TlsFile,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: FileProblem,
    },
    /// Client certificates are to be verified, and there is nothing to verify them with.
    #[error(
        "clients have to show certificates, and no trust store tells which are trusted; set a trust \
         store, or do without client certificates (ssl.clientAuth=none)"
    )]
    NoTrustStore,
    /// The certificates of this system cannot be read.
    #[error("no trust store is set, and the system's certificates cannot be used: {0}; set one")]
    SystemTrust(String),
    /// The name of no store type that can be read.
    #[error("the store type {name} is not supported: {}", store_type_reason(name))]
    StoreType {
        /// The name that was given.
        name: String,
    },
    /// The name of no protocol that is spoken.
    #[error("the protocol {name} is not supported; TLSv1.2 and TLSv1.3 are")]
    Protocol {
        /// The name that was given.
        name: String,
    },
    /// The name of no mode of client authentication.
    #[error("the client authentication {name} is unknown; it is none, want or need")]
    ClientAuth {
        /// The name that was given.
        name: String,
    },
    /// The name of no cipher suite that is supported.
    #[error("the cipher suite {name} is not supported; these are: {known}")]
    CipherSuite {
        /// The name that was given.
        name: String,
        /// The names that are known.
        known: String,
    },
    /// The cipher suites and protocols that were chosen do not go together.
    #[error("none of the cipher suites that are set is one of the protocols that are set: {0}")]
    NoCommonSuite(String),
    /// The name of a server can be in no certificate.
    #[error("{name:?} is not the name of a server: a host name or an IP address is needed")]
    ServerName {
        /// The name.
        name: String,
    },
    /// The certificate of a client was not made for the address from which it comes.
    #[error("the client's certificate is not valid for its address {address}: {reason}")]
    ClientHost {
        /// The address from which the client connects.
        address: IpAddr,
        /// What is wrong.
        reason: String,
    },
    /// The certificate of a client is not trusted, or clients need none.
    #[error("the client's certificate is not accepted: {0}")]
    ClientCertificate(String),
    /// A certificate of a peer cannot be understood.
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
    /// The TLS library refuses the configuration.
    #[error("TLS cannot be configured: {0}")]
    Config(#[from] rustls::Error),
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFile {
    /// The own private key and certificates.
    KeyStore,
    /// The own private key, where it is in a file of its own.
    PrivateKey,
    /// The certificates that are trusted.
    TrustStore,
    /// The password of a store.
    PasswordFile,
    /// The certificates that are revoked.
    RevocationList,
}

impl fmt::Display for TlsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeyStore => "key store",
            Self::PrivateKey => "private key",
            Self::TrustStore => "trust store",
            Self::PasswordFile => "password file",
            Self::RevocationList => "certificate revocation list",
        })
    }
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// It is too large to be what it should be.
    #[error("it is longer than {limit} bytes, the most that is read; it is the wrong file")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Its name does not tell its type.
    #[error(
        "its name does not tell its type; set the type to PEM, PKCS12 or JKS, or let the name end \
         with .pem, .p12 or .jks"
    )]
    UnknownType,
    /// It has another format than it should have.
    #[error(
        "it is {found}, not {expected}; set its right type, or convert it with keytool or openssl"
    )]
    WrongFormat {
        /// The format that was expected.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// Its password is wrong.
    #[error("its password is wrong, or it was damaged; check the password or the file that has it")]
    WrongPassword,
    /// It is encrypted, and no password is set.
    #[error("it is encrypted, and no password is set; set its password or a file that has it")]
    NoPassword,
    /// It ends too early, or contains what it must not.
    #[error("it is damaged: {0}; put a whole copy in its place")]
    Damaged(String),
    /// It is encrypted in a way that is not supported.
    #[error("it is encrypted in a way that is not supported: {0}")]
    Encryption(String),
    /// It has no private key.
    #[error("it has no private key; a key store has the private key and its certificates")]
    NoPrivateKey,
    /// It has no certificate.
    #[error("it has no certificate{0}")]
    NoCertificate(&'static str),
    /// It has no revocation list.
    #[error("it has no revocation list; make one with `openssl ca -gencrl`")]
    NoRevocationList,
    /// The private key belongs to another certificate.
    #[error(
        "its private key does not fit its first certificate ({subject}); the certificate of the key \
         comes first, and after it those of the authorities"
    )]
    KeyMismatch {
        /// The subject of the certificate.
        subject: String,
    },
    /// The private key is of an unsupported kind.
    #[error(
        "its private key cannot be used: {0}; RSA with 2048 to 8192 bits, ECDSA with P-256 or P-384, \
         and Ed25519 can"
    )]
    PrivateKey(String),
    /// A certificate is of an unsupported kind.
    #[error("its certificate {subject} cannot be used: {reason}")]
    Certificate {
        /// The subject of the certificate.
        subject: String,
        /// Why not.
        reason: String,
    },
    /// The own certificate is no longer valid.
    #[error("its certificate {subject} expired at {time}; put a new one in its place")]
    Expired {
        /// The subject of the certificate.
        subject: String,
        /// When it expired.
        time: String,
    },
    /// The own certificate is not valid yet.
    #[error(
        "its certificate {subject} is valid from {time}, not yet; check the clock of this machine"
    )]
    NotYetValid {
        /// The subject of the certificate.
        subject: String,
        /// When it will be valid.
        time: String,
    },
    /// A password file has no text.
    #[error("it is not text in UTF-8")]
    NotText,
}

fn store_type_reason(name: &str) -> &'static str {
    match name.to_ascii_uppercase().as_str() {
        "BCFKS" => {
            "it is the format of Bouncy Castle; convert the store to PKCS12 with \
             `keytool -importkeystore -deststoretype PKCS12`"
        }
        "JCEKS" => {
            "convert the store to PKCS12 with `keytool -importkeystore -deststoretype PKCS12`"
        }
        _ => "PEM, PKCS12 and JKS are",
    }
}
