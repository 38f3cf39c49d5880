//! The znodes of each kind of queue, and the order of its items.

use std::time::{Duration, SystemTime};

use zoolet::protocol::{Acl, CreateMode, Permissions};
use zoolet::recipes::queue::{
    DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue, KazooLockingQueue,
    KazooQueue, QueueError, SimpleDistributedQueue,
};
use zoolet::testing::TestServer;
use zoolet_test_support::stage::{assert_clean, connect, server};

use crate::{SECOND, leased, names, plain, text};

#[tokio::test(start_paused = true)]
async fn the_znodes_are_those_of_curator_and_kazoo() {
    let server = server().await;
    let client = connect(&server).await;
    SimpleDistributedQueue::new(&client, "/simple").unwrap().offer("x").await.unwrap();
    assert_eq!(names(&client, "/simple").await, ["qn-0000000000"]);
    assert_eq!(client.get("/simple/qn-0000000000").await.unwrap().0, "x");
    plain(&client).put_multi(["a", "bc"]).await.unwrap();
    assert_eq!(names(&client, "/jobs").await, ["queue-0000000000"]);
    let data = client.get("/jobs/queue-0000000000").await.unwrap().0;
    assert_eq!(data, b"\0\x01\0\x01\x01\0\0\0\x01a\x01\0\0\0\x02bc\x02"[..]);
    let ids = DistributedIdQueue::new(&client, "/ids").unwrap();
    ids.put("x", "a/b|c").await.unwrap();
    assert_eq!(names(&client, "/ids").await, ["queue-|a_b_c|0000000000"]);
    assert_eq!(ids.put("x", "").await, Err(QueueError::EmptyId("/ids".into())));
    let priorities = DistributedPriorityQueue::new(&client, "/priorities").unwrap();
    priorities.put("x", -2).await.unwrap();
    assert_eq!(names(&client, "/priorities").await, ["queue-0FFFFFFFE0000000000"]);
    let delays = DistributedDelayQueue::new(&client, "/delays").unwrap();
    let due = SystemTime::UNIX_EPOCH + Duration::from_millis(0x18B_CFE5_6800);
    delays.put("x", due).await.unwrap();
    assert_eq!(names(&client, "/delays").await, ["queue-|18BCFE56800|0000000000"]);
    let before_1970 = SystemTime::UNIX_EPOCH - SECOND;
    assert_eq!(delays.put("x", before_1970).await, Err(QueueError::Time("/delays".into())));
    let kazoo = KazooQueue::new(&client, "/kazoo").unwrap();
    kazoo.put("x").await.unwrap();
    kazoo.put_with_priority("y", 7).await.unwrap();
    let expected = ["entry-007-0000000001", "entry-100-0000000000"];
    assert_eq!(names(&client, "/kazoo").await, expected);
    let too_great = QueueError::Priority { path: "/kazoo".into(), priority: 1_000, max: 999 };
    assert_eq!(kazoo.put_with_priority("x", 1_000).await, Err(too_great));
    let locking = KazooLockingQueue::new(&client, "/locking").unwrap();
    locking.put_all(["x", "y"], 3).await.unwrap();
    let expected = ["entry-003-0000000000", "entry-003-0000000001"];
    assert_eq!(names(&client, "/locking/entries").await, expected);
    let delivery = locking.take().await.unwrap();
    let lease_and_witness = ["entry-003-0000000000", "entry-003-0000000000-witness-1"];
    assert_eq!(names(&client, "/locking/taken").await, lease_and_witness);
    let mark = client.get("/locking/taken/entry-003-0000000000").await.unwrap().0;
    assert!(mark.len() == 32 && mark.iter().all(u8::is_ascii_hexdigit), "{mark:?}");
    delivery.done().await.unwrap();
    assert_eq!(names(&client, "/locking/entries").await, expected[1..]);
    assert_eq!(names(&client, "/locking").await, ["entries", "taken"]);
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn the_server_does_not_delete_the_directories_on_which_other_libraries_rely() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let curator = leased(&client);
    curator.put("x").await.unwrap();
    curator.take().await.unwrap().done().await.unwrap();
    let kazoo = KazooLockingQueue::new(&client, "/kazoo").unwrap();
    kazoo.put("x").await.unwrap();
    kazoo.take().await.unwrap().done().await.unwrap();
    drop((curator, kazoo));
    for _ in 0..3 {
        tokio::time::sleep(SECOND).await;
        server.sweep().unwrap();
    }
    let left = names(&client, "/").await;
    assert_eq!(left, ["job-locks", "jobs", "kazoo", "zookeeper"], "side directories are deleted");
    assert_eq!(names(&client, "/kazoo").await, ["entries", "taken"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_used_again_is_another_item() {
    let server = TestServer::start().await.unwrap();
    let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let queue = plain(&client);
    for round in ["old", "new"] {
        for item in 0..3 {
            plain(&other).put(format!("{round} {item}")).await.unwrap();
        }
        if round == "old" {
            // This reads the data of the second item ahead.
            assert_eq!(text(&queue.take().await.unwrap()), "old 0");
            while plain(&other).try_take().await.unwrap().is_some() {}
            other.delete("/jobs").await.unwrap();
        }
    }
    tokio::time::sleep(2 * SECOND).await;
    let mut items = Vec::new();
    while let Some(delivery) = queue.try_take().await.unwrap() {
        items.push(text(&delivery));
    }
    items.sort_unstable();
    assert_eq!(items, ["new 0", "new 1", "new 2"]);
}

#[tokio::test(start_paused = true)]
async fn items_are_taken_in_their_order_and_foreign_znodes_stay() {
    let server = server().await;
    let client = connect(&server).await;
    let queue = plain(&client);
    for item in ["1", "2", "3"] {
        queue.put(item).await.unwrap();
    }
    client.create("/jobs/not-an-item").await.unwrap();
    for item in ["1", "2", "3"] {
        assert_eq!(text(&queue.take().await.unwrap()), item);
    }
    assert!(queue.try_take().await.unwrap().is_none());
    assert_eq!(names(&client, "/jobs").await, ["not-an-item"]);
    assert_eq!(queue.count().await.unwrap(), 1, "as in Curator");
}

#[tokio::test(start_paused = true)]
async fn the_least_priority_is_taken_first_also_if_it_comes_last() {
    let server = server().await;
    let client = connect(&server).await;
    let queue = DistributedPriorityQueue::new(&client, "/jobs").unwrap();
    for (item, priority) in [("5", 5), ("0", 0), ("min", i32::MIN), ("5 again", 5)] {
        queue.put(item, priority).await.unwrap();
    }
    assert_eq!(text(&queue.take().await.unwrap()), "min");
    queue.put("-1", -1).await.unwrap();
    for item in ["-1", "0", "5", "5 again"] {
        assert_eq!(text(&queue.take().await.unwrap()), item);
    }
}

#[tokio::test(start_paused = true)]
async fn items_are_removed_by_their_id_unless_they_are_leased() {
    let server = server().await;
    let client = connect(&server).await;
    let queue = DistributedIdQueue::new(&client, "/ids").unwrap();
    let queue = queue.with_lock_path("/locks").unwrap();
    for (item, id) in [("1", "a"), ("2", "b"), ("3", "a")] {
        queue.put(item, id).await.unwrap();
    }
    let first = queue.take().await.unwrap();
    assert_eq!(text(&first), "1");
    assert_eq!(queue.remove("a").await.unwrap(), 1);
    assert_eq!(queue.remove("a").await.unwrap(), 0);
    first.requeue().await.unwrap();
    assert_eq!(text(&queue.take().await.unwrap()), "2");
    assert_eq!(queue.remove("a").await.unwrap(), 1, "the id is kept");
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn an_item_is_taken_when_the_server_says_that_its_time_has_come() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let queue = DistributedDelayQueue::new(&client, "/delays").unwrap();
    queue.put_after("in 20 s", 20 * SECOND).await.unwrap();
    queue.put_after("in 10 s", 10 * SECOND).await.unwrap();
    assert!(queue.try_take().await.unwrap().is_none());
    let start = zoolet::client::recipe::now();
    assert_eq!(text(&queue.take().await.unwrap()), "in 10 s");
    assert!(start.elapsed() >= 10 * SECOND && start.elapsed() < 11 * SECOND);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { text(&queue.take().await.unwrap()) }
    });
    tokio::time::sleep(SECOND).await;
    queue.put_after("in 2 s", 2 * SECOND).await.unwrap();
    assert_eq!(waiting.await.unwrap(), "in 2 s", "the waiting consumer learns of it");
    assert!(start.elapsed() < 15 * SECOND);
    assert_eq!(text(&queue.take().await.unwrap()), "in 20 s");
}

#[tokio::test(start_paused = true)]
async fn all_znodes_have_the_access_control_list() {
    let server = server().await;
    let client = connect(&server).await;
    let mut entry = Acl::open();
    entry.permissions =
        Permissions::READ | Permissions::WRITE | Permissions::CREATE | Permissions::DELETE;
    let acl = vec![entry];
    let queue = leased(&client).with_acl(acl.clone());
    queue.put("x").await.unwrap();
    let delivery = queue.take().await.unwrap();
    let lease = delivery.lease_path().expect("it is leased").to_owned();
    let receipt = names(&client, "/jobs-side/receipts").await;
    let receipt = format!("/jobs-side/receipts/{}", receipt[0]);
    for path in ["/jobs", "/jobs/queue-0000000000", "/job-locks", &lease, "/jobs-side", &receipt] {
        assert_eq!(client.acl(path).await.unwrap().0, acl, "{path}");
    }
    delivery.done().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_removes_items_gets_the_others_in_their_order() {
    let server = server().await;
    let client = connect(&server).await;
    for _ in 0..20 {
        let queue = DistributedIdQueue::new(&client, "/ids").unwrap();
        for item in ["1", "2", "3", "4", "5"] {
            queue.put(item, item).await.unwrap();
        }
        assert_eq!(text(&queue.take().await.unwrap()), "1");
        assert_eq!(queue.remove("2").await.unwrap(), 1);
        for item in ["3", "4", "5"] {
            assert_eq!(text(&queue.take().await.unwrap()), item);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_directory_of_the_items_is_for_nothing_else() {
    let server = server().await;
    let client = connect(&server).await;
    // Each item would count as leased, and nobody would receive it.
    for path in ["/jobs", "/jobs/leases", "/jobs/a/leases"] {
        let leases = plain(&client).with_lock_path(path);
        assert_eq!(leases.unwrap_err(), QueueError::Directory(path.into()));
        let side = plain(&client).with_side_directory(path);
        assert_eq!(side.unwrap_err(), QueueError::Directory(path.into()));
    }
    assert!(plain(&client).with_lock_path("/jobs-leases").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_queue_outlives_the_overflow_of_its_numbers() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/jobs").await.unwrap();
    for (name, item) in [
        ("queue-2147483647", "before"),
        ("queue--2147483648", "after"),
        ("queue--2147483647", "later"),
        // The server writes ten characters at least, the minus among them.
        ("queue--999999999", "much later"),
        ("queue--000000001", "last"),
    ] {
        let data = zoolet::recipes::queue::encode_items([item]).unwrap();
        let create = client.create(&format!("/jobs/{name}")).data(data);
        create.mode(CreateMode::Persistent).await.unwrap();
    }
    let queue = plain(&client);
    for item in ["before", "after", "later", "much later", "last"] {
        assert_eq!(text(&queue.take().await.unwrap()), item);
    }
}
