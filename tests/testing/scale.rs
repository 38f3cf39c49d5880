//! How long many servers and scenarios take.

use std::time::{Duration, Instant};

use zoolet::recipes::InterProcessMutex;
use zoolet::testing::TestServer;

/// A holder is silent for longer than its session timeout, and another client acquires the lock.
async fn scenario(number: usize) -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    let (owner, waiter) = (server.connect().await?, server.connect().await?);
    let path = format!("/locks/{number}");
    let guard = InterProcessMutex::new(&owner, &path)?.acquire().await?;
    server.session(owner.session_id()).freeze()?;
    let mutex = InterProcessMutex::new(&waiter, &path)?;
    let next = mutex.acquire_within(Duration::from_secs(100)).await?;
    assert!(next.fencing_token() > guard.fencing_token());
    next.release().await?;
    Ok(())
}

/// By how much more time a build without optimisation may take on a busy machine.
const GENEROSITY: u32 = if cfg!(debug_assertions) { 10 } else { 1 };

#[test]
fn two_hundred_lock_tests_with_expiry_take_less_than_two_seconds() {
    let began = Instant::now();
    for number in 0..200 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(scenario(number)).unwrap();
    }
    let took = began.elapsed();
    println!("200 scenarios with expiry in {took:?}");
    assert!(took < GENEROSITY * Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn start_to_first_create_takes_less_than_a_millisecond() {
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        let server = TestServer::start().await.unwrap();
        let client = server.connect().await.unwrap();
        client.create("/first").await.unwrap();
        fastest = fastest.min(began.elapsed());
    }
    println!("start to first create in {fastest:?}");
    assert!(fastest < GENEROSITY * Duration::from_millis(1), "{fastest:?}");
}
