//! What each connection begins with: the credentials and the watches, which the server has before any
//! request.
//!
//! A server that closes the connection there, as at a request longer than its `jute.maxbuffer`, has renewed
//! the session by then. A client that always came back would keep its session for ever, could do nothing in
//! it, and would block whoever waits for its locks. So it gives the session up, as where no server answers.

use zoolet_protocol::{Xid, encode_request};

use super::{Phase, Session};
use crate::clock::Instant;
use crate::rewatch;
use crate::state::ConnectionState;

/// The session is given up only after so many connections: one that is lost early is no refusal.
const REFUSALS_MIN: u32 = 3;

/// Whether the servers answer what connections begin with.
#[derive(Debug, Default)]
pub(super) struct Preamble {
    /// The requests of this connection's preamble that have no reply.
    unanswered: usize,
    /// The connections in a row that were lost before it was answered.
    refusals: Option<Refusals>,
}

#[derive(Debug)]
struct Refusals {
    connections: u32,
    /// When something came last over the first of them.
    since: Instant,
}

impl Preamble {
    /// So many requests are sent.
    fn begin(&mut self, requests: usize) {
        self.unanswered = requests;
    }

    /// The reply to one of them came.
    pub(super) fn handle_answer(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered == 0 {
            self.refusals = None;
        }
    }

    fn handle_refusal(&mut self, last_received: Instant) {
        let first = Refusals { connections: 0, since: last_received };
        self.refusals.get_or_insert(first).connections += 1;
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
        let is_unanswered = match before {
            Phase::Authenticating => true,
            Phase::Connected => self.preamble.unanswered > 0,
            _ => false,
        };
        if is_unanswered {
            self.preamble.handle_refusal(self.last_received);
        }
    }

    /// Gives the session up if for a whole session timeout no server has answered what each connection begins
    /// with. Credentials that no server ever accepted may be the cause: they are dropped.
    pub(super) fn give_up_refused(&mut self, now: Instant) {
        let Some(Refusals { connections, since }) = self.preamble.refusals else { return };
        if connections < REFUSALS_MIN || now < since + self.timeout {
            return;
        }
        tracing::warn!(
            session = %self.id,
            "{connections} connections in a row ended before the server had answered the credentials and the \
             watches, so that the client gives up its session; a server ends a connection at a request that is \
             longer than its jute.maxbuffer"
        );
        self.preamble.refusals = None;
        self.credentials.retain(|credentials| credentials.is_accepted);
        self.expire(now);
    }
}
