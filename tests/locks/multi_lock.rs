//! Tests of `InterProcessMultiLock` on a server in process.

use std::time::Duration;

use zoolet::client::Error;
use zoolet::protocol::OpCode;
use zoolet::recipes::{InterProcessMultiLock, InterProcessMutex, LockError, Owner};
use zoolet_test_support::stage::{connect, counted, server};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_multi_lock_enters_all_lines_with_one_multi_and_holds_all_or_none() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let paths = ["/locks/a", "/locks/b", "/locks/c", "/locks/a"];
    let lock = InterProcessMultiLock::new(&client, &paths).unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    counting.take_requests();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(counting.take_requests(), [(OpCode::GET_CHILDREN, 3), (OpCode::MULTI, 1)]);
    assert_eq!(guard.paths().len(), 3);

    let (other, _) = counted(&server).await;
    for path in ["/locks/a", "/locks/b", "/locks/c"] {
        let mutex = InterProcessMutex::new(&other, path).unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_none(), "{path}");
    }
    guard.release().await.unwrap();
    for path in ["/locks/a", "/locks/b", "/locks/c"] {
        let mutex = InterProcessMutex::new(&other, path).unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_some(), "{path}");
    }
    assert_eq!(server.totals().ephemerals, 0);
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn multi_locks_do_not_deadlock_in_any_order_of_their_paths() {
    let server = server().await;
    let names = ["/a", "/b", "/c", "/d"];
    let mut tasks = Vec::new();
    for n in 0..8 {
        let (client, _) = counted(&server).await;
        tasks.push(tokio::spawn(async move {
            for round in 0..20 {
                let mut paths: Vec<_> =
                    (0..3).map(|i| names[(n + round + i * (n % 3)) % 4]).collect();
                paths.rotate_left(round % 3);
                let lock = InterProcessMultiLock::new(&client, &paths).unwrap();
                let guard = lock.acquire_within(60 * SECOND).await.unwrap();
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(server.totals().ephemerals, 0);
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn a_multi_lock_that_times_out_leaves_nothing() {
    let server = server().await;
    let (holder, _) = counted(&server).await;
    let (waiter, _) = counted(&server).await;
    let held = InterProcessMutex::new(&holder, "/c").unwrap().acquire().await.unwrap();
    let lock = InterProcessMultiLock::new(&waiter, &["/a", "/b", "/c"]).unwrap();
    assert!(matches!(lock.acquire_within(SECOND).await, Err(LockError::TimedOut(_))));
    let (other, _) = counted(&server).await;
    for path in ["/a", "/b"] {
        let mutex = InterProcessMutex::new(&other, path).unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_some(), "{path} is free again");
    }
    held.release().await.unwrap();
    assert_eq!(server.totals().ephemerals, 0);
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_leaves_one_place_in_each_line() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let (other, _) = counted(&server).await;
    for path in ["/a", "/b"] {
        other.create(path).await.unwrap();
    }
    let lock = InterProcessMultiLock::new(&client, &["/a", "/b"]).unwrap();
    counting.cut();
    let guard = lock.acquire().await.unwrap();
    for path in ["/a", "/b"] {
        assert_eq!(other.children(path).await.unwrap().len(), 1);
    }
    let stat = other.exists(&guard.paths()[0]).await.unwrap().unwrap();
    assert_eq!(guard.fencing_token(), stat.czxid);
    guard.release().await.unwrap();
    assert_eq!(server.totals().ephemerals, 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_holds_one_of_the_locks_gets_would_deadlock() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let owner = Owner::new();
    let held = InterProcessMutex::new(&client, "/b").unwrap().acquire_as(owner).await.unwrap();
    let lock = InterProcessMultiLock::new(&client, &["/a", "/b"]).unwrap();
    assert!(matches!(lock.acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    assert!(matches!(lock.try_acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    held.release().await.unwrap();
    drop(lock.acquire_as(owner).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_multi_lock_without_paths_is_held_by_its_owner() {
    let server = server().await;
    let client = connect(&server).await;
    let lock = InterProcessMultiLock::new(&client, &[]).unwrap();
    let (owner, other) = (Owner::new(), Owner::new());
    assert!(!lock.is_held_by(owner) && !lock.is_acquired_in_this_process());
    let guard = lock.acquire_as(owner).await.unwrap();
    assert!(lock.is_held_by(owner) && lock.is_acquired_in_this_process());
    let again = lock.acquire_as(owner).await.unwrap();
    let tried = lock.try_acquire_as(other).await.unwrap().expect("there is nothing to wait for");
    assert!(lock.is_held_by(other));
    drop((guard, tried));
    assert!(lock.is_held_by(owner) && !lock.is_held_by(other));
    again.release().await.unwrap();
    assert!(!lock.is_held_by(owner) && !lock.is_acquired_in_this_process());
}

#[tokio::test(start_paused = true)]
async fn more_locks_than_fit_into_one_request_are_refused_at_once() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let paths: Vec<_> = (0..10_000).map(|number| format!("/accounts/{number}/lock")).collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    let error = InterProcessMultiLock::new(&client, &paths).unwrap().acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Client(Error::TooLong { .. })), "{error}");
    assert_eq!(client.connection_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn data_that_are_too_long_are_that_error() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let mutex = InterProcessMutex::new(&client, "/lock").unwrap().with_data(vec![0; 2 << 20]);
    let error = mutex.acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Client(Error::TooLong { .. })), "{error}");
    assert_eq!(client.connection_count(), 1);
}
