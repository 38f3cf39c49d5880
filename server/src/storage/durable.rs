//! The durable zxid: the last transaction that survives a crash. Outboxes give out no message that
//! depends on a later one.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zoolet_protocol::Zxid;

use super::error::StorageError;
use crate::limits::{LOG_QUEUE_BYTES_MAX, LOG_REPLIER_TASKS_MIN};

/// The durable zxid. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Durable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    zxid: AtomicI64,
    /// The tasks that wait for a zxid.
    waiting: Mutex<Vec<(Zxid, Waker)>>,
    /// The task that can wake those, unless there is none.
    replier: Mutex<Option<Waker>>,
    /// Whether the replier was asked to wake them, and has not begun.
    is_replier_asked: AtomicBool,
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
            replier: Mutex::default(),
            is_replier_asked: AtomicBool::new(false),
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
        self.wake_reached();
    }

    /// Sets the durable zxid, as [`Durable::reach`] does. If many tasks wait, and more records will be
    /// written right after this, the replier wakes them: the disk does not wait for that. If it was
    /// asked before, and has not begun since, the caller does its work. Returns whether one task alone was
    /// woken, and no records waited then.
    pub(crate) fn reach_before_more(&self, zxid: Zxid) -> bool {
        self.0.zxid.store(zxid.0, Ordering::Release);
        let is_more = self.has_backlog();
        if is_more && self.ask_replier() {
            return false;
        }
        self.wake_reached() == 1 && !is_more
    }

    /// Returns whether the replier will wake the tasks that wait.
    fn ask_replier(&self) -> bool {
        let are_many = self.0.waiting.lock().len() >= LOG_REPLIER_TASKS_MIN;
        let replier = self.0.replier.lock();
        let Some(replier) = replier.as_ref().filter(|_| are_many) else { return false };
        let is_late = self.0.is_replier_asked.swap(true, Ordering::AcqRel);
        if !is_late {
            replier.wake_by_ref();
        }
        !is_late
    }

    /// From now on this task can be asked to wake the others. It calls [`Durable::reply`] when it is
    /// woken.
    pub(crate) fn register_replier(&self, task: &Waker) {
        let mut replier = self.0.replier.lock();
        if !replier.as_ref().is_some_and(|known| known.will_wake(task)) {
            *replier = Some(task.clone());
        }
    }

    /// There is no replier any more. What it was asked for is done.
    pub(crate) fn deregister_replier(&self) {
        *self.0.replier.lock() = None;
        self.reply();
    }

    /// Wakes the tasks that the replier was asked to wake.
    pub(crate) fn reply(&self) {
        if self.0.is_replier_asked.swap(false, Ordering::AcqRel) {
            self.wake_reached();
        }
    }

    /// Wakes the tasks that waited for what is durable, and returns how many.
    fn wake_reached(&self) -> usize {
        let mut waiting = self.0.waiting.lock();
        let zxid = Zxid(self.0.zxid.load(Ordering::Acquire));
        self.0.progress.notify_waiters();
        let woken: Vec<_> = waiting.extract_if(.., |(wanted, _)| *wanted <= zxid).collect();
        drop(waiting);
        let count = woken.len();
        for (_, waker) in woken {
            waker.wake();
        }
        count
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

    /// Whether records wait to be written.
    fn has_backlog(&self) -> bool {
        self.0.backlog.load(Ordering::Relaxed) > 0
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
        // Nobody looks after the replier any more.
        self.reply();
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

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Counted {
        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A durable zxid for which so many tasks wait, with more records behind it, and its replier.
    fn waited_for(tasks: usize) -> (Durable, Arc<Counted>, Arc<Counted>) {
        let (durable, waiting, replier) =
            (Durable::from(Zxid::ZERO), Arc::default(), Arc::default());
        durable.register_replier(&Waker::from(Arc::clone(&replier)));
        for _ in 0..tasks {
            assert!(durable.wait(Zxid(1), &Waker::from(Arc::clone(&waiting))));
        }
        durable.add_backlog(1);
        (durable, waiting, replier)
    }

    #[test]
    fn the_replier_wakes_many_tasks_if_more_records_wait() {
        let (durable, waiting, replier) = waited_for(LOG_REPLIER_TASKS_MIN);
        assert!(!durable.reach_before_more(Zxid(1)));
        assert_eq!((replier.count(), waiting.count()), (1, 0));
        assert!(durable.covers(Zxid(1)));
        durable.reply();
        assert_eq!(waiting.count(), LOG_REPLIER_TASKS_MIN);
    }

    #[test]
    fn the_caller_wakes_few_tasks_and_those_that_no_records_follow() {
        let (durable, waiting, replier) = waited_for(LOG_REPLIER_TASKS_MIN - 1);
        durable.reach_before_more(Zxid(1));
        assert_eq!((replier.count(), waiting.count()), (0, LOG_REPLIER_TASKS_MIN - 1));
        let (durable, waiting, replier) = waited_for(LOG_REPLIER_TASKS_MIN);
        durable.clear_backlog();
        durable.reach_before_more(Zxid(1));
        assert_eq!((replier.count(), waiting.count()), (0, LOG_REPLIER_TASKS_MIN));
    }

    #[test]
    fn a_task_waited_alone_if_it_was_the_only_one_and_no_records_follow() {
        for (tasks, has_more) in [(1, false), (1, true), (2, false), (0, false)] {
            let (durable, _, _) = waited_for(tasks);
            if !has_more {
                durable.clear_backlog();
            }
            assert_eq!(durable.reach_before_more(Zxid(1)), tasks == 1 && !has_more);
        }
    }

    #[test]
    fn the_caller_does_the_work_of_a_replier_that_has_not_begun() {
        let (durable, waiting, replier) = waited_for(LOG_REPLIER_TASKS_MIN);
        durable.reach_before_more(Zxid(1));
        durable.reach_before_more(Zxid(2));
        assert_eq!((replier.count(), waiting.count()), (1, LOG_REPLIER_TASKS_MIN));
    }

    #[test]
    fn nobody_waits_for_a_replier_that_ends_or_for_one_when_the_next_write_fails() {
        let ends: [fn(&Durable); 2] = [Durable::deregister_replier, |durable| {
            durable.fail(StorageError::io("write to", "/log".as_ref())(std::io::Error::other(
                "no disk",
            )));
        }];
        for end in ends {
            let (durable, waiting, _) = waited_for(LOG_REPLIER_TASKS_MIN);
            durable.reach_before_more(Zxid(1));
            end(&durable);
            assert_eq!(waiting.count(), LOG_REPLIER_TASKS_MIN);
        }
    }
}
