//! The work that waits to be carried out, and who is asked to do that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::time::Instant;
use zoolet_core::Txn;

use super::{Batch, Since, Work};
use crate::clock::now;
use crate::limits::{
    LOG_BATCH_BYTES_MAX, LOG_COME_BACK_PAUSE_ROUNDS, LOG_COME_BACK_TIME_MAX,
    LOG_COME_BACK_VAIN_PAUSE_ROUNDS, LOG_INLINE_ROUNDS_MIN, LOG_INLINE_TIME_MAX,
    LOG_WATCH_IDLE_TICKS, LOG_WATCH_TICK,
};
use crate::storage::durable::Durable;
use crate::storage::log_writer::encode_log_record;
use crate::storage::stats::StorageStats;

/// The work that waits for the thread or the task.
///
/// Appending never blocks: who carries work out wakes in-process clients, whose next request may
/// append on that same thread. The tasks that read sockets read no requests while the queue is too
/// long.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// Notified when the thread is asked.
    asked: Condvar,
    durable: Durable,
    stats: Arc<StorageStats>,
}

#[derive(Debug, Default)]
struct Waiting {
    work: VecDeque<Work>,
    is_closed: bool,
    /// Whether somebody carries work out. Whoever does looks for more afterwards.
    is_busy: bool,
    /// How often work was taken.
    rounds: u64,
    /// Who was asked to take what waits.
    asked: Option<Asked>,
    /// The task that can carry work out, unless there is none.
    task: Option<Waker>,
    /// The thread on which the task comes back by itself, once that has nothing else to run.
    comes_back_on: Option<ThreadId>,
    /// Whether the task had come back by itself when it last looked for work.
    has_come_back: bool,
    /// When work was left for the task to find when it comes back. `None` if it was woken for the work.
    left_at: Option<Instant>,
    /// How many writes of a client that is alone pass before the task comes back by itself again.
    rounds_without: u32,
    /// How many of the last rounds were quick, one after the other.
    quick_rounds: u32,
    /// Whether the thread watches the task.
    is_watched: bool,
}

/// Who carries work out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Task,
    Thread,
}

/// What the thread does next.
#[derive(Debug)]
pub(super) enum Next {
    /// It carries this out.
    Work(VecDeque<Work>),
    /// It lets other tasks run, because the task has waited for the disk for a while.
    Unblock,
    /// It ends.
    Over,
}

/// What the thread knows of the task, which it watches.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// At the last tick: how often work had been taken, and whether the task was asked or busy.
    seen: (u64, bool),
    idle_ticks: u32,
}

/// How the task does.
enum Tick {
    Fine,
    /// It was asked a tick ago, and has not begun.
    IsLate,
    /// It began a tick ago, and has not ended.
    Hangs,
}

impl Watch {
    fn tick(&mut self, waiting: &mut Waiting) -> Tick {
        let seen = (waiting.rounds, waiting.is_busy || waiting.asked == Some(Asked::Task));
        let is_unchanged = std::mem::replace(&mut self.seen, seen) == seen;
        match seen {
            (_, true) if is_unchanged && waiting.is_busy => return Tick::Hangs,
            (_, true) if is_unchanged => return Tick::IsLate,
            (_, false) if is_unchanged => self.idle_ticks += 1,
            _ => self.idle_ticks = 0,
        }
        waiting.is_watched = self.idle_ticks < LOG_WATCH_IDLE_TICKS;
        Tick::Fine
    }
}

impl Queue {
    pub(super) fn new(durable: Durable, stats: Arc<StorageStats>) -> Self {
        Self { waiting: Mutex::default(), asked: Condvar::new(), durable, stats }
    }

    pub(super) fn append(&self, txn: &Txn, since: Since) -> usize {
        self.stats.appended.add(1);
        let mut waiting = self.waiting.lock();
        let mut bytes = 0;
        // Records that exceed the last batch begin another.
        let mut rest = Some(BytesMut::new());
        if let Some(Work::Batch(batch)) = waiting.work.back_mut() {
            let before = batch.records.len();
            bytes = encode_to(&mut batch.records, txn);
            if batch.records.len() <= LOG_BATCH_BYTES_MAX {
                batch.last = txn.zxid;
                batch.since.push(since);
                rest = None;
            } else {
                rest = Some(batch.records.split_off(before));
            }
        }
        if let Some(mut records) = rest {
            if records.is_empty() {
                bytes = encode_to(&mut records, txn);
            }
            let batch = Batch { first: txn.zxid, last: txn.zxid, records, since: vec![since] };
            waiting.work.push_back(Work::Batch(batch));
        }
        self.durable.add_backlog(bytes);
        self.ask(waiting);
        bytes
    }

    pub(super) fn push(&self, work: Work) {
        let mut waiting = self.waiting.lock();
        waiting.work.push_back(work);
        // The task does only what does not take long.
        self.ask_thread(&mut waiting);
    }

    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        self.ask_thread(&mut waiting);
        let task = waiting.task.take();
        drop(waiting);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Asks for what waits to be carried out: the task while syncs are quick, and otherwise the
    /// thread.
    fn ask(&self, mut waiting: MutexGuard<'_, Waiting>) {
        if waiting.is_busy || waiting.asked == Some(Asked::Thread) {
            return;
        }
        // Another thread does not know when the task's worker has nothing else to do.
        let comes_back = waiting.comes_back_on.is_some_and(|on| on == thread::current().id());
        let is_left = waiting.left_at.is_some();
        if waiting.asked == Some(Asked::Task) && (comes_back || !is_left) {
            return;
        }
        match &waiting.task {
            Some(task) if waiting.quick_rounds >= LOG_INLINE_ROUNDS_MIN => {
                let task = (!comes_back).then(|| task.clone());
                waiting.left_at = comes_back.then(now);
                waiting.asked = Some(Asked::Task);
                if !waiting.is_watched {
                    waiting.is_watched = true;
                    self.asked.notify_one();
                }
                drop(waiting);
                if let Some(task) = task {
                    task.wake();
                }
            }
            _ => self.ask_thread(&mut waiting),
        }
    }

    fn ask_thread(&self, waiting: &mut Waiting) {
        waiting.asked = Some(Asked::Thread);
        self.asked.notify_one();
    }

    /// Waits until the thread has something to do.
    pub(super) fn next(&self, watch: &mut Watch) -> Next {
        let mut waiting = self.waiting.lock();
        loop {
            if !waiting.is_busy && waiting.asked == Some(Asked::Thread) && !waiting.work.is_empty()
            {
                return Next::Work(self.take(&mut waiting));
            }
            if !waiting.is_busy && waiting.is_closed {
                return match waiting.work.is_empty() {
                    true => Next::Over,
                    false => Next::Work(self.take(&mut waiting)),
                };
            }
            if !waiting.is_watched {
                self.asked.wait(&mut waiting);
                *watch = Watch::default();
                continue;
            }
            if self.asked.wait_for(&mut waiting, LOG_WATCH_TICK).timed_out() {
                match watch.tick(&mut waiting) {
                    Tick::Fine => {}
                    // It was asked, and some other task keeps its worker busy. So may it with the
                    // next writes, each of which would wait as long.
                    Tick::IsLate => {
                        waiting.quick_rounds = 0;
                        waiting.left_at = None;
                        waiting.rounds_without = LOG_COME_BACK_PAUSE_ROUNDS;
                        self.ask_thread(&mut waiting);
                    }
                    Tick::Hangs => return Next::Unblock,
                }
            }
        }
    }

    /// Takes all work, if the task was asked to; `None` otherwise.
    pub(super) fn take_as_task(&self) -> Option<VecDeque<Work>> {
        let mut waiting = self.waiting.lock();
        let is_asked = !waiting.is_busy && waiting.asked == Some(Asked::Task);
        let has_work = is_asked && !waiting.work.is_empty();
        waiting.has_come_back = waiting.comes_back_on.take().is_some();
        let waited = waiting.left_at.take().map(|at| now().saturating_duration_since(at));
        if waited.is_some_and(|waited| waited > LOG_COME_BACK_TIME_MAX) {
            waiting.rounds_without = LOG_COME_BACK_PAUSE_ROUNDS;
        } else if waiting.has_come_back && !has_work {
            waiting.rounds_without = LOG_COME_BACK_VAIN_PAUSE_ROUNDS;
        }
        has_work.then(|| self.take(&mut waiting))
    }

    /// The task does not do what it was asked to do.
    pub(super) fn refuse_as_task(&self) {
        let mut waiting = self.waiting.lock();
        waiting.comes_back_on = None;
        if waiting.asked == Some(Asked::Task) {
            self.ask_thread(&mut waiting);
        }
    }

    /// Takes all work, if there is any.
    #[cfg(test)]
    pub(super) fn take_now(&self) -> Option<VecDeque<Work>> {
        let mut waiting = self.waiting.lock();
        (!waiting.work.is_empty()).then(|| self.take(&mut waiting))
    }

    fn take(&self, waiting: &mut Waiting) -> VecDeque<Work> {
        self.durable.clear_backlog();
        self.stats.queue_size.record(self.stats.outstanding());
        waiting.is_busy = true;
        waiting.asked = None;
        waiting.rounds += 1;
        std::mem::take(&mut waiting.work)
    }

    /// What was taken is carried out, in this time. What was appended meanwhile is for the thread:
    /// several clients write, and while it waits for the disk all workers are there for them. Returns
    /// whether the task that calls this is to come back, which it does only if it `can_come_back`.
    pub(super) fn carried_out(&self, took: Duration, can_come_back: bool) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.is_busy = false;
        waiting.quick_rounds = match took <= LOG_INLINE_TIME_MAX {
            true => waiting.quick_rounds.saturating_add(1),
            false => 0,
        };
        if !waiting.work.is_empty() || waiting.is_closed {
            self.ask_thread(&mut waiting);
        }
        let can_come_back = can_come_back && waiting.asked.is_none();
        // Not twice in succession, since a worker runs only three tasks that wake each other.
        let comes_back = can_come_back && !waiting.has_come_back && waiting.rounds_without == 0;
        waiting.rounds_without -= u32::from(can_come_back && waiting.rounds_without > 0);
        waiting.comes_back_on = comes_back.then(|| thread::current().id());
        comes_back
    }

    /// From now on this task can be asked. Returns `false` if no more is appended.
    pub(super) fn register(&self, task: &Waker) -> bool {
        let mut waiting = self.waiting.lock();
        if !waiting.task.as_ref().is_some_and(|known| known.will_wake(task)) {
            waiting.task = Some(task.clone());
        }
        !waiting.is_closed
    }

    /// There is no task any more.
    pub(super) fn deregister(&self) {
        self.waiting.lock().task = None;
        self.refuse_as_task();
    }
}

fn encode_to(records: &mut BytesMut, txn: &Txn) -> usize {
    let before = records.len();
    encode_log_record(txn, records);
    records.len() - before
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use zoolet_core::TxnOp;
    use zoolet_protocol::{SessionId, Xid, ZPath, Zxid};

    use super::*;
    use crate::clock::now;
    use crate::storage::committer::Origin;

    fn append(queue: &Queue, zxid: Zxid, length: usize) {
        let since = Since { moment: now(), origin: Origin::Client };
        let path = ZPath::parse("/a").expect("a path");
        let op = TxnOp::SetData { path, data: Some(vec![1; length].into()), version: 1 };
        queue.append(&Txn { session: SessionId(1), cxid: Xid(1), zxid, time_ms: 0, op }, since);
    }

    fn is_asked(queue: &Queue) -> Option<Asked> {
        queue.waiting.lock().asked
    }

    #[test]
    fn a_task_that_was_late_once_is_not_asked_again_before_other_rounds_were_quick() {
        let queue = Queue::new(Durable::from(Zxid::ZERO), Arc::default());
        assert!(queue.register(Waker::noop()));
        queue.waiting.lock().quick_rounds = LOG_INLINE_ROUNDS_MIN;
        let mut watch = Watch::default();
        append(&queue, Zxid(1), 1);
        assert_eq!(is_asked(&queue), Some(Asked::Task));
        assert!(matches!(queue.next(&mut watch), Next::Work(_)), "the thread takes its work");
        queue.carried_out(Duration::ZERO, false);
        for zxid in (2..).map(Zxid).take(LOG_INLINE_ROUNDS_MIN as usize - 1) {
            append(&queue, zxid, 1);
            assert_eq!(is_asked(&queue), Some(Asked::Thread), "{zxid}");
            assert!(queue.take_now().is_some());
            queue.carried_out(Duration::ZERO, false);
        }
        append(&queue, Zxid(1_000), 1);
        assert_eq!(is_asked(&queue), Some(Asked::Task));
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A queue whose task can be asked.
    fn queue_with_task() -> (Queue, Arc<Counted>) {
        let (queue, task) = (Queue::new(Durable::from(Zxid::ZERO), Arc::default()), Arc::default());
        assert!(queue.register(&Waker::from(Arc::clone(&task))));
        queue.waiting.lock().quick_rounds = LOG_INLINE_ROUNDS_MIN;
        (queue, task)
    }

    #[test]
    fn a_task_that_comes_back_is_woken_by_other_threads_only() {
        for (is_other_thread, woken) in [(false, 1), (true, 2)] {
            let (queue, task) = queue_with_task();
            append(&queue, Zxid(1), 1);
            assert!(queue.take_as_task().is_some());
            assert!(queue.carried_out(Duration::ZERO, true), "it comes back");
            match is_other_thread {
                false => append(&queue, Zxid(2), 1),
                true => thread::scope(|scope| _ = scope.spawn(|| append(&queue, Zxid(2), 1))),
            }
            assert_eq!(
                (is_asked(&queue), task.0.load(Ordering::Relaxed)),
                (Some(Asked::Task), woken)
            );
            assert!(queue.take_as_task().is_some());
        }
    }

    #[test]
    fn a_task_comes_back_after_every_second_round_at_most() {
        let (queue, task) = queue_with_task();
        for zxid in (1..=6).map(Zxid) {
            append(&queue, zxid, 1);
            assert!(queue.take_as_task().is_some());
            assert_eq!(queue.carried_out(Duration::ZERO, true), zxid.0 % 2 == 1, "{zxid}");
        }
        assert_eq!(task.0.load(Ordering::Relaxed), 3);
        append(&queue, Zxid(7), 1);
        assert!(queue.take_as_task().is_some());
        assert!(queue.carried_out(Duration::ZERO, true));
        assert!(queue.take_as_task().is_none(), "it came back, and there was nothing to do");
        let rounds = i64::from(LOG_COME_BACK_VAIN_PAUSE_ROUNDS);
        for zxid in (0..rounds).map(|round| Zxid(8 + round)) {
            append(&queue, zxid, 1);
            assert!(queue.take_as_task().is_some());
            assert!(!queue.carried_out(Duration::ZERO, true), "{zxid}");
        }
        assert_eq!(task.0.load(Ordering::Relaxed) as i64, 4 + rounds);
        append(&queue, Zxid(8 + rounds), 1);
        assert!(queue.take_as_task().is_some());
        assert!(queue.carried_out(Duration::ZERO, true), "it comes back again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_whose_worker_had_other_tasks_to_run_does_not_come_back_for_a_while() {
        let (queue, task) = queue_with_task();
        for (zxid, waited) in [(1, LOG_COME_BACK_TIME_MAX), (3, LOG_COME_BACK_TIME_MAX * 2)] {
            for zxid in [zxid, zxid + 1].map(Zxid) {
                append(&queue, zxid, 1);
                tokio::time::advance(waited).await;
                assert!(queue.take_as_task().is_some());
                assert_eq!(queue.carried_out(Duration::ZERO, true), zxid.0 % 2 == 1, "{zxid}");
            }
        }
        let woken = task.0.load(Ordering::Relaxed);
        let rounds = i64::from(LOG_COME_BACK_PAUSE_ROUNDS) - 1;
        for zxid in (0..rounds).map(|round| Zxid(5 + round)) {
            append(&queue, zxid, 1);
            assert!(queue.take_as_task().is_some());
            assert!(!queue.carried_out(Duration::ZERO, true), "{zxid}");
        }
        assert_eq!(task.0.load(Ordering::Relaxed) as i64, woken as i64 + rounds);
        append(&queue, Zxid(5 + rounds), 1);
        assert!(queue.take_as_task().is_some());
        assert!(queue.carried_out(Duration::ZERO, true), "it comes back again");
    }

    #[test]
    fn work_that_was_left_for_the_task_does_not_keep_another_thread_from_waking_it() {
        let (queue, task) = queue_with_task();
        append(&queue, Zxid(1), 1);
        assert!(queue.take_as_task().is_some());
        assert!(queue.carried_out(Duration::ZERO, true), "it comes back");
        append(&queue, Zxid(2), 1);
        assert_eq!(task.0.load(Ordering::Relaxed), 1, "the second write is left for it");
        for zxid in [Zxid(3), Zxid(4)] {
            thread::scope(|scope| _ = scope.spawn(|| append(&queue, zxid, 1)));
            assert_eq!(task.0.load(Ordering::Relaxed), 2, "it is woken once");
        }
        assert!(queue.take_as_task().is_some());
    }

    #[test]
    fn work_that_was_left_for_a_task_that_does_not_come_is_for_the_thread() {
        let ends: [fn(&Queue); 2] = [Queue::refuse_as_task, Queue::deregister];
        for end in ends {
            let (queue, _) = queue_with_task();
            append(&queue, Zxid(1), 1);
            assert!(queue.take_as_task().is_some());
            assert!(queue.carried_out(Duration::ZERO, true), "it comes back");
            append(&queue, Zxid(2), 1);
            end(&queue);
            assert_eq!(is_asked(&queue), Some(Asked::Thread));
        }
    }

    #[test]
    fn a_task_does_not_come_back_where_the_thread_has_work() {
        let (queue, _) = queue_with_task();
        append(&queue, Zxid(1), 1);
        assert!(queue.take_as_task().is_some());
        append(&queue, Zxid(2), 1);
        assert!(!queue.carried_out(Duration::ZERO, true));
        assert_eq!(is_asked(&queue), Some(Asked::Thread));
    }

    #[test]
    fn a_batch_is_no_longer_than_the_limit_that_recovery_assumes() {
        let queue = Queue::new(Durable::from(Zxid::ZERO), Arc::default());
        let lengths = [1_000, LOG_BATCH_BYTES_MAX - 2_000, 5_000, 2 * LOG_BATCH_BYTES_MAX, 1, 1];
        for (zxid, length) in (1..).map(Zxid).zip(lengths) {
            append(&queue, zxid, length);
        }
        let mut zxids = Vec::new();
        for work in queue.take_now().expect("there is some") {
            let Work::Batch(Batch { first, last, records, .. }) = work else { panic!("{work:?}") };
            assert!(records.len() <= LOG_BATCH_BYTES_MAX || first == last, "{first} to {last}");
            zxids.push((first.0, last.0));
        }
        assert_eq!(zxids, [(1, 2), (3, 3), (4, 4), (5, 6)]);
    }
}
