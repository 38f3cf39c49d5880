//! What is looked at in a certificate: its subject, and when it is valid.

use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::{FileProblem, distinguished_name};

/// Parses a certificate. The error tells what is wrong.
pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok((rest, _)) => Err(format!("{} bytes follow a certificate", rest.len())),
        Err(error) => Err(format!("it is no X.509 certificate ({error})")),
    }
}

/// The subject, to name a certificate in a message.
pub(crate) fn subject(der: &[u8]) -> String {
    distinguished_name(der).unwrap_or_else(|_| "of an unknown subject".to_owned())
}

/// Whether the certificate is valid at this time.
pub(crate) fn check_validity(
    certificate: &CertificateDer<'_>,
    now: UnixTime,
) -> Result<(), FileProblem> {
    let parsed = parse(certificate).map_err(FileProblem::Damaged)?;
    let (validity, subject) = (parsed.validity(), || subject(certificate));
    // A time before 1970 counts as the beginning of 1970.
    let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
    if now.as_secs() > seconds(validity.not_after.timestamp()) {
        let time = validity.not_after.to_string();
        return Err(FileProblem::Expired { subject: subject(), time });
    }
    if now.as_secs() < seconds(validity.not_before.timestamp()) {
        let time = validity.not_before.to_string();
        return Err(FileProblem::NotYetValid { subject: subject(), time });
    }
    Ok(())
}
