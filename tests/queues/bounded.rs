//! Queues with a greatest number of items.

use std::num::NonZeroUsize;
use std::time::Duration;

use zoolet::recipes::queue::QueueError;
use zoolet_test_support::stage::{assert_clean, connect, server};

use crate::{SECOND, plain, text};

const MAX: NonZeroUsize = NonZeroUsize::new(3).expect("it is not 0");

#[tokio::test(start_paused = true)]
async fn a_put_waits_while_the_queue_is_full() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let queue = plain(&client).with_max_items(MAX);
    for item in ["1", "2", "3"] {
        queue.put(item).await.unwrap();
    }
    let late = queue.put_within(SECOND, "late").await;
    assert_eq!(late, Err(QueueError::TimedOut("/jobs".into())));
    assert_clean(&server).await;
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.put("4").await }
    });
    tokio::time::sleep(SECOND).await;
    assert!(!waiting.is_finished());
    assert_eq!(text(&plain(&other).take().await.unwrap()), "1");
    waiting.await.unwrap().unwrap();
    for item in ["2", "3", "4"] {
        assert_eq!(text(&plain(&other).take().await.unwrap()), item);
    }
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_producers_fill_the_queue_one_after_the_other() {
    let server = server().await;
    let client = connect(&server).await;
    let consumer = plain(&client);
    let mut producers = Vec::new();
    for number in 0..10 {
        let queue = plain(&connect(&server).await).with_max_items(MAX);
        producers.push(tokio::spawn(async move {
            queue.put(number.to_string()).await.unwrap();
        }));
        tokio::time::sleep(SECOND).await;
    }
    // Producers check the queue themselves after half a minute, and keep their places.
    tokio::time::sleep(Duration::from_millis(26_500)).await;
    let mut items = Vec::new();
    for _ in 0..10 {
        assert!(consumer.count().await.unwrap() <= MAX.get());
        items.push(text(&consumer.take().await.unwrap()).parse::<usize>().unwrap());
        tokio::time::sleep(SECOND).await;
    }
    assert_eq!(items, (0..10).collect::<Vec<_>>(), "in the order of the line");
    for producer in producers {
        producer.await.unwrap();
    }
    assert_clean(&server).await;
}
