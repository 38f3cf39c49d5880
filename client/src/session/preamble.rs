//! The preamble of a connection: the SASL tokens, credentials and watches, which the server has before any
//! other request.
//!
//! A server that closes the connection there, as at a request longer than its `jute.maxbuffer`, has renewed
//! the session by then. A client that always came back would keep its session for ever, could do nothing in
//! it, and would block whoever waits for its locks. So it gives the session up, as where it reaches no server.

use zoolet_protocol::{Xid, encode_request};

use super::{Phase, Session};
use crate::clock::Instant;
use crate::rewatch;
use crate::state::ConnectionState;

/// The session is given up only after so many connections: one that is lost early may be an accident.
const UNANSWERED_MIN: u32 = 3;

/// Whether the servers answer what connections begin with.
#[derive(Debug, Default)]
pub(super) struct Preamble {
    /// The requests of this connection's preamble that have no reply.
    waiting: usize,
    /// The last connections, if they were lost before theirs was answered.
    unanswered: Option<Unanswered>,
}

/// Connections in a row that were lost before their preamble was answered.
#[derive(Debug)]
struct Unanswered {
    connections: u32,
    /// When something came last over the first of them.
    since: Instant,
}

impl Preamble {
    /// So many requests are sent.
    fn begin(&mut self, requests: usize) {
        self.waiting = requests;
        self.end_if_answered();
    }

    /// The reply to one of them came.
    pub(super) fn handle_answer(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        self.end_if_answered();
    }

    fn end_if_answered(&mut self) {
        if self.waiting == 0 {
            self.unanswered = None;
        }
    }

    fn handle_lost(&mut self, last_received: Instant) {
        let first = Unanswered { connections: 0, since: last_received };
        self.unanswered.get_or_insert(first).connections += 1;
    }

    /// Since when no preamble was answered, if several connections in a row were lost before.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        let unanswered = self.unanswered.as_ref()?;
        (unanswered.connections >= UNANSWERED_MIN).then_some(unanswered.since)
    }
}

impl Session {
    /// Sends what the server must have before requests, and the requests that have waited.
    pub(super) fn begin_requests(&mut self, is_read_only: bool, now: Instant) {
        let is_first = self.state.is_none();
        self.phase = Phase::Connected;
        self.send_credentials(now);
        let registrations = rewatch::registrations(self.watches.paths(), self.answered_zxid);
        self.rewatching = registrations.len();
        for request in registrations {
            self.outgoing.push_back(encode_request(Xid::SET_WATCHES, &request));
        }
        self.preamble.begin(self.authenticating.len() + self.rewatching);
        for (submission, _) in std::mem::take(&mut self.queued) {
            self.submit(submission, now);
        }
        self.change(match is_read_only {
            true => ConnectionState::ReadOnly,
            false if is_first => ConnectionState::Connected,
            false => ConnectionState::Reconnected,
        });
    }

    /// Notes that a connection was lost, if that was before its preamble was answered. The exchange of
    /// SASL tokens is part of it.
    pub(super) fn note_unanswered_preamble(&mut self, before: Phase) {
        self.suspect_credentials();
        let is_unanswered = match before {
            Phase::Authenticating => true,
            Phase::Connected => self.preamble.waiting > 0,
            _ => false,
        };
        if is_unanswered {
            self.preamble.handle_lost(self.last_received);
        }
    }

    /// To be called when the session is given up. If that is because no preamble was answered, logs a warning, and
    /// drops the credentials that may be the cause. The watches end with the session.
    pub(super) fn drop_what_no_server_answers(&mut self) {
        if self.preamble.unanswered_since().is_none() {
            return;
        }
        tracing::warn!(
            session = %self.id,
            "one connection after the other was lost before the server had answered the credentials and the \
             watches with which it began, so that the client gives up its session; a server ends a connection \
             at a request that is longer than its jute.maxbuffer"
        );
        self.drop_suspect_credentials();
    }
}
