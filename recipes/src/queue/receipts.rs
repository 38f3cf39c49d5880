//! Writes that are carried out once, however often they are sent.
//!
//! When the answer to a write is lost, nobody knows whether the server has carried it out. Sent
//! again, it may put an item into a queue twice, or find that an item is gone that this client itself
//! has taken. A *receipt* tells. It is a znode of one client whose version counts the writes of this
//! client: each write is a multi that also sets the data of the receipt, and expects the version that
//! it has by then. So of two attempts at most one is carried out, whichever arrives first, in
//! whichever session:
//!
//! - If a repeated write is refused because the receipt has another version, the first attempt was
//!   carried out.
//! - If it succeeds, the first attempt was not, and never will be.
//! - If another operation of it is refused, the first attempt was not carried out so far. The receipt
//!   is deleted before the caller learns of it, so that it never will be.
//!
//! The Stat of a receipt also tells the time of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use zoolet_protocol::{Acl, ErrorCode, MultiOp, MultiResult, Zxid};

use super::error::QueueError;
use super::limits::{
    LOST_ANSWERS_MAX, OLD_RECEIPTS_CHECKED_MAX, RECEIPT_AGE_MAX, RECEIPT_WRITES_MAX, RECEIPTS_MAX,
    RETRY_PAUSE, ROOM_ATTEMPTS_MAX, SERVER_TIME_AGE_MAX,
};
use super::random::random_below;
use super::retries::{answered, may_come_again};
use crate::client::recipe::now;
use crate::client::{Client, Error, Parents};
use crate::defaults::with_acl;

/// The receipts of one queue object. They are deleted in the background when it is dropped.
pub(crate) struct Receipts {
    client: Client,
    /// The queue, for errors.
    queue: Arc<str>,
    directory: String,
    /// `None` for the client's defaults.
    acl: Option<Vec<Acl>>,
    slots: Semaphore,
    /// The receipts that no write uses.
    free: Mutex<Vec<Receipt>>,
    time: Mutex<Option<ServerTime>>,
    has_checked_for_old: AtomicBool,
}

/// A znode whose version is the number of the writes that were carried out with it.
#[derive(Debug, Clone)]
struct Receipt {
    path: String,
    version: i32,
}

/// What a server's clock showed at a moment.
#[derive(Debug, Clone, Copy)]
struct ServerTime {
    ms: i64,
    at: Instant,
}

/// A write that was carried out.
#[derive(Debug)]
pub(crate) enum Written {
    /// With the zxid of the transaction.
    Answered(Zxid),
    /// The answer was lost.
    Unanswered,
}

impl Written {
    /// The zxid of the transaction; [`Zxid::ZERO`] if the answer was lost.
    pub(crate) fn zxid(&self) -> Zxid {
        match self {
            Self::Answered(zxid) => *zxid,
            Self::Unanswered => Zxid::ZERO,
        }
    }
}

impl Receipts {
    /// The receipts in a directory, which is created when the first is needed.
    pub(crate) fn new(
        client: &Client,
        queue: Arc<str>,
        directory: String,
        acl: Option<Vec<Acl>>,
    ) -> Self {
        Self {
            client: client.clone(),
            queue,
            directory,
            acl,
            slots: Semaphore::new(RECEIPTS_MAX),
            free: Mutex::default(),
            time: Mutex::default(),
            has_checked_for_old: AtomicBool::new(false),
        }
    }

    /// Carries out writes, all or none, once.
    ///
    /// # Errors
    ///
    /// The refusal of an operation, whose index counts from the first of `ops`: nothing was changed.
    /// [`QueueError::NotCarriedOut`]; [`QueueError::Unknown`] if someone has deleted the receipt.
    /// After [`Error::Closed`] the writes may have been carried out.
    ///
    /// # Cancellation
    ///
    /// The writes may be carried out or not. So this runs in tasks that nobody aborts.
    pub(crate) async fn write(&self, ops: Vec<MultiOp>) -> Result<Written, QueueError> {
        self.reserve().await?.write(ops).await
    }

    /// Waits until a receipt is free for a write.
    pub(crate) async fn reserve(&self) -> Result<ReservedReceipt<'_>, QueueError> {
        let Ok(slot) = self.slots.acquire().await else {
            unreachable!("nobody closes the semaphore")
        };
        let free = self.free.lock().pop();
        let receipt = match free {
            Some(receipt) => receipt,
            None => self.create().await?,
        };
        Ok(ReservedReceipt { receipts: self, _slot: slot, receipt, is_settled: false })
    }

    /// The time of the server, in milliseconds since 1970. If it is not known, this asks for it.
    pub(crate) async fn server_time_ms(&self) -> Result<i64, QueueError> {
        loop {
            if let Some(ms) = self.known_time_ms() {
                return Ok(ms);
            }
            self.write(Vec::new()).await?;
        }
    }

    fn known_time_ms(&self) -> Option<i64> {
        let known = (*self.time.lock())?;
        let age = now().saturating_duration_since(known.at);
        let age_ms = i64::try_from(age.as_millis()).ok()?;
        (age < SERVER_TIME_AGE_MAX).then(|| known.ms.saturating_add(age_ms))
    }

    /// Notes the time of a change that the server has just made.
    fn note_time(&self, ms: i64) {
        *self.time.lock() = Some(ServerTime { ms, at: now() });
    }

    async fn create(&self) -> Result<Receipt, QueueError> {
        let path = format!("{}/{}", self.directory, self.client.unique_name());
        loop {
            let create = with_acl(self.client.create(&path), self.acl.as_deref());
            match create.parents(Parents::Containers).await {
                Ok(created) => {
                    self.note_time(created.stat.ctime);
                    self.delete_old(created.stat.ctime);
                    return Ok(Receipt { path, version: 0 });
                }
                // The answer to an earlier attempt was lost.
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => {
                    return Ok(Receipt { path, version: 0 });
                }
                Err(error) if may_come_again(&error) => tokio::time::sleep(RETRY_PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Keeps a receipt for the next write.
    fn keep(&self, receipt: Receipt) {
        if receipt.version < RECEIPT_WRITES_MAX {
            self.free.lock().push(receipt);
        } else {
            self.client.delete(&receipt.path).guaranteed();
        }
    }

    /// Deletes, in the background and once, the receipts that other clients have left when they
    /// crashed. A live client that has not written for so long creates a new receipt.
    fn delete_old(&self, now_ms: i64) {
        if self.has_checked_for_old.swap(true, Ordering::AcqRel) {
            return;
        }
        let (client, directory) = (self.client.clone(), self.directory.clone());
        self.client.spawn(async move {
            if let Err(error) = delete_old(&client, &directory, now_ms).await {
                tracing::debug!("{directory}: cannot delete old receipts: {error}");
            }
        });
    }
}

/// Deletes receipts in a directory that have not changed for long. Of many it checks some at random:
/// servers list children in the same order each time, so that young ones could hide the others.
async fn delete_old(client: &Client, directory: &str, now_ms: i64) -> Result<(), Error> {
    let age_max_ms = i64::try_from(RECEIPT_AGE_MAX.as_millis()).unwrap_or(i64::MAX);
    let names = client.children(directory).await?;
    let first = random_below(client, names.len());
    let all = names.iter().skip(first).chain(names.iter().take(first));
    for name in all.take(OLD_RECEIPTS_CHECKED_MAX) {
        let path = format!("{directory}/{name}");
        let Some(stat) = client.exists(&path).await? else { continue };
        if now_ms.saturating_sub(stat.mtime) > age_max_ms {
            match client.delete(&path).version(stat.version).await {
                // Its client or another one was quicker.
                Err(error) if error.code().is_some() => {}
                deleted => deleted?,
            }
        }
    }
    Ok(())
}

impl Drop for Receipts {
    fn drop(&mut self) {
        for receipt in self.free.get_mut().drain(..) {
            self.client.delete(&receipt.path).guaranteed();
        }
    }
}

/// Whether a receipt is gone or has another version.
fn is_not_as_expected(error: &Error) -> bool {
    error.is(ErrorCode::BAD_VERSION) || error.is(ErrorCode::NO_NODE)
}

/// A receipt that is reserved for one write. It is deleted if the write does not come to an end.
pub(crate) struct ReservedReceipt<'a> {
    receipts: &'a Receipts,
    _slot: SemaphorePermit<'a>,
    receipt: Receipt,
    /// Whether the receipt is kept for other writes, or gone.
    is_settled: bool,
}

impl ReservedReceipt<'_> {
    /// As [`Receipts::write`]. The first attempt is sent when this is first polled.
    pub(crate) async fn write(mut self, ops: Vec<MultiOp>) -> Result<Written, QueueError> {
        let mut lost_answers = 0;
        loop {
            let error = match self.attempt(self.receipt.version, &ops).await {
                Ok((results, zxid)) => {
                    if let Some(MultiResult::SetData(stat)) = results.first() {
                        self.receipts.note_time(stat.mtime);
                    }
                    self.keep_written();
                    return Ok(Written::Answered(zxid));
                }
                Err(error) => error,
            };
            let is_of_receipt = error.operation_index() == Some(0);
            match &error {
                Error::ConnectionLoss { .. } | Error::SessionExpired => {
                    lost_answers += 1;
                    if lost_answers >= LOST_ANSWERS_MAX {
                        let path = self.receipts.queue.to_string();
                        let error = QueueError::NotCarriedOut { path, tries: lost_answers };
                        return self.give_up(error).await;
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                error if may_come_again(error) => tokio::time::sleep(RETRY_PAUSE).await,
                error if is_of_receipt && is_not_as_expected(error) => {
                    if lost_answers == 0 {
                        // Someone has deleted or changed the receipt; this write has done nothing.
                        self.receipt = self.receipts.create().await?;
                    } else if error.is(ErrorCode::BAD_VERSION) {
                        self.keep_written();
                        return Ok(Written::Unanswered);
                    } else {
                        return Err(QueueError::Unknown(self.receipts.queue.to_string()));
                    }
                }
                error if error.code().is_none() => return Err(error.clone().into()),
                error => {
                    let error = of_caller(error.clone()).into();
                    if lost_answers > 0 {
                        return self.give_up(error).await;
                    }
                    self.keep();
                    return Err(error);
                }
            }
        }
    }

    /// Whether the server takes a write of this length. It is sent with a version that no receipt has, so
    /// that the server refuses it.
    pub(crate) async fn has_room(&self, ops: &[MultiOp]) -> Result<bool, QueueError> {
        let mut lost_answers = 0;
        loop {
            match self.attempt(i32::MAX, ops).await {
                Ok(_) => return Err(QueueError::Unknown(self.receipts.queue.to_string())),
                Err(Error::ConnectionLoss { .. }) => {
                    lost_answers += 1;
                    if lost_answers >= ROOM_ATTEMPTS_MAX {
                        return Ok(false);
                    }
                    answered(|| self.receipts.client.exists(&self.receipt.path)).await?;
                }
                Err(Error::TooLong { .. }) => return Ok(false),
                Err(error) if may_come_again(&error) => tokio::time::sleep(RETRY_PAUSE).await,
                Err(error) if error.code().is_some() => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn attempt(
        &self,
        version: i32,
        ops: &[MultiOp],
    ) -> Result<(Vec<MultiResult>, Zxid), Error> {
        let path = self.receipt.path.as_str();
        let mut all = Vec::with_capacity(ops.len() + 1);
        all.push(MultiOp::set_data(path, Bytes::new(), version));
        all.extend_from_slice(ops);
        self.receipts.client.multi_with_zxid(all).send().await
    }

    /// Keeps the receipt of a write that was carried out.
    fn keep_written(mut self) {
        self.receipt.version += 1;
        self.keep();
    }

    /// Keeps the receipt of a write that has changed nothing, for other writes.
    pub(crate) fn keep(mut self) {
        self.is_settled = true;
        self.receipts.keep(self.receipt.clone());
    }

    /// Deletes the receipt, so that no attempt whose answer was lost is carried out any more.
    /// Returns the error if none was.
    async fn give_up(mut self, error: QueueError) -> Result<Written, QueueError> {
        let Receipt { path, version } = self.receipt.clone();
        let mut has_lost_answer = false;
        loop {
            let delete = self.receipts.client.delete(&path).version(version);
            let refused = match delete.send().await {
                Ok(()) => {
                    self.is_settled = true;
                    return Err(error);
                }
                Err(refused) => refused,
            };
            match &refused {
                Error::ConnectionLoss { .. } | Error::SessionExpired => has_lost_answer = true,
                refused if may_come_again(refused) => {}
                refused if refused.is(ErrorCode::BAD_VERSION) => {
                    self.keep_written();
                    return Ok(Written::Unanswered);
                }
                // An earlier attempt has deleted it.
                refused if refused.is(ErrorCode::NO_NODE) && has_lost_answer => return Err(error),
                // The receipt is gone, or may not be deleted: an attempt may have been carried out.
                refused if refused.code().is_some() => {
                    return Err(QueueError::Unknown(self.receipts.queue.to_string()));
                }
                refused => return Err(refused.clone().into()),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

impl Drop for ReservedReceipt<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.receipts.client.delete(&self.receipt.path).guaranteed();
        }
    }
}

/// The refusal of an operation as the caller counts the operations: without that of the receipt.
fn of_caller(error: Error) -> Error {
    match error {
        Error::Refused { op, path, code, index: Some(index) } => {
            Error::Refused { op, path, code, index: index.checked_sub(1) }
        }
        error => error,
    }
}
