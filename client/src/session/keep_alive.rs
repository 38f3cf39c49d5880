//! When the session lets the server hear from it, and for how long it waits to hear from the server.

use std::time::Duration;

use zoolet_protocol::{Request, SessionRequest, Xid, encode_request};

use super::Session;
use crate::clock::Instant;

/// The longest silence before a ping, as in ZooKeeper's client.
const PING_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// The part of the session timeout by which a ping may be delayed because a proof is due soon.
const PING_PUT_OFF_MAX: u32 = 12;

impl Session {
    /// Lets the server hear from the session.
    pub(super) fn keep_alive(&mut self, now: Instant) {
        match self.proof.syncs_as_ping() {
            true => self.send_sync(now),
            false => self.send_ping(now),
        }
    }

    pub(super) fn send_ping(&mut self, now: Instant) {
        let ping = Request::Session(SessionRequest::Ping);
        self.outgoing.push_back(encode_request(Xid::PING, &ping));
        self.pings.push_back(now);
        self.proof.handle_ping_sent();
        self.last_sent = now;
    }

    /// When to ping, if the next request for the proof is sent at `proof`.
    pub(super) fn ping_at(&self, proof: Option<Instant>) -> Instant {
        let at = self.last_sent + (self.timeout / 3).min(PING_INTERVAL_MAX);
        // A request for the proof that is due soon replaces the ping.
        match proof {
            Some(proof) if proof < at + self.timeout / PING_PUT_OFF_MAX => at.max(proof),
            _ => at,
        }
    }

    pub(super) fn silent_at(&self) -> Instant {
        self.last_received + self.timeout * 2 / 3
    }

    /// When the client must take a session without a connection to be expired. A connection whose preamble was
    /// not answered counts as none, where several in a row were like that.
    pub(super) fn lost_at(&self) -> Option<Instant> {
        let since = self.preamble.unanswered_since().unwrap_or(self.last_received);
        (!self.id.is_none()).then(|| since + self.timeout)
    }
}
