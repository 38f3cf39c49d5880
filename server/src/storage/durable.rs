//! The durable zxid: the last transaction that survives a crash. Outboxes give out no message that
//! depends on a later one.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zoolet_protocol::Zxid;

use super::error::StorageError;
use crate::limits::LOG_QUEUE_BYTES_MAX;

/// The durable zxid. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Durable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    zxid: AtomicI64,
    /// The tasks that wait for a zxid.
    waiting: Mutex<Vec<(Zxid, Waker)>>,
    /// The bytes of records that wait to be written.
    backlog: AtomicUsize,
    has_room: Notify,
    /// Notified when more is durable.
    progress: Notify,
    failure: OnceLock<Arc<StorageError>>,
    failed: CancellationToken,
}

impl Durable {
    /// Without a log every zxid counts as durable.
    pub(crate) fn always() -> Self {
        Self::from(Zxid(i64::MAX))
    }

    /// Everything up to `zxid` is durable.
    pub(crate) fn from(zxid: Zxid) -> Self {
        Self(Arc::new(Inner {
            zxid: AtomicI64::new(zxid.0),
            waiting: Mutex::default(),
            backlog: AtomicUsize::new(0),
            has_room: Notify::new(),
            progress: Notify::new(),
            failure: OnceLock::new(),
            failed: CancellationToken::new(),
        }))
    }

    /// Whether `zxid` is durable.
    pub(crate) fn covers(&self, zxid: Zxid) -> bool {
        zxid.0 <= self.0.zxid.load(Ordering::Acquire)
    }

    /// Wakes `waker` when `zxid` becomes durable. Returns `false`, and does not wake it, if it is
    /// durable already.
    pub(crate) fn wait(&self, zxid: Zxid, waker: &Waker) -> bool {
        let mut waiting = self.0.waiting.lock();
        let must_wait = !self.covers(zxid);
        if must_wait {
            waiting.push((zxid, waker.clone()));
        }
        must_wait
    }

    /// Waits until `zxid` is durable.
    ///
    /// # Errors
    ///
    /// The cause if nothing more becomes durable.
    pub(crate) async fn reached(&self, zxid: Zxid) -> Result<(), Arc<StorageError>> {
        let reached = std::future::poll_fn(|context| match self.wait(zxid, context.waker()) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        });
        tokio::select! {
            biased;
            () = reached => Ok(()),
            failure = self.failure() => Err(failure),
        }
    }

    /// Sets the durable zxid, and wakes the tasks that waited for it.
    pub(crate) fn reach(&self, zxid: Zxid) {
        self.0.zxid.store(zxid.0, Ordering::Release);
        let mut waiting = self.0.waiting.lock();
        self.0.progress.notify_waiters();
        let woken: Vec<_> = waiting.extract_if(.., |(wanted, _)| *wanted <= zxid).collect();
        drop(waiting);
        for (_, waker) in woken {
            waker.wake();
        }
    }

    /// Adds to the bytes that wait to be written.
    pub(crate) fn add_backlog(&self, bytes: usize) {
        self.0.backlog.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All bytes that waited are being written.
    pub(crate) fn clear_backlog(&self) {
        self.0.backlog.store(0, Ordering::Relaxed);
        self.0.has_room.notify_waiters();
    }

    /// Whether so many bytes wait to be written that no further request should be read.
    pub(crate) fn is_behind(&self) -> bool {
        self.0.backlog.load(Ordering::Relaxed) > LOG_QUEUE_BYTES_MAX
    }

    /// Waits until more is durable.
    pub(crate) async fn progressed(&self) {
        self.0.progress.notified().await;
    }

    /// Waits until it is no longer behind.
    pub(crate) async fn caught_up(&self) {
        loop {
            let notified = self.0.has_room.notified();
            if !self.is_behind() {
                return;
            }
            notified.await;
        }
    }

    /// Writing has failed: nothing more becomes durable, so no message that depends on it leaves.
    pub(crate) fn fail(&self, error: StorageError) {
        tracing::error!("nothing more is acknowledged: {error}");
        if self.0.failure.set(Arc::new(error)).is_ok() {
            self.0.failed.cancel();
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.failure.get().is_some()
    }

    /// Waits until writing has failed, forever if it does not.
    pub(crate) async fn failure(&self) -> Arc<StorageError> {
        self.0.failed.cancelled().await;
        let failure = self.0.failure.get().expect("it is set before");
        Arc::clone(failure)
    }
}
