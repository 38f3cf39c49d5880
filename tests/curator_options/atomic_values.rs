//! Tests of Curator's atomic values beside the 64-bit number, which `counters.rs` tests: bytes, 32
//! bits, reserved numbers, statistics, and counts with versions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet::client::{Error, RetryPolicy};
use zoolet::recipes::{
    AtomicStats, CachedAtomicInteger, CachedAtomicLong, Change, DistributedAtomicInteger,
    DistributedAtomicLong, DistributedAtomicValue, InterProcessMutex, SharedCount, ValueError,
};
use zoolet_test_support::stage::{connect, counted, server};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_value_of_bytes_is_compared_and_set() {
    let server = server().await;
    let client = connect(&server).await;
    let value = DistributedAtomicValue::new(&client, "/a/value").unwrap();
    assert_eq!(value.get().await.unwrap(), None);
    assert!(!value.compare_and_set("", "one").await.unwrap(), "a missing znode has no value");
    assert!(value.initialize("one").await.unwrap());
    assert!(!value.initialize("two").await.unwrap());
    assert!(!value.compare_and_set("two", "three").await.unwrap());
    assert!(value.compare_and_set("one", "two").await.unwrap());
    let changed = value.try_set("three").await.unwrap();
    assert_eq!((changed.before.unwrap(), changed.after.unwrap()), ("two".into(), "three".into()));
    value.force_set("four").await.unwrap();
    assert_eq!(client.get("/a/value").await.unwrap().0, "four");
    client.delete("/a/value").await.unwrap();
    assert_eq!(value.try_set("five").await.unwrap().before, None);
    assert_eq!(value.get().await.unwrap().unwrap(), "five");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_bytes_is_made_once_when_the_reply_is_lost() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let value = DistributedAtomicValue::new(&client, "/value").unwrap();
    value.initialize("one").await.unwrap();
    // The read is answered, the write is carried out and its reply is lost.
    counting.cut_after(1);
    let changed = value.compare_and_set("one", "two").await;
    counting.cut_after(-1);
    assert!(
        matches!(changed, Err(ValueError::Client(Error::ConnectionLoss { .. }))),
        "nobody knows who wrote it: {changed:?}"
    );
    let raw = connect(&server).await;
    let (data, stat) = raw.get("/value").await.unwrap();
    assert_eq!((&data[..], stat.version), (&b"two"[..], 1));
}

#[tokio::test(start_paused = true)]
async fn a_number_of_32_bits_is_stored_as_curator_stores_it() {
    let server = server().await;
    let client = connect(&server).await;
    let number = DistributedAtomicInteger::new(&client, "/n").unwrap();
    assert_eq!(number.subtract(2).await.unwrap(), Change { before: 0, after: -2 });
    assert_eq!(client.get("/n").await.unwrap().0, [255, 255, 255, 254][..]);
    let count = SharedCount::start(&client, "/n", 0).await.unwrap();
    assert_eq!(count.count().unwrap(), -2, "the znode of a shared count");
    assert_eq!(number.try_set(i32::MIN).await.unwrap(), Change { before: -2, after: i32::MIN });
    let out_of_range = ValueError::OutOfRange { path: "/n".into() };
    assert_eq!(number.decrement().await.unwrap_err(), out_of_range);
    assert_eq!(number.subtract(i32::MIN).await.unwrap().after, 0);
    client.set("/n", vec![0; 8]).await.unwrap();
    let corrupt = ValueError::Corrupt { path: "/n".into(), length: 8, expected: 4 };
    assert_eq!(number.get().await.unwrap_err(), corrupt);
}

/// `TestCachedAtomicCounter` of Curator.
#[tokio::test(start_paused = true)]
async fn reserved_numbers_are_unique_and_cost_one_change_a_block() {
    let server = server().await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let number = DistributedAtomicLong::new(&connect(&server).await, "/ids").unwrap();
        let ids = Arc::new(CachedAtomicLong::new(&number, 10));
        for _ in 0..2 {
            let ids = Arc::clone(&ids);
            tasks.push(tokio::spawn(async move {
                let mut own = Vec::new();
                for _ in 0..50 {
                    own.push(ids.next().await.unwrap());
                    tokio::task::yield_now().await;
                }
                assert!(own.is_sorted(), "{own:?}");
                own
            }));
        }
    }
    let mut all = BTreeSet::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_eq!(all, (1..=400).collect(), "each number once, and none is lost");
    let (_, stat) = connect(&server).await.get("/ids").await.unwrap();
    assert_eq!(stat.version, 39, "40 changes, of which the first created the znode");
}

#[tokio::test(start_paused = true)]
async fn reserved_numbers_end_where_the_number_is_out_of_range() {
    let server = server().await;
    let number = DistributedAtomicInteger::new(&connect(&server).await, "/ids").unwrap();
    number.force_set(i32::MAX - 3).await.unwrap();
    let ids = CachedAtomicInteger::new(&number, 2);
    assert_eq!(ids.next().await.unwrap(), i32::MAX - 2);
    assert_eq!(ids.next().await.unwrap(), i32::MAX - 1);
    assert_eq!(ids.next().await.unwrap_err(), ValueError::OutOfRange { path: "/ids".into() });
    assert_eq!(number.get().await.unwrap(), i32::MAX - 1, "nothing was reserved");
}

#[tokio::test(start_paused = true)]
async fn statistics_count_the_tries_with_and_without_the_mutex() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let mutex = InterProcessMutex::new(&client, "/n-lock").unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = Arc::clone(&told);
    let number = DistributedAtomicLong::new(&client, "/n")
        .unwrap()
        .with_retry_policy(RetryPolicy::never())
        .with_promotion(&mutex, 10 * SECOND, RetryPolicy::never())
        .with_statistics(move |cost: &AtomicStats| teller.lock().unwrap().push(*cost));
    number.initialize(0).await.unwrap();
    number.increment().await.unwrap();
    let raw = connect(&server).await;
    // Another client is quicker once: its write arrives before ours.
    counting.before_next_write(move || drop(raw.set("/n", 7_i64.to_be_bytes().to_vec()).send()));
    assert_eq!(number.increment().await.unwrap(), Change { before: 7, after: 8 });
    let tries: Vec<_> = told
        .lock()
        .unwrap()
        .iter()
        .map(|cost| (cost.optimistic_tries, cost.promoted_lock_tries))
        .collect();
    assert_eq!(tries, [(1, 0), (1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_count_with_its_version_notices_a_change_and_the_change_back() {
    let server = server().await;
    let (one, other) = (connect(&server).await, connect(&server).await);
    let mine = SharedCount::start(&one, "/count", 1).await.unwrap();
    let theirs = SharedCount::start(&other, "/count", 1).await.unwrap();
    let seen = mine.versioned_count().unwrap();
    theirs.set(2).await.unwrap();
    theirs.set(1).await.unwrap();
    assert!(!mine.try_set_versioned(&seen, 5).await.unwrap());
    let seen = mine.versioned_count().unwrap();
    assert_eq!((seen.count, seen.version), (1, 2));
    assert!(mine.try_set_versioned(&seen, 5).await.unwrap());
    assert_eq!(mine.count().unwrap(), 5);
}
