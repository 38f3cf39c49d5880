//! All ways in which a client can hold a lock or lead, with one question: does it?

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;
use zoolet_client::Client;
use zoolet_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2,
    LeaderLatch, LockError, LockState,
};

/// Tells whether a lock is held. Dropping it releases the lock.
pub(crate) type Holding = Box<dyn Fn() -> bool + Send + Sync>;

/// What is held, and the method that tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HoldMethod {
    /// `Guard::state`.
    Mutex,
    /// `Guard::state`.
    WriteLock,
    /// `MultiGuard::state`.
    MultiLock,
    /// `Permits::state`.
    Permit,
    /// `LeaderLatch::is_leader`.
    Latch,
    /// `LeaderLatch::term`.
    Term,
    /// A future in `Guard::run`: the lock is held until the future is dropped.
    Run,
    /// The lock is held until `Guard::lost` returns.
    Lost,
}

impl HoldMethod {
    pub(crate) const ALL: [Self; 8] = [
        Self::Mutex,
        Self::WriteLock,
        Self::MultiLock,
        Self::Permit,
        Self::Latch,
        Self::Term,
        Self::Run,
        Self::Lost,
    ];

    /// Acquires it at a path.
    pub(crate) async fn hold(self, client: &Client, path: &str) -> Result<Holding, LockError> {
        let mutex = InterProcessMutex::new(client, path)?;
        Ok(match self {
            Self::Mutex => {
                let guard = mutex.acquire().await?;
                Box::new(move || guard.state() == LockState::Held)
            }
            Self::WriteLock => {
                let lock = InterProcessReadWriteLock::new(client, path)?.write_lock();
                let guard = lock.acquire().await?;
                Box::new(move || guard.state() == LockState::Held)
            }
            Self::MultiLock => {
                let paths = ["a", "b"].map(|name| format!("{path}/{name}"));
                let lock = InterProcessMultiLock::new(client, &[&paths[0], &paths[1]])?;
                let guard = lock.acquire().await?;
                Box::new(move || guard.state() == LockState::Held)
            }
            Self::Permit => {
                let permits = InterProcessSemaphoreV2::new(client, path, 1)?.acquire(1).await?;
                Box::new(move || permits.state() == LockState::Held)
            }
            Self::Latch => {
                let latch = LeaderLatch::start(client, path, "one")?;
                latch.await_leadership().await?;
                Box::new(move || latch.is_leader())
            }
            Self::Term => {
                let latch = LeaderLatch::start(client, path, "one")?;
                latch.await_leadership().await?;
                Box::new(move || latch.term().borrow().is_some())
            }
            Self::Run => {
                let guard = mutex.acquire().await?;
                let (running, flag) = Flag::raised();
                let task = tokio::spawn(async move {
                    let works = async move {
                        let _running = running;
                        std::future::pending::<()>().await
                    };
                    let _ = guard.run(works).await;
                });
                flag.while_running(task)
            }
            Self::Lost => {
                let guard = mutex.acquire().await?;
                let (running, flag) = Flag::raised();
                let task = tokio::spawn(async move {
                    guard.lost().await;
                    drop(running);
                });
                flag.while_running(task)
            }
        })
    }
}

impl fmt::Display for HoldMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::WriteLock => "write lock",
            Self::MultiLock => "multi-lock",
            Self::Permit => "permit",
            Self::Latch => "latch: is_leader",
            Self::Term => "latch: term",
            Self::Run => "mutex: run",
            Self::Lost => "mutex: lost",
        })
    }
}

/// Sets a flag until this is dropped.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Whether a task runs.
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn raised() -> (Running, Self) {
        let flag = Arc::new(AtomicBool::new(true));
        (Running(Arc::clone(&flag)), Self(flag))
    }

    fn while_running(self, task: JoinHandle<()>) -> Holding {
        let task = AbortOnDropHandle::new(task);
        Box::new(move || !task.is_finished() && self.0.load(Ordering::SeqCst))
    }
}
