//! Readers hold the lock together; a writer holds it alone.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use zoolet::recipes::InterProcessReadWriteLock;

const READERS: usize = 3;
const LOCK: &str = "/locks/read-write-example";

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// How many readers held the lock together, and how many the writer found.
async fn run(arguments: Arguments) -> Result<(usize, usize)> {
    let stage = Stage::start(arguments).await?;
    let inside = Arc::new(AtomicUsize::new(0));
    // Readers release the lock when all of them hold it, and then the writer starts.
    let meeting = Arc::new(Barrier::new(READERS + 1));
    let mut readers = JoinSet::new();
    for number in 1..=READERS {
        let client = stage.connect().await?;
        let (inside, meeting) = (Arc::clone(&inside), Arc::clone(&meeting));
        readers.spawn(async move {
            let lock = InterProcessReadWriteLock::new(&client, LOCK)?.read_lock();
            let guard = lock.acquire().await?;
            inside.fetch_add(1, Ordering::SeqCst);
            println!("reader {number} holds the read lock");
            meeting.wait().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            println!("reader {number} releases it");
            guard.release().await?;
            Result::Ok(())
        });
    }
    let client = stage.connect().await?;
    let lock = InterProcessReadWriteLock::new(&client, LOCK)?.write_lock();
    while inside.load(Ordering::SeqCst) < READERS {
        tokio::task::yield_now().await;
    }
    let met = inside.load(Ordering::SeqCst);
    println!("the writer starts; is the lock free? {}", lock.try_acquire().await?.is_some());
    meeting.wait().await;
    let guard = lock.acquire().await?;
    let found = inside.load(Ordering::SeqCst);
    println!("the writer holds the lock, beside {found} readers");
    guard.release().await?;
    while let Some(reader) = readers.join_next().await {
        reader??;
    }
    Ok((met, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readers_are_inside_together_and_the_writer_alone() {
        assert_eq!(run(Arguments::default()).await.unwrap(), (READERS, 0));
    }
}
