//! Warnings that any client can cause, and so must not fill a log.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::registry::Peer;
use crate::limits::HANDSHAKE_WARNING_PAUSE_MS;

/// Lets a warning pass now and then.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    /// From when on one may pass, in milliseconds of the server's clock.
    next_ms: AtomicU64,
    /// How many did not pass since the last.
    held_back: AtomicU64,
}

impl Warnings {
    /// Logs why a connection was closed: as a warning if one may pass now, with the number of those
    /// that did not pass since the last.
    pub(crate) fn connection_closed(&self, peer: &Peer, now_ms: u64, why: &dyn fmt::Display) {
        let (address, session) = (peer.address_text(), peer.stats.session());
        match self.admit(now_ms) {
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

    /// The number of those that did not pass since the last, if one may pass now.
    pub(crate) fn admit(&self, now_ms: u64) -> Option<u64> {
        let due = |next_ms| (next_ms <= now_ms).then_some(now_ms + HANDSHAKE_WARNING_PAUSE_MS);
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
        let warnings = Warnings::default();
        assert_eq!(warnings.admit(0), Some(0));
        assert_eq!(warnings.admit(10), None);
        assert_eq!(warnings.admit(999), None);
        assert_eq!(warnings.admit(1_000), Some(2));
        assert_eq!(warnings.admit(1_001), None);
    }
}
