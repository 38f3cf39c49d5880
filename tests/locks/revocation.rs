//! Tests of revocation: which guard reports it, what it costs, and that no watch is left.

use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::OpCode;
use zoolet::recipes::{
    Guard, InterProcessMultiLock, InterProcessMutex, InterProcessSemaphoreV2, LockError, LockGuard,
    LockState, Revoker,
};
use zoolet_test_support::stage::{counted, server};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(100);

async fn held(client: &Client) -> Guard {
    let mutex = InterProcessMutex::new(client, "/a").expect("a path");
    mutex.acquire().await.expect("the lock is free")
}

#[tokio::test(start_paused = true)]
async fn mutex_revoking() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let (other, _) = counted(&server).await;
    let guard = held(&client).await;
    counting.take_requests();
    let next = InterProcessMutex::new(&other, "/a").unwrap();
    let path = next.participants().await.unwrap().remove(0);
    let (next, ()) = tokio::join!(
        async {
            tokio::time::sleep(SOON).await;
            assert!(Revoker::attempt_revoke(&other, &path).await.unwrap());
            next.acquire_within(SECOND).await.expect("the holder releases the lock")
        },
        async {
            assert_eq!(counting.take_requests(), [], "it costs nothing before it is waited for");
            guard.revocation_requested().await.unwrap();
            assert_eq!(guard.state(), LockState::Held, "nothing was taken from it");
            guard.release().await.unwrap();
        }
    );
    // A read; a read of the new data, whose watch is removed; and the release.
    let expected = [(OpCode::DELETE, 1), (OpCode::GET_DATA, 2), (OpCode::REMOVE_WATCHES, 1)];
    assert_eq!(counting.take_requests(), expected);
    next.release().await.unwrap();
    tokio::time::sleep(SOON).await;
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn attempt_revoke_writes_curators_bytes_and_reports_a_missing_znode() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let guard = held(&client).await;
    assert!(Revoker::attempt_revoke(&client, guard.path()).await.unwrap());
    let (data, _) = client.get(guard.path()).await.unwrap();
    assert_eq!(data[..], [0x5f, 0x5f, 0x52, 0x45, 0x56, 0x4f, 0x4b, 0x45, 0x5f, 0x5f]);
    let path = guard.path().to_owned();
    guard.release().await.unwrap();
    assert!(!Revoker::attempt_revoke(&client, &path).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_revocation_is_noticed_before_the_wait_after_other_data_and_after_a_disconnect() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let (other, _) = counted(&server).await;
    let guard = held(&client).await;
    Revoker::attempt_revoke(&other, guard.path()).await.unwrap();
    tokio::time::timeout(SOON, guard.revocation_requested()).await.unwrap().unwrap();
    other.set(guard.path(), "something else").await.unwrap();
    let (heard, ()) = tokio::join!(guard.revocation_requested(), async {
        tokio::time::sleep(SOON).await;
        other.set(guard.path(), "and again").await.unwrap();
        tokio::time::sleep(SOON).await;
        counting.refuse(true);
        counting.cut();
        Revoker::attempt_revoke(&other, guard.path()).await.unwrap();
        tokio::time::sleep(5 * SECOND).await;
        counting.refuse(false);
    });
    assert_eq!(heard, Ok(()));
    guard.release().await.unwrap();
    tokio::time::sleep(SOON).await;
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn revocation_requested_returns_lost_for_a_lost_lock() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let (other, _) = counted(&server).await;
    let guard = held(&client).await;
    let path = guard.path().to_owned();
    let (deleted, ()) = tokio::join!(guard.revocation_requested(), async {
        tokio::time::sleep(SOON).await;
        other.delete(&path).await.unwrap();
    });
    assert!(matches!(deleted, Err(LockError::Lost(_))));
    drop(guard);
    let guard = held(&client).await;
    let (expired, ()) = tokio::join!(guard.revocation_requested(), async {
        counting.refuse(true);
        counting.cut();
        tokio::time::sleep(120 * SECOND).await;
        counting.refuse(false);
    });
    assert!(matches!(expired, Err(LockError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn a_revocation_of_a_waiter_is_reported_once_it_holds_the_lock() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let (other, _) = counted(&server).await;
    let first = held(&client).await;
    let waits = tokio::spawn(async move { held(&other).await });
    tokio::time::sleep(SOON).await;
    let line = InterProcessMutex::new(&client, "/a").unwrap().participants().await.unwrap();
    assert!(Revoker::attempt_revoke(&client, &line[1]).await.unwrap());
    first.release().await.unwrap();
    let second = waits.await.unwrap();
    tokio::time::timeout(SOON, second.revocation_requested()).await.unwrap().unwrap();
    second.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn permits_and_multi_locks_are_revoked_by_any_of_their_znodes() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let (other, _) = counted(&server).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, "/s", 3).unwrap();
    let multi = InterProcessMultiLock::new(&client, &["/b", "/c", "/d"]).unwrap();
    let guards: [Box<dyn LockGuard>; 2] =
        [Box::new(semaphore.acquire(3).await.unwrap()), Box::new(multi.acquire().await.unwrap())];
    for guard in guards {
        let path = guard.paths()[1].to_owned();
        let (heard, revoked) = tokio::join!(guard.revocation_requested(), async {
            tokio::time::sleep(SOON).await;
            Revoker::attempt_revoke(&other, &path).await.unwrap()
        });
        assert_eq!((heard, revoked), (Ok(()), true));
        tokio::time::sleep(SOON).await;
        assert_eq!(server.totals().watches, 0, "no watch is left while it is held on");
        guard.release().await.unwrap();
    }
    tokio::time::sleep(SOON).await;
    assert_eq!((server.totals().watches, server.totals().ephemerals), (0, 0));
}

#[tokio::test]
async fn dropping_revocation_requested_at_any_poll_leaves_no_watch() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let guard = held(&client).await;
    for polls in 0..5 {
        let mut wait = Box::pin(guard.revocation_requested());
        for _ in 0..polls {
            let poll = std::future::poll_fn(|context| {
                std::task::Poll::Ready(wait.as_mut().poll(context).is_ready())
            });
            assert!(!poll.await);
            tokio::task::yield_now().await;
        }
        drop(wait);
        client.sync("/").await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(server.totals().watches, 0, "{polls}");
    }
}
