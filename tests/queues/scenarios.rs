//! The scenarios of Curator's own tests of its queues, by their names there. Those that test what
//! Rust's types or futures rule out, as a consumer without a thread, have no counterpart.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zoolet::protocol::CreateMode;
use zoolet::recipes::queue::{
    DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue, DistributedQueue,
    ErrorMode, QueueSharder, QueueSharderPolicies, SimpleDistributedQueue,
};
use zoolet::testing::TestServer;
use zoolet_test_support::stage::{connect, server};

use crate::{SECOND, leased, names, plain, text};

/// `TestDistributedQueue.testSafetyBasic`, `testSimple`.
#[tokio::test(start_paused = true)]
async fn safety_basic() {
    let server = server().await;
    let client = connect(&server).await;
    let queue = leased(&client);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let consumer = tokio::spawn({
        let (queue, seen) = (queue.clone(), Arc::clone(&seen));
        async move {
            let handle = |item: bytes::Bytes| {
                seen.lock().unwrap().push(String::from_utf8_lossy(&item).into_owned());
                std::future::ready(Ok::<_, String>(()))
            };
            queue.consume(ErrorMode::Requeue, handle).await
        }
    });
    for item in 0..10 {
        queue.put(item.to_string()).await.unwrap();
    }
    tokio::time::sleep(SECOND).await;
    let expected: Vec<_> = (0..10).map(|item| item.to_string()).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
    assert!(names(&client, "/jobs").await.is_empty());
    consumer.abort();
}

/// `TestDistributedQueue.testSafetyWithCrash`: a consumer that crashes at an item.
#[tokio::test(start_paused = true)]
async fn safety_with_crash() {
    let server = TestServer::start().await.unwrap();
    let (crashes, lives) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    for item in 0..20 {
        leased(&lives).put(item.to_string()).await.unwrap();
    }
    let delivery = leased(&crashes).take().await.unwrap();
    server.session(crashes.session_id()).freeze().unwrap();
    let mut items = Vec::new();
    while let Some(delivery) = leased(&lives).take_within(120 * SECOND).await.unwrap() {
        items.push(text(&delivery).parse::<usize>().unwrap());
        delivery.done().await.unwrap();
    }
    items.sort_unstable();
    assert_eq!(items, (0..20).collect::<Vec<_>>());
    drop(delivery);
}

/// `TestDistributedQueue.testErrorMode`: an item is delivered again until its consumer succeeds.
#[tokio::test(start_paused = true)]
async fn error_mode() {
    for (mode, expected) in [(ErrorMode::Requeue, 3), (ErrorMode::Delete, 1)] {
        let server = server().await;
        let queue = leased(&connect(&server).await);
        queue.put("x").await.unwrap();
        let tries = Arc::new(AtomicUsize::new(0));
        let consumer = tokio::spawn({
            let (queue, tries) = (queue.clone(), Arc::clone(&tries));
            async move {
                let handle = |_item| {
                    let is_third = tries.fetch_add(1, Ordering::Relaxed) == 2;
                    std::future::ready(if is_third { Ok(()) } else { Err("not yet") })
                };
                queue.consume(mode, handle).await
            }
        });
        tokio::time::sleep(SECOND).await;
        assert_eq!(tries.load(Ordering::Relaxed), expected, "{mode:?}");
        assert_eq!(queue.count().await.unwrap(), 0);
        consumer.abort();
    }
}

/// `TestDistributedQueue.testPutMulti`.
#[tokio::test(start_paused = true)]
async fn put_multi() {
    let server = server().await;
    let queue = plain(&connect(&server).await);
    queue.put_multi((0..3).map(|item| item.to_string())).await.unwrap();
    queue.put_multi((3..5).map(|item| item.to_string())).await.unwrap();
    assert_eq!(queue.take().await.unwrap().items().unwrap(), ["0", "1", "2"]);
    assert_eq!(queue.take().await.unwrap().items().unwrap(), ["3", "4"]);
}

/// `TestDistributedIdQueue.testDeletingWithLock`, `testOrdering`, `testRequeueWithLock`.
#[tokio::test(start_paused = true)]
async fn ids_with_locks() {
    let server = server().await;
    let client = connect(&server).await;
    let queue = DistributedIdQueue::new(&client, "/ids").unwrap();
    let queue = queue.with_lock_path("/locks").unwrap();
    for item in 0..10 {
        queue.put(item.to_string(), &format!("id-{}", 9 - item)).await.unwrap();
    }
    assert_eq!(queue.remove("id-0").await.unwrap(), 1, "of the last item");
    for item in 0..9 {
        let delivery = queue.take().await.unwrap();
        assert_eq!(text(&delivery), item.to_string(), "the id does not order");
        delivery.done().await.unwrap();
    }
    assert!(queue.try_take().await.unwrap().is_none());
}

/// `TestDistributedPriorityQueue.testSortingWithNegativePriorities`, `testBasic`.
#[tokio::test(start_paused = true)]
async fn sorting_with_negative_priorities() {
    let server = server().await;
    let queue = DistributedPriorityQueue::new(&connect(&server).await, "/jobs").unwrap();
    for priority in [-1, 0, -400, 1, i32::MIN, i32::MAX] {
        queue.put(priority.to_string(), priority).await.unwrap();
    }
    let mut seen = Vec::new();
    while let Some(delivery) = queue.try_take().await.unwrap() {
        seen.push(text(&delivery).parse::<i32>().unwrap());
    }
    assert_eq!(seen, [i32::MIN, -400, -1, 0, 1, i32::MAX]);
}

/// `TestSimpleDistributedQueue.testHangFromContainerLoss`: the container of the queue is deleted while
/// a consumer waits.
#[tokio::test(start_paused = true)]
async fn hang_from_container_loss() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let queue = SimpleDistributedQueue::new(&client, "/queue").unwrap();
    client.create("/queue").mode(CreateMode::Container).await.unwrap();
    queue.offer("1").await.unwrap();
    assert_eq!(queue.take().await.unwrap(), "1");
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    tokio::time::sleep(SECOND).await;
    server.sweep().unwrap();
    assert!(client.exists("/queue").await.unwrap().is_none());
    tokio::time::sleep(SECOND).await;
    queue.offer("2").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), "2");
}

/// `TestSimpleDistributedQueue.testPollWithTimeout`, `testRemove1`, `testOffer`, `testNonEmptyPeek`.
#[tokio::test(start_paused = true)]
async fn simple_queue() {
    let server = server().await;
    let queue = SimpleDistributedQueue::new(&connect(&server).await, "/queue").unwrap();
    assert_eq!(queue.peek().await.unwrap(), None);
    assert_eq!(queue.poll().await.unwrap(), None);
    assert_eq!(queue.poll_within(SECOND).await.unwrap(), None);
    for item in 0..5 {
        queue.offer(item.to_string()).await.unwrap();
    }
    assert_eq!(queue.peek().await.unwrap().unwrap(), "0");
    for item in 0..5 {
        assert_eq!(queue.poll_within(SECOND).await.unwrap().unwrap(), item.to_string());
    }
    assert_eq!(queue.peek().await.unwrap(), None);
}

/// `TestLongNetworkPartition`: puts go on after a partition that is longer than the session.
#[tokio::test(start_paused = true)]
async fn long_network_partition() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let queue = plain(&client);
    queue.put("1").await.unwrap();
    server.session(client.session_id()).freeze().unwrap();
    let put = tokio::spawn({
        let queue = queue.clone();
        async move { queue.put("2").await }
    });
    tokio::time::sleep(300 * SECOND).await;
    server.heal();
    put.await.unwrap().unwrap();
    assert_eq!(names(&server.connect().await.unwrap(), "/jobs").await.len(), 2);
}

/// `TestDistributedQueue.testMultiPutterSingleGetter`: of each putter, the items come in their order.
#[tokio::test(start_paused = true)]
async fn multi_putter_single_getter() {
    let server = server().await;
    let mut putters = Vec::new();
    for putter in 0..2 {
        let queue = plain(&connect(&server).await);
        putters.push(tokio::spawn(async move {
            for item in 0..100 {
                queue.put(format!("{putter} {item}")).await.unwrap();
                tokio::task::yield_now().await;
            }
        }));
    }
    let getter = plain(&connect(&server).await);
    let mut next = [0, 0];
    for _ in 0..200 {
        let item = text(&getter.take().await.unwrap());
        let (putter, number) = item.split_once(' ').unwrap();
        let next = &mut next[putter.parse::<usize>().unwrap()];
        assert_eq!(number.parse(), Ok(*next));
        *next += 1;
    }
    assert!(getter.try_take().await.unwrap().is_none());
}

/// `TestDistributedQueue.testNoDuplicateProcessing`: consumers that share a queue with leases.
#[tokio::test(start_paused = true)]
async fn no_duplicate_processing() {
    let server = server().await;
    let producer = leased(&connect(&server).await);
    for item in 0..100 {
        producer.put(item.to_string()).await.unwrap();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut consumers = Vec::new();
    for _ in 0..2 {
        let (queue, seen) = (leased(&connect(&server).await), Arc::clone(&seen));
        consumers.push(tokio::spawn(async move {
            let handle = |item: bytes::Bytes| {
                seen.lock().unwrap().push(item);
                std::future::ready(Ok::<_, String>(()))
            };
            queue.consume(ErrorMode::Requeue, handle).await
        }));
    }
    tokio::time::sleep(SECOND).await;
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (100, 100));
    consumers.iter().for_each(tokio::task::JoinHandle::abort);
}

/// `TestBoundedDistributedQueue.testMulti`: the bound holds, whoever puts.
#[tokio::test(start_paused = true)]
async fn bounded_multi() {
    let server = server().await;
    let max = NonZeroUsize::new(10).unwrap();
    for _ in 0..2 {
        let queue = plain(&connect(&server).await).with_max_items(max);
        tokio::spawn(async move {
            while queue.put("x").await.is_ok() {
                tokio::task::yield_now().await;
            }
        });
    }
    let consumer = plain(&connect(&server).await);
    for _ in 0..50 {
        // As in Curator, two that put at the same time may exceed it by one.
        assert!(consumer.count().await.unwrap() <= max.get() + 1);
        consumer.take().await.unwrap().done().await.unwrap();
        tokio::time::sleep(SECOND / 10).await;
    }
}

/// `TestDistributedDelayQueue.testLateAddition`, `testBasic`, `testSorting`.
#[tokio::test(start_paused = true)]
async fn late_addition() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let queue = DistributedDelayQueue::new(&client, "/delays").unwrap();
    let start = zoolet::client::recipe::now();
    for (item, seconds) in [("10", 10), ("5", 5), ("20", 20)] {
        queue.put_after(item, seconds * SECOND).await.unwrap();
    }
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut seen = Vec::new();
            for _ in 0..4 {
                let item: u64 = text(&queue.take().await.unwrap()).parse().unwrap();
                assert_eq!(start.elapsed().as_secs(), item);
                seen.push(item);
            }
            seen
        }
    });
    tokio::time::sleep(SECOND).await;
    queue.put_after("2", SECOND).await.unwrap();
    assert_eq!(consumer.await.unwrap(), [2, 5, 10, 20]);
}

/// `TestDistributedPriorityQueue.testMinItemsBeforeRefresh`.
#[tokio::test(start_paused = true)]
async fn min_items_before_refresh() {
    let server = server().await;
    let queue = DistributedPriorityQueue::new(&connect(&server).await, "/jobs").unwrap();
    let queue = queue.with_refresh_after(NonZeroUsize::new(3).unwrap());
    for priority in 10..15 {
        queue.put(priority.to_string(), priority).await.unwrap();
    }
    assert_eq!(text(&queue.take().await.unwrap()), "10");
    queue.put("1", 1).await.unwrap();
    for item in ["11", "12", "1", "13", "14"] {
        assert_eq!(text(&queue.take().await.unwrap()), item, "the list serves three items");
    }
}

/// `TestQueueSharder.testDistribution`: all queues receive items.
#[tokio::test(start_paused = true)]
async fn sharder_distribution() {
    let server = server().await;
    let client = connect(&server).await;
    let policies =
        QueueSharderPolicies { new_queue_threshold: 100, threshold_check: SECOND, max_queues: 10 };
    for name in ["one", "two", "three"] {
        client.create("/queues").or_set().await.unwrap();
        client.create(&format!("/queues/{name}")).await.unwrap();
    }
    let make = DistributedQueue::new;
    let sharder = QueueSharder::start(&client, "/queues", "/leader", policies, make).await.unwrap();
    for item in 0..60 {
        sharder.queue().put(item.to_string()).await.unwrap();
    }
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(sharder.shard_paths().len(), 3, "each child is a queue, and no side directory");
    for queue in sharder.queues() {
        assert!(queue.count().await.unwrap() > 5, "{}", queue.path());
    }
    sharder.close().await.unwrap();
}
