//! Stores in PEM.

use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use x509_parser::pem::Pem;

use crate::private_key::{self, KeyEntry};
use crate::{FileProblem, Secret};

/// How a block begins.
pub(super) const BEGIN: &[u8] = b"-----BEGIN ";

/// The first private key and all certificates.
pub(super) fn key_entry(bytes: &[u8], password: Option<&Secret>) -> Result<KeyEntry, FileProblem> {
    Ok(KeyEntry { key: private_key(bytes, password)?, chain: certificates(bytes)? })
}

/// The first private key.
pub(super) fn private_key(
    bytes: &[u8],
    password: Option<&Secret>,
) -> Result<PrivateKeyDer<'static>, FileProblem> {
    // OpenSSL's older format, whose block has headers.
    if bytes.windows(OLD_ENCRYPTION.len()).any(|window| window == OLD_ENCRYPTION) {
        return Err(FileProblem::Encryption(
            "it has OpenSSL's old format; convert the key with `openssl pkcs8 -topk8`".to_owned(),
        ));
    }
    for block in Pem::iter_from_buffer(bytes) {
        let Pem { label, contents } = block.map_err(|error| damaged(&error))?;
        match label.as_str() {
            "PRIVATE KEY" => return Ok(PrivatePkcs8KeyDer::from(contents).into()),
            "RSA PRIVATE KEY" => return Ok(PrivatePkcs1KeyDer::from(contents).into()),
            "EC PRIVATE KEY" => return Ok(PrivateSec1KeyDer::from(contents).into()),
            "ENCRYPTED PRIVATE KEY" => return private_key::decrypt(&contents, password),
            _ => {}
        }
    }
    Err(FileProblem::NoPrivateKey)
}

/// All certificates.
pub(super) fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    let mut certificates = Vec::new();
    for block in Pem::iter_from_buffer(bytes) {
        let Pem { label, contents } = block.map_err(|error| damaged(&error))?;
        if ["CERTIFICATE", "X509 CERTIFICATE"].contains(&label.as_str()) {
            certificates.push(CertificateDer::from(contents));
        }
    }
    Ok(certificates)
}

const OLD_ENCRYPTION: &[u8] = b"Proc-Type: 4,ENCRYPTED";

pub(super) fn damaged(error: &x509_parser::error::PEMError) -> FileProblem {
    use x509_parser::error::PEMError;
    FileProblem::Damaged(match error {
        PEMError::Base64DecodeError => "a block is not Base64".to_owned(),
        PEMError::IncompletePEM => "a block has no END line".to_owned(),
        other => other.to_string(),
    })
}
