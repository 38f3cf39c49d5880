//! Certificate revocation lists.

use std::path::Path;

use rustls::pki_types::{CertificateRevocationListDer, UnixTime};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::store::pem_damage;
use crate::{FileProblem, TlsError, TlsFile, files};

/// Reads the lists of a file, in PEM or DER.
pub(crate) fn load(
    path: &Path,
    now: UnixTime,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let file = TlsFile::RevocationList;
    let bytes = files::read(file, path)?;
    let lists = lists(&bytes).map_err(|problem| files::problem(file, path, problem))?;
    for list in &lists {
        check(list, path, now).map_err(|problem| files::problem(file, path, problem))?;
    }
    Ok(lists)
}

fn lists(bytes: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, FileProblem> {
    // The first byte of DER's SEQUENCE.
    if bytes.first() == Some(&0x30) {
        return Ok(vec![bytes.to_vec().into()]);
    }
    let mut lists = Vec::new();
    for block in Pem::iter_from_buffer(bytes) {
        let Pem { label, contents } = block.map_err(|error| pem_damage(&error))?;
        if label == "X509 CRL" {
            lists.push(contents.into());
        }
    }
    if lists.is_empty() { Err(FileProblem::NoRevocationList) } else { Ok(lists) }
}

fn check(der: &[u8], path: &Path, now: UnixTime) -> Result<(), FileProblem> {
    let (_, list) = CertificateRevocationList::from_der(der)
        .map_err(|error| FileProblem::Damaged(format!("it is no revocation list ({error})")))?;
    let Some(next) = list.next_update() else { return Ok(()) };
    // A list may expire at any time, and a server that is started then must say why it accepts nobody.
    if u64::try_from(next.timestamp()).unwrap_or(0) < now.as_secs() {
        tracing::warn!(
            file = %path.display(), since = %next,
            "a certificate revocation list has expired: no certificate of its issuer is accepted; put \
             a new list in its place"
        );
    }
    Ok(())
}
