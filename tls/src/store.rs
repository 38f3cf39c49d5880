//! Key and trust stores.

mod jks;
mod pem;
mod pkcs12;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustls::pki_types::CertificateDer;

use crate::private_key::KeyEntry;
use crate::{FileProblem, Secret, TlsError, TlsFile, certificate, files};

/// A key store or a trust store: a file, its password and its type.
///
/// | type | key store | trust store |
/// |---|---|---|
/// | PEM | the private key (PKCS#8, encrypted or not, PKCS#1 or SEC1), its certificate, then those of the authorities | all certificates |
/// | PKCS12 | the first private key and its certificates | the trusted certificates; all that are no key's, if the file has no private key |
/// | JKS | the first private key and its certificates | the trusted certificates |
///
/// As in Java, a certificate of a private key in a PKCS12 or JKS trust store is trusted too. The key
/// has the password of the store.
///
/// ```
/// use zoolet_tls::{Secret, Store, StoreType};
///
/// let store = Store::new("/etc/zookeeper/keystore")
///     .store_type(StoreType::Pkcs12)
///     .password(Secret::from("changeit"));
/// assert_eq!(store.location(), std::path::Path::new("/etc/zookeeper/keystore"));
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    location: PathBuf,
    key_file: Option<PathBuf>,
    password: Option<Secret>,
    password_file: Option<PathBuf>,
    store_type: Option<StoreType>,
}

impl Store {
    /// A store in this file: `ssl.keyStore.location` or `ssl.trustStore.location`.
    pub fn new(location: impl Into<PathBuf>) -> Self {
        Self {
            location: location.into(),
            key_file: None,
            password: None,
            password_file: None,
            store_type: None,
        }
    }

    /// The password: `ssl.keyStore.password` or `ssl.trustStore.password`.
    #[must_use]
    pub fn password(mut self, password: Secret) -> Self {
        self.password = Some(password);
        self
    }

    /// The file that has the password: `ssl.keyStore.passwordPath` or
    /// `ssl.trustStore.passwordPath`. It is read each time that the store is, and wins over a
    /// password. The end of its last line does not count.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.password_file = Some(path.into());
        self
    }

    /// The type: `ssl.keyStore.type` or `ssl.trustStore.type`. By default the name tells it, which ends
    /// with `.pem`, `.p12`, `.pfx` or `.jks`.
    ///
    /// As in Java, a store of type PKCS12 may be a JKS file, and one of type JKS a PKCS12 file.
    #[must_use]
    pub fn store_type(mut self, store_type: StoreType) -> Self {
        self.store_type = Some(store_type);
        self
    }

    /// The private key of a PEM key store, if it is in a file of its own. ZooKeeper has no key for
    /// this. The type is PEM by default then.
    #[must_use]
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.key_file = Some(path.into());
        self
    }

    /// The file.
    #[must_use]
    pub fn location(&self) -> &Path {
        &self.location
    }

    /// The files that are read.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let others = [&self.key_file, &self.password_file];
        others.into_iter().flatten().map(PathBuf::as_path).chain([self.location()])
    }

    /// Reads a private key and its certificates.
    pub(crate) fn load_key(&self) -> Result<KeyEntry, TlsError> {
        let file = TlsFile::KeyStore;
        let contents = self.read(file)?;
        let password = self.read_password()?;
        let entry = match contents.format {
            Format::Pem => match &self.key_file {
                Some(path) => return self.load_pem_pair(&contents.bytes, path, password.as_ref()),
                None => pem::key_entry(&contents.bytes, password.as_ref()),
            },
            Format::Pkcs12 => pkcs12::key_entry(&contents.bytes, password.as_ref()),
            Format::Jks => jks::key_entry(&contents.bytes, password.as_ref()),
        };
        entry.map_err(|problem| self.problem(file, problem))
    }

    fn load_pem_pair(
        &self,
        bytes: &[u8],
        key_path: &Path,
        password: Option<&Secret>,
    ) -> Result<KeyEntry, TlsError> {
        let chain =
            pem::certificates(bytes).map_err(|problem| self.problem(TlsFile::KeyStore, problem))?;
        let file = TlsFile::PrivateKey;
        let key = pem::private_key(&files::read(file, key_path)?, password)
            .map_err(|problem| files::problem(file, key_path, problem))?;
        Ok(KeyEntry { key, chain })
    }

    /// Reads the certificates that are trusted: at least one, and each can be parsed.
    pub(crate) fn load_trusted(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let file = TlsFile::TrustStore;
        let contents = self.read(file)?;
        let password = self.read_password()?;
        let trusted = match contents.format {
            Format::Pem => pem::certificates(&contents.bytes),
            Format::Pkcs12 => pkcs12::trusted(&contents.bytes, password.as_ref()),
            Format::Jks => jks::trusted(&contents.bytes, password.as_ref()),
        };
        let trusted = trusted.map_err(|problem| self.problem(file, problem))?;
        if trusted.is_empty() {
            return Err(self.problem(file, FileProblem::NoCertificate(" that is trusted")));
        }
        for (index, der) in trusted.iter().enumerate() {
            certificate::parse(der).map_err(|reason| {
                let reason = format!("certificate {}: {reason}", index + 1);
                self.problem(file, FileProblem::Damaged(reason))
            })?;
        }
        Ok(trusted)
    }

    pub(crate) fn problem(&self, file: TlsFile, problem: FileProblem) -> TlsError {
        files::problem(file, &self.location, problem)
    }

    fn read(&self, file: TlsFile) -> Result<Contents, TlsError> {
        // First of all, whether there is such a file.
        let bytes = files::read(file, &self.location)?;
        let store_type = self.found_type(file)?;
        let format = format(store_type, &bytes).map_err(|problem| self.problem(file, problem))?;
        Ok(Contents { format, bytes })
    }

    fn found_type(&self, file: TlsFile) -> Result<StoreType, TlsError> {
        if let Some(store_type) = self.store_type {
            return Ok(store_type);
        }
        if self.key_file.is_some() {
            return Ok(StoreType::Pem);
        }
        let extension = self.location.extension().unwrap_or_default().to_string_lossy();
        match extension.to_ascii_lowercase().as_str() {
            "pem" => Ok(StoreType::Pem),
            "p12" | "pfx" => Ok(StoreType::Pkcs12),
            "jks" => Ok(StoreType::Jks),
            "bcfks" => Err(TlsError::StoreType { name: "BCFKS".to_owned() }),
            _ => Err(self.problem(file, FileProblem::UnknownType)),
        }
    }

    /// An empty password is no password, as in ZooKeeper.
    fn read_password(&self) -> Result<Option<Secret>, TlsError> {
        let password = match &self.password_file {
            Some(path) => Some(files::read_password(path)?),
            None => self.password.clone(),
        };
        Ok(password.filter(|password| !password.expose().is_empty()))
    }
}

/// What is wrong with a block in PEM.
pub(crate) fn pem_damage(error: &x509_parser::error::PEMError) -> FileProblem {
    pem::damaged(error)
}

struct Contents {
    format: Format,
    bytes: zeroize::Zeroizing<Vec<u8>>,
}

/// What a file is, whatever type is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Pem,
    Pkcs12,
    Jks,
}

fn format(store_type: StoreType, bytes: &[u8]) -> Result<Format, FileProblem> {
    // The first byte of DER's SEQUENCE.
    let (is_jks, is_der) = (bytes.starts_with(&jks::MAGIC), bytes.first() == Some(&0x30));
    let is_pem = bytes.windows(pem::BEGIN.len()).any(|window| window == pem::BEGIN);
    let found = match (is_jks, is_der, is_pem) {
        (true, ..) => "a JKS file",
        (_, true, _) => "a file in DER, perhaps PKCS12",
        (.., true) => "a PEM file",
        _ if bytes.starts_with(&jks::JCEKS_MAGIC) => "a JCEKS file",
        _ if bytes.is_empty() => "empty",
        _ => "something else",
    };
    match store_type {
        StoreType::Pem if is_jks || is_der || !is_pem => {
            Err(FileProblem::WrongFormat { expected: "a PEM file", found })
        }
        StoreType::Pem => Ok(Format::Pem),
        // Java's `keystore.type.compat`.
        StoreType::Pkcs12 | StoreType::Jks if is_jks => Ok(Format::Jks),
        StoreType::Pkcs12 | StoreType::Jks if is_der => Ok(Format::Pkcs12),
        StoreType::Pkcs12 => Err(FileProblem::WrongFormat { expected: "a PKCS12 file", found }),
        StoreType::Jks => Err(FileProblem::WrongFormat { expected: "a JKS file", found }),
    }
}

/// The type of a store, by ZooKeeper's name.
///
/// ```
/// use zoolet_tls::StoreType;
///
/// assert_eq!("pkcs12".parse::<StoreType>()?, StoreType::Pkcs12);
/// assert!("BCFKS".parse::<StoreType>().is_err());
/// # Ok::<(), zoolet_tls::TlsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreType {
    /// Text with keys and certificates in Base64.
    Pem,
    /// PKCS#12, the default of Java's keytool.
    Pkcs12,
    /// Java's older format.
    Jks,
}

impl fmt::Display for StoreType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pem => "PEM",
            Self::Pkcs12 => "PKCS12",
            Self::Jks => "JKS",
        })
    }
}

impl FromStr for StoreType {
    type Err = TlsError;

    fn from_str(name: &str) -> Result<Self, TlsError> {
        [Self::Pem, Self::Pkcs12, Self::Jks]
            .into_iter()
            .find(|known| known.to_string().eq_ignore_ascii_case(name))
            .ok_or_else(|| TlsError::StoreType { name: name.to_owned() })
    }
}
