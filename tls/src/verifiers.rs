//! Who is accepted as a client or as a server.
//!
//! Chains are verified by webpki, as rustls does by itself. Two things are as in Java: a peer may show
//! a certificate that is itself in the trust store, even one that could issue others, as OpenSSL
//! makes them by default; and the name of a server need not be verified.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::certificate::{check_validity, parse};
use crate::trust::Trust;
use crate::{ClientAuth, HostnameVerification, TlsError};

/// Verifies clients.
pub(crate) fn clients(
    trust: Trust,
    client_auth: ClientAuth,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Trust { provider, roots, pinned, crls } = trust;
    let pinned = Pinned::new(pinned, &crls);
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
        .with_crls(crls)
        // As in Java, a list that has expired tells nothing.
        .enforce_revocation_expiration();
    if client_auth == ClientAuth::Want {
        builder = builder.allow_unauthenticated();
    }
    let chains = builder.build().map_err(builder_error)?;
    Ok(Arc::new(Clients { chains, pinned }))
}

/// Verifies servers.
pub(crate) fn servers(
    trust: Trust,
    names: HostnameVerification,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let Trust { provider, roots, pinned, crls } = trust;
    let pinned = Pinned::new(pinned, &crls);
    let chains = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
        .with_crls(crls)
        .enforce_revocation_expiration()
        .build()
        .map_err(builder_error)?;
    Ok(Arc::new(Servers { chains, pinned, names }))
}

fn builder_error(error: VerifierBuilderError) -> TlsError {
    TlsError::Config(Error::General(error.to_string()))
}

/// Certificates that are accepted because they are in the trust store.
#[derive(Debug)]
struct Pinned(Vec<CertificateDer<'static>>);

impl Pinned {
    /// With revocation lists each certificate must have one that tells its status, so none is
    /// accepted without.
    fn new(
        certificates: Vec<CertificateDer<'static>>,
        crls: &[CertificateRevocationListDer<'_>],
    ) -> Self {
        Self(if crls.is_empty() { certificates } else { Vec::new() })
    }

    /// Whether the certificate is one of these, valid now, and made for this use if it tells one.
    fn accepts(&self, certificate: &CertificateDer<'_>, now: UnixTime, purpose: Purpose) -> bool {
        self.0.iter().any(|pinned| pinned == certificate)
            && check_validity(certificate, now).is_ok()
            && purpose.is_allowed_by(certificate)
    }
}

#[derive(Debug, Clone, Copy)]
enum Purpose {
    Client,
    Server,
}

impl Purpose {
    fn is_allowed_by(self, certificate: &CertificateDer<'_>) -> bool {
        let Ok(parsed) = parse(certificate) else { return false };
        match parsed.extended_key_usage() {
            Ok(None) => true,
            Ok(Some(usage)) => {
                usage.value.any
                    || match self {
                        Self::Client => usage.value.client_auth,
                        Self::Server => usage.value.server_auth,
                    }
            }
            Err(_) => false,
        }
    }
}

#[derive(Debug)]
struct Clients {
    chains: Arc<dyn ClientCertVerifier>,
    pinned: Pinned,
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.chains.verify_client_cert(end_entity, intermediates, now).or_else(|error| {
            match self.pinned.accepts(end_entity, now, Purpose::Client) {
                true => Ok(ClientCertVerified::assertion()),
                false => Err(error),
            }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

#[derive(Debug)]
struct Servers {
    chains: Arc<WebPkiServerVerifier>,
    pinned: Pinned,
    names: HostnameVerification,
}

impl Servers {
    /// Verifies the chain, then the name. The name's error is returned only if the chain is trusted.
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        match self.chains.verify_server_cert(end_entity, intermediates, server_name, &[], now) {
            Ok(_) => Ok(()),
            Err(error) if is_about_the_name(&error) => Err(error),
            Err(_) if self.pinned.accepts(end_entity, now, Purpose::Server) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)
            }
            Err(error) => Err(error),
        }
    }
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.verify(end_entity, intermediates, server_name, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            // WebPkiServerVerifier looks at the name last, when the chain has been verified.
            Err(error) if self.names == HostnameVerification::Off && is_about_the_name(&error) => {
                Ok(ServerCertVerified::assertion())
            }
            Err(error) => Err(error),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

fn is_about_the_name(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        )
    )
}
