//! Warnings that any client can cause, and so must not fill a log.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::registry::Peer;
use crate::limits::WARNING_PAUSE_MS;

/// The warnings of an engine. Those of one kind do not hold back those of another.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    /// Of connections that were closed for an error.
    pub(crate) connections: Pace,
    /// Of connections that were closed for what they sent.
    frames: Pace,
    authentication: Pace,
    refusals: Pace,
    commands: Pace,
}

impl Warnings {
    /// Logs why a connection was closed.
    pub(crate) fn connection_closed(&self, peer: &Peer, now_ms: u64, why: &dyn fmt::Display) {
        tell_of_closed(self.connections.admit(now_ms), peer, why);
    }

    /// Logs why a connection was closed that sent what is no frame, or one that is too long.
    pub(crate) fn frame_refused(&self, peer: &Peer, now_ms: u64, why: &dyn fmt::Display) {
        tell_of_closed(self.frames.admit(now_ms), peer, why);
    }

    /// Logs why a client did not get an identity.
    pub(crate) fn authentication_failed(&self, peer: &Peer, now_ms: u64, cause: &str) {
        let (address, session) = (peer.address_text(), peer.stats.session());
        match self.authentication.admit(now_ms) {
            None => tracing::debug!(address, %session, cause, "authentication failed"),
            Some(0) => tracing::warn!(address, %session, cause, "authentication failed"),
            Some(others) => tracing::warn!(
                address,
                %session,
                cause,
                others,
                "authentication failed, as others before it"
            ),
        }
    }

    /// Logs why a connection was not opened.
    pub(crate) fn connection_refused(
        &self,
        address: SocketAddr,
        now_ms: u64,
        why: &dyn fmt::Display,
    ) {
        match self.refusals.admit(now_ms) {
            None => tracing::debug!(%address, cause = %why, "connection refused"),
            Some(0) => tracing::warn!(%address, cause = %why, "connection refused"),
            Some(others) => tracing::warn!(
                %address,
                cause = %why,
                others,
                "connection refused, as others before it"
            ),
        }
    }

    /// Logs why a command of the admin server was refused.
    #[cfg_attr(not(feature = "admin"), expect(dead_code, reason = "there is no admin server"))]
    pub(crate) fn command_refused(&self, peer: SocketAddr, now_ms: u64, why: &dyn fmt::Display) {
        match self.commands.admit(now_ms) {
            None => {
                tracing::debug!(address = %peer, cause = %why, "a command of the admin server is refused");
            }
            Some(others) => tracing::warn!(
                address = %peer,
                cause = %why,
                others,
                "a command of the admin server is refused"
            ),
        }
    }
}

/// Logs why a connection was closed. It is admitted with the number of those that were not.
fn tell_of_closed(admitted: Option<u64>, peer: &Peer, why: &dyn fmt::Display) {
    let (address, session) = (peer.address_text(), peer.stats.session());
    match admitted {
        None => tracing::debug!(address, %session, cause = %why, "connection closed"),
        Some(0) => tracing::warn!(address, %session, cause = %why, "connection closed"),
        Some(others) => tracing::warn!(
            address,
            %session,
            cause = %why,
            others,
            "connection closed, as others before it"
        ),
    }
}

/// Lets one warning of a kind pass in a second.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// From when on one may pass, in milliseconds of the caller's clock.
    next_ms: AtomicU64,
    /// How many did not pass since the last.
    held_back: AtomicU64,
}

impl Pace {
    /// The number of those that did not pass since the last, if one may pass now.
    pub(crate) fn admit(&self, now_ms: u64) -> Option<u64> {
        let due = |next_ms| (next_ms <= now_ms).then_some(now_ms + WARNING_PAUSE_MS);
        if self.next_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok() {
            Some(self.held_back.swap(0, Ordering::Relaxed))
        } else {
            self.held_back.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_a_second_tells_how_many_others_there_were() {
        let pace = Pace::default();
        assert_eq!(pace.admit(0), Some(0));
        assert_eq!(pace.admit(10), None);
        assert_eq!(pace.admit(999), None);
        assert_eq!(pace.admit(1_000), Some(2));
        assert_eq!(pace.admit(1_001), None);
    }
}
