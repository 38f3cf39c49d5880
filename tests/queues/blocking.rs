//! The queues for threads.

#![allow(clippy::disallowed_methods, reason = "a thread waits for another one")]

use std::sync::mpsc;
use std::time::Duration;

use zoolet::client::blocking::Client;
use zoolet::recipes::LockState;
use zoolet::recipes::blocking::{
    DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue, DistributedQueue,
    KazooLockingQueue, KazooQueue, QueueSharder, SimpleDistributedQueue,
};
use zoolet::recipes::queue::{self, ErrorMode, QueueSharderPolicies};
use zoolet::server::blocking::Server;

/// Long enough for everything that does not wait.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

fn stage() -> (Server, Client) {
    let server = Server::start(zoolet::server::Server::builder()).expect("it starts");
    let client = Client::connect(server.dialer()).expect("the server is there");
    (server, client)
}

#[test]
fn each_kind_puts_and_takes() {
    let (_server, client) = stage();
    let simple = SimpleDistributedQueue::new(&client, "/simple").unwrap();
    simple.offer("1").unwrap();
    assert_eq!(simple.peek().unwrap().unwrap(), "1");
    assert_eq!(simple.take().unwrap(), "1");
    assert_eq!(simple.poll().unwrap(), None);
    assert_eq!(simple.poll_within(SHORT).unwrap(), None);
    simple.settled();
    let plain = DistributedQueue::new(&client, "/plain").unwrap();
    plain.put_within(LONG, "1").unwrap();
    assert_eq!(plain.take().unwrap().items().unwrap(), ["1"]);
    let ids = DistributedIdQueue::new(&client, "/ids").unwrap();
    ids.put("1", "id").unwrap();
    assert_eq!(ids.remove("id").unwrap(), 1);
    let priorities = DistributedPriorityQueue::new(&client, "/priorities").unwrap();
    priorities.put("2", 2).unwrap();
    priorities.put("1", 1).unwrap();
    assert_eq!(priorities.take().unwrap().items().unwrap(), ["1"]);
    let delays = DistributedDelayQueue::new(&client, "/delays").unwrap();
    delays.put_after("later", LONG).unwrap();
    delays.put_after("soon", SHORT).unwrap();
    assert_eq!(delays.take().unwrap().items().unwrap(), ["soon"]);
    assert!(delays.take_within(SHORT).unwrap().is_none());
    let kazoo = KazooQueue::new(&client, "/kazoo").unwrap();
    kazoo.put("2").unwrap();
    kazoo.put_with_priority("1", 1).unwrap();
    assert_eq!(kazoo.try_take().unwrap().unwrap().data(), "1");
}

#[test]
fn a_thread_waits_for_an_item_and_for_its_lease() {
    let (server, client) = stage();
    let queue = KazooLockingQueue::new(&client, "/jobs").unwrap();
    let other = Client::connect(server.dialer()).unwrap();
    let producer = KazooLockingQueue::new(&other, "/jobs").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.take().unwrap());
        std::thread::sleep(SHORT);
        producer.put("1").unwrap();
        let delivery = waiting.join().unwrap();
        assert_eq!((delivery.data().as_ref(), delivery.state()), (&b"1"[..], LockState::Held));
        assert!(producer.try_take().unwrap().is_none(), "it is leased");
        delivery.requeue().unwrap();
    });
    producer.take().unwrap().release().unwrap();
    producer.take().unwrap().done().unwrap();
    assert!(queue.take_within(SHORT).unwrap().is_none());
}

#[test]
fn a_consumer_is_called_on_a_thread_until_it_succeeds() {
    let (_server, client) = stage();
    let queue = DistributedQueue::new(&client, "/jobs").unwrap().with_lock_path("/locks").unwrap();
    queue.put("1").unwrap();
    let (sender, received) = mpsc::channel();
    let mut tries = 0;
    let handle = move |item: bytes::Bytes| {
        tries += 1;
        sender.send((tries, item)).unwrap();
        if tries < 3 { Err("not yet") } else { Ok(()) }
    };
    let consumer = {
        let queue = queue.clone();
        std::thread::spawn(move || queue.consume(ErrorMode::Requeue, handle))
    };
    for tries in 1..=3 {
        assert_eq!(received.recv_timeout(LONG).unwrap(), (tries, "1".into()));
    }
    while client.wait(queue.get().count()).unwrap() > 0 {
        std::thread::yield_now();
    }
    client.wait(client.ask().clone().close()).unwrap();
    assert!(consumer.join().unwrap().is_err(), "the client is closed");
}

#[test]
fn a_sharder_gives_the_queues_of_a_thread() {
    let (_server, client) = stage();
    let policies = QueueSharderPolicies {
        new_queue_threshold: 2,
        threshold_check: SHORT,
        ..QueueSharderPolicies::default()
    };
    let make = queue::DistributedQueue::new;
    let sharder = QueueSharder::start(&client, "/jobs", "/leader", policies, make).unwrap();
    for item in ["1", "2"] {
        sharder.queue().put(item).unwrap();
    }
    assert_eq!(sharder.changed(1).unwrap().len(), 2);
    assert_eq!(sharder.shard_paths().len(), 2);
    let mut items = 0;
    for queue in sharder.queues() {
        while queue.try_take().unwrap().is_some() {
            items += 1;
        }
    }
    assert_eq!(items, 2);
    sharder.close().unwrap();
}
