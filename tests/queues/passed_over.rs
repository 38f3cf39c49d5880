//! Items that a consumer may not take: it is told of them, they stay in the queue, and it goes on with
//! the others.

use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use zoolet::client::{Client, Error};
use zoolet::protocol::{Acl, CreateMode, Permissions};
use zoolet::recipes::queue::{
    DistributedQueue, ErrorMode, QueueError, SimpleDistributedQueue, encode_items,
};
use zoolet::testing::TestServer;
use zoolet_test_support::stage::{connect, server};

use crate::{SECOND, leased, names, plain, text};

/// Puts an item as another library does, with one request.
async fn put_as_others(client: &Client, data: Vec<u8>, acl: Vec<Acl>) -> Result<String, Error> {
    let create = client.create("/jobs/queue-").mode(CreateMode::PersistentSequential);
    create.data(data).acl(acl).await.map(|created| created.path)
}

/// A queue with an item that nobody may read, in front of two others. Returns the path of the first.
async fn with_unreadable_item(client: &Client, queue: &DistributedQueue) -> String {
    client.create("/jobs").await.expect("it is new");
    let acl = vec![Acl::open().with_permissions(Permissions::DELETE | Permissions::ADMIN)];
    let data = encode_items(["hidden"]).expect("it is short");
    let path = put_as_others(client, data.to_vec(), acl).await.expect("it is put");
    for item in ["1", "2"] {
        queue.put(item).await.expect("it is put");
    }
    path
}

#[tokio::test(start_paused = true)]
async fn a_take_names_an_item_that_may_not_be_read_and_the_next_one_passes_it_over() {
    for queue in [plain, leased] {
        let server = server().await;
        let client = connect(&server).await;
        let queue = queue(&client);
        let hidden = with_unreadable_item(&client, &queue).await;
        let error = queue.try_take().await.unwrap_err();
        assert_eq!(error, QueueError::Unreadable(hidden.clone()));
        assert!(error.to_string().contains("permit it to read"), "{error}");
        for item in ["1", "2"] {
            let delivery = queue.take().await.unwrap();
            assert_eq!(text(&delivery), item);
            delivery.done().await.unwrap();
        }
        assert!(queue.try_take().await.unwrap().is_none(), "it is not tried at each list");
        assert_eq!(names(&client, "/jobs").await, [hidden.rsplit('/').next().unwrap()]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_goes_on_at_an_item_that_may_not_be_read_and_tries_it_again_later() {
    for queue in [plain, leased] {
        let server = server().await;
        let client = connect(&server).await;
        let queue = queue(&client);
        let hidden = with_unreadable_item(&client, &queue).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let consumer = tokio::spawn({
            let (queue, seen) = (queue.clone(), Arc::clone(&seen));
            async move {
                let handle = |item: bytes::Bytes| {
                    seen.lock().unwrap().push(item);
                    std::future::ready(Ok::<_, String>(()))
                };
                queue.consume(ErrorMode::Requeue, handle).await
            }
        });
        tokio::time::sleep(SECOND).await;
        assert_eq!(*seen.lock().unwrap(), ["1", "2"]);
        queue.put("3").await.unwrap();
        tokio::time::sleep(SECOND).await;
        assert_eq!(*seen.lock().unwrap(), ["1", "2", "3"], "it waits for more");
        client.set_acl(&hidden, vec![Acl::open()]).await.unwrap();
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(*seen.lock().unwrap(), ["1", "2", "3", "hidden"]);
        assert!(!consumer.is_finished());
        consumer.abort();
    }
}

/// The longest item that a server takes from another library, which puts it with one request. Its data
/// are no list of items.
async fn put_longest(client: &Client) -> usize {
    client.create("/jobs").await.expect("it is new");
    for bytes in (0..=0xf_ffff).rev() {
        match put_as_others(client, vec![7; bytes], vec![Acl::open()]).await {
            Ok(_) => return bytes,
            Err(error) => assert!(matches!(error, Error::TooLong { .. }), "{error}"),
        }
    }
    panic!("no item is short enough")
}

/// Begins to take an item, and drops the future.
async fn take_and_drop(queue: &DistributedQueue) {
    let mut take = Box::pin(queue.take());
    assert!(take.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(take);
    queue.settled().await;
}

#[tokio::test(start_paused = true)]
async fn an_item_that_could_not_be_put_back_is_not_taken() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let longest = put_longest(&client).await;
    let queue = plain(&client);
    take_and_drop(&queue).await;
    assert_eq!(names(&client, "/jobs").await.len(), 1, "it is not lost");

    let error = plain(&client).take().await.unwrap_err();
    let names_it = matches!(&error, QueueError::NoWayBack { bytes, .. } if *bytes == longest);
    assert!(names_it && error.to_string().contains("jute.maxbuffer"), "{error}");
    // Shorter ones are taken, and put back if nobody receives them.
    put_as_others(&client, vec![8; longest - 500], vec![Acl::open()]).await.unwrap();
    put_as_others(&client, vec![9; longest - 600], vec![Acl::open()]).await.unwrap();
    take_and_drop(&queue).await;
    assert_eq!(names(&client, "/jobs").await.len(), 3);
    for first_byte in [9, 8] {
        let delivery = queue.take().await.unwrap();
        assert_eq!(delivery.data()[0], first_byte, "it was put behind the others");
    }
    // With leases nothing is put back.
    let delivery = leased(&client).take().await.unwrap();
    assert_eq!(delivery.data().len(), longest);
    delivery.done().await.unwrap();
    assert!(names(&client, "/jobs").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_long_item_costs_one_request_more_once() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let queue = SimpleDistributedQueue::new(&client, "/queue").unwrap();
    let requests = || server.stats().session(client.session_id()).requests.total();
    let mut costs = Vec::new();
    for bytes in [10_000, 100_000, 90_000, 100_000] {
        queue.offer(vec![7; bytes]).await.unwrap();
        let before = requests();
        assert_eq!(queue.take().await.unwrap().len(), bytes);
        costs.push(requests() - before);
    }
    assert_eq!(costs[1], costs[0] + 1);
    assert_eq!([costs[2], costs[3]], [costs[0]; 2]);
}
