//! Eight workers share three permits.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::task::JoinSet;
use zoolet::recipes::InterProcessSemaphoreV2;

const WORKERS: usize = 8;
const PERMITS: usize = 3;
const WORK: Duration = Duration::from_millis(30);

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// The greatest number of workers that held a permit at the same time.
async fn run(arguments: Arguments) -> Result<usize> {
    let stage = Stage::start(arguments).await?;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    for number in 1..=WORKERS {
        let client = stage.connect().await?;
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        workers.spawn(async move {
            let semaphore =
                InterProcessSemaphoreV2::new(&client, "/locks/semaphore-example", PERMITS)?;
            let permits = semaphore.acquire(1).await?;
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            println!("worker {number} holds a permit, one of {now}");
            tokio::time::sleep(WORK).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            permits.release().await?;
            Result::Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let most = most.load(Ordering::SeqCst);
    println!("{WORKERS} workers, {PERMITS} permits, at most {most} held at a time");
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_more_workers_are_inside_than_there_are_permits() {
        let most = run(Arguments::default()).await.unwrap();
        assert!((1..=PERMITS).contains(&most), "{most}");
    }
}
