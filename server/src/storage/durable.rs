//! How far what was decided would survive: outboxes give out nothing that depends on what would not.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zoolet_protocol::Zxid;

use super::error::StorageError;
use crate::limits::LOG_QUEUE_BYTES_MAX;

/// The last zxid that would survive. Clones see the same.
#[derive(Debug, Clone)]
pub(crate) struct Durable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    zxid: AtomicI64,
    /// Who waits for which.
    waiting: Mutex<Vec<(Zxid, Waker)>>,
    /// The bytes that wait to be written.
    backlog: AtomicUsize,
    has_room: Notify,
    failure: OnceLock<Arc<StorageError>>,
    failed: CancellationToken,
}

impl Durable {
    /// Without a log nothing is waited for.
    pub(crate) fn always() -> Self {
        Self::from(Zxid(i64::MAX))
    }

    /// Everything up to `zxid` would survive.
    pub(crate) fn from(zxid: Zxid) -> Self {
        Self(Arc::new(Inner {
            zxid: AtomicI64::new(zxid.0),
            waiting: Mutex::default(),
            backlog: AtomicUsize::new(0),
            has_room: Notify::new(),
            failure: OnceLock::new(),
            failed: CancellationToken::new(),
        }))
    }

    /// Whether what depends on `zxid` may leave.
    pub(crate) fn covers(&self, zxid: Zxid) -> bool {
        zxid.0 <= self.0.zxid.load(Ordering::Acquire)
    }

    /// Has someone woken when what depends on `zxid` may leave, and tells whether it may not yet.
    pub(crate) fn wait(&self, zxid: Zxid, waker: &Waker) -> bool {
        let mut waiting = self.0.waiting.lock();
        let must_wait = !self.covers(zxid);
        if must_wait {
            waiting.push((zxid, waker.clone()));
        }
        must_wait
    }

    /// Everything up to `zxid` would survive from now on.
    pub(crate) fn reach(&self, zxid: Zxid) {
        self.0.zxid.store(zxid.0, Ordering::Release);
        let mut waiting = self.0.waiting.lock();
        let woken: Vec<_> = waiting.extract_if(.., |(wanted, _)| *wanted <= zxid).collect();
        drop(waiting);
        for (_, waker) in woken {
            waker.wake();
        }
    }

    /// As many more bytes wait to be written.
    pub(crate) fn add_backlog(&self, bytes: usize) {
        self.0.backlog.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All that waited is being written.
    pub(crate) fn clear_backlog(&self) {
        self.0.backlog.store(0, Ordering::Relaxed);
        self.0.has_room.notify_waiters();
    }

    /// Whether so much waits to be written that no further request should be taken.
    pub(crate) fn is_behind(&self) -> bool {
        self.0.backlog.load(Ordering::Relaxed) > LOG_QUEUE_BYTES_MAX
    }

    /// Waits until it is not behind any more.
    pub(crate) async fn caught_up(&self) {
        loop {
            let notified = self.0.has_room.notified();
            if !self.is_behind() {
                return;
            }
            notified.await;
        }
    }

    /// Nothing more will survive, and so nothing that depends on it will leave.
    pub(crate) fn fail(&self, error: StorageError) {
        tracing::error!("nothing more is acknowledged: {error}");
        if self.0.failure.set(Arc::new(error)).is_ok() {
            self.0.failed.cancel();
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.failure.get().is_some()
    }

    /// Waits until it has failed, for ever if it does not.
    pub(crate) async fn failure(&self) -> Arc<StorageError> {
        self.0.failed.cancelled().await;
        let failure = self.0.failure.get().expect("it is set before");
        Arc::clone(failure)
    }
}
