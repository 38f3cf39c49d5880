//! A member of a fleet that acquires and releases locks, and puts and takes items, as each line of its
//! input says, so that the requests of each step can be counted.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use zoolet_client::Client;
use zoolet_recipes::queue::DistributedQueue;
use zoolet_recipes::{
    Guard, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreV2, LockError, MultiGuard, Owner, Permits, Revoker, SharedCount,
};

use crate::fleet_member::Outcome;

const PERMITS: usize = 3;

/// How many items a step puts or takes.
const ITEMS: usize = 100;

/// The locks that are held now. The name of a lock with `un` before it releases it.
#[derive(Default)]
struct HeldLocks {
    mutex: Option<Guard>,
    fresh: Option<Guard>,
    read: Option<Guard>,
    write: Option<Guard>,
    permit: Option<Permits>,
    /// The number of permits of the counted semaphore, once it was used.
    maximum: Option<Arc<SharedCount>>,
    all: Option<MultiGuard>,
    /// Tasks that wait for a lock and release it at once.
    waiting: Vec<JoinHandle<Result<(), LockError>>>,
}

/// The locks below a path.
struct Locks {
    client: Client,
    folder: String,
    mutex: InterProcessMutex,
    fresh: InterProcessMutex,
    lock: InterProcessReadWriteLock,
    semaphore: InterProcessSemaphoreV2,
    all: InterProcessMultiLock,
    queue: DistributedQueue,
    /// One owner for all steps, as the thread is in the member that uses Curator.
    owner: Owner,
}

/// Does what each line says, and prints the line when it is done.
pub(crate) async fn obey(
    client: &Client,
    folder: &str,
    mut told: UnboundedReceiver<String>,
) -> Outcome<()> {
    let (locks, mut held) = (Locks::new(client, folder)?, HeldLocks::default());
    while let Some(line) = told.recv().await {
        match line.as_str() {
            "revocable" => {
                let mutex = locks.mutex.clone();
                // The task prints its own lines.
                held.waiting.push(tokio::spawn(hold_until_revoked(mutex)));
                continue;
            }
            "join" => {
                for waiting in held.waiting.drain(..) {
                    waiting.await??;
                }
            }
            "revoke" => locks.revoke().await?,
            "grow" => {
                let maximum = held.maximum(&locks).await?;
                maximum.set(maximum.count()? + 1).await?;
            }
            line => match line.strip_prefix("un") {
                Some(name) => held.release(name).await?,
                None => held.acquire(&locks, line).await?,
            },
        }
        println!("{line}");
    }
    Ok(())
}

impl Locks {
    fn new(client: &Client, folder: &str) -> Outcome<Self> {
        let below = |name: &str| format!("{folder}/{name}");
        let all = ["one", "two", "three"].map(|name| below(&format!("all/{name}")));
        Ok(Self {
            mutex: InterProcessMutex::new(client, &below("mutex"))?,
            fresh: InterProcessMutex::new(client, &below("new/directory"))?,
            lock: InterProcessReadWriteLock::new(client, &below("read-write"))?,
            semaphore: InterProcessSemaphoreV2::new(client, &below("semaphore"), PERMITS)?,
            all: InterProcessMultiLock::new(client, &[&all[0], &all[1], &all[2]])?,
            queue: DistributedQueue::new(client, &below("queue"))?,
            client: client.clone(),
            folder: folder.to_owned(),
            owner: Owner::new(),
        })
    }

    async fn put(&self) -> Outcome<()> {
        for item in 0..ITEMS {
            self.queue.put(item.to_string()).await?;
        }
        Ok(())
    }

    /// Takes items with a new queue, as Curator's consumer begins with the queue.
    async fn take(&self, is_leased: bool) -> Outcome<()> {
        let mut queue = DistributedQueue::new(&self.client, self.queue.path())?;
        if is_leased {
            queue = queue.with_lock_path(&format!("{}/queue-locks", self.folder))?;
        }
        for _ in 0..ITEMS {
            queue.take().await?.done().await?;
        }
        Ok(())
    }

    async fn revoke(&self) -> Outcome<()> {
        let participants = self.mutex.participants().await?;
        let holder = participants.first().ok_or("the mutex is not held")?;
        Revoker::attempt_revoke(&self.client, holder).await?;
        Ok(())
    }
}

impl HeldLocks {
    async fn acquire(&mut self, locks: &Locks, name: &str) -> Outcome<()> {
        let Locks { mutex, fresh, lock, semaphore, all, owner, .. } = locks;
        match name {
            "mutex" => self.mutex = Some(mutex.acquire_as(*owner).await?),
            "fresh" => self.fresh = Some(fresh.acquire_as(*owner).await?),
            "read" => self.read = Some(lock.read_lock().acquire_as(*owner).await?),
            "write" => self.write = Some(lock.write_lock().acquire_as(*owner).await?),
            "permit" => self.permit = Some(semaphore.acquire(1).await?),
            "permits" => self.permit = Some(semaphore.acquire(PERMITS).await?),
            "counted" => {
                let (path, maximum) =
                    (format!("{}/counted", locks.folder), self.maximum(locks).await?);
                let semaphore = InterProcessSemaphoreV2::with_count(&locks.client, &path, maximum)?;
                self.permit = Some(semaphore.acquire(1).await?);
            }
            "all" => self.all = Some(all.acquire_as(*owner).await?),
            "try" if mutex.try_acquire_as(*owner).await?.is_some() => {
                return Err("the mutex was free".into());
            }
            "try" => {}
            "put" => locks.put().await?,
            "take" => locks.take(false).await?,
            "take-leased" => locks.take(true).await?,
            "wait" => self.waiting.push(tokio::spawn(wait(mutex.clone()))),
            "wait-read" | "wait-write" => {
                self.waiting.push(tokio::spawn(read_or_write(lock.clone(), name == "wait-read")));
            }
            other => return Err(format!("unknown line {other:?}").into()),
        }
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Outcome<()> {
        let guard = match name {
            "mutex" => self.mutex.take(),
            "fresh" => self.fresh.take(),
            "read" => self.read.take(),
            "write" => self.write.take(),
            "all" => return Ok(self.all.take().ok_or("the locks are not held")?.release().await?),
            _ => return Ok(self.permit.take().ok_or("no permit is held")?.release().await?),
        };
        Ok(guard.ok_or("the lock is not held")?.release().await?)
    }

    async fn maximum(&mut self, locks: &Locks) -> Outcome<Arc<SharedCount>> {
        if let Some(maximum) = &self.maximum {
            return Ok(Arc::clone(maximum));
        }
        let path = format!("{}/maximum", locks.folder);
        let maximum = Arc::new(SharedCount::start(&locks.client, &path, 1).await?);
        self.maximum = Some(Arc::clone(&maximum));
        Ok(maximum)
    }
}

/// Prints a line when the mutex is held, and another when it was released because somebody revoked
/// it.
async fn hold_until_revoked(mutex: InterProcessMutex) -> Result<(), LockError> {
    let guard = mutex.acquire().await?;
    println!("revocable");
    guard.revocation_requested().await?;
    guard.release().await?;
    println!("revoked");
    Ok(())
}

async fn wait(mutex: InterProcessMutex) -> Result<(), LockError> {
    mutex.acquire().await?.release().await
}

async fn read_or_write(lock: InterProcessReadWriteLock, is_reader: bool) -> Result<(), LockError> {
    let guard = match is_reader {
        true => lock.read_lock().acquire().await?,
        false => lock.write_lock().acquire().await?,
    };
    guard.release().await
}
