//! A member of a fleet that does with locks what it is told, one thing a line, so that what each
//! costs can be counted.

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use zoolet_recipes::client::Client;
use zoolet_recipes::{
    Guard, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreV2, LockError, MultiGuard, Permits,
};

use crate::fleet_member::Outcome;

const PERMITS: usize = 3;

/// What is held now. Each is released by the line of its name with `un` before it.
#[derive(Default)]
struct Held {
    mutex: Option<Guard>,
    fresh: Option<Guard>,
    read: Option<Guard>,
    write: Option<Guard>,
    permit: Option<Permits>,
    all: Option<MultiGuard>,
    /// Those who take a lock when they get it, and release it at once.
    waiting: Vec<JoinHandle<Result<(), LockError>>>,
}

/// Does what each line says, and repeats the line when it is done.
pub(crate) async fn obey(
    client: &Client,
    path: &str,
    mut told: UnboundedReceiver<String>,
) -> Outcome<()> {
    let below = |name: &str| format!("{path}/{name}");
    let mutex = InterProcessMutex::new(client, &below("mutex"))?;
    let fresh = InterProcessMutex::new(client, &below("new/directory"))?;
    let lock = InterProcessReadWriteLock::new(client, &below("read-write"))?;
    let semaphore = InterProcessSemaphoreV2::new(client, &below("semaphore"), PERMITS)?;
    let all = ["one", "two", "three"].map(|name| below(&format!("all/{name}")));
    let all = InterProcessMultiLock::new(client, &[&all[0], &all[1], &all[2]])?;
    let mut held = Held::default();
    while let Some(line) = told.recv().await {
        match line.as_str() {
            "mutex" => held.mutex = Some(mutex.acquire().await?),
            "unmutex" => release(&mut held.mutex).await?,
            "fresh" => held.fresh = Some(fresh.acquire().await?),
            "unfresh" => release(&mut held.fresh).await?,
            "read" => held.read = Some(lock.read_lock().acquire().await?),
            "unread" => release(&mut held.read).await?,
            "write" => held.write = Some(lock.write_lock().acquire().await?),
            "unwrite" => release(&mut held.write).await?,
            "permit" => held.permit = Some(semaphore.acquire(1).await?),
            "permits" => held.permit = Some(semaphore.acquire(PERMITS).await?),
            "unpermit" | "unpermits" => {
                held.permit.take().ok_or("no permit is held")?.release().await?
            }
            "all" => held.all = Some(all.acquire().await?),
            "unall" => held.all.take().ok_or("they are not held")?.release().await?,
            "try" if mutex.try_acquire().await?.is_some() => return Err("it was free".into()),
            "try" => {}
            "wait" => held.waiting.push(tokio::spawn(wait(mutex.clone()))),
            "wait-read" | "wait-write" => {
                held.waiting.push(tokio::spawn(read_or_write(lock.clone(), line == "wait-read")));
            }
            "join" => {
                for waiting in held.waiting.drain(..) {
                    waiting.await??;
                }
            }
            other => return Err(format!("told {other}").into()),
        }
        println!("{line}");
    }
    Ok(())
}

async fn release(held: &mut Option<Guard>) -> Outcome<()> {
    Ok(held.take().ok_or("it is not held")?.release().await?)
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
