//! Several queues in place of one that would be too long.

use std::collections::BTreeSet;

use zoolet::client::Client;
use zoolet::protocol::{Acl, ErrorCode};
use zoolet::recipes::queue::{DistributedQueue, QueueError, QueueSharder, QueueSharderPolicies};
use zoolet_test_support::stage::{connect, server};

use crate::{SECOND, names, text};

const POLICIES: QueueSharderPolicies =
    QueueSharderPolicies { new_queue_threshold: 10, threshold_check: SECOND, max_queues: 3 };

async fn sharder(client: &Client) -> QueueSharder<DistributedQueue> {
    let make = DistributedQueue::new;
    QueueSharder::start(client, "/jobs", "/leader", POLICIES, make).await.expect("paths")
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_gets_another_one_beside_it_and_all_clients_learn_of_it() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let first = sharder(&client).await;
    assert_eq!(first.shard_paths().len(), 1, "one from the start");
    let second = sharder(&other).await;
    assert_eq!(second.shard_paths(), first.shard_paths());
    let mut put = 0;
    while first.shard_paths().len() < POLICIES.max_queues {
        assert!(put < 1_000, "queues are added");
        first.queue().put(put.to_string()).await.unwrap();
        put += 1;
        tokio::time::sleep(SECOND / 4).await;
    }
    assert_eq!(second.changed(2).await.unwrap().len(), 3);
    assert_eq!(second.shard_paths(), first.shard_paths());
    for _ in 0..60 {
        first.queue().put(put.to_string()).await.unwrap();
        put += 1;
    }
    tokio::time::sleep(5 * SECOND).await;
    let paths = names(&client, "/jobs").await;
    assert_eq!(paths.len(), 3, "there may be no more");
    let is_shard = |name: &String| name.starts_with("queue-") && name.len() == 42;
    assert!(paths.iter().all(is_shard), "Curator takes every child for a queue: {paths:?}");
    let mut items = BTreeSet::new();
    for queue in second.queues() {
        while let Some(delivery) = queue.try_take().await.unwrap() {
            assert!(items.insert(text(&delivery)), "no item is in two queues");
        }
    }
    assert_eq!(items.len(), put);
    first.close().await.unwrap();
    second.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn queues_and_their_leader_have_the_access_control_list_of_the_sharder() {
    let server = server().await;
    let (client, stranger) = (connect(&server).await, connect(&server).await);
    client.authenticate("digest", "a:b").await.unwrap();
    let acl = vec![Acl::creator_all()];
    let own = acl.clone();
    let make = move |client: &Client, path: &str| {
        Ok(DistributedQueue::new(client, path)?.with_acl(own.clone()))
    };
    let sharder =
        QueueSharder::start_with_acl(&client, "/jobs", "/leader", POLICIES, acl, make).await;
    let sharder = sharder.unwrap();
    sharder.queue().put("x").await.unwrap();
    tokio::time::sleep(SECOND).await;
    let mut paths = sharder.shard_paths();
    paths.extend(["/jobs".to_owned(), "/leader".to_owned()]);
    for path in paths {
        let refused = stranger.children(&path).await.unwrap_err();
        assert!(refused.is(ErrorCode::NO_AUTH), "{path}: {refused}");
    }
    sharder.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_beside_the_queues_does_not_become_a_queue() {
    let server = server().await;
    let client = connect(&server).await;
    let make = |client: &Client, path: &str| {
        DistributedQueue::new(client, path)?.with_lock_path(&format!("{path}-locks"))
    };
    let sharder = QueueSharder::start(&client, "/jobs", "/leader", POLICIES, make).await.unwrap();
    let queue = sharder.queue();
    queue.put("1").await.unwrap();
    queue.take().await.unwrap().done().await.unwrap();
    assert_eq!(names(&client, "/jobs").await.len(), 2, "the queue and its leases");
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(sharder.shard_paths(), [queue.path()]);
    sharder.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_adds_queues_when_the_first_has_left() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let first = sharder(&client).await;
    let second = sharder(&other).await;
    first.close().await.unwrap();
    for item in 0..20 {
        second.queue().put(item.to_string()).await.unwrap();
    }
    assert_eq!(second.changed(1).await.unwrap().len(), 2);
    second.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_leader_is_not_among_the_queues() {
    let server = server().await;
    let client = connect(&server).await;
    let make = DistributedQueue::new;
    for (path, leader) in [("/", "/leader"), ("/", "/"), ("/jobs", "/jobs"), ("/jobs", "/jobs/a")] {
        let refused = QueueSharder::start(&client, path, leader, POLICIES, make).await;
        assert_eq!(refused.unwrap_err(), QueueError::LeaderPath(leader.into()), "{path}");
    }
    assert!(names(&client, "/").await.iter().all(|name| name == "zookeeper"));
}
