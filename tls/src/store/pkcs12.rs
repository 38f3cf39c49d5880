//! Stores in PKCS#12.

use p12_keystore::error::Error;
use p12_keystore::{CertificateBag, Pkcs12Archive, PrivateKeyBag};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::private_key::KeyEntry;
use crate::{FileProblem, Secret};

/// The first private key, its certificate, and those of its authorities.
pub(super) fn key_entry(bytes: &[u8], password: Option<&Secret>) -> Result<KeyEntry, FileProblem> {
    let archive = read(bytes, password)?;
    let key = archive.keys.first().ok_or(FileProblem::NoPrivateKey)?;
    let chain = chain(&archive, key);
    Ok(KeyEntry { key: PrivatePkcs8KeyDer::from(key.key.as_der().to_vec()).into(), chain })
}

/// The certificates that Java's attribute marks as trusted, and those of private keys. A file without
/// that attribute and without keys, as OpenSSL writes it, has only certificates to trust.
pub(super) fn trusted(
    bytes: &[u8],
    password: Option<&Secret>,
) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    let archive = read(bytes, password)?;
    let marked = archive.certs.iter().filter(|bag| bag.trusted);
    let of_keys = archive.keys.iter().filter_map(|key| own_certificate(&archive, key));
    let mut trusted: Vec<_> = marked.chain(of_keys).map(der).collect();
    if trusted.is_empty() && archive.keys.is_empty() {
        trusted = archive.certs.iter().map(der).collect();
    }
    Ok(trusted)
}

fn read(bytes: &[u8], password: Option<&Secret>) -> Result<Pkcs12Archive, FileProblem> {
    let text = password.map_or("", Secret::expose);
    Pkcs12Archive::from_pkcs12(bytes, text).map_err(|error| match error {
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) if password.is_none() => {
            FileProblem::NoPassword
        }
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) => FileProblem::WrongPassword,
        Error::UnsupportedEncryptionScheme | Error::UnsupportedMacAlgorithm => {
            FileProblem::Encryption(
                "AES and Triple DES with SHA-1 or SHA-2 are; convert it with `keytool -importkeystore`"
                    .to_owned(),
            )
        }
        Error::InvalidParameters => FileProblem::Encryption(
            "its key derivation asks for too many rounds or too much memory".to_owned(),
        ),
        other => FileProblem::Damaged(format!("it is no PKCS12 file ({other})")),
    })
}

/// The certificate with the id of the key; if the key has no id, the only one of the file or the
/// first one without an id.
fn own_certificate<'a>(
    archive: &'a Pkcs12Archive,
    key: &PrivateKeyBag,
) -> Option<&'a CertificateBag> {
    let id = key.local_key_id.as_ref().map(AsRef::as_ref);
    archive.certs.iter().find(|bag| bag.local_key_id.as_deref() == id)
}

/// The certificate of a key, and those of its authorities, each after one that it has issued.
fn chain(archive: &Pkcs12Archive, key: &PrivateKeyBag) -> Vec<CertificateDer<'static>> {
    let mut chain = Vec::new();
    let mut next = own_certificate(archive, key);
    while let Some(bag) = next {
        chain.push(bag);
        // A certificate comes only once, so that issuers in a circle end.
        next = archive.certs.iter().find(|issuer| {
            issuer.cert.subject() == bag.cert.issuer()
                && !chain.iter().any(|known| known.cert == issuer.cert)
        });
    }
    chain.into_iter().map(der).collect()
}

fn der(bag: &CertificateBag) -> CertificateDer<'static> {
    CertificateDer::from(bag.cert.as_der().to_vec())
}
