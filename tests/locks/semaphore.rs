//! Tests of the semaphore on a server in process: its limit, its requests and its failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::OpCode;
use zoolet::recipes::{
    InterProcessMutex, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockError, LockState,
    SharedCount,
};
use zoolet::server::Server;
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{counted, poll_times, server};

const SECOND: Duration = Duration::from_secs(1);

async fn semaphore(server: &Server, permits: usize) -> (InterProcessSemaphoreV2, Counting) {
    let (client, counting) = counted(server).await;
    (InterProcessSemaphoreV2::new(&client, "/s", permits).expect("a path"), counting)
}

#[tokio::test]
async fn acquiring_free_permits_costs_four_requests() {
    let server = server().await;
    let (semaphore, counting) = semaphore(&server, 3).await;
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    counting.take_requests();
    let permits = semaphore.acquire(2).await.unwrap();
    // The create in line, the lists of the line and of the permits, and one multi for everything
    // else.
    let expected = [(OpCode::GET_CHILDREN, 2), (OpCode::MULTI, 1), (OpCode::CREATE2, 1)];
    assert_eq!(counting.take_requests(), expected);
    assert_eq!(permits.len(), 2);
    assert_eq!(semaphore.permits_left().await.unwrap(), 1);
    counting.take_requests();
    permits.release().await.unwrap();
    assert_eq!(counting.take_requests(), [(OpCode::DELETE, 2)]);
    assert_eq!(server.totals().watches, 0);
    assert_eq!(server.totals().ephemerals, 0);
}

#[tokio::test]
async fn clients_never_hold_more_permits_than_the_maximum() {
    let server = server().await;
    let had = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for count in [1, 2, 3, 1, 2, 3, 1, 2] {
        let (semaphore, _) = semaphore(&server, 3).await;
        let had = Arc::clone(&had);
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let permits = semaphore.acquire(count).await.unwrap();
                assert!(had.fetch_add(count, Ordering::SeqCst) + count <= 3, "too many are had");
                tokio::task::yield_now().await;
                had.fetch_sub(count, Ordering::SeqCst);
                permits.release().await.unwrap();
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
async fn two_clients_that_acquire_all_permits_do_not_deadlock() {
    let server = server().await;
    let (one, _) = semaphore(&server, 2).await;
    let (two, _) = semaphore(&server, 2).await;
    for _ in 0..20 {
        let (a, b) = tokio::join!(
            async { one.acquire_within(2, SECOND).await.unwrap().release().await },
            async { two.acquire_within(2, SECOND).await.unwrap().release().await },
        );
        assert_eq!((a, b), (Ok(()), Ok(())));
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_times_out_leaves_nothing() {
    let server = server().await;
    let (one, _) = semaphore(&server, 2).await;
    let (two, _) = semaphore(&server, 2).await;
    let permits = one.acquire(1).await.unwrap();
    assert!(matches!(two.acquire_within(2, SECOND).await, Err(LockError::TimedOut(_))));
    let too_many = two.acquire(3).await;
    assert!(matches!(too_many, Err(LockError::TooMany { count: 3, max: 2, .. })));
    // The waiter that timed out does not block the others.
    let also = two.acquire_within(1, SECOND).await.unwrap();
    drop((permits, also));
    tokio::task::yield_now().await;
    assert_eq!(server.totals().ephemerals, 0);
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_leaks_no_permit() {
    let server = server().await;
    let (warm, _) = semaphore(&server, 2).await;
    let kept = warm.acquire(1).await.unwrap();
    for _ in 0..5 {
        let (semaphore, counting) = semaphore(&server, 2).await;
        counting.cut();
        let permits = semaphore.acquire(1).await.unwrap();
        assert_eq!(semaphore.permits_left().await.unwrap(), 0);
        permits.release().await.unwrap();
    }
    assert_eq!(warm.permits_left().await.unwrap(), 1);
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_frees_its_permits() {
    let server = server().await;
    let (one, counting) = semaphore(&server, 1).await;
    let (two, _) = semaphore(&server, 1).await;
    let permits = one.acquire(1).await.unwrap();
    counting.refuse(true);
    counting.cut();
    let theirs = two.acquire(1).await.unwrap();
    assert!(matches!(permits.release().await, Err(LockError::Lost(_))));
    theirs.release().await.unwrap();
}

#[tokio::test]
async fn dropping_acquire_at_any_poll_leaves_nothing() {
    let server = server().await;
    let (holder, _) = semaphore(&server, 2).await;
    let (waiter, _) = semaphore(&server, 2).await;
    for polls in 0..12 {
        for had in [0, 1] {
            let permits = holder.acquire(had).await.unwrap();
            let mut acquire = Box::pin(waiter.acquire(2));
            poll_times(acquire.as_mut(), polls).await;
            drop(acquire);
            permits.release().await.unwrap();
            tokio::task::yield_now().await;
            assert_eq!(server.totals().ephemerals, 0, "{polls} {had}");
            assert_eq!(server.totals().watches, 0, "{polls} {had}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_mutex_is_not_reentrant_and_its_tokens_grow() {
    let server = server().await;
    let client = Client::connect(server.dialer()).await.unwrap();
    let mutex = InterProcessSemaphoreMutex::new(&client, "/m").unwrap();
    let held = mutex.acquire().await.unwrap();
    let token = held.fencing_token();
    assert_eq!(client.exists(&held.paths()[0]).await.unwrap().unwrap().czxid, token);
    assert!(matches!(mutex.acquire_within(SECOND).await, Err(LockError::TimedOut(_))));
    assert!(mutex.is_held().await.unwrap());
    tokio::spawn(async move { held.release().await }).await.unwrap().unwrap();
    assert!(mutex.acquire().await.unwrap().fencing_token() > token);
}

/// A semaphore whose maximum is a shared count.
async fn with_shared_count(
    server: &Server,
    seed: i32,
) -> (InterProcessSemaphoreV2, Arc<SharedCount>) {
    let client = Client::connect(server.dialer()).await.expect("the server is there");
    let count = SharedCount::start(&client, "/count", seed).await.expect("the server is there");
    let count = Arc::new(count);
    let semaphore = InterProcessSemaphoreV2::with_count(&client, "/s", Arc::clone(&count));
    (semaphore.expect("a path"), count)
}

#[tokio::test(start_paused = true)]
async fn semaphore_concurrent_growth_of_max() {
    let server = server().await;
    let (one, count) = with_shared_count(&server, 1).await;
    let (two, _count) = with_shared_count(&server, 7).await;
    let first = one.acquire(1).await.unwrap();
    // An acquire of more permits than the maximum waits: the maximum may grow.
    let waits = tokio::spawn(async move { two.acquire(2).await.unwrap() });
    tokio::time::sleep(SECOND).await;
    count.set(2).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(!waits.is_finished(), "one of two is free, and two are wanted");
    assert_eq!(one.permits_left().await.unwrap(), 1);
    count.set(3).await.unwrap();
    let more = tokio::time::timeout(SECOND, waits).await.expect("there are enough").unwrap();
    assert_eq!(one.permits_left().await.unwrap(), 0);
    drop((first, more));
}

#[tokio::test(start_paused = true)]
async fn lowering_the_maximum_keeps_held_permits_and_grants_no_more() {
    let server = server().await;
    let (one, count) = with_shared_count(&server, 3).await;
    let mut had = one.acquire(3).await.unwrap();
    count.set(1).await.unwrap();
    assert_eq!(had.state(), LockState::Held);
    assert_eq!(one.permits_left().await.unwrap(), 0);
    for _ in 0..2 {
        assert!(one.try_acquire(1).await.unwrap().is_none());
        assert!(matches!(one.acquire_within(1, SECOND).await, Err(LockError::TimedOut(_))));
        had.split_one().unwrap().release().await.unwrap();
    }
    assert!(one.try_acquire(1).await.unwrap().is_none(), "the only permit is held");
    had.release().await.unwrap();
    drop(one.acquire(1).await.unwrap());
    count.set(-1).await.unwrap();
    assert!(one.try_acquire(1).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_shared_count_is_an_error_and_leaves_nothing() {
    let server = server().await;
    let (one, _count) = with_shared_count(&server, 3).await;
    let client = Client::connect(server.dialer()).await.unwrap();
    client.set("/count", "three").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(matches!(one.acquire(1).await, Err(LockError::Count(_))));
    assert!(matches!(one.permits_left().await, Err(LockError::Count(_))));
    tokio::time::sleep(SECOND).await;
    assert_eq!(server.totals().ephemerals, 0);
}

#[tokio::test(start_paused = true)]
async fn a_split_permit_of_a_semaphore_mutex_is_the_one_that_counts_as_acquired() {
    let server = server().await;
    let client = Client::connect(server.dialer()).await.unwrap();
    let mutex = InterProcessSemaphoreMutex::new(&client, "/m").unwrap();
    for empty_one_is_dropped_first in [true, false] {
        let mut empty = mutex.acquire().await.unwrap();
        let one = empty.split_one().unwrap();
        assert!(empty.is_empty() && empty.split_one().is_none());
        assert!(mutex.is_acquired_in_this_process());
        if empty_one_is_dropped_first {
            drop(empty);
            assert!(mutex.is_acquired_in_this_process(), "the permit is held");
            one.release().await.unwrap();
        } else {
            one.release().await.unwrap();
            assert!(!mutex.is_acquired_in_this_process(), "no permit is held");
            empty.release().await.unwrap();
        }
        assert!(!mutex.is_acquired_in_this_process());
    }
}

#[tokio::test(start_paused = true)]
async fn more_permits_than_fit_into_one_request_are_refused_at_once() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, "/s", usize::MAX).unwrap();
    counting.take_requests();
    for count in [20_000, usize::MAX] {
        let error = semaphore.acquire(count).await.unwrap_err();
        let is_too_long = matches!(error, LockError::Client(Error::TooLong { .. }));
        assert!(is_too_long, "{count}: {error}");
    }
    assert_eq!(client.connection_count(), 1);
    assert_eq!(counting.take_requests(), [], "nobody waits behind it meanwhile");
    assert_eq!(semaphore.acquire(1_000).await.unwrap().len(), 1_000);
}

/// A namespace makes requests longer, and so do the directories and the place in line.
#[tokio::test(start_paused = true)]
async fn permits_that_are_too_many_for_a_request_are_refused_before_the_line_is_entered() {
    let server = server().await;
    let (all, _) = counted(&server).await;
    for space in ["/", "/com/example/services/production/eu-central-1/billing/connections"] {
        let client = all.namespace(space).unwrap();
        let semaphore = InterProcessSemaphoreV2::new(&client, "/s", 10_000).unwrap();
        let (mut granted, mut refused) = (1_000_usize, 10_000);
        while granted + 1 < refused {
            let count = granted.midpoint(refused);
            match semaphore.acquire(count).await {
                Ok(permits) => (granted, _) = (count, permits.release().await.unwrap()),
                Err(_) => refused = count,
            }
        }
        let held = semaphore.acquire(1).await.unwrap();
        let mutex = InterProcessMutex::new(&client, "/s/locks").unwrap();
        let in_front = mutex.acquire().await.unwrap();
        let error = semaphore.acquire_within(refused, SECOND).await.unwrap_err();
        assert!(matches!(error, LockError::Client(Error::TooLong { .. })), "{refused}: {error}");
        let waited = semaphore.acquire_within(granted, SECOND).await;
        assert!(matches!(waited, Err(LockError::TimedOut(_))), "{granted}: {waited:?}");
        in_front.release().await.unwrap();
        held.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_of_permits_above_a_shared_maximum_is_waited_for_if_a_request_has_room_for_it() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let count = Arc::new(SharedCount::start(&client, "/count", 10).await.unwrap());
    let semaphore = InterProcessSemaphoreV2::with_count(&client, "/s", count).unwrap();
    let held = semaphore.acquire(1).await.unwrap();
    let waited = semaphore.acquire_within(1_000, SECOND).await;
    assert!(matches!(waited, Err(LockError::TimedOut { .. })), "{waited:?}");
    let refused = semaphore.acquire(usize::MAX).await;
    assert!(matches!(refused, Err(LockError::Client(Error::TooLong { .. }))), "{refused:?}");
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_semaphore_tells_its_own_path() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    for path in ["/leases", "/leases/leases", "/s"] {
        let semaphore = InterProcessSemaphoreV2::new(&client, path, 1).unwrap();
        let error = semaphore.acquire(2).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("{path}:")), "{error}");
    }
}
