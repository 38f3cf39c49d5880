//! A long job holds a lock and does its work in parts. Somebody with an urgent one asks for the lock;
//! the holder finishes the part at which it is, and gives the lock up.

mod common;

use std::time::Duration;

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::sync::oneshot;
use zoolet::client::Client;
use zoolet::recipes::{InterProcessMutex, Revoker};

const LOCK: &str = "/locks/revocation-example";

/// How many parts the long job would have if nobody came.
const PARTS: usize = 1_000;
const PART: Duration = Duration::from_millis(10);

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// How many parts of the long job were done, and whether the urgent one was.
async fn run(arguments: Arguments) -> Result<(usize, bool)> {
    let stage = Stage::start(arguments).await?;
    let (begun, has_begun) = oneshot::channel();
    let long_job = tokio::spawn(work_in_parts(stage.connect().await?, begun));
    let client = stage.connect().await?;
    // The job failed before it began if this is gone.
    if has_begun.await.is_err() {
        long_job.await??;
        return Err("the long job ended before it began".into());
    }

    let mutex = InterProcessMutex::new(&client, LOCK)?;
    for holder in mutex.participants().await? {
        println!("the urgent one asks {holder}");
        Revoker::attempt_revoke(&client, &holder).await?;
    }
    let guard = mutex.acquire().await?;
    println!("the urgent one has the lock");
    guard.release().await?;
    Ok((long_job.await??, true))
}

/// How many parts were done before somebody asked for the lock.
async fn work_in_parts(client: Client, begun: oneshot::Sender<()>) -> Result<usize> {
    let guard = InterProcessMutex::new(&client, LOCK)?.acquire().await?;
    let mut requested = Box::pin(guard.revocation_requested());
    // Nobody listens if the other has failed.
    let _ = begun.send(());
    let mut done = 0;
    while done < PARTS {
        tokio::time::sleep(PART).await;
        done += 1;
        // Looked at between two parts, and never in the middle of one.
        if let Ok(request) = tokio::time::timeout(Duration::ZERO, &mut requested).await {
            request?;
            println!("the holder was asked, and gives the lock up after {done} parts");
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
