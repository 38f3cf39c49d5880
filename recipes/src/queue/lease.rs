//! The lease of an item: an ephemeral znode that belongs to one session.

use zoolet_protocol::{ErrorCode, Expect, MultiOp, Zxid};

use super::error::QueueError;
use super::limits::LOST_ANSWERS_MAX;
use super::retries::pause_before_next;

use crate::client;
use crate::client::recipe::{Claim, SessionClient, ZnodeIdentity};
use crate::error::LockError;
use crate::line::deletion::Deletion;
use crate::lock::state::LockState;

/// A lease. When it is dropped, its znode is deleted in the background, and the item is delivered
/// again.
#[derive(Debug)]
pub(crate) struct Lease {
    session: SessionClient,
    path: String,
    czxid: Zxid,
    /// The session's proof of life checks the znode.
    claim: Claim,
    /// Whether the znode needs no deletion any more.
    is_over: bool,
    /// Whether a deletion was sent, so that by now another client may have a znode of this name.
    may_be_deleted: bool,
}

impl Lease {
    /// The lease of a znode that this session has created.
    pub(crate) fn new(session: &SessionClient, path: String, czxid: Zxid) -> Self {
        let claim = session.claim(&path);
        Self { session: session.clone(), path, czxid, claim, is_over: false, may_be_deleted: false }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn state(&self) -> LockState {
        if self.claim.is_gone() || !self.session.is_current() {
            return LockState::Lost;
        }
        if self.session.is_proven() { LockState::Held } else { LockState::Suspect }
    }

    /// Waits until the lease is not certainly held any more.
    pub(crate) async fn lost(&self) {
        let mut changes = self.session.client().proof_changes();
        loop {
            changes.mark_unchanged();
            if self.state() != LockState::Held {
                return;
            }
            tokio::select! {
                biased;
                () = self.session.until_unproven() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Ends the lease, and waits until its znode is gone.
    ///
    /// # Errors
    ///
    /// [`QueueError::Lost`] if the lease ended before.
    pub(crate) async fn release(mut self) -> Result<(), QueueError> {
        self.is_over = true;
        let own = Some(ZnodeIdentity::Czxid(self.czxid));
        let deletion = Deletion::send(&self.session, &self.path).only_own(own);
        deletion.finish().await.map_err(|error| match error {
            LockError::Lost(path) | LockError::PlaceLost(path) => QueueError::Lost(path),
            error => error.into(),
        })
    }

    /// Carries out writes and ends the lease, all or none, if the lease is held then.
    ///
    /// # Errors
    ///
    /// [`QueueError::Lost`], [`QueueError::Unknown`]; the refusal of an operation, whose index counts
    /// from the first of `ops`. The lease ends in any case.
    pub(crate) async fn end_with(mut self, ops: Vec<MultiOp>) -> Result<(), QueueError> {
        let mut all = vec![MultiOp::delete(self.path.as_str(), Expect::Any)];
        all.extend(ops);
        self.may_be_deleted = true;
        let mut lost_answers = 0;
        loop {
            let error = match self.session.multi_without_results(all.clone()).send().await {
                Ok(()) => {
                    self.is_over = true;
                    return Ok(());
                }
                Err(error) => error,
            };
            match error {
                client::Error::ConnectionLoss { .. } => {
                    lost_answers += 1;
                    if lost_answers >= LOST_ANSWERS_MAX {
                        return Err(QueueError::Unknown(self.path.clone()));
                    }
                }
                client::Error::SessionExpired => {
                    self.is_over = true;
                    let path = self.path.clone();
                    let is_unknown = lost_answers > 0;
                    return Err(if is_unknown {
                        QueueError::Unknown(path)
                    } else {
                        QueueError::Lost(path)
                    });
                }
                error if error.is(ErrorCode::NO_NODE) && error.operation_index() == Some(0) => {
                    self.is_over = true;
                    // Only this session deletes its lease: an earlier attempt was carried out.
                    if lost_answers > 0 {
                        return Ok(());
                    }
                    return Err(QueueError::Lost(self.path.clone()));
                }
                client::Error::Refused { op, path, code, index: Some(index) }
                    if code != ErrorCode::THROTTLED_OP =>
                {
                    let index = index.checked_sub(1);
                    return Err(client::Error::Refused { op, path, code, index }.into());
                }
                error => pause_before_next(error).await?,
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_over || self.claim.is_gone() {
            return;
        }
        let own = Some(ZnodeIdentity::Czxid(self.czxid));
        if self.may_be_deleted {
            drop(self.session.delete_in_background(&self.path, own));
        } else {
            drop(Deletion::send(&self.session, &self.path).only_own(own));
        }
    }
}
