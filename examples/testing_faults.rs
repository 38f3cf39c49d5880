//! Faults that a test injects and a lock survives: the reply to a create is lost, the network of
//! the holder is down, and the server loses power. Minutes of virtual time pass at once.

#![allow(clippy::disallowed_methods, reason = "it measures what passes on the paused clock")]

use std::time::Duration;

use zoolet::client::Client;
use zoolet::recipes::{Guard, InterProcessMutex};
use zoolet::server::storage::SimDisk;
use zoolet::testing::{RequestFilter, TestServer};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const LOCK: &str = "/locks/testing-example";

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<()> {
    run().await.map(drop)
}

/// The fencing tokens of the holders, in their order.
async fn run() -> Result<Vec<i64>> {
    let server = TestServer::builder().sim_disk(SimDisk::default()).start().await?;
    let (one, other) = (server.connect().await?, server.connect().await?);
    let begun = tokio::time::Instant::now();
    let guard = after_a_lost_answer(&server, &one).await?;
    let first = guard.fencing_token().0;
    let second = after_a_lost_network(&server, &one, &other).await?;
    let third = after_a_power_failure(&server, &other).await?;
    println!("{:?} have passed", begun.elapsed());
    Ok(vec![first, second, third])
}

/// Acquires the lock although the reply to its create is lost.
async fn after_a_lost_answer(server: &TestServer, client: &Client) -> Result<Guard> {
    let filter = RequestFilter::next(1).creates().below(LOCK);
    let fault = server.everyone().cut_before_reply(filter)?;
    let guard = InterProcessMutex::new(client, LOCK)?.acquire().await?;
    let places = client.children(LOCK).await?.len();
    println!("{} reply was lost, and there is {places} place in the line", fault.hits());
    Ok(guard)
}

/// Acquires the lock from a holder whose session expires in silence.
async fn after_a_lost_network(server: &TestServer, owner: &Client, client: &Client) -> Result<i64> {
    server.session(owner.session_id()).freeze()?;
    let begun = tokio::time::Instant::now();
    let guard = InterProcessMutex::new(client, LOCK)?.acquire().await?;
    println!("the next holder waited {:?}", begun.elapsed());
    server.heal();
    let token = guard.fencing_token().0;
    guard.release().await?;
    Ok(token)
}

/// Acquires the lock before a power loss, and still holds it afterwards.
async fn after_a_power_failure(server: &TestServer, client: &Client) -> Result<i64> {
    let guard = InterProcessMutex::new(client, LOCK)?.acquire().await?;
    server.lose_power(1).await?;
    let places = client.children(LOCK).await?.len();
    println!("the server has restarted, and there is {places} place in the line");
    tokio::time::sleep(Duration::from_secs(60)).await;
    guard.transaction(Vec::new()).await?;
    println!("a minute later the lock is still held");
    Ok(guard.fencing_token().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_owner_has_a_later_token_than_the_one_before() {
        let tokens = run().await.unwrap();
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
    }
}
