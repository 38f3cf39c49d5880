//! How consumers wait: without a herd, without a leak, and across the end of sessions.

use std::time::Duration;

use zoolet::client::Parents;
use zoolet::protocol::{CreateMode, OpCode};
use zoolet::recipes::queue::SimpleDistributedQueue;
use zoolet::testing::TestServer;
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{assert_clean, connect, counted, server};

use crate::{EXPIRY, SECOND, leased, plain, text};

const CONSUMERS: usize = 20;

const CONTAINERS: Parents = Parents::Containers;

fn lists(counts: &[(OpCode, usize)]) -> usize {
    let is_list = |op: OpCode| op == OpCode::GET_CHILDREN || op == OpCode::GET_CHILDREN2;
    counts.iter().filter(|(op, _)| is_list(*op)).map(|(_, count)| count).sum()
}

#[tokio::test(start_paused = true)]
async fn a_put_wakes_one_of_the_waiting_consumers() {
    let server = server().await;
    let mut waiting = Vec::new();
    let mut counts = Vec::new();
    for _ in 0..CONSUMERS {
        let (client, counting) = counted(&server).await;
        counts.push(counting);
        let queue = plain(&client);
        waiting.push(tokio::spawn(async move { queue.take().await.map(|item| text(&item)) }));
        // The sleep gives each its place in the line.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(SECOND).await;
    for counting in &counts {
        counting.take_requests();
        counting.take_events();
    }
    let producer = plain(&connect(&server).await);
    producer.put("1").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(waiting.iter().filter(|task| task.is_finished()).count(), 1);
    let events: usize = counts.iter().map(Counting::take_events).sum();
    let all: Vec<_> = counts.iter().map(Counting::take_requests).collect();
    let listed: usize = all.iter().map(|requests| lists(requests)).sum();
    let awake = all.iter().filter(|requests| !requests.is_empty()).count();
    assert!(awake <= 2, "who takes the item, and the next in line: {all:?}");
    assert!(listed <= 3, "{all:?}");
    assert!(events <= 3, "{events} events");
    for _ in 1..CONSUMERS {
        producer.put("more").await.unwrap();
    }
    for task in waiting {
        task.await.unwrap().unwrap();
    }
    drop(producer);
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn an_uncontended_item_costs_few_requests() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let queue = plain(&client);
    for _ in 0..10 {
        queue.put("x").await.unwrap();
    }
    counting.take_requests();
    queue.put("x").await.unwrap();
    assert_eq!(counting.take_requests(), [(OpCode::MULTI, 1)], "a put");
    queue.take().await.unwrap().done().await.unwrap();
    counting.take_requests();
    queue.take().await.unwrap().done().await.unwrap();
    let requests = counting.take_requests();
    assert_eq!(requests, [(OpCode::GET_DATA, 1), (OpCode::MULTI, 1)], "at most once");
    let (client, counting) = counted(&server).await;
    let queue = leased(&client);
    queue.take().await.unwrap().done().await.unwrap();
    counting.take_requests();
    queue.take().await.unwrap().done().await.unwrap();
    let requests = counting.take_requests();
    assert_eq!(requests, [(OpCode::GET_DATA, 1), (OpCode::MULTI, 2)], "at least once");
}

#[tokio::test(start_paused = true)]
async fn many_consumers_take_each_item_once() {
    for is_leased in [false, true] {
        let server = server().await;
        let mut tasks = Vec::new();
        for _ in 0..CONSUMERS {
            let client = connect(&server).await;
            let queue = if is_leased { leased(&client) } else { plain(&client) };
            tasks.push(tokio::spawn(async move {
                let mut items = Vec::new();
                while let Some(delivery) = queue.take_within(5 * SECOND).await.unwrap() {
                    items.push(text(&delivery).parse::<usize>().unwrap());
                    delivery.done().await.unwrap();
                    tokio::task::yield_now().await;
                }
                items
            }));
        }
        let producer = plain(&connect(&server).await);
        for item in 0..200 {
            producer.put(item.to_string()).await.unwrap();
        }
        let mut items = Vec::new();
        for task in tasks {
            items.extend(task.await.unwrap());
        }
        items.sort_unstable();
        assert_eq!(items, (0..200).collect::<Vec<_>>());
        drop(producer);
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_not_polled_does_not_stop_the_others() {
    let server = server().await;
    let (stuck, client) = (connect(&server).await, connect(&server).await);
    let stuck = plain(&stuck);
    let mut never_again = Box::pin(stuck.take());
    zoolet_test_support::stage::poll_times(never_again.as_mut(), 20).await;
    let queue = plain(&client);
    let waiting = tokio::spawn(async move { queue.take().await.map(|item| text(&item)) });
    tokio::time::sleep(SECOND).await;
    plain(&connect(&server).await).put("1").await.unwrap();
    let waited = tokio::time::timeout(Duration::from_secs(31), waiting).await;
    assert_eq!(waited.unwrap().unwrap().unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_consumer_survives_a_disconnect_and_the_end_of_its_session() {
    for outage in [SECOND, EXPIRY] {
        for is_second in [false, true] {
            let server = TestServer::start().await.unwrap();
            let client = server.connect().await.unwrap();
            let first = server.connect().await.unwrap();
            if is_second {
                let queue = plain(&first);
                tokio::spawn(async move { queue.take().await.map(drop) });
                tokio::time::sleep(SECOND).await;
            }
            let queue = plain(&client);
            let waiting = tokio::spawn(async move { queue.take().await.map(|item| text(&item)) });
            tokio::time::sleep(SECOND).await;
            let refusal = server.everyone().refuse().unwrap();
            server.session(client.session_id()).cut().unwrap();
            tokio::time::sleep(outage).await;
            refusal.lift();
            let producer = plain(&server.connect().await.unwrap());
            for _ in 0..2 {
                producer.put("1").await.unwrap();
            }
            assert_eq!(waiting.await.unwrap().unwrap(), "1", "{outage:?}, second: {is_second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_waits_for_a_queue_that_does_not_exist_yet_or_not_any_more() {
    let server = TestServer::start().await.unwrap();
    let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let queue = SimpleDistributedQueue::new(&client, "/a/queue").unwrap();
    let producer = SimpleDistributedQueue::new(&other, "/a/queue").unwrap();
    let container = || other.create("/a/queue").mode(CreateMode::Container).parents(CONTAINERS);
    for _ in 0..2 {
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.take().await }
        });
        tokio::time::sleep(SECOND).await;
        // As Curator creates it.
        container().await.unwrap();
        tokio::time::sleep(SECOND).await;
        producer.offer("x").await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), "x");
        // The server deletes the empty container.
        server.sweep().unwrap();
        assert!(client.exists("/a/queue").await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_times_out_leaves_nothing() {
    let server = server().await;
    let client = connect(&server).await;
    for queue in [plain(&client), leased(&client)] {
        assert!(queue.take_within(SECOND).await.unwrap().is_none());
        assert_clean(&server).await;
    }
    let (client, counting) = counted(&server).await;
    counting.refuse(true);
    counting.cut();
    assert!(plain(&client).take_within(SECOND).await.unwrap().is_none(), "without a connection");
}
