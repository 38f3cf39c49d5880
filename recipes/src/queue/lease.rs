//! The lease of an item: an ephemeral znode that belongs to one session, and its witness.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use zoolet_protocol::{ErrorCode, Expect, MultiOp, Zxid};

use super::error::QueueError;
use super::limits::LOST_ANSWERS_MAX;
use super::retries::{may_come_again, pause_before_next};

use crate::client::Error;
use crate::client::recipe::{Claim, SessionClient, ZnodeIdentity};
use crate::lock::state::LockState;

/// Where the operations on the lease and on its witness are in a multi that ends a lease, and how
/// many they are.
const LEASE: Option<usize> = Some(0);
const WITNESS: Option<usize> = Some(1);
const ENDING_OPS: usize = 2;

/// The znode that keeps the next consumer of an item from this version, also if somebody has deleted
/// the lease.
pub(crate) fn witness_of(lease: &str, version: i32) -> String {
    format!("{lease}-witness-{version}")
}

/// A lease. When it is dropped, its znodes are deleted in the background, and the item is delivered
/// again.
#[derive(Debug)]
pub(crate) struct Lease {
    pair: Pair,
    /// The session's proof of life checks the lease.
    claim: Claim,
    /// Whether the znodes need no deletion any more.
    is_over: bool,
    /// Whether a deletion was sent, so that by now another client may have znodes of these names.
    may_be_deleted: bool,
}

/// The znodes of a lease: itself and its witness.
#[derive(Debug, Clone)]
struct Pair {
    session: SessionClient,
    path: String,
    /// The data version, which no other lease of the item has while the witness is there.
    version: i32,
    /// Both were created by this transaction.
    czxid: Zxid,
}

impl Pair {
    fn witness(&self) -> String {
        witness_of(&self.path, self.version)
    }

    /// The operations that delete both. The server refuses them if the lease is lost, also if another
    /// consumer has one of this path.
    fn deletions(&self) -> Vec<MultiOp> {
        vec![
            MultiOp::delete(self.path.as_str(), self.version),
            MultiOp::delete(self.witness(), Expect::Any),
        ]
    }

    /// Deletes, in the background, what is left of both.
    fn delete_left(&self) -> impl Future<Output = Result<(), Error>> + use<> {
        let delete = |path: &str| {
            let own = ZnodeIdentity::Czxid(self.czxid);
            self.session.delete_in_background(path, Some(own))
        };
        let (lease, witness) = (delete(&self.path), delete(&self.witness()));
        async move { lease.await.and(witness.await) }
    }
}

impl Lease {
    /// The lease of a znode that this session has created.
    pub(crate) fn new(session: &SessionClient, path: String, czxid: Zxid, version: i32) -> Self {
        let claim = session.claim_version(&path, version);
        let pair = Pair { session: session.clone(), path, version, czxid };
        Self { pair, claim, is_over: false, may_be_deleted: false }
    }

    pub(crate) fn path(&self) -> &str {
        &self.pair.path
    }

    pub(crate) fn state(&self) -> LockState {
        if self.claim.is_gone() || !self.pair.session.is_current() {
            return LockState::Lost;
        }
        if self.pair.session.is_proven() { LockState::Held } else { LockState::Suspect }
    }

    /// Waits until the lease is not certainly held any more.
    pub(crate) async fn lost(&self) {
        let session = &self.pair.session;
        let mut changes = session.client().proof_changes();
        loop {
            changes.mark_unchanged();
            if self.state() != LockState::Held {
                return;
            }
            tokio::select! {
                biased;
                () = session.until_unproven() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Ends the lease, and waits until its znode is gone.
    ///
    /// # Errors
    ///
    /// [`QueueError::Lost`] if the lease ended before; the errors of a deletion.
    pub(crate) async fn release(mut self) -> Result<(), QueueError> {
        self.may_be_deleted = true;
        let deletions = self.pair.deletions();
        let mut ended = self.pair.session.multi_without_results(deletions).send().await;
        if matches!(&ended, Err(error) if *error != Error::SessionExpired && may_come_again(error))
        {
            self.is_over = true;
            ended = self.pair.delete_left().await;
        }
        match ended {
            Err(error) if is_of_other(&error) || error == Error::SessionExpired => {
                Err(QueueError::Lost(self.path().to_owned()))
            }
            ended => {
                self.is_over |= ended.is_ok();
                Ok(ended?)
            }
        }
    }

    /// Carries out writes and ends the lease, all or none, if the lease is held then. One of the writes
    /// deletes `item`, so that nobody obtains another lease of it after that.
    ///
    /// # Errors
    ///
    /// [`QueueError::Lost`], [`QueueError::Unknown`]; the refusal of an operation, whose index counts
    /// from the first of `ops`. The lease ends in any case.
    pub(crate) async fn end_with(
        mut self,
        item: &str,
        ops: Vec<MultiOp>,
    ) -> Result<(), QueueError> {
        let mut all = self.pair.deletions();
        all.extend(ops);
        self.may_be_deleted = true;
        let mut lost_answers = 0;
        loop {
            let multi = self.pair.session.multi_without_results(all.clone());
            let Err(error) = multi.send().await else {
                self.is_over = true;
                return Ok(());
            };
            match error {
                Error::ConnectionLoss { .. } => {
                    lost_answers += 1;
                    if lost_answers >= LOST_ANSWERS_MAX {
                        return Err(QueueError::Unknown(self.path().to_owned()));
                    }
                }
                Error::SessionExpired => return Err(self.expired(lost_answers > 0)),
                error if is_of_other(&error) && lost_answers > 0 => {
                    return self.ended_or_lost(item).await;
                }
                error if is_of_other(&error) => {
                    return Err(QueueError::Lost(self.path().to_owned()));
                }
                Error::Refused { op, path, code, index: Some(index) }
                    if code != ErrorCode::THROTTLED_OP =>
                {
                    let index = index.checked_sub(ENDING_OPS);
                    return Err(Error::Refused { op, path, code, index }.into());
                }
                error => pause_before_next(error).await?,
            }
        }
    }

    /// The lease is gone or another's, after an answer was lost: an earlier attempt has ended it, and
    /// has deleted the witness and the item with it, or somebody has deleted it.
    async fn ended_or_lost(&mut self, item: &str) -> Result<(), QueueError> {
        let witness = self.pair.witness();
        for deleted in [witness.as_str(), item] {
            match self.pair.session.exists(deleted).until_answered().await {
                Ok(None) => {}
                Ok(Some(_)) => return Err(QueueError::Lost(self.path().to_owned())),
                Err(Error::SessionExpired) => return Err(self.expired(true)),
                Err(error) => return Err(error.into()),
            }
        }
        self.is_over = true;
        Ok(())
    }

    fn expired(&self, has_lost_answer: bool) -> QueueError {
        let path = self.path().to_owned();
        if has_lost_answer { QueueError::Unknown(path) } else { QueueError::Lost(path) }
    }
}

/// Whether a multi that ends a lease was refused because the lease or its witness is gone, or the lease
/// is another consumer's.
fn is_of_other(error: &Error) -> bool {
    let is_of_lease = matches!(error.operation_index(), LEASE | WITNESS);
    is_of_lease && (error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::BAD_VERSION))
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_over || !self.pair.session.is_current() {
            return;
        }
        if self.may_be_deleted || self.claim.is_gone() {
            return drop(self.pair.delete_left());
        }
        let mut sent = self.pair.session.multi_without_results(self.pair.deletions()).send();
        // In process the reply is there by now.
        match Pin::new(&mut sent).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => drop(self.pair.delete_left()),
            Poll::Pending => {
                let pair = self.pair.clone();
                self.pair.session.client().spawn(async move {
                    if sent.await.is_err() {
                        drop(pair.delete_left());
                    }
                });
            }
        }
    }
}
