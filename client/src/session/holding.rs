//! The proof of the session and the claims of recipes, as the [`Session`] shows them to its client.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytestring::ByteString;
use zoolet_protocol::{Expect, Read, Request, SessionId};

use super::{Phase, Session, Submission};
use crate::call::Call;
use crate::clock::Instant;
use crate::proof::{ClaimId, ClaimedZnode, ProofRequest};

impl Session {
    /// Until when no server can have expired the session.
    pub(crate) fn proven_until(&self) -> Instant {
        self.proof.proven_until()
    }

    /// Whether `id` is the current session, and no server can have expired it.
    pub(crate) fn is_proven(&self, id: SessionId, now: Instant) -> bool {
        self.id == id && self.proof.is_proven(now)
    }

    /// As [`Session::is_proven`], and until the next proof can be expected.
    pub(crate) fn is_proven_ahead(&self, id: SessionId, now: Instant) -> bool {
        self.id == id && self.proof.is_proven_ahead(now)
    }

    /// Whether the client is closed or being closed.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing | Phase::Closed)
    }

    /// Whether the proof has changed, other than by the passing of time, since this was last
    /// called.
    pub(crate) fn take_proof_change(&mut self) -> bool {
        self.proof.take_change()
    }

    /// Whether a request of the proof was answered since this was last called, so that the next one
    /// may be due sooner than it was.
    pub(crate) fn take_proof_answer(&mut self) -> bool {
        self.proof.take_answer()
    }

    /// Has the znode checked with each proof from now on, and its version where one is expected.
    pub(crate) fn claim(
        &mut self,
        session: SessionId,
        path: ByteString,
        version: Expect,
        now: Instant,
    ) -> (ClaimId, Arc<ClaimedZnode>) {
        self.proof.claim(session, self.id, (path, version), now)
    }

    /// Ends a claim.
    pub(crate) fn end_claim(&mut self, id: ClaimId) {
        self.proof.end_claim(id);
    }

    /// Znodes of this session will be claimed.
    pub(crate) fn expect_claims(&mut self) {
        self.proof.expect_claims();
    }

    /// When to send the next request for the proof.
    pub(super) fn proof_at(&self) -> Option<Instant> {
        self.proof.next_request().map(|(at, _)| at)
    }

    /// Sends what the proof needs, if it is due.
    pub(super) fn send_for_proof(&mut self, now: Instant) {
        match self.proof.next_request() {
            Some((at, request)) if now >= at => match request {
                ProofRequest::Sync => self.send_sync(now),
                ProofRequest::Check => self.send_check(now),
                ProofRequest::Ping => self.send_ping(now),
            },
            _ => {}
        }
    }

    /// Sends the multi that checks the claimed znodes.
    fn send_check(&mut self, now: Instant) {
        let Some((request, checks)) = self.proof.check() else { return };
        let call = Call::new(request.op_code());
        match self.transmit(Submission::new(request, call), now) {
            Some(sent) => sent.checks = checks,
            None => self.proof.handle_check_not_sent(&checks, now),
        }
    }

    /// Sends a `sync` for the proof, of a path that each server has.
    pub(super) fn send_sync(&mut self, now: Instant) {
        self.proof.handle_sync_sent();
        let request = Request::Read(Read::Sync("/".into()));
        let call = Call::new(request.op_code());
        if let Some(sent) = self.transmit(Submission::new(request, call), now) {
            sent.is_proofs_sync = true;
        }
    }
}
