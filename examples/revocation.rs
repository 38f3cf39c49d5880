//! A long job holds a lock and works in parts. An urgent job asks for the lock; the holder finishes
//! the current part and releases the lock.

mod common;

use std::time::Duration;

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::sync::oneshot;
use zoolet::client::Client;
use zoolet::recipes::{InterProcessMutex, Revoker};

const LOCK: &str = "/locks/revocation-example";

/// The number of parts of the long job without an interruption.
const PARTS: usize = 1_000;
const PART: Duration = Duration::from_millis(10);

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// How many parts of the long job were done, and whether the urgent job was.
async fn run(arguments: Arguments) -> Result<(usize, bool)> {
    let stage = Stage::start(arguments).await?;
    let (begun, has_begun) = oneshot::channel();
    let long_job = tokio::spawn(work_in_parts(stage.connect().await?, begun));
    let client = stage.connect().await?;
    // If this fails, the long job has failed before it began.
    if has_begun.await.is_err() {
        long_job.await??;
        return Err("the long job ended before it began".into());
    }

    let mutex = InterProcessMutex::new(&client, LOCK)?;
    for holder in mutex.participants().await? {
        println!("the urgent job asks {holder} to release the lock");
        Revoker::attempt_revoke(&client, &holder).await?;
    }
    let guard = mutex.acquire().await?;
    println!("the urgent job holds the lock");
    guard.release().await?;
    Ok((long_job.await??, true))
}

/// How many parts were done before the request.
async fn work_in_parts(client: Client, begun: oneshot::Sender<()>) -> Result<usize> {
    let guard = InterProcessMutex::new(&client, LOCK)?.acquire().await?;
    let mut requested = Box::pin(guard.revocation_requested());
    // If the receiver is gone, the other job has failed.
    let _ = begun.send(());
    let mut done = 0;
    while done < PARTS {
        tokio::time::sleep(PART).await;
        done += 1;
        // Checked between two parts, and never in the middle of one.
        if let Ok(request) = tokio::time::timeout(Duration::ZERO, &mut requested).await {
            request?;
            println!("the holder received the request, and releases the lock after {done} parts");
            break;
        }
    }
    drop(requested);
    guard.release().await?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_holder_finishes_its_part_and_releases_the_lock() {
        let (parts, is_urgent_done) = run(Arguments::default()).await.unwrap();
        assert!((1..PARTS).contains(&parts), "{parts}");
        assert!(is_urgent_done);
    }
}
