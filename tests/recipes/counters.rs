//! Tests of `DistributedAtomicLong` on a server in process: no change is lost or made twice.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::time::Duration;

use zoolet::client::{Client, Error, RetryPolicy};
use zoolet::recipes::{Change, DistributedAtomicLong, InterProcessMutex, ValueError};
use zoolet::server::Server;
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{connect, server};

#[tokio::test(start_paused = true)]
async fn concurrent_increments_all_count() {
    let server = server().await;
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let number = DistributedAtomicLong::new(&connect(&server).await, "/a/b").unwrap();
        let number = number.with_retry_policy(RetryPolicy::forever(Duration::from_millis(1)));
        tasks.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..20 {
                let Change { before, after } = number.increment().await.unwrap();
                assert_eq!(after, before + 1);
                seen.push(after);
                tokio::task::yield_now().await;
            }
            seen
        }));
    }
    let mut seen = Vec::new();
    for task in tasks {
        seen.extend(task.await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=200).collect::<Vec<_>>(), "each number occurs once");
}

#[tokio::test(start_paused = true)]
async fn a_counter_is_stored_as_curator_stores_it() {
    let server = server().await;
    let client = connect(&server).await;
    let number = DistributedAtomicLong::new(&client, "/n").unwrap();
    assert_eq!(number.get().await.unwrap(), 0, "no znode");
    client.create("/n").await.unwrap();
    assert_eq!(number.get().await.unwrap(), 0, "no bytes");
    assert_eq!(number.subtract(2).await.unwrap(), Change { before: 0, after: -2 });
    assert_eq!(client.get("/n").await.unwrap().0, [255, 255, 255, 255, 255, 255, 255, 254][..]);
    client.set("/n", vec![0, 0, 0, 1]).await.unwrap();
    let corrupt = ValueError::Corrupt { path: "/n".into(), length: 4, expected: 8 };
    assert_eq!(number.increment().await.unwrap_err(), corrupt);
    number.force_set(i64::MAX).await.unwrap();
    let out_of_range = ValueError::OutOfRange { path: "/n".into() };
    assert_eq!(number.increment().await.unwrap_err(), out_of_range);
    assert_eq!(number.get().await.unwrap(), i64::MAX);
}

#[tokio::test(start_paused = true)]
async fn initialize_and_compare_and_set_change_only_the_expected_value() {
    let server = server().await;
    let number = DistributedAtomicLong::new(&connect(&server).await, "/deep/down/n").unwrap();
    assert!(number.initialize(7).await.unwrap());
    assert!(!number.initialize(8).await.unwrap());
    assert!(!number.compare_and_set(8, 9).await.unwrap());
    assert!(number.compare_and_set(7, 9).await.unwrap());
    assert_eq!(number.decrement().await.unwrap(), Change { before: 9, after: 8 });
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_reply_is_lost_is_not_repeated() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let number = DistributedAtomicLong::new(&client, "/n").unwrap();
    number.initialize(1).await.unwrap();
    let adding = number.add(10);
    tokio::pin!(adding);
    // The reply to the read arrives, the reply to the write does not.
    counting.cut_after(1);
    let error = adding.await.unwrap_err();
    assert!(matches!(error, ValueError::Client(Error::ConnectionLoss { .. })), "{error}");
    assert_eq!(number.get().await.unwrap(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_change_without_a_reply_or_a_server_returns_connection_loss() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let builder = Client::builder().connection_timeout(Duration::from_secs(1));
    let client =
        builder.retry_policy(RetryPolicy::never()).connect(counting.clone()).await.unwrap();
    let number = DistributedAtomicLong::new(&client, "/n").unwrap();
    number.increment().await.unwrap();
    // The reply to the read arrives, the reply to the change does not.
    counting.refuse(true);
    counting.cut_after(1);
    let changed = number.increment().await;
    assert!(
        matches!(changed, Err(ValueError::Client(Error::ConnectionLoss { .. }))),
        "{changed:?}"
    );
    assert_eq!(connect(&server).await.get("/n").await.unwrap().0[7], 2, "it was made");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_lost_a_race_and_its_reply_is_made_again() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let other = connect(&server).await;
    let number = DistributedAtomicLong::new(&client, "/n").unwrap();
    number.initialize(1).await.unwrap();
    let adding = number.add(10);
    tokio::pin!(adding);
    counting.cut_after(1);
    counting.before_next_write(move || {
        drop(other.set("/n", 5i64.to_be_bytes().to_vec()).send());
    });
    assert_eq!(adding.await.unwrap(), Change { before: 5, after: 15 });
    assert_eq!(number.get().await.unwrap(), 15);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_always_loses_the_race_returns_contended() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let other = connect(&server).await;
    let number = DistributedAtomicLong::new(&client, "/n").unwrap();
    number.initialize(1).await.unwrap();
    let number = number.with_retry_policy(RetryPolicy::never());
    counting.before_next_write(move || {
        drop(other.set("/n", 5i64.to_be_bytes().to_vec()).send());
    });
    let contended = ValueError::Contended { path: "/n".into(), tries: 1 };
    assert_eq!(number.increment().await.unwrap_err(), contended);
    assert_eq!(number.get().await.unwrap(), 5);
}

const LOCK: &str = "/n-lock";

/// A counter and its client: another client changes the counter before each of its first two
/// writes.
async fn late_twice(server: &Server) -> (DistributedAtomicLong, Client) {
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.expect("the server is there");
    let other = connect(server).await;
    let number = DistributedAtomicLong::new(&client, "/n").expect("a legal path");
    number.initialize(1).await.expect("the znode is missing");
    let again = counting.clone();
    let write = |other: &Client, number: i64| {
        drop(other.set("/n", number.to_be_bytes().to_vec()).send());
    };
    counting.before_next_write(move || {
        write(&other, 5);
        again.before_next_write(move || write(&other, 6));
    });
    (number.with_retry_policy(RetryPolicy::never()), client)
}

#[tokio::test(start_paused = true)]
async fn a_change_that_lost_the_race_is_made_under_the_mutex() {
    let server = server().await;
    let (number, client) = late_twice(&server).await;
    let mutex = InterProcessMutex::new(&client, LOCK).unwrap();
    let second = Duration::from_secs(1);
    let twice = RetryPolicy::one_time(Duration::from_millis(1));
    let number = number.with_promotion(&mutex, second, twice);
    assert_eq!(number.add(10).await.unwrap(), Change { before: 6, after: 16 });
    assert!(client.exists(LOCK).await.unwrap().is_some());
    assert!(mutex.participants().await.unwrap().is_empty(), "it is released");
    client.delete(LOCK).await.unwrap();
    number.increment().await.unwrap();
    assert_eq!(
        client.exists(LOCK).await.unwrap(),
        None,
        "a change that wins the race takes no mutex"
    );
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_mutex_of_a_counter_times_out_and_leaves_its_line() {
    let server = server().await;
    let (number, client) = late_twice(&server).await;
    let mutex = InterProcessMutex::new(&connect(&server).await, LOCK).unwrap();
    let held = mutex.acquire().await.unwrap();
    let second = Duration::from_secs(1);
    let late = InterProcessMutex::new(&client, LOCK).unwrap();
    let number = number.with_promotion(&late, second, RetryPolicy::never());
    let start = tokio::time::Instant::now();
    let contended = ValueError::Contended { path: "/n".into(), tries: 1 };
    assert_eq!(number.increment().await.unwrap_err(), contended);
    assert_eq!(start.elapsed().as_secs(), 1);
    tokio::time::sleep(second).await;
    assert_eq!(mutex.participants().await.unwrap(), [held.path()]);
    client.close().await.unwrap();
    let closed = ValueError::Client(Error::Closed);
    assert_eq!(number.increment().await.unwrap_err(), closed);
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn concurrent_increments_under_the_mutex_all_count() {
    let server = server().await;
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let client = connect(&server).await;
        let mutex = InterProcessMutex::new(&client, LOCK).unwrap();
        let number = DistributedAtomicLong::new(&client, "/n").unwrap();
        let minute = Duration::from_secs(60);
        let number = number.with_retry_policy(RetryPolicy::never()).with_promotion(
            &mutex,
            minute,
            RetryPolicy::forever(Duration::from_millis(1)),
        );
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let (one, other) = tokio::join!(number.increment(), number.increment());
                assert_ne!(one.unwrap(), other.unwrap());
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let number = DistributedAtomicLong::new(&connect(&server).await, "/n").unwrap();
    assert_eq!(number.get().await.unwrap(), 400);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_recreated_counter_returns_created_anew() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let other = connect(&server).await;
    let number = DistributedAtomicLong::new(&client, "/n").unwrap();
    number.initialize(1).await.unwrap();
    counting.before_next_write(move || {
        drop(other.delete("/n").send());
        drop(other.create("/n").data(100i64.to_be_bytes().to_vec()).send());
    });
    let anew = ValueError::CreatedAnew { path: "/n".into() };
    assert_eq!(number.increment().await.unwrap_err(), anew);
    assert_eq!(number.increment().await.unwrap(), Change { before: 2, after: 3 });
}
