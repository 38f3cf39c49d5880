//! Curator's test scenarios of locks, under Curator's names, for locks of all kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::time::Duration;

use zoolet::client::{Client, Error, Parents};
use zoolet::protocol::{Acl, CreateMode, ErrorCode, OpCode, Permissions};
use zoolet::recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex, LockError, LockState, Owner, SequentialMultiLock,
};
use zoolet::server::Server;
use zoolet::testing::{RequestFilter, TestServer};
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{assert_clean, counted, server};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(100);

/// One lock of each exclusive kind, with the directory of its znodes.
fn exclusive_locks(client: &Client) -> Vec<(&'static str, Arc<dyn InterProcessLock>)> {
    let mutex = |path| InterProcessMutex::new(client, path).expect("a path");
    let sides = InterProcessReadWriteLock::new(client, "/l/write").expect("a path");
    let semaphore = InterProcessSemaphoreMutex::new(client, "/l/semaphore").expect("a path");
    let multi = InterProcessMultiLock::new(client, &["/l/multi/a", "/l/multi/b"]);
    let in_turn = SequentialMultiLock::new(vec![
        Arc::new(mutex("/l/sequence/a")),
        Arc::new(mutex("/l/sequence/b")),
    ]);
    vec![
        ("/l/mutex", Arc::new(mutex("/l/mutex"))),
        ("/l/write", Arc::new(sides.write_lock())),
        ("/l/semaphore", Arc::new(semaphore)),
        ("/l/multi", Arc::new(multi.expect("paths"))),
        ("/l/sequence", Arc::new(in_turn)),
    ]
}

/// The number of kinds.
const KINDS: usize = 5;

async fn lock(server: &Server, kind: usize) -> (Arc<dyn InterProcessLock>, Counting) {
    let (client, counting) = counted(server).await;
    (exclusive_locks(&client).swap_remove(kind).1, counting)
}

#[tokio::test(start_paused = true)]
async fn mutex_locker() {
    let server = server().await;
    for kind in 0..KINDS {
        let (one, _) = lock(&server, kind).await;
        let (two, _) = lock(&server, kind).await;
        {
            let _guard = one.acquire().await.unwrap();
            assert!(
                tokio::spawn(async move { two.try_acquire().await.unwrap().is_none() })
                    .await
                    .unwrap()
            );
        }
        drop(one.acquire_within(SECOND).await.expect("the guard released it"));
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_waiting_process_while_server_is_killed() {
    let server = server().await;
    for kind in 0..KINDS {
        let (holder, holding) = lock(&server, kind).await;
        let (waiter, waiting) = lock(&server, kind).await;
        let guard = holder.acquire().await.unwrap();
        let waits = tokio::spawn(async move { waiter.acquire().await.unwrap() });
        tokio::time::sleep(SOON).await;
        for counting in [&holding, &waiting] {
            counting.refuse(true);
            counting.cut();
        }
        tokio::time::sleep(20 * SECOND).await;
        assert_ne!(guard.state(), LockState::Lost);
        for counting in [&holding, &waiting] {
            counting.refuse(false);
        }
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(guard.state(), LockState::Held);
        assert!(!waits.is_finished(), "two hold the lock");
        guard.release().await.unwrap();
        waits.await.unwrap().release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_killed_session() {
    let server = server().await;
    for kind in 0..KINDS {
        let (holder, counting) = lock(&server, kind).await;
        let (waiter, _) = lock(&server, kind).await;
        let guard = holder.acquire().await.unwrap();
        let waits = tokio::spawn(async move { waiter.acquire().await.unwrap() });
        tokio::time::sleep(SOON).await;
        counting.refuse(true);
        counting.cut();
        let next = waits.await.unwrap();
        assert!(next.fencing_token() > guard.fencing_token());
        assert_ne!(guard.state(), LockState::Held, "it is not trusted any more");
        counting.refuse(false);
        assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
        next.release().await.unwrap();
        drop(holder.acquire_within(60 * SECOND).await.expect("the next session acquires it"));
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_container_clean_up() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    for (path, lock) in exclusive_locks(&client) {
        lock.acquire().await.unwrap().release().await.unwrap();
        assert!(client.exists(path).await.unwrap().is_some());
        tokio::time::sleep(600 * SECOND).await;
        assert_eq!(client.exists(path).await.unwrap(), None, "it is cleaned up when unused");
        let guard = lock.acquire().await.unwrap();
        tokio::time::sleep(600 * SECOND).await;
        assert_eq!(guard.state(), LockState::Held, "and not while it is held");
        guard.release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_namespace() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let (x, y) = (client.namespace("/x").unwrap(), client.namespace("/y").unwrap());
    for ((path, in_x), (_, in_y)) in exclusive_locks(&x).into_iter().zip(exclusive_locks(&y)) {
        let guard = in_x.acquire().await.unwrap();
        for path in guard.paths() {
            assert!(path.starts_with("/l/"), "{path} is a path of the namespace");
            assert!(x.exists(path).await.unwrap().is_some());
        }
        assert!(client.exists(&format!("/x{path}")).await.unwrap().is_some());
        in_y.acquire_within(SECOND).await.expect("another lock").release().await.unwrap();
        guard.release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_reentrant_single_lock_two_tasks_and_many() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let sides = InterProcessReadWriteLock::new(&client, "/sides").unwrap();
    let mutex = InterProcessMutex::new(&client, "/mutex").unwrap();
    let locks: [Arc<dyn InterProcessLock>; 2] = [Arc::new(mutex), Arc::new(sides.write_lock())];
    for lock in locks {
        let inside = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    let owner = Owner::new();
                    let outer = lock.acquire_as(owner).await.unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                    let inner = lock.acquire_as(owner).await.unwrap();
                    assert_eq!(outer.fencing_token(), inner.fencing_token());
                    outer.release().await.unwrap();
                    tokio::task::yield_now().await;
                    inside.store(false, Ordering::SeqCst);
                    inner.release().await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mutex_two_clients() {
    let server = server().await;
    for kind in 0..KINDS {
        let inside = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let (lock, _) = lock(&server, kind).await;
            let inside = Arc::clone(&inside);
            tasks.push(tokio::spawn(async move {
                for _ in 0..20 {
                    let guard = lock.acquire().await.unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                    tokio::task::yield_now().await;
                    inside.store(false, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lock_internals_node_deleted_cleanly_with_faults() {
    for kind in 0..KINDS {
        for answers in 0..4 {
            let server = server().await;
            let (lock, counting) = lock(&server, kind).await;
            let guard = lock.acquire().await.unwrap();
            counting.cut_after(answers);
            match answers % 2 {
                0 => guard.release().await.unwrap_or_else(|error| {
                    assert!(
                        matches!(error, LockError::Lost(_)),
                        "the answer that it was gone was lost"
                    );
                }),
                _ => drop(guard),
            }
            tokio::time::sleep(5 * SECOND).await;
            counting.cut_after(-1);
            drop(lock.acquire_within(60 * SECOND).await.expect("the lock is free"));
            assert_clean(&server).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lock_internals_failed_attempt_keeps_original_exception() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let closed = vec![Acl { permissions: Permissions::READ, ..Acl::open() }];
    for path in ["/l/mutex", "/l/write", "/l/multi/a", "/l/sequence/b", "/l/semaphore/locks"] {
        client.create(path).parents(Parents::Persistent).await.unwrap();
        client.set_acl(path, closed.clone()).await.unwrap();
    }
    for (path, lock) in exclusive_locks(&client) {
        let error = lock.acquire_within(SECOND).await.map(drop).unwrap_err();
        let LockError::Client(Error::Refused { code, .. }) = error else {
            panic!("{path}: {error:?}");
        };
        assert_eq!(code, ErrorCode::NO_AUTH, "{path}");
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn read_write_participants_per_kind() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let lock = InterProcessReadWriteLock::new(&client, "/a").unwrap();
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let one = read.acquire().await.unwrap();
    let two = read.acquire().await.unwrap();
    let waits = tokio::spawn(async move { write.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    assert_eq!(read.participants().await.unwrap(), [one.path(), two.path()]);
    let writers = lock.write_lock().participants().await.unwrap();
    assert_eq!(writers.len(), 1);
    drop((one, two));
    assert_eq!(waits.await.unwrap().path(), writers[0], "read_write_lock_path");
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn read_write_random_readers_and_writers() {
    let server = server().await;
    // The number of readers that hold the lock, or minus one for a writer.
    let inside = Arc::new(AtomicIsize::new(0));
    let mut tasks = Vec::new();
    for n in 0..12_u64 {
        let (client, _) = counted(&server).await;
        let lock = InterProcessReadWriteLock::new(&client, "/a").unwrap();
        let inside = Arc::clone(&inside);
        tasks.push(tokio::spawn(async move {
            for round in 0..20_u64 {
                // A mixed order that is the same in each run.
                let mixed = (n * 20 + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                if mixed % 10 < 2 {
                    let guard = lock.write_lock().acquire().await.unwrap();
                    assert_eq!(inside.swap(-1, Ordering::SeqCst), 0, "a writer is not alone");
                    tokio::time::sleep(Duration::from_millis(mixed % 5)).await;
                    inside.store(0, Ordering::SeqCst);
                    guard.release().await.unwrap();
                } else {
                    let guard = lock.read_lock().acquire().await.unwrap();
                    assert!(
                        inside.fetch_add(1, Ordering::SeqCst) >= 0,
                        "a reader and a writer hold the lock"
                    );
                    tokio::time::sleep(Duration::from_millis(mixed % 5)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn local_herd_packet_budget() {
    const WAITERS: usize = 40;
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    counting.take_requests();
    let mut tasks = Vec::new();
    for _ in 0..WAITERS {
        let mutex = mutex.clone();
        tasks.push(tokio::spawn(async move { mutex.acquire().await.unwrap().release().await }));
    }
    tokio::time::sleep(SOON).await;
    guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let requests: usize = counting.take_requests().iter().map(|(_, count)| count).sum();
    // Each client enters with two requests, waits with one and releases with one, as if each were a
    // process of its own; the first one needs one more. Curator needs more than a thousand.
    assert_eq!(requests, WAITERS * 4 + 1);
    assert_clean(&server).await;
}

/// go-zookeeper's znodes have Curator's names, so that waiters watch them.
#[tokio::test(start_paused = true)]
async fn mixed_library_contention_go_naming() {
    let server = server().await;
    let (foreign, _) = counted(&server).await;
    let name = "/l/a/_c_0123456789abcdef0123456789abcdef-lock-";
    let ahead = foreign
        .create(name)
        .parents(Parents::Containers)
        .mode(CreateMode::EphemeralSequential)
        .await
        .unwrap();
    let (client, _) = counted(&server).await;
    let mutex = InterProcessMutex::new(&client, "/l/a").unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert!(matches!(mutex.acquire_within(SECOND).await, Err(LockError::TimedOut(_))));
    foreign.delete(&ahead.path).await.unwrap();
    mutex.acquire_within(SECOND).await.unwrap().release().await.unwrap();
    assert_clean(&server).await;
}

/// A client that looks for the znode of a lost reply may be connected to a follower that does not
/// have it yet. The follower has to catch up first.
#[tokio::test(start_paused = true)]
async fn a_client_looks_up_its_znode_after_a_lagging_follower_has_caught_up() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    client.create("/l").await.unwrap();
    let create = RequestFilter::next(1).creates().below("/l");
    let lost = server.everyone().cut_before_reply(create).unwrap();
    let mutex = InterProcessMutex::new(&client, "/l").unwrap();
    let guard = mutex.acquire_within(20 * SECOND).await.unwrap();
    assert_eq!(lost.hits(), 1);
    // It does not use `sync`, which a leader without a quorum answers from its old state.
    let requests = server.session_stats(client.session_id()).requests;
    assert_eq!((requests.of(OpCode::MULTI), requests.of(OpCode::SYNC)), (1, 0));
    assert_eq!(client.children("/l").await.unwrap().len(), 1);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_znode_is_deleted_although_the_server_throttles() {
    for kind in 0..KINDS {
        for is_dropped in [false, true] {
            let server = TestServer::start().await.unwrap();
            let (client, other) =
                (server.connect().await.unwrap(), server.connect().await.unwrap());
            let (path, lock) = exclusive_locks(&client).swap_remove(kind);
            let guard = lock.acquire().await.unwrap();
            let deletes = RequestFilter::next(5).writes().below(path);
            let holder = server.session(client.session_id());
            let fault = holder.fail(deletes, ErrorCode::THROTTLED_OP).unwrap();
            if is_dropped {
                drop(guard);
            } else {
                guard.release().await.unwrap();
            }
            let next = exclusive_locks(&other).swap_remove(kind).1;
            let next = tokio::time::timeout(5 * SECOND, next.acquire()).await;
            next.unwrap_or_else(|_| panic!("{path} is not free")).unwrap().release().await.unwrap();
            assert_eq!(fault.hits(), 5, "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_not_lost_when_the_server_throttles_its_watch() {
    for kind in 0..KINDS {
        let server = TestServer::start().await.unwrap();
        let client = server.connect().await.unwrap();
        let (path, lock) = exclusive_locks(&client).swap_remove(kind);
        let guard = lock.acquire().await.unwrap();
        let watches = RequestFilter::next(3).of(&[OpCode::SET_WATCHES, OpCode::SET_WATCHES2]);
        let holder = server.session(client.session_id());
        let fault = holder.fail(watches, ErrorCode::THROTTLED_OP).unwrap();
        let lost = tokio::time::timeout(5 * SECOND, guard.lost()).await;
        assert!(lost.is_err(), "{path} is {:?}", guard.state());
        assert_eq!(fault.hits(), 3, "{path} is watched after that");
    }
}

#[tokio::test]
async fn all_tasks_that_wait_for_a_loss_notice_it_although_the_server_throttles_their_watch() {
    // Over TCP a reply to a watch proves nothing, so that it wakes none of the tasks.
    let server = TestServer::builder().tcp().start().await.unwrap();
    let admin = server.connect().await.unwrap();
    for is_first_dropped in [false, true] {
        let address = server.connect_string().unwrap();
        let builder = Client::builder().session_timeout(30 * SECOND);
        let client = builder.connect(address.as_str()).await.unwrap();
        let mutex = InterProcessMutex::new(&client, "/l/mutex").unwrap();
        let guard = Arc::new(mutex.acquire().await.unwrap());
        let watches = RequestFilter::next(2).of(&[OpCode::SET_WATCHES, OpCode::SET_WATCHES2]);
        let holder = server.session(client.session_id());
        let fault = holder.fail(watches, ErrorCode::THROTTLED_OP).unwrap();
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let guard = Arc::clone(&guard);
            waiting.push(tokio::spawn(async move { guard.lost().await }));
        }
        fault.has_hit(1).await;
        tokio::time::sleep(SOON / 5).await;
        if is_first_dropped {
            waiting.remove(0).abort();
        }
        tokio::time::sleep(SECOND).await;
        admin.delete(guard.path()).await.unwrap();
        for (number, waits) in waiting.into_iter().enumerate() {
            let noticed = tokio::time::timeout(SECOND, waits).await;
            assert!(noticed.is_ok(), "task {number}, {is_first_dropped}");
        }
    }
}
