//! What a session knows of what is held in it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use zoolet_protocol::{OpCode, SessionId};

use super::{Session, Submission};
use crate::call::Call;
use crate::clock::Instant;
use crate::proof::{Stake, StakeId};

impl Session {
    /// Until when the session surely lives.
    pub(crate) fn proven_until(&self) -> Instant {
        self.proof.proven_until()
    }

    /// Whether this session is the present one and surely lives.
    pub(crate) fn is_proven(&self, id: SessionId, now: Instant) -> bool {
        self.id == id && self.proof.is_proven(now)
    }

    /// As [`Session::is_proven`], also when the next proof can be expected.
    pub(crate) fn is_proven_ahead(&self, id: SessionId, now: Instant) -> bool {
        self.id == id && self.proof.is_proven_ahead(now)
    }

    /// Whether its client is closed, or has asked for that.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closed() || self.sent.iter().any(|sent| sent.call.op == OpCode::CLOSE_SESSION)
    }

    /// Whether that has changed otherwise than by time.
    pub(crate) fn take_proof_change(&mut self) -> bool {
        self.proof.take_change()
    }

    /// Something is held by a znode from now on: it is looked at now and then.
    pub(crate) fn claim(
        &mut self,
        session: SessionId,
        path: String,
        now: Instant,
    ) -> (StakeId, Arc<Stake>) {
        self.proof.claim(session, self.id, path, now)
    }

    /// It is not held any more.
    pub(crate) fn disclaim(&mut self, id: StakeId) {
        self.proof.disclaim(id);
    }

    /// Asks for a proof of what is held.
    pub(super) fn send_check(&mut self, now: Instant) {
        let Some((request, checks)) = self.proof.check() else { return };
        let call = Call::new(request.op_code());
        self.transmit(Submission::new(request, call), now);
        if let Some(sent) = self.sent.back_mut() {
            sent.checks = checks;
        }
    }
}
