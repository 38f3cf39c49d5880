//! Cipher suites by their names.

use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;

use crate::{Protocol, TlsError};

/// The names of all cipher suites that are supported, those preferred first: values of
/// `ssl.ciphersuites`.
///
/// ```
/// assert!(zoolet_tls::cipher_suite_names().any(|name| name == "TLS_AES_256_GCM_SHA384"));
/// ```
pub fn cipher_suite_names() -> impl Iterator<Item = String> {
    rustls::crypto::ring::ALL_CIPHER_SUITES.iter().map(name)
}

/// The name that IANA and Java give to a suite.
fn name(suite: &SupportedCipherSuite) -> String {
    // Only rustls writes TLS13 at the beginning.
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

/// A provider with these cipher suites, or with all if there are none, and those of the protocols for
/// which it has suites. The order of the suites is that of preference.
pub(crate) fn provider(
    suites: &[String],
    protocols: &[Protocol],
) -> Result<(CryptoProvider, Vec<Protocol>), TlsError> {
    let mut provider = rustls::crypto::ring::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites = suites.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    }
    // A handshake in a version without suites would fail, where the other version would do.
    let usable = |protocol: &Protocol| {
        let version = protocol.version();
        provider.cipher_suites.iter().any(|suite| suite.version() == version)
    };
    let protocols: Vec<_> = protocols.iter().copied().filter(usable).collect();
    if protocols.is_empty() {
        return Err(TlsError::NoCommonSuite(suites.join(",")));
    }
    Ok((provider, protocols))
}

fn find(wanted: &str) -> Result<SupportedCipherSuite, TlsError> {
    rustls::crypto::ring::ALL_CIPHER_SUITES
        .iter()
        .find(|suite| name(suite) == wanted)
        .copied()
        .ok_or_else(|| {
            let known = cipher_suite_names().collect::<Vec<_>>().join(", ");
            TlsError::CipherSuite { name: wanted.to_owned(), known }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_suite_is_found_by_its_name() {
        for known in cipher_suite_names() {
            assert!(known.starts_with("TLS_"), "{known}");
            assert_eq!(name(&find(&known).unwrap()), known);
        }
    }

    #[test]
    fn an_unknown_suite_is_told_with_those_that_are_known() {
        let error = find("TLS_RSA_WITH_AES_128_CBC_SHA").unwrap_err().to_string();
        assert!(error.contains("TLS_RSA_WITH_AES_128_CBC_SHA is not supported"), "{error}");
        assert!(error.contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "{error}");
    }

    #[test]
    fn a_protocol_without_suites_is_not_offered() {
        let suites = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned()];
        let (_, protocols) = provider(&suites, &Protocol::ALL).unwrap();
        assert_eq!(protocols, [Protocol::Tls12]);
        assert!(provider(&suites, &[Protocol::Tls13]).is_err());
    }
}
