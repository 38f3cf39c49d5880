//! Tests of the proof that a lock is held: which requests prove it, what it costs, and that
//! everything that reports its end agrees.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use zoolet::client::{Client, ConnectionState, Error, Watched};
use zoolet::protocol::{Acl, OpCode, Permissions, SessionId};
use zoolet::recipes::{
    HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LeaderLatch,
    LeaderSelector, LockError, LockState, Requeue,
};
use zoolet_test_support::counting::Counting;
use zoolet_test_support::follower::{Follower, Quorum};
use zoolet_test_support::stage::{connect, server};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Enough for everything that does not wait: the paused clock advances when no task can run.
const SOON: Duration = Duration::from_millis(50);
/// The session timeout. The client checks a held lock every four seconds.
const TIMEOUT: Duration = Duration::from_secs(12);
/// For how long a proof lasts, from when the client sent the last request that the leader had
/// received.
const PROVEN: Duration = Duration::from_millis(12_000 - 120);

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, "/a").expect("a path")
}

#[allow(clippy::disallowed_methods, reason = "the time of a test is tokio's")]
fn now() -> Instant {
    Instant::now()
}

fn count(requests: &[OpCode], op: OpCode) -> usize {
    requests.iter().filter(|&&other| other == op).count()
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_costs_a_sync_and_a_check_in_a_third_of_the_timeout() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let mutex = mutex(&client);
    tokio::time::sleep(30 * SECOND).await;
    let requests = follower.take_requests();
    assert_eq!(requests, [OpCode::PING; 7], "nothing is held");

    let guard = mutex.acquire().await.unwrap();
    follower.take_requests();
    tokio::time::sleep(TIMEOUT / 3 - SOON).await;
    guard.release().await.unwrap();
    assert_eq!(count(&follower.take_requests(), OpCode::MULTI), 0, "it was held for a short time");

    let guard = mutex.acquire().await.unwrap();
    let other = InterProcessMutex::new(&client, "/b").unwrap().acquire().await.unwrap();
    follower.take_requests();
    tokio::time::sleep(40 * SECOND + SOON).await;
    let requests = follower.take_requests();
    assert_eq!(requests.len(), 20, "in place of the pings: {requests:?}");
    let counts = [OpCode::MULTI, OpCode::SYNC].map(|op| count(&requests, op));
    assert_eq!(counts, [10, 10], "{requests:?}");
    assert_eq!((guard.state(), other.state()), (LockState::Held, LockState::Held));
    drop((guard, other));
    tokio::time::sleep(SOON).await;
    follower.take_requests();
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!(follower.take_requests(), [OpCode::SYNC; 7], "nothing is held any more");
}

#[tokio::test(start_paused = true)]
async fn locks_held_for_a_short_time_cost_no_proof_requests() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    for _ in 0..20 {
        let guard = mutex(&client).acquire().await.unwrap();
        tokio::time::sleep(3 * SECOND).await;
        guard.release().await.unwrap();
    }
    let requests = follower.take_requests();
    // The first acquire sent it to create the missing directory.
    assert_eq!(count(&requests, OpCode::MULTI), 1, "{requests:?}");
}

/// Something that ends with a lock, and its name.
type End<'a> = (&'static str, Pin<Box<dyn Future<Output = ()> + 'a>>);

/// Waits for all of them, and asserts that each ends at this moment.
async fn all_end_at(until: Instant, ends: Vec<End<'_>>) {
    let mut ends = ends;
    std::future::poll_fn(|context| {
        ends.retain_mut(|(what, end)| {
            let has_ended = end.as_mut().poll(context).is_ready();
            let is_on_time = now() >= until && now() - until < 2 * MS;
            assert!(!has_ended || is_on_time, "{what} at {:?} from {until:?}", now());
            !has_ended
        });
        if ends.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn reads_prove_nothing_and_all_observers_report_the_same_end_of_the_proof() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    // The client checks after 4, 8, .. 20 seconds. The request sent at 20 s shows that the leader
    // had received the one that was sent and answered at 16 s.
    let until = now() + 16 * SECOND + PROVEN;
    let guard = mutex(&client).acquire().await.unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, "/s", 1).unwrap();
    let permits = semaphore.acquire(1).await.unwrap();
    let multi = InterProcessMultiLock::new(&client, &["/x", "/y"]).unwrap();
    let multi = multi.acquire().await.unwrap();
    let latch = LeaderLatch::start(&client, "/l", "a").unwrap();
    let lead = |_| std::future::pending::<()>();
    let selector = LeaderSelector::start(&client, "/m", "a", Requeue::OnRequest, lead).unwrap();
    let (mut terms, mut leads) = (latch.term(), selector.term());
    terms.wait_for(Option::is_some).await.unwrap();
    leads.wait_for(Option::is_some).await.unwrap();
    let cut_off = async {
        tokio::time::sleep(21 * SECOND).await;
        follower.set_quorum(Quorum::CutOff);
        follower.take_requests();
        client.exists("/").await.expect("a follower that is cut off answers it");
    };
    let look = async {
        while guard.state() == LockState::Held {
            assert!(latch.is_leader() && selector.has_leadership());
            assert_eq!((permits.state(), multi.state()), (LockState::Held, LockState::Held));
            tokio::time::sleep(MS).await;
        }
        assert!(!latch.is_leader() && !selector.has_leadership());
        assert_eq!((permits.state(), multi.state()), (LockState::Suspect, LockState::Suspect));
        assert_eq!(guard.state(), LockState::Suspect);
    };
    let run = async {
        let stopped = guard.run(std::future::pending::<()>()).await;
        assert!(matches!(stopped, Err(LockError::Lost(_))));
    };
    let ends: Vec<End<'_>> = vec![
        ("state", Box::pin(look)),
        ("lost", Box::pin(guard.lost())),
        ("run", Box::pin(run)),
        ("permits", Box::pin(permits.lost())),
        ("multi", Box::pin(multi.lost())),
        ("latch", Box::pin(async { drop(terms.wait_for(Option::is_none).await) })),
        ("selector", Box::pin(async { drop(leads.wait_for(Option::is_none).await) })),
    ];
    tokio::join!(all_end_at(until, ends), cut_off);
    tokio::time::sleep(TIMEOUT / 2).await;
    let requests = follower.take_requests();
    assert_eq!(requests.get(..2), Some(&[OpCode::EXISTS, OpCode::SYNC][..]), "{requests:?}");
    let session = client.session_id();
    follower.set_quorum(Quorum::Present);
    tokio::time::sleep(TIMEOUT).await;
    assert_eq!(client.session_id(), session, "the server never ended it");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_lock_is_held_again_after_a_new_proof() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let guard = mutex(&client).acquire().await.unwrap();
    follower.set_quorum(Quorum::CutOff);
    guard.lost().await;
    assert_eq!(guard.state(), LockState::Suspect);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(guard.state(), LockState::Suspect);
    follower.set_quorum(Quorum::Present);
    tokio::time::sleep(TIMEOUT).await;
    assert_eq!(guard.state(), LockState::Held);
    assert!(tokio::time::timeout(10 * TIMEOUT, guard.lost()).await.is_err());
    guard.release().await.unwrap();
}

/// Locks of all kinds: one of a client, and one of another client that keeps it waiting.
fn locks(client: &Client, other: &Client) -> Vec<[Box<dyn InterProcessLock>; 2]> {
    let both = |client, path| InterProcessReadWriteLock::new(client, path).expect("a path");
    let multi = |client| InterProcessMultiLock::new(client, &["/m1", "/m2"]).expect("a path");
    let herd = |client| HerdLock::watching_all_children(client, "/herd").expect("a path");
    let semaphore = |client| InterProcessSemaphoreMutex::new(client, "/semaphore").expect("a path");
    let (read, write) = (both(client, "/r"), both(client, "/w"));
    vec![
        [Box::new(mutex(client)), Box::new(mutex(other))],
        [Box::new(write.write_lock()), Box::new(both(other, "/w").read_lock())],
        [Box::new(read.read_lock()), Box::new(both(other, "/r").write_lock())],
        [Box::new(multi(client)), Box::new(multi(other))],
        [Box::new(herd(client)), Box::new(herd(other))],
        [Box::new(semaphore(client)), Box::new(semaphore(other))],
    ]
}

#[tokio::test(start_paused = true)]
async fn acquire_returns_a_held_lock_after_a_long_wait() {
    let server = server().await;
    let other = connect(&server).await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    // The last proof ended long ago, is about to end, or has just ended.
    for waited in [5 * TIMEOUT, PROVEN - 2 * SECOND, PROVEN - 100 * MS, PROVEN] {
        for [lock, before] in locks(&client, &other) {
            let held = before.acquire().await.unwrap();
            let ends = async {
                tokio::time::sleep(waited).await;
                held.release().await.unwrap();
            };
            let (guard, ()) = tokio::join!(lock.acquire(), ends);
            let guard = guard.unwrap();
            assert_eq!(guard.state(), LockState::Held, "{waited:?} {lock:?}");
            let lost = tokio::time::timeout(3 * TIMEOUT, guard.lost());
            assert!(lost.await.is_err(), "{waited:?} {lock:?}");
            guard.release().await.unwrap();
        }
    }
    follower.take_requests();
    let held = mutex(&other).acquire().await.unwrap();
    let mutex = mutex(&client);
    let ends = async {
        tokio::time::sleep(5 * TIMEOUT).await;
        follower.take_requests();
        held.release().await.unwrap();
    };
    let (guard, ()) = tokio::join!(mutex.acquire(), ends);
    assert_eq!(follower.take_requests(), [OpCode::MULTI], "the first check of the held lock");
    drop(guard.unwrap());
}

#[tokio::test(start_paused = true)]
async fn acquire_does_not_return_without_a_proof_after_a_long_wait() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let (other, admin) = (connect(&server).await, connect(&server).await);
    let held = mutex(&other).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = mutex(&client);
        async move { mutex.acquire().await }
    });
    tokio::time::sleep(5 * TIMEOUT).await;
    follower.set_quorum(Quorum::CutOff);
    held.release().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(!waiting.is_finished(), "its server is cut off, and another may have the lock");
    let first = mutex(&other).participants().await.unwrap().remove(0);
    admin.delete(&first).await.unwrap();
    let held = mutex(&other).acquire().await.unwrap();
    follower.set_quorum(Quorum::Present);
    tokio::time::sleep(5 * TIMEOUT).await;
    assert!(!waiting.is_finished(), "its znode is gone, and another has the lock");
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.state(), LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn reads_and_handshakes_prove_nothing() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let start = now();
    let guard = mutex(&client).acquire().await.unwrap();
    follower.set_quorum(Quorum::CutOff);
    for _ in 0..3 {
        tokio::time::sleep(SECOND).await;
        client.get("/a").await.unwrap();
    }
    follower.cut_at(OpCode::GET_DATA);
    client.get("/a").await.unwrap();
    assert_eq!(follower.handshakes().len(), 2);
    guard.lost().await;
    assert!(now() - start >= PROVEN && now() - start < PROVEN + SOON, "{:?}", now() - start);
    assert_eq!(guard.state(), LockState::Suspect);
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_lock_is_held_until_its_proof_ends() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let start = now();
    let guard = mutex(&client).acquire().await.unwrap();
    follower.refuse(true);
    follower.cut_at(OpCode::PING);
    follower.cut_at(OpCode::MULTI);
    tokio::time::sleep(PROVEN - SOON).await;
    assert_eq!(guard.state(), LockState::Held);
    guard.lost().await;
    assert!(now() - start < PROVEN + SOON);
    assert_eq!(guard.state(), LockState::Suspect);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lock_is_lost_although_no_task_waits_for_the_loss() {
    let server = server().await;
    let admin = connect(&server).await;
    let (client, _follower) = Follower::connect(&server, TIMEOUT).await;
    let in_process = Client::builder().session_timeout(TIMEOUT).connect(server.dialer());
    for client in [client, in_process.await.unwrap()] {
        let guards = [
            InterProcessMutex::new(&client, "/a").unwrap().acquire().await.unwrap(),
            InterProcessMutex::new(&client, "/b").unwrap().acquire().await.unwrap(),
            InterProcessMutex::new(&client, "/c").unwrap().acquire().await.unwrap(),
        ];
        tokio::time::sleep(SECOND).await;
        admin.delete(guards[0].path()).await.unwrap();
        admin.delete(guards[1].path()).await.unwrap();
        tokio::time::sleep(TIMEOUT / 3).await;
        let states = guards.each_ref().map(|guard| guard.state());
        assert_eq!(states, [LockState::Lost, LockState::Lost, LockState::Held]);
        tokio::time::sleep(TIMEOUT).await;
        assert_eq!(guards[2].state(), LockState::Held);
        for guard in guards {
            drop(guard);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_auth_reply_proves_an_unreadable_lock() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    client.create("/a").await.unwrap();
    let acl = vec![Acl { permissions: Permissions::WRITE, ..Acl::open() }];
    let guard = mutex(&client).with_acl(acl).acquire().await.unwrap();
    let other = InterProcessMutex::new(&client, "/b").unwrap().acquire().await.unwrap();
    tokio::time::sleep(5 * TIMEOUT).await;
    assert_eq!((guard.state(), other.state()), (LockState::Held, LockState::Held));
    // The client checks the readable one with a request.
    connect(&server).await.delete(other.path()).await.unwrap();
    tokio::time::sleep(TIMEOUT / 3 + SOON).await;
    assert_eq!(other.state(), LockState::Lost);
    follower.take_requests();
    tokio::time::sleep(5 * TIMEOUT).await;
    assert_eq!(guard.state(), LockState::Held);
    assert!(count(&follower.take_requests(), OpCode::MULTI) <= 16);
}

#[tokio::test(start_paused = true)]
async fn more_locks_than_fit_in_one_request_are_checked_in_turn() {
    let server = server().await;
    let admin = connect(&server).await;
    let (client, _follower) = Follower::connect(&server, TIMEOUT).await;
    let long = "x".repeat(2_000);
    let mut guards = Vec::new();
    for n in 0..100 {
        let lock = InterProcessMutex::new(&client, &format!("/{n}{long}")).unwrap();
        guards.push(lock.acquire().await.unwrap());
    }
    tokio::time::sleep(TIMEOUT).await;
    for guard in [&guards[0], &guards[50], &guards[99]] {
        admin.delete(guard.path()).await.unwrap();
    }
    tokio::time::sleep(TIMEOUT).await;
    let lost = guards.iter().filter(|guard| guard.state() == LockState::Lost).count();
    let held = guards.iter().filter(|guard| guard.state() == LockState::Held).count();
    assert_eq!((lost, held), (3, 97));
}

#[tokio::test(start_paused = true)]
async fn after_the_machine_was_suspended_locks_are_held_only_after_a_new_proof() {
    let server = server().await;
    let suspended = Arc::new(AtomicU64::new(0));
    let source = Arc::clone(&suspended);
    let builder = Client::builder()
        .session_timeout(TIMEOUT)
        .suspended_time(move || Duration::from_secs(source.load(Ordering::SeqCst)));
    let client = builder.connect(Follower::new(server.dialer())).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    suspended.store(3, Ordering::SeqCst);
    assert_eq!(guard.state(), LockState::Held, "for less than was left");
    let start = now();
    let told = async {
        guard.lost().await;
        now() - start
    };
    let (told, ()) = tokio::join!(told, async {
        tokio::time::sleep(SECOND).await;
        suspended.store(3 + TIMEOUT.as_secs(), Ordering::SeqCst);
        assert_eq!(guard.state(), LockState::Suspect);
    });
    assert!(told <= 2 * SECOND + SOON, "{told:?}");
    // The server's clock did not stop here, and the server has not expired the session.
    tokio::time::sleep(TIMEOUT).await;
    assert_eq!(guard.state(), LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn lost_reports_the_loss_after_an_outage_in_which_an_earlier_wait_was_dropped() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let builder = Client::builder().connection_timeout(5 * SECOND);
    let client = builder.connect(counting.clone()).await.unwrap();
    let guard = mutex(&client).acquire().await.unwrap();
    counting.refuse(true);
    counting.cut();
    drop(client.sync("/").send());
    tokio::time::sleep(SOON).await;
    // Its watch waits for a connection, and is dropped unsent when the wait ends.
    assert!(tokio::time::timeout(SECOND, guard.lost()).await.is_err());
    tokio::time::sleep(10 * SECOND).await;
    counting.refuse(false);
    tokio::time::sleep(2 * SECOND).await;
    let lost = tokio::time::timeout(SECOND, guard.lost());
    let delete = async {
        tokio::time::sleep(SOON).await;
        connect(&server).await.delete(guard.path()).await.unwrap();
    };
    let (lost, ()) = tokio::join!(lost, delete);
    assert!(lost.is_ok(), "the guard reports the deletion");
    assert_eq!(guard.state(), LockState::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_a_read_only_server_moves_to_one_that_serves_writes() {
    let server = server().await;
    let other = connect(&server).await;
    other.create("/x").await.unwrap();
    let follower = Follower::new(server.dialer());
    follower.serve_reads_only(true);
    let builder = Client::builder().session_timeout(TIMEOUT).allow_read_only();
    let client = builder.connect(follower.clone()).await.unwrap();
    let mut states = client.state();
    assert_eq!(*states.borrow(), Some(ConnectionState::ReadOnly));
    let made_up = client.session_id();
    let Watched { watcher, .. } = client.get("/x").and_watch().await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(*states.borrow(), Some(ConnectionState::ReadOnly));
    follower.serve_reads_only(false);
    let moved = states.wait_for(|state| *state == Some(ConnectionState::Reconnected));
    tokio::time::timeout(60 * SECOND, moved)
        .await
        .expect("the client finds a server that serves writes")
        .unwrap();
    // No other server knows the session that a read-only server has made up.
    assert_eq!(follower.handshakes()[1].session, SessionId::NONE);
    assert_ne!(client.session_id(), made_up);
    other.set("/x", "new").await.unwrap();
    assert_eq!(watcher.await.unwrap().path, "/x");
    let guard = mutex(&client).acquire().await.unwrap();
    assert_eq!(guard.state(), LockState::Held);
    // The client keeps a session that other servers know.
    let session = client.session_id();
    follower.serve_reads_only(true);
    follower.cut_at(OpCode::GET_DATA);
    client.get("/x").await.unwrap();
    assert_eq!(*client.state().borrow(), Some(ConnectionState::ReadOnly));
    follower.serve_reads_only(false);
    tokio::time::sleep(TIMEOUT).await;
    assert_eq!(*client.state().borrow(), Some(ConnectionState::Reconnected));
    assert_eq!(client.session_id(), session);
    assert_eq!(guard.state(), LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn closing_a_client_ends_its_locks_at_once() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let guard = mutex(&client).acquire().await.unwrap();
    let latch = LeaderLatch::start(&client, "/latch", "one").unwrap();
    latch.await_leadership().await.unwrap();
    // The request reaches a follower that is cut off from its quorum.
    follower.set_quorum(Quorum::CutOff);
    let mut closing = Box::pin(client.clone().close());
    let is_closed = std::future::poll_fn(|context| Poll::Ready(closing.as_mut().poll(context)));
    assert!(is_closed.await.is_pending());
    assert_eq!(guard.state(), LockState::Suspect);
    assert!(client.session_valid_until() <= now());
    let lost = tokio::time::timeout(MS, guard.lost());
    lost.await.expect("lost returns at once");
    assert!(!latch.is_leader());
    // Not even a ping follows the close, so that the client gives the connection up.
    tokio::time::sleep(TIMEOUT).await;
    assert_eq!(guard.state(), LockState::Lost);
    let error = closing.await.expect_err("no server has answered");
    assert!(matches!(error, Error::ConnectionLoss { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn unreadable_locks_do_not_delay_the_check_of_others() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let mut unreadable = Vec::new();
    for path in ["/a", "/b", "/c", "/d"] {
        client.create(path).await.unwrap();
        let acl = vec![Acl { permissions: Permissions::WRITE, ..Acl::open() }];
        let mutex = InterProcessMutex::new(&client, path).unwrap().with_acl(acl);
        unreadable.push(mutex.acquire().await.unwrap());
    }
    let other = InterProcessMutex::new(&client, "/z").unwrap().acquire().await.unwrap();
    connect(&server).await.delete(other.path()).await.unwrap();
    follower.take_requests();
    tokio::time::sleep(TIMEOUT / 3 + SOON).await;
    assert_eq!(other.state(), LockState::Lost);
    // Each unreadable znode is refused once, and the client checks again those behind the deleted
    // one.
    let requests = follower.take_requests_but_pings();
    assert_eq!(requests[..], [&[OpCode::SYNC][..], &[OpCode::MULTI; 6]].concat());
    tokio::time::sleep(5 * TIMEOUT).await;
    assert!(count(&follower.take_requests(), OpCode::MULTI) <= 16);
    assert!(unreadable.iter().all(|guard| guard.state() == LockState::Held));
}

#[tokio::test(start_paused = true)]
async fn with_proven_ahead_a_sixth_of_the_timeout_is_always_proven() {
    let server = server().await;
    let other = connect(&server).await;
    for waited in (0..36).map(|twentieths| TIMEOUT * twentieths / 20) {
        let follower = Follower::new(server.dialer());
        let builder = Client::builder().session_timeout(TIMEOUT).proven_ahead(TIMEOUT);
        let client = builder.connect(follower.clone()).await.unwrap();
        let held = mutex(&other).acquire().await.unwrap();
        let ends = async {
            tokio::time::sleep(waited).await;
            held.release().await.unwrap();
        };
        let mutex = mutex(&client);
        let (guard, ()) = tokio::join!(mutex.acquire(), ends);
        let guard = guard.unwrap();
        follower.take_requests();
        for _ in 0..4 * TIMEOUT.as_millis() / SOON.as_millis() {
            let left = client.session_valid_until() - now();
            assert!(left >= TIMEOUT / 6, "{left:?} after {waited:?}");
            tokio::time::sleep(SOON).await;
        }
        let checks = count(&follower.take_requests(), OpCode::MULTI);
        assert!((11..=14).contains(&checks), "{checks} after {waited:?}");
        guard.release().await.unwrap();
        client.close().await.unwrap();
    }
}
