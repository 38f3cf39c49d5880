//! Who carries out the work of a committer: the appending thread, a thread of its own, or a task.
//!
//! A thread would be enough. But a client that waits for each write before it sends the next would
//! wait for two wake-ups more with each: of the thread, and by the thread. On some machines these
//! take half as long as the sync. So while syncs are quick, a task of the runtime carries out what
//! was appended while nobody was busy. A worker of the runtime runs the task that it woke last
//! first. So the task runs as soon as the client's task has nothing more to send, and the client's
//! task as soon as it has its reply, both without another thread.
//!
//! The task keeps its worker busy while it waits for the disk, so this has limits:
//!
//! - The runtime has other workers, and no other server of the process does the same now.
//! - The last rounds were quick (`LOG_INLINE_TIME_MAX`).
//! - Work that was appended during a round goes to the thread: many clients write, and the workers are to
//!   serve them.
//! - The thread watches. If the disk hangs it wakes another worker, which then also waits for the
//!   sockets and timers of the runtime. If the task does not get its turn the thread takes its work.
//!
//! After a write of a client that is alone, the task yields. It runs again when its worker has nothing
//! else to run, and finds the client's next write without being woken for it. It does so for every second
//! write only. A worker runs just three tasks in succession because each has woken the next; other workers
//! may take the fourth, which was the client for every third write. The client then wrote while the task was
//! still busy with the mark, so that the thread carried out that write. Where the worker has other tasks
//! to run first, or the client does not write again at once, the task is woken for a while
//! (`LOG_COME_BACK_PAUSE_ROUNDS`, `LOG_COME_BACK_VAIN_PAUSE_ROUNDS`).
//!
//! The task has another duty, as the *replier*: where many tasks wait for a sync of the thread, and more
//! records wait for the next one, it wakes them while the thread writes. In process, who wakes a client
//! also gives it its reply. For dozens that takes as long as half a sync, and the disk would be idle.

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use zoolet_core::{Frozen, Txn};
use zoolet_protocol::Zxid;

use super::queue::{Asked, Next, Queue, Watch};
use super::{Batch, Committer, Since, Work};
use crate::clock::now;
use crate::storage::durable::Durable;
use crate::storage::error::StorageError;
use crate::storage::log_writer::encode_log_record;

/// Whether a task of this process carries work out. A second one could keep the last worker busy.
static IS_INLINE: AtomicBool = AtomicBool::new(false);

/// Passes work to a [`Committer`]: by a call, or through a queue.
#[derive(Debug)]
pub(crate) enum Commits {
    /// The caller's thread carries the work out at once.
    Immediate(Box<Committer>),
    /// A thread of its own or a task carries the work out.
    Queued(Arc<Queue>, Option<JoinHandle<()>>),
}

/// A committer, and the queue of its work.
#[derive(Debug)]
struct Shared {
    queue: Arc<Queue>,
    durable: Durable,
    /// The directory of the logs, which an error names.
    logs: PathBuf,
    /// Locked by who has taken work, so nobody waits for it. `None` once the thread has ended: with it
    /// the lock of the directory is gone.
    committer: Mutex<Option<Committer>>,
}

impl Shared {
    /// Returns whether the task that calls this is to come back.
    fn carry_out(&self, work: VecDeque<Work>, who: Asked) -> bool {
        let begin = now();
        let is_alone = self.carry_out_with(work);
        let took = now().saturating_duration_since(begin);
        self.queue.carried_out(took, who == Asked::Task && is_alone)
    }

    /// Returns whether one client alone waited for it.
    fn carry_out_with(&self, work: VecDeque<Work>) -> bool {
        let mut committer = self.committer.lock();
        let committer = committer.as_mut().expect("nothing is appended once it is closed");
        self.fail_on_panic(|| work.into_iter().for_each(|work| committer.carry_out(work)));
        committer.is_alone
    }

    /// Calls code that may panic, in process also that of a client which it wakes. All messages would
    /// wait forever after that, so the server fails instead.
    fn fail_on_panic(&self, call: impl FnOnce()) {
        if panic::catch_unwind(AssertUnwindSafe(call)).is_err() {
            let who = "the code that does so, or that wakes who waits for it, has panicked";
            let source = io::Error::other(who);
            let path = self.logs.clone();
            self.durable.fail(StorageError::Io { what: "write to", path, source });
        }
    }

    /// What the thread does.
    fn run(&self, runtime: Option<&Handle>) {
        let mut watch = Watch::default();
        loop {
            match self.queue.next(&mut watch) {
                Next::Work(work) => _ = self.carry_out(work, Asked::Thread),
                // Of the workers that sleep one wakes, and waits for the sockets when it sleeps again.
                Next::Unblock => drop(runtime.map(|runtime| runtime.spawn(async {}))),
                Next::Over => break,
            }
        }
        let committer = self.committer.lock().take();
        committer.expect("this is where it ends").finish();
    }

    /// What the task does.
    async fn run_as_task(&self) {
        while std::future::poll_fn(|context| self.poll(context)).await == Ended::ComesBack {
            // The runtime wakes the task once the worker has run all other tasks.
            tokio::task::yield_now().await;
        }
    }

    /// What the task does when it is woken.
    fn poll(&self, context: &Context<'_>) -> Poll<Ended> {
        if !self.queue.register(context.waker()) {
            return Poll::Ready(Ended::Over);
        }
        self.durable.register_replier(context.waker());
        self.fail_on_panic(|| self.durable.reply());
        if IS_INLINE.swap(true, Ordering::Acquire) {
            self.queue.refuse_as_task();
            return Poll::Pending;
        }
        let work = self.queue.take_as_task();
        let comes_back = work.is_some_and(|work| self.carry_out(work, Asked::Task));
        IS_INLINE.store(false, Ordering::Release);
        if comes_back { Poll::Ready(Ended::ComesBack) } else { Poll::Pending }
    }
}

/// How a turn of the task ended, if it does not wait to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    ComesBack,
    Over,
}

/// Takes the task out of the queue when its runtime ends.
struct Registered(Arc<Shared>);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.queue.deregister();
        self.0.fail_on_panic(|| self.0.durable.deregister_replier());
    }
}

impl Commits {
    /// # Errors
    ///
    /// If the system can start no thread.
    pub(crate) fn start(committer: Committer) -> io::Result<Self> {
        if !committer.in_background {
            return Ok(Self::Immediate(Box::new(committer)));
        }
        let (durable, logs) = (committer.durable.clone(), committer.directory.logs.clone());
        let queue = Arc::new(Queue::new(durable.clone(), Arc::clone(&committer.stats)));
        let committer = Mutex::new(Some(committer));
        let shared = Arc::new(Shared { queue: Arc::clone(&queue), durable, logs, committer });
        let runtime = Handle::try_current().ok().filter(has_other_workers);
        let (of_task, of_thread) = (Arc::clone(&shared), runtime.clone());
        let thread = thread::Builder::new()
            .name("zoolet-log".to_owned())
            .spawn(move || shared.run(of_thread.as_ref()))?;
        if let Some(runtime) = runtime {
            runtime.spawn(async move {
                let registered = Registered(of_task);
                registered.0.run_as_task().await;
            });
        }
        Ok(Self::Queued(queue, Some(thread)))
    }

    /// Appends a transaction to the work, and returns the length of its record.
    pub(crate) fn append(&mut self, txn: &Txn, since: Since) -> usize {
        match self {
            Self::Immediate(committer) => {
                let mut records = BytesMut::new();
                encode_log_record(txn, &mut records);
                let bytes = records.len();
                committer.stats.appended.add(1);
                let since = vec![since];
                let batch = Batch { first: txn.zxid, last: txn.zxid, records, since };
                committer.carry_out(Work::Batch(batch));
                bytes
            }
            Self::Queued(queue, _) => queue.append(txn, since),
        }
    }

    pub(crate) fn end_log(&mut self) {
        self.push(Work::EndLog);
    }

    /// Lets messages leave that depend on a durable state without records, after those that depend
    /// on the records before.
    pub(crate) fn reach(&mut self, zxid: Zxid) {
        self.push(Work::Reach(zxid));
    }

    pub(crate) fn take_snapshot(&mut self, frozen: Frozen) {
        self.push(Work::Snapshot(Box::new(frozen)));
    }

    fn push(&mut self, work: Work) {
        match self {
            Self::Immediate(committer) => committer.carry_out(work),
            Self::Queued(queue, _) => queue.push(work),
        }
    }
}

impl Drop for Commits {
    /// Waits until all records that were appended are written.
    fn drop(&mut self) {
        match self {
            Self::Immediate(committer) => committer.finish(),
            Self::Queued(queue, thread) => {
                queue.close();
                if let Some(Err(_)) = thread.take().map(JoinHandle::join) {
                    tracing::error!("the thread of the log panicked");
                }
            }
        }
    }
}

/// Whether one of the workers can wait for the disk while others go on.
fn has_other_workers(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1
}
