//! Curator's test scenarios of the semaphore, under Curator's names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zoolet::client::Client;
use zoolet::recipes::{InterProcessSemaphoreV2, LockError, LockState};
use zoolet_test_support::stage::{assert_clean, counted, server};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(100);

fn semaphore(client: &Client, permits: usize) -> InterProcessSemaphoreV2 {
    InterProcessSemaphoreV2::new(client, "/s", permits).expect("a path")
}

#[tokio::test(start_paused = true)]
async fn semaphore_simple() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let semaphore = semaphore(&client, 1);
    let permit = semaphore.acquire_within(1, SECOND).await.unwrap();
    assert!(matches!(semaphore.acquire_within(1, SECOND).await, Err(LockError::TimedOut(_))));
    permit.release().await.unwrap();
    semaphore.acquire_within(1, SECOND).await.unwrap().release().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_acquire_after_lost_server() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let semaphore = semaphore(&client, 1);
    counting.refuse(true);
    counting.cut();
    assert!(matches!(semaphore.acquire_within(1, SECOND).await, Err(LockError::TimedOut(_))));
    // Longer than the session timeout.
    tokio::time::sleep(300 * SECOND).await;
    counting.refuse(false);
    let permit = semaphore.acquire_within(1, 60 * SECOND).await.unwrap();
    assert_eq!(permit.state(), LockState::Held);
    permit.release().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_client_close() {
    let server = server().await;
    let (one, _) = counted(&server).await;
    let (two, _) = counted(&server).await;
    let had = semaphore(&one, 1).acquire(1).await.unwrap();
    let other = semaphore(&two, 1);
    let waits = tokio::spawn(async move { other.acquire_within(1, SECOND).await });
    tokio::time::sleep(SOON).await;
    one.close().await.unwrap();
    let permit = waits.await.unwrap().expect("a closed session frees its permits");
    assert_eq!(had.state(), LockState::Lost);
    permit.release().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_waiter_of_a_client_that_closes() {
    let server = server().await;
    let (one, _) = counted(&server).await;
    let (two, _) = counted(&server).await;
    let had = semaphore(&one, 1).acquire(1).await.unwrap();
    let other = semaphore(&two, 1);
    let waits = tokio::spawn(async move { other.acquire(1).await.map(drop) });
    tokio::time::sleep(SOON).await;
    two.close().await.unwrap();
    let ended = tokio::time::timeout(SECOND, waits).await.expect("the wait ends with the client");
    assert!(ended.unwrap().is_err());
    had.release().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_max_per_session() {
    let server = server().await;
    let had = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (client, _) = counted(&server).await;
        // Many tasks of one session, and many sessions.
        for _ in 0..5 {
            let (semaphore, had) = (semaphore(&client, 3), Arc::clone(&had));
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    let permit = semaphore.acquire(1).await.unwrap();
                    assert!(had.fetch_add(1, Ordering::SeqCst) < 3, "too many are had");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    had.fetch_sub(1, Ordering::SeqCst);
                    permit.release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_release_one_at_a_time_and_in_chunks() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let (other, _) = counted(&server).await;
    const MAX: usize = 11;
    let (semaphore, other) = (semaphore(&client, MAX), semaphore(&other, MAX));
    let mut permits = semaphore.acquire(MAX).await.unwrap();
    let mut theirs = Vec::new();
    for left in (0..MAX).rev() {
        assert!(other.try_acquire(1).await.unwrap().is_none());
        permits.split_one().unwrap().release().await.unwrap();
        assert_eq!(permits.len(), left);
        theirs.push(other.acquire_within(1, SECOND).await.expect("one is free"));
    }
    assert!(permits.is_empty() && permits.split_one().is_none());
    theirs.truncate(4);
    let chunk =
        semaphore.acquire_within(MAX - 4, SECOND).await.expect("the other permits are free");
    let waits = tokio::spawn(async move { other.acquire(MAX).await.unwrap() });
    tokio::time::sleep(SOON).await;
    theirs.clear();
    tokio::time::sleep(SOON).await;
    assert!(!waits.is_finished());
    chunk.release().await.unwrap();
    waits.await.unwrap().release().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_participants() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let semaphore = semaphore(&client, 3).with_data("who");
    assert_eq!(semaphore.participants().await.unwrap(), [""; 0]);
    let (one, two) = (semaphore.acquire(1).await.unwrap(), semaphore.acquire(2).await.unwrap());
    let mut expected: Vec<_> = one.paths().iter().chain(two.paths()).cloned().collect();
    let mut found = semaphore.participants().await.unwrap();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    for path in &found {
        assert!(path.starts_with("/s/leases/_c_"), "{path}");
        assert_eq!(client.get(path).await.unwrap().0, "who");
    }
    drop((one, two));
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn semaphore_no_orphans() {
    let server = server().await;
    let (admin, _) = counted(&server).await;
    for answers in 0..12 {
        let (client, counting) = counted(&server).await;
        counting.cut_after(answers);
        let acquired = semaphore(&client, 2).acquire_within(2, SECOND).await;
        drop(acquired);
        counting.cut_after(-1);
        tokio::time::sleep(10 * SECOND).await;
        for directory in ["/s/locks", "/s/leases"] {
            let left = admin.children(directory).await.map_or(0, |names| names.len());
            assert_eq!(left, 0, "{answers}: {directory}");
        }
    }
    assert_clean(&server).await;
}
