//! Private keys: decrypted, completed and matched with their certificates.

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Kdf;
use rustls::InconsistentKeys;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::asn1_rs::{Any, FromDer, OctetString, Sequence, Tag};
use x509_parser::x509::{AlgorithmIdentifier, X509Version};
use zeroize::Zeroizing;

use crate::limits::{PBKDF2_ROUNDS_MAX, SCRYPT_BYTES_MAX};
use crate::{FileProblem, Secret, certificate};

/// A private key and its certificate, with those of the authorities behind it.
pub(crate) struct KeyEntry {
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

impl KeyEntry {
    /// Makes the key usable, and checks that it fits the first certificate.
    pub(crate) fn certified(self, provider: &CryptoProvider) -> Result<CertifiedKey, FileProblem> {
        let first = self.chain.first().ok_or(FileProblem::NoCertificate(" for its private key"))?;
        let subject = certificate::subject(first);
        let parsed = certificate::parse(first).map_err(FileProblem::Damaged)?;
        if parsed.version() != X509Version::V3 {
            let reason =
                "it has not version 3 of X.509; issue it anew, with a subject alternative name \
                          (`openssl x509 -req` with -extfile)"
                    .to_owned();
            return Err(FileProblem::Certificate { subject, reason });
        }
        let key = match self.key {
            PrivateKeyDer::Pkcs8(key) => {
                let public_key = &parsed.public_key().subject_public_key.data;
                match with_public_key(key.secret_pkcs8_der(), public_key) {
                    Some(whole) => PrivatePkcs8KeyDer::from(whole.to_vec()).into(),
                    None => key.into(),
                }
            }
            other => other,
        };
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| FileProblem::PrivateKey(reason(&error)))?;
        let certified = CertifiedKey::new(self.chain, key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(certified)
            }
            Err(rustls::Error::InconsistentKeys(_)) => Err(FileProblem::KeyMismatch { subject }),
            Err(error) => Err(FileProblem::Certificate { subject, reason: reason(&error) }),
        }
    }
}

fn reason(error: &rustls::Error) -> String {
    match error {
        rustls::Error::General(reason) => reason.clone(),
        error => error.to_string(),
    }
}

/// Decrypts an encrypted PKCS#8 key.
pub(crate) fn decrypt(
    der: &[u8],
    password: Option<&Secret>,
) -> Result<PrivateKeyDer<'static>, FileProblem> {
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der).map_err(|_| {
        FileProblem::Encryption(
            "PBES2 with AES or Triple DES is; convert the key with `openssl pkcs8 -topk8 -v2 aes256`"
                .to_owned(),
        )
    })?;
    check_costs(&encrypted.encryption_algorithm)?;
    let password = password.ok_or(FileProblem::NoPassword)?;
    let key = encrypted.decrypt(password.expose()).map_err(|_| FileProblem::WrongPassword)?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Refuses a key whose decryption would take minutes or gigabytes.
fn check_costs(scheme: &EncryptionScheme) -> Result<(), FileProblem> {
    let EncryptionScheme::Pbes2(parameters) = scheme else { return Ok(()) };
    let is_cheap = match &parameters.kdf {
        Kdf::Pbkdf2(parameters) => parameters.iteration_count <= PBKDF2_ROUNDS_MAX,
        Kdf::Scrypt(parameters) => {
            let bytes = u64::from(parameters.block_size) * 128;
            parameters.cost_parameter.saturating_mul(bytes) <= SCRYPT_BYTES_MAX
                && parameters.parallelization <= 16
        }
        _ => false,
    };
    if is_cheap {
        return Ok(());
    }
    Err(FileProblem::Encryption(format!(
        "its key derivation asks for more than {PBKDF2_ROUNDS_MAX} rounds or {SCRYPT_BYTES_MAX} bytes"
    )))
}

/// A PKCS#8 key of an elliptic curve with the public key in it, which Java leaves out and rustls asks
/// for. None if the key has it, or is of another kind.
fn with_public_key(pkcs8: &[u8], public_key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (_, info) = Sequence::from_der(pkcs8).ok()?;
    let (rest, version) = Any::from_der(&info.content).ok()?;
    let after_version = rest;
    let (rest, algorithm) = AlgorithmIdentifier::from_der(rest).ok()?;
    if algorithm.algorithm.to_id_string() != "1.2.840.10045.2.1" {
        return None;
    }
    let algorithm_der = &after_version[..after_version.len() - rest.len()];
    let (_, key) = OctetString::from_der(rest).ok()?;
    let (_, key) = Sequence::from_der(key.as_ref()).ok()?;
    let mut fields = &key.content[..];
    while !fields.is_empty() {
        let (rest, field) = Any::from_der(fields).ok()?;
        if field.tag() == Tag(1) && field.header.is_contextspecific() {
            return None;
        }
        fields = rest;
    }
    let bits = der(0x03, &[&[0], public_key]);
    let key = der(0x30, &[&key.content, &der(0xa1, &[&bits])]);
    let version = der(0x02, &[version.data]);
    Some(der(0x30, &[&version, algorithm_der, &der(0x04, &[&key])]))
}

/// A value in DER.
fn der(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut der = Zeroizing::new(vec![tag]);
    let bytes = length.to_be_bytes();
    let significant = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    if length >= 0x80 {
        // At most eight bytes.
        der.push(0x80 | significant.len() as u8);
        der.extend_from_slice(significant);
    } else {
        der.push(length as u8);
    }
    parts.iter().for_each(|part| der.extend_from_slice(part));
    der
}
