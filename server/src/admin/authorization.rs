//! Who may take a snapshot, restore one, or end connections: who holds every permission on the root
//! znode (`Commands.handleAuthentication`, `handleAuthorization`).

use std::net::{IpAddr, SocketAddr};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use zoolet_core::{Identities, authenticate};

use super::commands::Asked;
use super::http::OverTls;
use super::server::Admin;
use crate::engine::audit::Administrator;
use crate::engine::lock::Engine;

/// Why a command is refused, by ZooKeeper's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unauthorized {
    #[error("Auth info is missing for the command")]
    Missing,
    #[error("Not authenticated")]
    NotAuthenticated,
    #[error("Not authorized")]
    NotAuthorized,
}

impl Unauthorized {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::NotAuthenticated => StatusCode::UNAUTHORIZED,
            Self::NotAuthorized => StatusCode::FORBIDDEN,
        }
    }
}

/// Who asks, by the header `Authorization: SCHEME [CREDENTIALS]`. The schemes `ip` and `x509` take no
/// credentials: the client's address counts, or its certificate.
///
/// As in ZooKeeper there is no list of users. On a root znode that is open to everyone any digest
/// will do.
pub(super) fn authorize(admin: &Admin, asked: &Asked) -> Result<Administrator, Unauthorized> {
    let (engine, headers, peer) = (&admin.engine, &asked.headers, asked.peer);
    let header = headers.get(AUTHORIZATION).ok_or(Unauthorized::Missing)?;
    let text = header.to_str().map_err(|_| Unauthorized::NotAuthenticated)?;
    let over_tls = asked.over_tls.as_ref();
    let client = client(admin, headers, peer);
    let identities = identities(engine, text, client, over_tls)
        .ok_or_else(|| refused(engine, peer, Unauthorized::NotAuthenticated))?;
    if engine.inspect(|core| core.permits_everything("/", &identities)) {
        Ok(Administrator { identities, address: client.unwrap_or_else(|| peer.ip()) })
    } else {
        Err(refused(engine, peer, Unauthorized::NotAuthorized))
    }
}

fn refused(engine: &Engine, peer: SocketAddr, reason: Unauthorized) -> Unauthorized {
    engine.warnings.command_refused(peer, engine.clock.now_ms(), &reason);
    reason
}

/// The address of the client: of the connection, or what a proxy says; `None` if that is no address
/// (`IPAuthenticationProvider.getClientIPAddress`).
fn client(admin: &Admin, headers: &HeaderMap, peer: SocketAddr) -> Option<IpAddr> {
    let forwarded = headers.get("x-forwarded-for").filter(|_| admin.config.trust_forwarded_for);
    let Some(forwarded) = forwarded else { return Some(peer.ip()) };
    forwarded.to_str().ok()?.split(',').next()?.trim().parse().ok()
}

/// The identities of a request. Only the scheme in its header counts: its address is an identity by
/// the scheme `ip` alone.
fn identities(
    engine: &Engine,
    header: &str,
    client: Option<IpAddr>,
    over_tls: Option<&OverTls>,
) -> Option<Identities> {
    // Java's `split` drops empty parts at the end.
    let mut parts = header.trim_end_matches(' ').split(' ');
    let (scheme, credentials) = (parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    match (scheme, credentials) {
        ("ip", _) => Some(Identities::of_address(client?)),
        ("x509", _) => of_certificate(engine, over_tls?),
        (_, None) => None,
        (_, Some(credentials)) => {
            let settings = &engine.config.settings;
            authenticate(scheme, credentials.as_bytes(), &Identities::default(), settings).ok()
        }
    }
}

/// The identity of a client's certificate. It counts if clients with it are accepted on the port for
/// clients too: the admin server may trust other authorities, which name other people
/// (`X509AuthenticationProvider`, whose trust store is that of `ssl.trustStore`).
#[cfg(feature = "tls")]
fn of_certificate(engine: &Engine, over_tls: &OverTls) -> Option<Identities> {
    use zoolet_core::authenticate_certificate;
    use zoolet_tls::{distinguished_name, rustls::pki_types::CertificateDer};

    let stores = &engine.config.tls.as_ref()?.stores;
    let certificates = over_tls.certificates.iter();
    let certificates: Vec<_> =
        certificates.map(|der| CertificateDer::from(der.as_slice())).collect();
    if let Err(error) = stores.verify_client(&certificates) {
        tracing::warn!(cause = %error, "a certificate is no identity for the admin server");
        return None;
    }
    let subject = distinguished_name(certificates.first()?).ok()?;
    let settings = &engine.config.settings;
    authenticate_certificate(&subject, &Identities::default(), settings).ok()
}

#[cfg(not(feature = "tls"))]
fn of_certificate(_engine: &Engine, _over_tls: &OverTls) -> Option<Identities> {
    None
}
