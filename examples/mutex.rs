//! Five workers increment a counter in one znode. Without the lock, increments would be lost.

mod common;

use clap::Parser;
use common::{Arguments, Result, Stage};
use tokio::task::JoinSet;
use zoolet::client::Client;
use zoolet::protocol::CreateMode;
use zoolet::recipes::InterProcessMutex;

const WORKERS: usize = 5;
const ROUNDS: usize = 20;
const COUNTER: &str = "/mutex-example-counter";

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// The final counter, and the number of increments.
async fn run(arguments: Arguments) -> Result<(usize, usize)> {
    let stage = Stage::start(arguments).await?;
    let client = stage.connect().await?;
    client.create(COUNTER).data("0").mode(CreateMode::Ephemeral).await?;
    let mut workers = JoinSet::new();
    for number in 1..=WORKERS {
        workers.spawn(work(number, stage.connect().await?));
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let count = read(&client).await?;
    println!("{WORKERS} workers counted to {ROUNDS} each; the counter says {count}");
    Ok((count, WORKERS * ROUNDS))
}

async fn work(number: usize, client: Client) -> Result<()> {
    let mutex = InterProcessMutex::new(&client, "/locks/mutex-example")?;
    for _ in 0..ROUNDS {
        let guard = mutex.acquire().await?;
        let count = read(&client).await?;
        client.set(COUNTER, (count + 1).to_string()).await?;
        guard.release().await?;
    }
    println!("worker {number} is done");
    Ok(())
}

async fn read(client: &Client) -> Result<usize> {
    let (data, _) = client.get(COUNTER).await?;
    Ok(std::str::from_utf8(&data)?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_count_is_lost() {
        let (count, counted) = run(Arguments::default()).await.unwrap();
        assert_eq!(count, counted);
    }
}
