//! The close of a session, and the end of its client.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use zoolet_protocol::{Request, SessionId, Write};

use super::submission::Unsent;
use super::{Phase, Session, Submission};
use crate::call::{Call, Outcome};
use crate::clock::Instant;
use crate::state::ConnectionState;
use crate::watches::WatchUpdate;

impl Session {
    /// Closes the session, after what was asked for before. Nothing is sent from now on. Without a
    /// connection the server expires the session after its timeout.
    pub(crate) fn close(&mut self, call: Arc<Call>, now: Instant) {
        match self.phase {
            Phase::Connected => {
                // The server may delete the ephemerals long before the reply comes, if it comes.
                self.proof.end();
                let request = Request::Write(Write::CloseSession);
                self.transmit(Submission::new(request, call), now);
                self.phase = Phase::Closing;
            }
            Phase::Closing => self.closers.push(call),
            _ => {
                self.complete(&call, Outcome::NotSent);
                self.end();
            }
        }
    }

    /// Ends the client: all calls complete with [`Outcome::Closed`], and all watches end.
    pub(crate) fn end(&mut self) {
        self.phase = Phase::Closed;
        self.id = SessionId::NONE;
        self.proof.end();
        self.change(ConnectionState::Lost);
        self.outgoing.clear();
        let sent = std::mem::take(&mut self.sent).into_iter().map(|sent| sent.call);
        let closers = std::mem::take(&mut self.closers).into_iter();
        for call in sent.chain(closers) {
            self.complete(&call, Outcome::Closed);
        }
        for (submission, _) in std::mem::take(&mut self.queued) {
            self.complete_unsent(&submission, Unsent::Closed);
        }
        for call in self.take_authenticating() {
            self.complete(&call, Outcome::Closed);
        }
        self.watches.end(&WatchUpdate::Closed, &mut self.wakers);
    }
}
