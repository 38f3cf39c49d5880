//! Tests of `InterProcessMutex` on a server in process: exclusion, the number of requests, and
//! failures.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::{CreateMode, MultiOp, OpCode, SetData, Zxid};
use zoolet::recipes::{InterProcessMutex, KazooLine, LockError, LockState, Owner};
use zoolet::server::Server;
use zoolet_test_support::stage::{connect, counted, poll_times, server};

const SECOND: Duration = Duration::from_secs(1);

/// Asserts that no znode is left in the line and no watch.
async fn assert_clean(server: &Server, client: &Client, path: &str) {
    // The server handles requests that were sent in the background before this one.
    client.sync("/").await.expect("the server is there");
    tokio::task::yield_now().await;
    assert_eq!(client.children(path).await.map_or(0, |names| names.len()), 0);
    assert_eq!(server.totals().watches, 0, "watches are left");
}

#[tokio::test]
async fn one_client_holds_the_mutex_at_a_time_and_tokens_grow() {
    let server = server().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let last_token = Arc::new(std::sync::Mutex::new(Zxid(0)));
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let client = connect(&server).await;
        let (inside, last_token) = (Arc::clone(&inside), Arc::clone(&last_token));
        tasks.push(tokio::spawn(async move {
            let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap();
            for _ in 0..20 {
                let guard = mutex.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                {
                    let mut last = last_token.lock().unwrap();
                    assert!(guard.fencing_token() > *last, "tokens grow");
                    *last = guard.fencing_token();
                }
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let client = connect(&server).await;
    assert_clean(&server, &client, "/locks/a").await;
}

/// Each task that waits keeps such a future. They took 11.7 KB and 23.5 KB while an `async fn` took another
/// future as its argument, for which it has room twice.
#[tokio::test]
async fn a_future_that_waits_for_the_mutex_is_small() {
    let server = server().await;
    let client = connect(&server).await;
    let mutex = InterProcessMutex::new(&client, "/lock").unwrap();
    let (plain, limited) = (mutex.acquire(), mutex.acquire_within(SECOND));
    let sizes = (size_of_val(&plain), size_of_val(&limited));
    assert!(sizes.0 <= 2_048 && sizes.1 <= 2_560, "{sizes:?} bytes");
}

#[tokio::test]
async fn an_uncontended_acquire_costs_two_requests_and_a_release_one() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    counting.take_requests();

    let guard = mutex.acquire().await.unwrap();
    let create_and_list = vec![(OpCode::GET_CHILDREN, 1), (OpCode::CREATE2, 1)];
    assert_eq!(counting.take_requests(), create_and_list);
    let again = mutex.acquire_as(guard.owner()).await.unwrap();
    drop(guard);
    assert_eq!(again.state(), LockState::Held);
    assert_eq!(counting.take_requests(), [], "to acquire again costs nothing");
    again.release().await.unwrap();
    assert_eq!(counting.take_requests(), [(OpCode::DELETE, 1)]);
    assert_eq!(counting.take_events(), 0);
    assert_clean(&server, &client, "/locks/a").await;
}

#[tokio::test]
async fn the_first_acquire_creates_the_directory_and_its_znode_with_one_request() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let mutex = InterProcessMutex::new(&client, "/some/new/lock").unwrap();
    let guard = mutex.acquire().await.unwrap();
    assert!(guard.path().ends_with("lock-0000000000"), "{}", guard.path());
    let requests = counting.take_requests();
    assert!(requests.contains(&(OpCode::MULTI, 1)), "{requests:?}");
    // The client looks for the nearest existing ancestor from below: three are missing.
    assert!(requests.contains(&(OpCode::EXISTS, 3)), "{requests:?}");
    let stat = client.exists(guard.path()).await.unwrap().unwrap();
    assert_eq!(guard.fencing_token(), stat.czxid);
}

#[tokio::test]
async fn waiting_costs_the_same_requests_in_a_line_of_any_length() {
    let server = server().await;
    let (first, _) = counted(&server).await;
    let mutex = InterProcessMutex::new(&first, "/locks/a").unwrap();
    let mut guard = mutex.acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..30 {
        let (client, counting) = counted(&server).await;
        let mutex = InterProcessMutex::new(&client, "/locks/a").unwrap();
        let task = tokio::spawn(async move { (mutex.acquire().await.unwrap(), client) });
        while first.children("/locks/a").await.unwrap().len() < waiting.len() + 2 {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        waiting.push((task, counting));
    }
    for (task, counting) in waiting {
        let enter = [(OpCode::GET_CHILDREN, 1), (OpCode::CREATE2, 1), (OpCode::SET_WATCHES, 1)];
        let mut requests = counting.take_requests();
        requests.sort_by_key(|(op, _)| enter.iter().position(|(other, _)| other == op));
        assert_eq!(requests, enter, "a waiter sends three requests");
        assert_eq!(counting.take_events(), 0, "a waiter receives no events of others");
        guard.release().await.unwrap();
        let (next, _client) = task.await.unwrap();
        assert_eq!(counting.take_requests(), [], "the hand-over costs no request");
        assert!((1..=2).contains(&counting.take_events()));
        guard = next;
    }
}

#[tokio::test]
async fn trying_a_held_mutex_costs_one_read() {
    let server = server().await;
    let (holder, _) = counted(&server).await;
    let (other, counting) = counted(&server).await;
    let guard = InterProcessMutex::new(&holder, "/a").unwrap().acquire().await.unwrap();
    let mutex = InterProcessMutex::new(&other, "/a").unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(counting.take_requests(), [(OpCode::GET_CHILDREN, 1)]);
    assert_eq!(mutex.participants().await.unwrap(), [guard.path()]);
    guard.release().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_times_out_leaves_nothing() {
    let server = server().await;
    let (holder, waiter) = (connect(&server).await, connect(&server).await);
    let guard = InterProcessMutex::new(&holder, "/a").unwrap().acquire().await.unwrap();
    let mutex = InterProcessMutex::new(&waiter, "/a").unwrap();
    let start = tokio::time::Instant::now();
    assert!(matches!(mutex.acquire_within(SECOND).await, Err(LockError::TimedOut(_))));
    assert!(start.elapsed() < SECOND + Duration::from_millis(50));
    guard.release().await.unwrap();
    assert_clean(&server, &waiter, "/a").await;
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_a_server_times_out() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    counting.refuse(true);
    counting.cut();
    let start = tokio::time::Instant::now();
    assert!(matches!(mutex.acquire_within(SECOND).await, Err(LockError::TimedOut(_))));
    assert!(start.elapsed() < SECOND + Duration::from_millis(50), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_loses_the_lock_to_the_next_in_line() {
    let server = server().await;
    let (holder, counting) = counted(&server).await;
    let next = connect(&server).await;
    let guard = InterProcessMutex::new(&holder, "/a").unwrap().acquire().await.unwrap();
    let task = tokio::spawn(async move {
        let guard = InterProcessMutex::new(&next, "/a").unwrap().acquire().await.unwrap();
        (guard.fencing_token(), next)
    });
    assert_eq!(guard.state(), LockState::Held);
    counting.refuse(true);
    counting.cut();
    let (token, _next) = task.await.unwrap();
    assert!(token > guard.fencing_token());
    // The holder stopped trusting the lock long before another client could acquire it.
    assert_ne!(guard.state(), LockState::Held);
    guard.lost().await;
    assert_eq!(guard.state(), LockState::Lost);
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn a_short_disconnect_loses_neither_the_lock_nor_a_place_in_line() {
    let server = server().await;
    let (holder, holding) = counted(&server).await;
    let (waiter, waiting) = counted(&server).await;
    let guard = InterProcessMutex::new(&holder, "/a").unwrap().acquire().await.unwrap();
    let mutex = InterProcessMutex::new(&waiter, "/a").unwrap();
    let task = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    while holder.children("/a").await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    let line = holder.children("/a").await.unwrap();
    for counting in [&holding, &waiting] {
        counting.refuse(true);
        counting.cut();
    }
    tokio::time::sleep(20 * SECOND).await;
    for counting in [&holding, &waiting] {
        counting.refuse(false);
    }
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(guard.state(), LockState::Held);
    assert_eq!(holder.children("/a").await.unwrap(), line);
    guard.release().await.unwrap();
    let guard = task.await.unwrap();
    guard.release().await.unwrap();
    assert_clean(&server, &waiter, "/a").await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_the_create_leaves_one_place() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let other = connect(&server).await;
    other.create("/a").await.unwrap();
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    counting.cut();
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(other.children("/a").await.unwrap().len(), 1);
    guard.release().await.unwrap();
    assert_clean(&server, &other, "/a").await;
}

#[tokio::test]
async fn a_holder_notices_that_its_znode_was_deleted() {
    let server = server().await;
    let (client, admin) = (connect(&server).await, connect(&server).await);
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let path = guard.path().to_owned();
    let work = guard.run(std::future::pending::<()>());
    let (result, ()) = tokio::join!(work, async {
        tokio::task::yield_now().await;
        admin.delete(&path).await.unwrap();
    });
    assert!(matches!(result, Err(LockError::Lost(_))));
    let set = SetData { path: "/".into(), data: None, version: (-1).into() };
    let result = guard.transaction(vec![MultiOp::SetData(set)]).await;
    assert!(matches!(result, Err(LockError::Lost(_))));
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
}

#[tokio::test]
async fn other_children_of_the_directory_are_ignored() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/a").await.unwrap();
    for name in ["/a/0", "/a/zzz", "/a/lock-", "/a/x-lock-7"] {
        client.create(name).await.unwrap();
    }
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    mutex.acquire_within(SECOND).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn an_owner_reenters_its_mutex() {
    let server = server().await;
    let client = connect(&server).await;
    let (one, two) = (
        InterProcessMutex::new(&client, "/a").unwrap(),
        InterProcessMutex::new(&client, "/a").unwrap(),
    );
    let owner = Owner::new();
    let guard = one.acquire_as(owner).await.unwrap();
    assert!(one.is_held_by(owner) && !two.is_held_by(owner) && !one.is_held_by(Owner::new()));
    assert!(matches!(two.acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    assert!(matches!(two.try_acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    let stranger = two.acquire();
    assert!(tokio::time::timeout(Duration::from_millis(20), stranger).await.is_err());
    guard.release().await.unwrap();
    two.acquire_as(owner).await.unwrap().release().await.unwrap();
    assert_clean(&server, &client, "/a").await;
}

#[tokio::test]
async fn a_znode_with_the_greatest_number_does_not_disturb_the_line() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/a").await.unwrap();
    let far = client.create("/a/_c_00000000-0000-0000-0000-000000000000-lock-2147483647");
    far.mode(CreateMode::Ephemeral).await.unwrap();
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let guard = mutex.acquire_within(SECOND).await.unwrap();
    assert!(guard.path().ends_with("lock-0000000001"), "{}", guard.path());
}

#[tokio::test]
async fn dropping_acquire_at_any_poll_leaves_nothing() {
    let server = server().await;
    let (holder, waiter) = (connect(&server).await, connect(&server).await);
    for polls in 0..12 {
        for is_held in [false, true] {
            let guard = match is_held {
                true => {
                    let mutex = InterProcessMutex::new(&holder, "/a").unwrap();
                    Some(mutex.acquire().await.unwrap())
                }
                false => None,
            };
            let mutex = InterProcessMutex::new(&waiter, "/a").unwrap();
            let mut acquire = Box::pin(mutex.acquire());
            poll_times(acquire.as_mut(), polls).await;
            drop(acquire);
            if let Some(guard) = guard {
                guard.release().await.unwrap();
            }
            assert_clean(&server, &waiter, "/a").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_moves_from_kazoos_lock_to_curators_names_with_one_holder_at_a_time() {
    let server = server().await;
    let client = connect(&server).await;
    // A place of kazoo's stock lock, which this test watches over in kazoo's stead.
    let create = client.create("/lock/00112233445566778899aabbccddeeff__lock__");
    let create = create.mode(CreateMode::EphemeralSequential);
    let kazoo = create.parents(zoolet::client::Parents::Persistent).await.unwrap().path;
    let mutex = |client: &Client| InterProcessMutex::new(client, "/lock").unwrap();
    // In the order of the move: kazoo, the stock names, Curator's names, and no option.
    let stock = mutex(&connect(&server).await).beside_kazoo(KazooLine::Stock);
    let with_pattern = mutex(&connect(&server).await).beside_kazoo(KazooLine::WithPattern);
    let plain = mutex(&connect(&server).await);
    assert!(stock.try_acquire().await.unwrap().is_none(), "kazoo holds it");
    assert!(with_pattern.try_acquire().await.unwrap().is_none(), "kazoo holds it");
    let first = tokio::spawn(async move { stock.acquire().await.unwrap() });
    tokio::time::sleep(SECOND).await;
    let waiting = with_pattern.clone();
    let second = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    tokio::time::sleep(SECOND).await;
    let paths = with_pattern.participants().await.unwrap();
    assert_eq!((paths.len(), &paths[0]), (3, &kazoo));
    assert!(paths[1].ends_with("__lock__0000000001"), "{paths:?}");
    assert!(paths[2].ends_with("-lock-0000000002"), "{paths:?}");
    assert!(!first.is_finished() && !second.is_finished());
    client.delete(&kazoo).await.unwrap();
    let first = first.await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(!second.is_finished(), "the stock names hold it");
    first.release().await.unwrap();
    let second = second.await.unwrap();
    assert!(plain.try_acquire().await.unwrap().is_none(), "it sees Curator's names");
    second.release().await.unwrap();
    let guard = plain.acquire().await.unwrap();
    assert!(with_pattern.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert_clean(&server, &client, "/lock").await;
}

/// kazoo creates the directory before it acquires for the first time, and never again.
#[tokio::test(start_paused = true)]
async fn a_directory_that_kazoo_shares_is_no_container() {
    let server = server().await;
    let client = connect(&server).await;
    for line in [KazooLine::Stock, KazooLine::WithPattern] {
        let path = format!("/jobs/{line:?}/lock");
        let mutex = InterProcessMutex::new(&client, &path).unwrap().beside_kazoo(line);
        mutex.acquire().await.unwrap().release().await.unwrap();
        // Longer than an empty container lasts.
        tokio::time::sleep(1_000 * SECOND).await;
        assert!(client.exists(&path).await.unwrap().is_some(), "{path}");
    }
}
