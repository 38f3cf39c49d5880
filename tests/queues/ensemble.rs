//! Queues on an ensemble whose servers lag and whose leader is lost.

use std::time::Duration;

use zoolet::client::Client;
use zoolet::recipes::queue::DistributedQueue;
use zoolet::testing::TestEnsemble;

use crate::{SECOND, leased, plain, text};

const ITEMS: usize = 12;
const LAG: Duration = Duration::from_millis(300);

/// Both promises, in turn.
const KINDS: [fn(&Client) -> DistributedQueue; 2] = [plain, leased];

async fn connect(ensemble: &TestEnsemble, server: usize) -> Client {
    let builder = Client::builder().session_timeout(4 * SECOND);
    builder.connect(ensemble.server(server).dialer()).await.expect("it serves")
}

/// Takes items until no more come.
async fn take_all(queue: DistributedQueue) -> Vec<usize> {
    let mut items = Vec::new();
    while let Some(delivery) = queue.take_within(20 * SECOND).await.expect("a take") {
        items.push(text(&delivery).parse().expect("a number"));
        delivery.done().await.expect("it is leased");
    }
    items
}

async fn put_all(queue: DistributedQueue) {
    for item in 0..ITEMS {
        queue.put(item.to_string()).await.expect("a put");
    }
}

#[tokio::test(start_paused = true)]
async fn one_consumer_of_a_lagging_follower_gets_the_items_in_their_order() {
    for kind in KINDS {
        let ensemble = TestEnsemble::start().await.unwrap();
        ensemble.server(1).lag_by(LAG);
        let consumer = tokio::spawn(take_all(kind(&connect(&ensemble, 1).await)));
        put_all(kind(&connect(&ensemble, 0).await)).await;
        assert_eq!(consumer.await.unwrap(), (0..ITEMS).collect::<Vec<_>>());
        ensemble.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn consumers_of_lagging_followers_get_each_item_once() {
    for kind in KINDS {
        let ensemble = TestEnsemble::start().await.unwrap();
        ensemble.server(1).lag_by(LAG);
        ensemble.server(2).lag_by(2 * LAG);
        let mut consumers = Vec::new();
        for server in [0, 1, 2, 2] {
            consumers.push(tokio::spawn(take_all(kind(&connect(&ensemble, server).await))));
        }
        put_all(kind(&connect(&ensemble, 1).await)).await;
        let mut items = Vec::new();
        for consumer in consumers {
            items.extend(consumer.await.unwrap());
        }
        items.sort_unstable();
        assert_eq!(items, (0..ITEMS).collect::<Vec<_>>());
        ensemble.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_item_is_put_and_taken_once_while_leaders_are_lost() {
    for kind in KINDS {
        let ensemble = TestEnsemble::start().await.unwrap();
        let mut consumers = Vec::new();
        for _ in 0..3 {
            consumers.push(tokio::spawn(take_all(kind(&ensemble.connect().await.unwrap()))));
        }
        let producer = tokio::spawn({
            let queue = kind(&ensemble.connect().await.unwrap());
            async move {
                for item in 0..ITEMS {
                    queue.put(item.to_string()).await.unwrap();
                    tokio::time::sleep(SECOND / 4).await;
                }
            }
        });
        for _ in 0..5 {
            ensemble.serving().await;
            tokio::time::sleep(SECOND / 2).await;
            let lost = ensemble.lose_leader().unwrap();
            ensemble.serving().await;
            ensemble.server(lost).start();
        }
        producer.await.unwrap();
        let mut items = Vec::new();
        for consumer in consumers {
            items.extend(consumer.await.unwrap());
        }
        items.sort_unstable();
        assert_eq!(items, (0..ITEMS).collect::<Vec<_>>());
        ensemble.check().unwrap();
    }
}
