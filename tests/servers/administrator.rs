//! Tests that an administrator deletes the znodes of a recipe at any moment, and that access
//! control lists forbid the recipe to read them.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::{Acl, OpCode, Permissions};
use zoolet::recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessSemaphoreV2,
    MultiGuard, SequentialMultiLock,
};
use zoolet::server::Server;
use zoolet::testing::TestServer;
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{assert_clean, connect, counted, server};

const SOON: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

/// Loses the replies to the next requests, which the server carries out, and lets the client
/// reconnect only after `meanwhile`.
async fn lose_answers<T>(counting: &Counting, meanwhile: impl Future<Output = T>) -> T {
    counting.refuse(true);
    counting.cut();
    tokio::time::sleep(SOON).await;
    let done = meanwhile.await;
    counting.refuse(false);
    done
}

/// Deletes the first child of a znode.
async fn delete_first(admin: &Client, directory: &str) {
    let names = admin.children(directory).await.expect("the directory is there");
    let first = names.iter().next().expect("a recipe has a znode there");
    admin.delete(&format!("{directory}/{first}")).await.expect("it is there");
}

#[tokio::test(start_paused = true)]
async fn a_multi_lock_keeps_track_of_its_znodes_when_one_is_deleted_after_a_lost_reply() {
    for deleted in ["/a", "/b", "/c"] {
        let server = server().await;
        let (client, counting) = counted(&server).await;
        let admin = connect(&server).await;
        for path in ["/a", "/b", "/c"] {
            admin.create(path).await.unwrap();
        }
        let lock = InterProcessMultiLock::new(&client, &["/a", "/b", "/c"]).unwrap();
        let ((), guard) = tokio::join!(
            lose_answers(&counting, delete_first(&admin, deleted)),
            lock.acquire_within(60 * SECOND)
        );
        let guard = guard.unwrap_or_else(|error| panic!("{deleted}: {error}"));
        tokio::time::sleep(SECOND).await;
        for path in ["/a", "/b", "/c"] {
            assert_eq!(admin.children(path).await.unwrap().len(), 1, "{deleted}: {path}");
        }
        guard.release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn acquire_returns_all_permits_when_one_is_deleted_after_a_lost_reply() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let admin = connect(&server).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, "/s", 5).unwrap();
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    // The replies to the create in line, to the list and to the permits arrive; that to the multi
    // does not.
    counting.cut_after(3);
    counting.refuse(true);
    let ((), permits) = tokio::join!(
        async {
            tokio::time::sleep(SOON).await;
            delete_first(&admin, "/s/leases").await;
            counting.cut_after(-1);
            counting.refuse(false);
        },
        semaphore.acquire_within(3, 60 * SECOND)
    );
    let permits = permits.unwrap();
    assert_eq!(permits.len(), 3);
    for path in permits.paths() {
        assert!(admin.exists(path).await.unwrap().is_some(), "{path}");
    }
    tokio::time::sleep(SECOND).await;
    assert_eq!(admin.children("/s/leases").await.unwrap().len(), 3);
    permits.release().await.unwrap();
    assert_clean(&server).await;
}

/// An access control list that allows everything but listing the children.
fn unlisted() -> Vec<Acl> {
    let permissions = Permissions::CREATE | Permissions::DELETE;
    vec![Acl { permissions, ..Acl::open() }]
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_leaves_no_znode_in_a_directory_that_may_not_be_listed() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let admin = connect(&server).await;
    for path in ["/a", "/b"] {
        admin.create(path).acl(unlisted()).await.unwrap();
    }
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let ((), refused) = tokio::join!(lose_answers(&counting, async {}), mutex.acquire());
    refused.expect_err("it must not be listed");
    assert_clean(&server).await;

    let multi = InterProcessMultiLock::new(&client, &["/a", "/b"]).unwrap();
    let ((), refused) = tokio::join!(lose_answers(&counting, async {}), multi.acquire());
    refused.expect_err("they must not be listed");
    assert_clean(&server).await;

    // The same after the callers have timed out.
    let namespaced = client.namespace("/a").unwrap();
    for mutex in [mutex, InterProcessMutex::new(&namespaced, "/").unwrap()] {
        let acquiring = mutex.acquire_within(SOON / 2);
        let ((), over) = tokio::join!(lose_answers(&counting, async {}), acquiring);
        over.expect_err("there is no connection");
        tokio::time::sleep(SECOND).await;
        assert_clean(&server).await;
    }
}

/// Deletes all children of a znode at once, from within a request of another client.
fn delete_all_now(admin: &Client, directory: &str) {
    let mut context = Context::from_waker(Waker::noop());
    let list = pin!(admin.children(directory).send()).poll(&mut context);
    let Poll::Ready(Ok(names)) = list else { panic!("in process the answer is there at once") };
    for name in names.iter() {
        drop(admin.delete(&format!("{directory}/{name}")).send());
    }
}

#[tokio::test(start_paused = true)]
async fn semaphore_try_acquire_succeeds_although_its_znode_is_deleted() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, "/s", 2).unwrap();
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    for op in [OpCode::MULTI, OpCode::GET_CHILDREN] {
        let admin = connect(&server).await;
        let then = counting.clone();
        counting.before_next(OpCode::CREATE2, move || {
            then.before_next(op, move || delete_all_now(&admin, "/s/locks"));
        });
        let permits =
            semaphore.try_acquire(2).await.unwrap_or_else(|error| panic!("{op}: {error}"));
        assert_eq!(permits.expect("they are free").len(), 2, "{op}");
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn try_acquire_of_a_free_mutex_succeeds_although_its_znode_is_deleted() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    for path in ["/a", "/b"] {
        client.create(path).await.unwrap();
    }
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let multi = InterProcessMultiLock::new(&client, &["/a", "/b"]).unwrap();
    for entering in [OpCode::CREATE2, OpCode::MULTI] {
        let (admin, then) = (connect(&server).await, counting.clone());
        counting.before_next(entering, move || {
            then.before_next(OpCode::GET_CHILDREN, move || delete_all_now(&admin, "/a"));
        });
        if entering == OpCode::CREATE2 {
            let guard = mutex.try_acquire().await.expect("nothing went wrong");
            guard.expect("no client holds it").release().await.unwrap();
        } else {
            let guard = multi.try_acquire().await.expect("nothing went wrong");
            guard.expect("no client holds them").release().await.unwrap();
        }
        assert_clean(&server).await;
    }
}

/// Spawns a task that waits for several mutexes, and returns when its znodes are in their lines.
async fn in_lines(server: &Server) -> tokio::task::JoinHandle<MultiGuard> {
    let client = connect(server).await;
    let task = tokio::spawn(async move {
        let lock = InterProcessMultiLock::new(&client, &["/a", "/b", "/c"]).expect("paths");
        lock.acquire().await.expect("it acquires the locks")
    });
    tokio::time::sleep(SOON).await;
    task
}

#[tokio::test(start_paused = true)]
async fn a_waiting_multi_lock_does_not_hold_a_lock_whose_znode_was_deleted() {
    for (held, deleted, was_waited_in) in
        [("/b", "/a", false), ("/a", "/b", false), ("/c", "/b", true), ("/b", "/c", true)]
    {
        let server = server().await;
        let (holder, other, admin) =
            (connect(&server).await, connect(&server).await, connect(&server).await);
        let mutex = |client, path| InterProcessMutex::new(client, path).expect("a path");
        let before = mutex(&other, deleted).acquire().await.unwrap();
        let before = was_waited_in.then_some(before);
        let guard = mutex(&holder, held).acquire().await.unwrap();
        let waits = in_lines(&server).await;
        if let Some(before) = before {
            before.release().await.unwrap();
            tokio::time::sleep(SOON).await;
        }
        delete_first(&admin, deleted).await;
        let theirs = mutex(&other, deleted).acquire_within(SECOND).await.expect("it is free");
        guard.release().await.unwrap();
        tokio::time::sleep(SECOND).await;
        assert!(!waits.is_finished(), "{deleted} is held by two");
        theirs.release().await.unwrap();
        waits.await.unwrap().release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sequential_multi_lock_starts_again_when_it_loses_a_lock_while_waiting() {
    for by_administrator in [true, false] {
        let server = TestServer::start().await.unwrap();
        let client = server.connect().await.unwrap();
        let holder = server.connect().await.unwrap();
        let other = server.connect().await.unwrap();
        let mutex = |client, path| InterProcessMutex::new(client, path).expect("a path");
        let guard = mutex(&holder, "/b").acquire().await.unwrap();
        let both: [Arc<dyn InterProcessLock>; 2] =
            [Arc::new(mutex(&client, "/a")), Arc::new(mutex(&client, "/b"))];
        let both = SequentialMultiLock::new(both.into());
        let waits = tokio::spawn(async move { both.acquire().await.unwrap() });
        tokio::time::sleep(SECOND).await;
        if by_administrator {
            delete_first(&other, "/a").await;
        } else {
            server.session(client.session_id()).expire().unwrap();
        }
        let theirs = mutex(&other, "/a").acquire_within(SECOND).await.expect("it is free");
        guard.release().await.unwrap();
        tokio::time::sleep(SECOND).await;
        assert!(!waits.is_finished(), "/a is held by two");
        theirs.release().await.unwrap();
        waits.await.unwrap().release().await.unwrap();
        for path in ["/a", "/b"] {
            assert_eq!(other.children(path).await.unwrap().len(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_multi_lock_sends_one_watch_request_for_each_znode() {
    let server = server().await;
    let holder = connect(&server).await;
    let held = InterProcessMutex::new(&holder, "/b").unwrap().acquire().await.unwrap();
    let (client, counting) = counted(&server).await;
    for path in ["/a", "/c"] {
        client.create(path).await.unwrap();
    }
    counting.take_requests();
    let lock = InterProcessMultiLock::new(&client, &["/a", "/b", "/c"]).unwrap();
    let waits = tokio::spawn(async move { lock.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    held.release().await.unwrap();
    let guard = waits.await.unwrap();
    let expected = [(OpCode::GET_CHILDREN, 3), (OpCode::MULTI, 1), (OpCode::SET_WATCHES, 3)];
    assert_eq!(counting.take_requests(), expected);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_guard_reports_its_loss_although_no_watch_was_set_while_it_waited() {
    let server = server().await;
    let (holder, admin) = (connect(&server).await, connect(&server).await);
    let held = InterProcessMutex::new(&holder, "/a").unwrap().acquire().await.unwrap();
    let counting = Counting::new(server.dialer());
    let builder = Client::builder().connection_timeout(SECOND);
    let waiter = builder.connect(counting.clone()).await.unwrap();
    let mutex = InterProcessMutex::new(&waiter, "/a").unwrap();
    // The client receives the replies to the create and to the list, and has no connection for the
    // watches.
    counting.refuse(true);
    counting.cut_right_after(2);
    let waits = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    held.release().await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    counting.cut_after(-1);
    counting.refuse(false);
    let guard = waits.await.unwrap();
    let (heard, ()) = tokio::join!(tokio::time::timeout(SECOND, guard.lost()), async {
        tokio::time::sleep(SOON).await;
        admin.delete(guard.path()).await.unwrap();
    });
    heard.expect("the guard reports the loss");
}

/// An access control list that allows writing and not reading. Whether a client may delete the
/// znode depends on the parent.
fn unreadable() -> Vec<Acl> {
    vec![Acl { permissions: Permissions::WRITE, ..Acl::open() }]
}

#[tokio::test(start_paused = true)]
async fn a_waiter_behind_unreadable_znodes_acquires_the_lock() {
    let server = server().await;
    let mutex = |client: &Client| InterProcessMutex::new(client, "/a").expect("a path");
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    clients[0].create("/a").await.unwrap();
    let mut waiting = Vec::new();
    let first = mutex(&clients[0]).with_acl(unreadable()).acquire().await.unwrap();
    for client in &clients[1..] {
        let mutex = mutex(client).with_acl(unreadable());
        waiting.push(tokio::spawn(async move { mutex.acquire().await.unwrap() }));
        tokio::time::sleep(SOON).await;
    }
    let (last, counting) = counted(&server).await;
    let mutex = mutex(&last);
    let task = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    tokio::time::sleep(60 * SECOND).await;
    // It sends watches, a read, two lists and a watch on the directory, and then nothing until an
    // event.
    let asked: usize = counting.take_requests().iter().map(|(_, count)| count).sum();
    assert!(asked < 12, "{asked} requests in a minute");
    let mut held = first;
    for next in waiting {
        held.release().await.unwrap();
        held = tokio::time::timeout(SOON, next).await.expect("it is its turn").unwrap();
        assert!(!task.is_finished());
    }
    held.release().await.unwrap();
    let held = tokio::time::timeout(SOON, task).await.expect("it is its turn").unwrap();
    held.release().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_does_not_poll_when_the_znode_ahead_becomes_readable() {
    let server = server().await;
    let mutex = |client: &Client| InterProcessMutex::new(client, "/a").expect("a path");
    let (first, second) = (connect(&server).await, connect(&server).await);
    first.create("/a").await.unwrap();
    let held = mutex(&first).acquire().await.unwrap();
    let unreadable = mutex(&second).with_acl(unreadable());
    let gives_up = tokio::spawn(async move { unreadable.acquire_within(100 * SECOND).await });
    tokio::time::sleep(SOON).await;
    let (last, counting) = counted(&server).await;
    let mutex = mutex(&last);
    let task = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    tokio::time::sleep(50 * SECOND).await;
    counting.take_requests();
    assert!(gives_up.await.unwrap().is_err());
    // The paused clock does not advance while the task sends requests again and again.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let asked: usize = counting.take_requests().iter().map(|(_, count)| count).sum();
    assert!(asked < 12, "{asked} requests at once");
    tokio::time::sleep(60 * SECOND).await;
    let asked: usize = counting.take_requests().iter().map(|(_, count)| count).sum();
    assert!(asked < 12, "{asked} requests in a minute");
    held.release().await.unwrap();
    let held = tokio::time::timeout(SOON, task).await.expect("it is its turn").unwrap();
    held.release().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_read_its_znode_does_not_hold_the_lock_without_it() {
    let server = server().await;
    let (a, b, c, admin) = (
        connect(&server).await,
        connect(&server).await,
        connect(&server).await,
        connect(&server).await,
    );
    let mutex = |client: &Client| InterProcessMutex::new(client, "/a").expect("a path");
    let held = mutex(&a).acquire().await.unwrap();
    let unread = mutex(&b).with_acl(unreadable());
    let second = tokio::spawn(async move { unread.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    let place = mutex(&a).participants().await.unwrap().remove(1);
    admin.delete(&place).await.unwrap();
    let third = mutex(&c);
    let third = tokio::spawn(async move { third.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    held.release().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(third.is_finished(), "no znode is ahead of it");
    assert!(!second.is_finished(), "two hold the lock");
    third.await.unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    assert_clean(&server).await;
}
