//! Regression tests of how a lock is lost, abandoned and acquired again, without a second holder
//! and without a waiter that waits for ever.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::net::TcpListener;
use zoolet::client::{Client, RetryPolicy};
use zoolet::protocol::{Acl, OpCode, Permissions};
use zoolet::recipes::{
    Guard, HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreV2, LockError, LockState,
};
use zoolet::server::{Config, Server};
use zoolet::testing::TestServer;
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{connect, counted, server};

/// Enough for everything that does not wait: the paused clock advances when no task can run.
const SOON: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, "/a").expect("a path")
}

async fn mutex_of_its_own(server: &Server) -> InterProcessMutex {
    mutex(&connect(server).await)
}

/// Spawns an acquire, and returns when its znode is in line.
async fn in_line(
    acquire: impl Future<Output = Result<Guard, LockError>> + Send + 'static,
) -> tokio::task::JoinHandle<Result<Guard, LockError>> {
    let task = tokio::spawn(acquire);
    tokio::time::sleep(SOON).await;
    task
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_times_out_admits_nobody_beside_the_holder() {
    let server = server().await;
    let (a, b, c) = (
        mutex_of_its_own(&server).await,
        mutex_of_its_own(&server).await,
        mutex_of_its_own(&server).await,
    );
    let held = a.acquire().await.unwrap();
    let gives_up = in_line(async move { b.acquire_within(SECOND).await }).await;
    let waits = in_line(async move { c.acquire().await }).await;
    assert!(matches!(gives_up.await.unwrap(), Err(LockError::TimedOut(_))));
    tokio::time::sleep(SOON).await;
    assert!(!waits.is_finished(), "two hold the lock");
    held.release().await.unwrap();
    drop(waits.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_times_out_admits_no_reader_beside_the_holder() {
    let server = server().await;
    let lock = |client| InterProcessReadWriteLock::new(&client, "/a").unwrap();
    let (a, b, c) =
        (lock(connect(&server).await), lock(connect(&server).await), lock(connect(&server).await));
    let held = a.write_lock().acquire().await.unwrap();
    let (write, read) = (b.write_lock(), c.read_lock());
    let gives_up = in_line(async move { write.acquire_within(SECOND).await }).await;
    let waits = in_line(async move { read.acquire().await }).await;
    assert!(matches!(gives_up.await.unwrap(), Err(LockError::TimedOut(_))));
    tokio::time::sleep(SOON).await;
    assert!(!waits.is_finished(), "a reader is beside a writer");
    held.release().await.unwrap();
    drop(waits.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_znode_is_revoked_and_deleted_does_not_hold_the_lock() {
    let server = server().await;
    let admin = connect(&server).await;
    let (a, b, c) = (
        mutex_of_its_own(&server).await,
        mutex_of_its_own(&server).await,
        mutex_of_its_own(&server).await,
    );
    let held = a.acquire().await.unwrap();
    let second = in_line(async move { b.acquire().await }).await;
    let place = a.participants().await.unwrap().remove(1);
    let third = in_line(async move { c.acquire().await }).await;
    admin.set(&place, "__REVOKE__").await.unwrap();
    admin.delete(&place).await.unwrap();
    tokio::time::sleep(SOON).await;
    held.release().await.unwrap();
    tokio::time::sleep(SOON).await;
    assert!(!(second.is_finished() && third.is_finished()), "two hold the lock");
}

#[tokio::test(start_paused = true)]
async fn a_guard_reports_its_loss_after_a_revocation_and_beside_a_write_lock() {
    let server = server().await;
    let (client, admin) = (connect(&server).await, connect(&server).await);
    let guard = mutex(&client).acquire().await.unwrap();
    let lock = InterProcessReadWriteLock::new(&client, "/b").unwrap();
    let writing = lock.write_lock().acquire().await.unwrap();
    let reading = lock.read_lock().acquire_beside(&writing).await.unwrap();
    writing.release().await.unwrap();
    for guard in [guard, reading] {
        let path = guard.path().to_owned();
        let (heard, ()) = tokio::join!(tokio::time::timeout(SECOND, guard.lost()), async {
            tokio::time::sleep(SOON).await;
            admin.set(&path, "__REVOKE__").await.unwrap();
            admin.delete(&path).await.unwrap();
        });
        assert!(heard.is_ok(), "{path}");
        assert_eq!(guard.state(), LockState::Lost);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_acquired_with_a_new_znode() {
    let server = server().await;
    let (client, admin) = (connect(&server).await, connect(&server).await);
    let mutex = mutex(&client);
    let lost = mutex.acquire().await.unwrap();
    admin.delete(lost.path()).await.unwrap();
    let theirs = mutex_of_its_own(&server).await.acquire().await.unwrap();
    lost.lost().await;
    assert!(matches!(mutex.acquire_within(SECOND).await, Err(LockError::TimedOut(_))));
    theirs.release().await.unwrap();
    let again = mutex.acquire().await.unwrap();
    assert_eq!(again.state(), LockState::Held);
    assert!(again.fencing_token() > lost.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_read_lock_is_refused_beside_a_lost_write_lock() {
    let server = server().await;
    let (client, admin) = (connect(&server).await, connect(&server).await);
    let lock = InterProcessReadWriteLock::new(&client, "/a").unwrap();
    let theirs = InterProcessReadWriteLock::new(&admin, "/a").unwrap();
    let writing = lock.write_lock().acquire().await.unwrap();
    admin.delete(writing.path()).await.unwrap();
    let _theirs = theirs.write_lock().acquire().await.unwrap();
    assert!(matches!(lock.read_lock().acquire_beside(&writing).await, Err(LockError::Lost(_))));
    assert_eq!(writing.state(), LockState::Lost);
    // The owner of the lost lock waits in line as any other.
    let waits = lock.read_lock().acquire_within_as(SECOND, writing.owner()).await;
    assert!(matches!(waits, Err(LockError::TimedOut(_))));
}

/// Polls an operation in process once, which completes it.
fn at_once<T>(call: impl IntoFuture<Output = T>) -> T {
    let mut call = pin!(call.into_future());
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("an operation in process completes at once"),
    }
}

/// Deletes each znode after its create and before the line is listed.
fn delete_each_place(
    counting: &Counting,
    admin: &Client,
    directory: &'static str,
    deleted: &Arc<AtomicUsize>,
) {
    let (again, admin, deleted) = (counting.clone(), admin.clone(), Arc::clone(deleted));
    counting.before_next(OpCode::GET_CHILDREN, move || {
        for name in at_once(admin.children(directory)).expect("it is there").iter() {
            at_once(admin.delete(&format!("{directory}/{name}"))).expect("it is there");
            deleted.fetch_add(1, Ordering::SeqCst);
        }
        delete_each_place(&again, &admin, directory, &deleted);
    });
}

#[tokio::test(start_paused = true)]
async fn acquire_gives_up_after_a_limited_number_of_deleted_znodes() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let admin = connect(&server).await;
    admin.create("/a").await.unwrap();
    let deleted = Arc::new(AtomicUsize::new(0));
    delete_each_place(&counting, &admin, "/a", &deleted);
    assert!(matches!(mutex(&client).try_acquire().await, Err(LockError::PlaceLost(_))));
    let tries = deleted.swap(0, Ordering::SeqCst);
    assert!((2..=30).contains(&tries), "{tries}");
    let multi = InterProcessMultiLock::new(&client, &["/a", "/b"]).unwrap();
    let herd = HerdLock::watching_all_children(&client, "/a").unwrap();
    let locks: [&dyn InterProcessLock; 3] = [&mutex(&client), &multi, &herd];
    for lock in locks {
        let acquired = lock.acquire_within(5 * SECOND).await.map(drop);
        assert!(matches!(acquired, Err(LockError::TimedOut(_))));
        let tries = deleted.swap(0, Ordering::SeqCst);
        assert!((20..=100).contains(&tries), "{lock:?}: {tries}");
    }
    let semaphore = InterProcessSemaphoreV2::new(&client, "/s", 1).unwrap();
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    delete_each_place(&counting, &admin, "/s/locks", &deleted);
    let acquired = semaphore.acquire_within(1, 5 * SECOND).await.map(drop);
    assert!(matches!(acquired, Err(LockError::TimedOut(_))));
    let tries = deleted.swap(0, Ordering::SeqCst);
    assert!((20..=100).contains(&tries), "{tries}");
    counting.before_next(OpCode::GET_CHILDREN, || {});
    mutex(&client).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_watches_were_not_set_lists_the_line_again() {
    let server = server().await;
    let holder = connect(&server).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let counting = Counting::new(server.dialer());
    let waiter =
        Client::builder().connection_timeout(SECOND).connect(counting.clone()).await.unwrap();
    let mutex = mutex(&waiter);
    let waits = in_line(async move { mutex.acquire().await }).await;
    counting.refuse(true);
    counting.cut();
    tokio::time::sleep(5 * SECOND).await;
    counting.refuse(false);
    tokio::time::sleep(5 * SECOND).await;
    held.release().await.unwrap();
    let acquired = tokio::time::timeout(20 * SECOND, waits).await.expect("it is the first in line");
    drop(acquired.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_in_a_namespace_leaves_no_znode() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let root = Client::connect(counting.clone()).await.unwrap();
    root.create("/ns").await.unwrap();
    root.create("/ns/a").await.unwrap();
    let mutex = mutex(&root.namespace("/ns").unwrap());
    counting.cut();
    let guard = mutex.acquire().await.unwrap();
    assert!(guard.path().starts_with("/a/"), "{}", guard.path());
    guard.release().await.unwrap();
    assert_eq!(root.children("/ns/a").await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_acl_without_write_leaves_no_watch_after_a_timeout_and_no_znode_after_release() {
    let server = server().await;
    let (one, other) = (connect(&server).await, connect(&server).await);
    let acl = vec![Acl { permissions: Permissions::READ, ..Acl::open() }];
    one.create("/a").await.unwrap();
    let held = mutex(&one).with_acl(acl.clone()).acquire().await.unwrap();
    let mutex = mutex(&other).with_acl(acl);
    assert!(matches!(mutex.acquire_within(SECOND).await, Err(LockError::TimedOut(_))));
    tokio::time::sleep(SOON).await;
    assert_eq!(server.totals().watches, 0);
    let waits = in_line(async move { mutex.acquire().await }).await;
    held.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(one.children("/a").await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn run_continues_over_a_short_disconnect() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    counting.cut();
    let work = guard.run(tokio::time::sleep(5 * SECOND));
    assert_eq!(work.await, Ok(()));
    assert_eq!(guard.state(), LockState::Held);
    client.clone().close().await.unwrap();
    assert_eq!(guard.state(), LockState::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_line_is_identified_by_its_path_on_the_server() {
    let server = server().await;
    let client = connect(&server).await;
    let (x, y) = (client.namespace("/x").unwrap(), client.namespace("/y").unwrap());
    let held = mutex(&x).acquire().await.unwrap();
    let _y = mutex(&y).acquire().await.unwrap();
    let owner = held.owner();
    let same = InterProcessMutex::new(&client, "/x/a").unwrap();
    assert!(matches!(same.acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    drop(InterProcessMutex::new(&client, "/y").unwrap().acquire_as(owner).await.unwrap());
    let root = InterProcessMutex::new(&client, "/").unwrap();
    root.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_silent_server_is_abandoned_for_the_next() {
    let (_server, address) = zoolet_test_support::listening_server(Config::default()).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hosts = format!("{},{address}", silent.local_addr().unwrap());
    // The client tries the two servers in random order.
    for _ in 0..4 {
        let builder = Client::builder().connection_timeout(2 * SECOND);
        builder.connect(hosts.as_str()).await.unwrap();
    }
}

/// Connects a client with a short connection timeout and no retries.
async fn impatient(server: &Server) -> (Client, Counting) {
    let counting = Counting::new(server.dialer());
    let builder = Client::builder().connection_timeout(SECOND).retry_policy(RetryPolicy::never());
    (builder.connect(counting.clone()).await.expect("the server is there"), counting)
}

/// Cuts the connection after this many replies, for longer than a request waits for a connection.
async fn lose_connection_after(counting: &Counting, answers: isize) {
    counting.refuse(true);
    counting.cut_after(answers);
    tokio::time::sleep(5 * SECOND).await;
    counting.cut_after(-1);
    counting.refuse(false);
}

#[tokio::test(start_paused = true)]
async fn acquire_succeeds_and_leaves_nothing_when_the_connection_ends_at_any_request() {
    for answers in 0..8 {
        let server = server().await;
        let (client, counting) = impatient(&server).await;
        let lock = InterProcessMutex::new(&client, "/some/new/lock").unwrap();
        let ((), acquired) = tokio::join!(
            lose_connection_after(&counting, answers),
            lock.acquire_within(60 * SECOND)
        );
        acquired.unwrap_or_else(|error| panic!("{answers}: {error}")).release().await.unwrap();

        let (client, counting) = impatient(&server).await;
        let lock = InterProcessMultiLock::new(&client, &["/one/new", "/other/new"]).unwrap();
        let ((), acquired) = tokio::join!(
            lose_connection_after(&counting, answers),
            lock.acquire_within(60 * SECOND)
        );
        acquired.unwrap_or_else(|error| panic!("{answers}: {error}")).release().await.unwrap();
        let semaphore = InterProcessSemaphoreV2::new(&client, "/semaphore", 2).unwrap();
        let ((), acquired) = tokio::join!(
            lose_connection_after(&counting, answers),
            semaphore.acquire_within(2, 60 * SECOND)
        );
        acquired.unwrap_or_else(|error| panic!("{answers}: {error}")).release().await.unwrap();
        assert_eq!(server.totals().ephemerals, 0, "{answers}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_future_dropped_without_a_connection_does_not_affect_the_next() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    counting.refuse(true);
    counting.cut();
    drop(client.sync("/").send());
    tokio::time::sleep(SOON).await;
    // Its watch cannot be sent, and the wait ends before the client knows.
    assert!(tokio::time::timeout(SOON, guard.lost()).await.is_err());
    counting.refuse(false);
    tokio::time::sleep(SECOND).await;
    let lost = async {
        tokio::time::timeout(10 * SECOND, guard.lost())
            .await
            .expect("the guard reports the deletion");
    };
    let delete = async {
        tokio::time::sleep(SOON).await;
        connect(&server).await.delete(guard.path()).await.unwrap();
    };
    tokio::join!(lost, delete);
    assert_eq!(guard.state(), LockState::Lost);
}

/// The watches are registered again at a znode of another client: none is set, and what a server reports
/// then is all that it ever reports.
#[tokio::test(start_paused = true)]
async fn a_waiter_hears_of_a_znode_ahead_that_was_created_again_while_it_had_no_connection() {
    let server = TestServer::start().await.unwrap();
    let (a, b) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let other = server.connect().await.unwrap();
    let holder = mutex(&a).acquire().await.unwrap();
    let (path, waiting) = (holder.path().to_owned(), mutex(&b));
    let waits = in_line(async move { waiting.acquire().await }).await;
    let b = server.session(b.session_id());
    let held_back = b.hold().unwrap();
    other.delete(&path).await.unwrap();
    other.create(&path).await.unwrap();
    assert_eq!(b.cut().unwrap(), 1);
    held_back.lift();
    tokio::time::sleep(SECOND).await;
    assert!(!waits.is_finished(), "there is a znode ahead");
    other.delete(&path).await.unwrap();
    let acquired = tokio::time::timeout(SOON, waits).await.expect("it hears of the deletion");
    acquired.unwrap().unwrap().release().await.unwrap();
}
