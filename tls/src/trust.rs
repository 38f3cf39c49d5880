//! What the certificates of others are verified with.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

use crate::{FileProblem, Store, TlsError, TlsFile, certificate, clock, crl};

/// What the certificates of others are verified with.
pub(crate) struct Trust {
    pub(crate) provider: Arc<CryptoProvider>,
    /// The issuers.
    pub(crate) roots: RootCertStore,
    /// Certificates that are accepted themselves.
    pub(crate) pinned: Vec<CertificateDer<'static>>,
    pub(crate) crls: Vec<CertificateRevocationListDer<'static>>,
}

impl Trust {
    /// The certificates of a store, or of this system if there is none.
    pub(crate) fn load(
        store: Option<&Store>,
        crl_files: &[PathBuf],
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let (pinned, roots) = match store {
            Some(store) => {
                let trusted = store.load_trusted()?;
                let roots = roots(&trusted, store)?;
                (trusted, roots)
            }
            None => (Vec::new(), system_roots()?),
        };
        let mut crls = Vec::new();
        for path in crl_files {
            crls.extend(crl::load(path, clock::now())?);
        }
        Ok(Self { provider, roots, pinned, crls })
    }
}

fn roots(trusted: &[CertificateDer<'static>], store: &Store) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for trusted in trusted {
        roots.add(trusted.clone()).map_err(|error| {
            let subject = certificate::subject(trusted);
            let problem = FileProblem::Certificate { subject, reason: error.to_string() };
            store.problem(TlsFile::TrustStore, problem)
        })?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems have certificates that nobody can use.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let first =
        found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
    Err(TlsError::SystemTrust(first))
}
