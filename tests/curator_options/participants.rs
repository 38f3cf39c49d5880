//! Tests of what the participants of a lock or a semaphore tell of themselves.

use std::time::Duration;

use zoolet::recipes::{InterProcessMutex, InterProcessSemaphoreV2};
use zoolet_test_support::stage::{connect, server};

#[tokio::test(start_paused = true)]
async fn the_data_of_participants_is_read_in_their_order() {
    let server = server().await;
    let (one, other) = (connect(&server).await, connect(&server).await);
    let of = |client, name: &'static str| {
        InterProcessMutex::new(client, "/lock").unwrap().with_data(name)
    };
    let guard = of(&one, "holder").acquire().await.unwrap();
    let waiting = of(&other, "waiter");
    let waiter = tokio::spawn(async move { waiting.acquire().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mutex = of(&one, "");
    let participants = mutex.participants_with_data().await.unwrap();
    let (paths, data): (Vec<_>, Vec<_>) = participants.into_iter().unzip();
    assert_eq!(data, ["holder", "waiter"]);
    assert_eq!(paths, mutex.participants().await.unwrap());
    assert_eq!(paths[0], guard.path());
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(mutex.participants_with_data().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn permits_tell_who_holds_them() {
    let server = server().await;
    let client = connect(&server).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, "/seats", 300).unwrap();
    let _permits = semaphore.clone().with_data("a").acquire(200).await.unwrap();
    let held = semaphore.participants_with_data().await.unwrap();
    assert_eq!(held.len(), 200, "more than are read at once");
    assert!(held.iter().all(|(_, data)| data == "a"));
}
