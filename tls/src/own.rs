//! The own private key and certificate, of a server or a client.

use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use crate::certificate::check_validity;
use crate::{Store, TlsError, TlsFile, clock};

/// What to do about an own certificate that is not valid now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Warn, as at the start: when the certificate is renewed all is well, without a restart.
    Warned,
    /// Fail, as at a reload: the certificate before is at least as good.
    Refused,
}

/// Reads the key and the certificates of a store, and checks that they fit.
pub(crate) fn load(
    store: &Store,
    provider: &CryptoProvider,
    expired: Expired,
) -> Result<CertifiedKey, TlsError> {
    let problem = |problem| store.problem(TlsFile::KeyStore, problem);
    let certified = store.load_key()?.certified(provider).map_err(problem)?;
    let validity = certified.cert.first().map_or(Ok(()), |own| check_validity(own, clock::now()));
    match (validity, expired) {
        (Ok(()), _) => {}
        (Err(invalid), Expired::Refused) => return Err(problem(invalid)),
        (Err(invalid), Expired::Warned) => {
            tracing::warn!("{}. Until then others refuse it", problem(invalid));
        }
    }
    Ok(certified)
}
