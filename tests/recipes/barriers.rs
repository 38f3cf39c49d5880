//! Tests of `DistributedBarrier` on a server in process.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::time::Duration;

use zoolet::client::Client;
use zoolet::recipes::{DistributedBarrier, LockError};
use zoolet::server::Server;
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{connect, server};

const SECOND: Duration = Duration::from_secs(1);

async fn barrier(server: &Server) -> DistributedBarrier {
    DistributedBarrier::new(&connect(server).await, "/jobs/barrier").expect("a legal path")
}

#[tokio::test(start_paused = true)]
async fn removing_the_barrier_releases_all_waiters() {
    let server = server().await;
    let gate = barrier(&server).await;
    gate.wait().await.unwrap(); // The barrier is not set.
    gate.set().await.unwrap();
    gate.set().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let barrier = barrier(&server).await;
        waiting.push(tokio::spawn(async move { barrier.wait().await }));
    }
    tokio::time::sleep(SECOND).await;
    assert!(waiting.iter().all(|task| !task.is_finished()));
    assert!(gate.is_set().await.unwrap());
    gate.remove().await.unwrap();
    gate.remove().await.unwrap();
    for task in waiting {
        task.await.unwrap().unwrap();
    }
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn changing_the_barriers_data_releases_no_waiter() {
    let server = server().await;
    let (client, barrier) = (connect(&server).await, barrier(&server).await);
    barrier.set().await.unwrap();
    let waiting = tokio::spawn({
        let barrier = barrier.clone();
        async move { barrier.wait().await }
    });
    tokio::time::sleep(SECOND).await;
    client.set("/jobs/barrier", "closed for today").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(!waiting.is_finished());
    barrier.remove().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_times_out_leaves_no_watch() {
    let server = server().await;
    let barrier = barrier(&server).await;
    barrier.set().await.unwrap();
    assert!(matches!(barrier.wait_within(SECOND).await, Err(LockError::TimedOut(_))));
    barrier.is_set().await.unwrap();
    assert_eq!(server.totals().watches, 0, "CURATOR-654");
}

#[tokio::test(start_paused = true)]
async fn a_wait_times_out_without_a_connection() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let barrier = DistributedBarrier::new(&client, "/jobs/barrier").unwrap();
    barrier.set().await.unwrap();
    counting.refuse(true);
    counting.cut();
    let start = tokio::time::Instant::now();
    assert!(matches!(barrier.wait_within(SECOND).await, Err(LockError::TimedOut(_))));
    assert!(start.elapsed() < SECOND + Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn a_wait_continues_after_its_session_expired() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let waits = DistributedBarrier::new(&client, "/jobs/barrier").unwrap();
    let gate = barrier(&server).await;
    gate.set().await.unwrap();
    let waiting = tokio::spawn(async move { waits.wait().await });
    tokio::time::sleep(SECOND).await;
    counting.refuse(true);
    counting.cut();
    // Longer than the session timeout.
    tokio::time::sleep(Duration::from_secs(120)).await;
    counting.refuse(false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished());
    gate.remove().await.unwrap();
    waiting.await.unwrap().unwrap();
}
