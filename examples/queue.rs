//! Workers take transfers from a queue and book them. Items are delivered at least once: one worker
//! loses its session in the middle of its work, and another one receives the item again. All the same
//! each transfer is booked once, because the booking and the end of the item are one transaction.

mod common;

use clap::Parser;
use common::{Arguments, Result, Stage};
use zoolet::client::Client;
use zoolet::protocol::{CreateMode, ErrorCode, MultiOp};
use zoolet::recipes::queue::{Delivery, DistributedQueue, QueueError};

const QUEUE: &str = "/queue-example";
const LEASES: &str = "/queue-example-leases";
/// Its data is the sum of all transfers.
const SUM: &str = "/queue-example-sum";
const TRANSFERS: u64 = 20;
const WORKERS: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

fn queue(client: &Client) -> Result<DistributedQueue> {
    Ok(DistributedQueue::new(client, QUEUE)?.with_lock_path(LEASES)?)
}

/// The sum that was booked.
async fn run(arguments: Arguments) -> Result<u64> {
    let stage = Stage::start(arguments).await?;
    let client = stage.connect().await?;
    client.create(SUM).data("0").mode(CreateMode::Ephemeral).await?;
    for amount in 1..=TRANSFERS {
        queue(&client)?.put(amount.to_string()).await?;
    }
    // This worker takes an item and is gone: its lease ends with its session.
    let crashes = stage.connect().await?;
    let delivery = queue(&crashes)?.take().await?;
    println!("a worker takes the item {} and is gone", amount(&delivery)?);
    crashes.close().await?;
    drop(delivery);
    let mut workers = Vec::new();
    for number in 1..=WORKERS {
        workers.push(tokio::spawn(work(stage.connect().await?, number)));
    }
    for worker in workers {
        worker.await??;
    }
    let sum = sum(&client).await?.0;
    println!("booked: {sum}");
    Ok(sum)
}

/// Books transfers until no more come.
async fn work(client: Client, number: usize) -> Result<()> {
    let queue = queue(&client)?;
    while let Some(delivery) = queue.take_within(std::time::Duration::from_millis(500)).await? {
        let amount = amount(&delivery)?;
        let (before, version) = sum(&client).await?;
        let book = MultiOp::set_data(SUM, (before + amount).to_string(), version);
        match delivery.done_with(vec![book]).await {
            Ok(()) => println!("worker {number} books {amount}"),
            // Another worker has booked meanwhile. The item is delivered again.
            Err(QueueError::Client(error)) if error.is(ErrorCode::BAD_VERSION) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn amount(delivery: &Delivery) -> Result<u64> {
    let item = delivery.items()?.pop().ok_or("there is no item")?;
    Ok(std::str::from_utf8(&item)?.parse()?)
}

/// The sum and the version of its data.
async fn sum(client: &Client) -> Result<(u64, i32)> {
    let (data, stat) = client.get(SUM).await?;
    Ok((std::str::from_utf8(&data)?.parse()?, stat.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_transfer_is_booked_once() {
        let booked = run(Arguments::default()).await.unwrap();
        assert_eq!(booked, (1..=TRANSFERS).sum::<u64>());
    }
}
