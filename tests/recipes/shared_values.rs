//! Tests of the shared value and the shared count on a server in process: copies follow the znode
//! and never go back, over disconnects, session expiry and deletion.

use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::OpCode;
use zoolet::recipes::{SharedCount, SharedValue, ValueError};
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{connect, server};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn copies_of_a_shared_value_receive_each_others_changes() {
    let server = server().await;
    let one = SharedValue::start(&connect(&server).await, "/a/value", "seed").await.unwrap();
    let other = SharedValue::start(&connect(&server).await, "/a/value", "ignored").await.unwrap();
    assert_eq!(other.value().data, "seed");
    let mut changes = other.subscribe();
    one.set("new").await.unwrap();
    assert_eq!(one.value().data, "new", "at once where it was set");
    changes.changed().await.unwrap();
    assert_eq!(other.value(), one.value());
}

#[tokio::test(start_paused = true)]
async fn compare_and_set_fails_against_an_unseen_change() {
    let server = server().await;
    let (client, raw) = (connect(&server).await, connect(&server).await);
    let value = SharedValue::start(&client, "/value", "a").await.unwrap();
    let seen = value.value();
    raw.set("/value", "b").await.unwrap();
    assert!(!value.try_set(&seen, "c").await.unwrap());
    assert_eq!(value.value().data, "b");
    assert!(value.try_set(&value.value(), "c").await.unwrap());
    assert_eq!(raw.get("/value").await.unwrap().0, "c");
    assert!(!value.try_set(&seen, "d").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn compare_and_set_fails_against_a_recreated_znode() {
    let server = server().await;
    let (client, raw) = (connect(&server).await, connect(&server).await);
    let value = SharedValue::start(&client, "/value", "a").await.unwrap();
    let seen = value.value();
    let mut changes = value.subscribe();
    raw.delete("/value").await.unwrap();
    raw.create("/value").data("b").await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!(value.value().version, seen.version);
    assert!(!value.try_set(&seen, "c").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_shared_value_survives_disconnects_expiry_and_deletion_of_its_znode() {
    let server = server().await;
    let raw = connect(&server).await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let value = SharedValue::start(&client, "/value", "a").await.unwrap();
    let mut changes = value.subscribe();
    for outage in [SECOND, 120 * SECOND] {
        counting.refuse(true);
        counting.cut();
        // Without this request the client would notice the cut at its next ping.
        drop(client.sync("/").send());
        tokio::time::sleep(outage).await;
        raw.set("/value", format!("{outage:?}")).await.unwrap();
        counting.refuse(false);
        tokio::time::timeout(60 * SECOND, changes.changed()).await.unwrap().unwrap();
        assert_eq!(value.value().data, format!("{outage:?}"));
    }
    raw.delete("/value").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(value.value().data, "120s", "the last that was seen");
    raw.create("/value").data("again").await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!(value.value().data, "again");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_shared_value_leaves_no_watch() {
    let server = server().await;
    let client = connect(&server).await;
    let value = SharedValue::start(&client, "/value", "a").await.unwrap();
    client.sync("/").await.unwrap();
    assert_eq!(server.totals().watches, 1);
    drop(value);
    tokio::time::sleep(SECOND).await;
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn a_shared_count_is_stored_as_curator_stores_it() {
    let server = server().await;
    let client = connect(&server).await;
    let count = SharedCount::start(&client, "/count", 258).await.unwrap();
    assert_eq!(client.get("/count").await.unwrap().0, [0, 0, 1, 2][..]);
    assert!(count.try_set(258, -1).await.unwrap());
    assert!(!count.try_set(258, 5).await.unwrap());
    assert_eq!(client.get("/count").await.unwrap().0, [255, 255, 255, 255][..]);
    client.set("/count", "seven").await.unwrap();
    let corrupt = ValueError::Corrupt { path: "/count".into(), length: 5, expected: 4 };
    assert_eq!(count.changed(-1).await.unwrap_err(), corrupt);
    count.set(3).await.unwrap();
    assert_eq!(count.versioned_count().unwrap().count, 3);
}

#[tokio::test(start_paused = true)]
async fn a_shared_count_without_data_is_an_error_until_it_is_set() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/count").await.unwrap();
    let count = SharedCount::start(&client, "/count", 7).await.unwrap();
    let corrupt = ValueError::Corrupt { path: "/count".into(), length: 0, expected: 4 };
    assert_eq!(count.count().unwrap_err(), corrupt);
    assert_eq!(count.try_set(0, 1).await.unwrap_err(), corrupt);
    assert_eq!(
        corrupt.to_string(),
        "/count: 0 bytes where a number of 4 bytes is expected; set the number first"
    );
    // As kazoo does, here from another client.
    connect(&server).await.set("/count", vec![0, 0, 0, 1]).await.unwrap();
    let mut copies = [count, SharedCount::start(&client, "/count", 7).await.unwrap()];
    for count in &mut copies {
        tokio::time::timeout(60 * SECOND, async {
            while count.count() != Ok(1) {
                tokio::time::sleep(SECOND).await;
            }
        })
        .await
        .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_changes_of_a_shared_count_add_up() {
    let server = server().await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let count = SharedCount::start(&connect(&server).await, "/count", 0).await.unwrap();
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                loop {
                    let before = count.count().unwrap();
                    if count.try_set(before, before + 1).await.unwrap() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let count = SharedCount::start(&connect(&server).await, "/count", 0).await.unwrap();
    assert_eq!(count.count().unwrap(), 80);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_recreated_znode_without_an_event_is_no_success() {
    let server = server().await;
    let (counting, raw) = (Counting::new(server.dialer()), connect(&server).await);
    let client = Client::connect(counting.clone()).await.unwrap();
    let value = SharedValue::start(&client, "/value", "a").await.unwrap();
    let count = SharedCount::start(&client, "/count", 1).await.unwrap();
    let seen = value.value();
    let make_anew = |path: &'static str, data: &'static [u8]| {
        let raw = raw.clone();
        counting.before_next_write(move || {
            drop(raw.delete(path).send());
            drop(raw.create(path).data(data).send());
        });
    };
    make_anew("/value", b"b");
    let set = value.try_set(&seen, "c").await;
    assert_eq!(set, Err(ValueError::CreatedAnew { path: "/value".into() }));
    assert_eq!(value.value().data, "c", "it was set, and the copy knows");
    assert!(value.try_set(&value.value(), "d").await.unwrap());
    make_anew("/count", &[0, 0, 0, 9]);
    let set = count.try_set(1, 2).await;
    assert_eq!(set, Err(ValueError::CreatedAnew { path: "/count".into() }));
}

#[tokio::test(start_paused = true)]
async fn a_shared_value_starts_although_its_znode_is_deleted_before_it_is_read() {
    let server = server().await;
    let (counting, raw) = (Counting::new(server.dialer()), connect(&server).await);
    let client = Client::connect(counting.clone()).await.unwrap();
    counting.before_next(OpCode::GET_DATA, move || drop(raw.delete("/value").send()));
    let value = SharedValue::start(&client, "/value", "seed").await.unwrap();
    assert_eq!(value.value().data, "seed");
    counting.cut();
    let other = SharedValue::start(&client, "/other", "seed").await.unwrap();
    assert_eq!(other.value().data, "seed", "its answer was lost");
}
