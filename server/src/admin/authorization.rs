//! Who may take a snapshot, restore one, or end connections: who holds every permission on the root
//! znode (`Commands.handleAuthentication`, `handleAuthorization`).

use std::net::SocketAddr;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use zoolet_core::{Identities, authenticate};

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

/// Checks the header `Authorization: SCHEME [CREDENTIALS]`. The scheme `ip` takes no credentials: the
/// client's address counts.
///
/// As in ZooKeeper there is no list of users. On a root znode that is open to everyone any digest
/// will do.
pub(super) fn authorize(
    engine: &Engine,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<(), Unauthorized> {
    let header = headers.get(AUTHORIZATION).ok_or(Unauthorized::Missing)?;
    let text = header.to_str().map_err(|_| Unauthorized::NotAuthenticated)?;
    let identities = identities(engine, text, peer)
        .ok_or_else(|| refused(peer, Unauthorized::NotAuthenticated))?;
    if engine.inspect(|core| core.permits_everything("/", &identities)) {
        Ok(())
    } else {
        Err(refused(peer, Unauthorized::NotAuthorized))
    }
}

fn refused(peer: SocketAddr, reason: Unauthorized) -> Unauthorized {
    tracing::warn!(address = %peer, cause = %reason, "a command of the admin server is refused");
    reason
}

/// The identities of a request. Only the scheme in its header counts: its address is an identity by
/// the scheme `ip` alone.
fn identities(engine: &Engine, header: &str, peer: SocketAddr) -> Option<Identities> {
    // Java's `split` drops empty parts at the end.
    let mut parts = header.trim_end_matches(' ').split(' ');
    let (scheme, credentials) = (parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    match (scheme, credentials) {
        ("ip", _) => Some(Identities::of_address(peer.ip())),
        (_, None) => None,
        (_, Some(credentials)) => {
            let settings = &engine.config.settings;
            authenticate(scheme, credentials.as_bytes(), &Identities::default(), settings).ok()
        }
    }
}
