//! Tests of the two herd locks: exclusion and failures as for any lock, and their number of
//! requests beside that of the mutex.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::{MultiOp, SetData, Zxid};
use zoolet::recipes::{
    HerdLock, InterProcessLock, InterProcessMutex, LockError, LockState, Owner, Revoker,
};
use zoolet::server::Server;
use zoolet_test_support::stage::{connect, counted, poll_times, server};

const SECOND: Duration = Duration::from_secs(1);
const PATH: &str = "/locks/a";

/// Creates a lock of one kind.
type Make = fn(&Client) -> Arc<dyn InterProcessLock>;

const ONE_ZNODE: Make =
    |client| Arc::new(HerdLock::watching_one_znode(client, PATH).expect("a path"));
const ALL_CHILDREN: Make =
    |client| Arc::new(HerdLock::watching_all_children(client, PATH).expect("a path"));
const MUTEX: Make = |client| Arc::new(InterProcessMutex::new(client, PATH).expect("a path"));
const HERDS: [Make; 2] = [ONE_ZNODE, ALL_CHILDREN];

/// Waits until no task can run without the clock.
async fn settled() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Asserts that no znode and no watch is left.
async fn assert_clean(server: &Server) {
    settled().await;
    assert_eq!(server.totals().ephemerals, 0, "znodes are left");
    assert_eq!(server.totals().watches, 0, "watches are left");
}

/// Checks that one task holds the lock at a time, and that its tokens grow.
#[derive(Default)]
struct Exclusion {
    holders: AtomicUsize,
    last_token: Mutex<Option<Zxid>>,
}

impl Exclusion {
    /// Acquires and releases the lock ten times.
    async fn contend(self: Arc<Self>, lock: Arc<dyn InterProcessLock>) {
        for _ in 0..10 {
            let guard = lock.acquire().await.expect("it acquires the lock in turn");
            assert_eq!(self.holders.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
            let token = guard.fencing_token();
            let last =
                self.last_token.lock().expect("no holder of the mutex panics").replace(token);
            assert!(Some(token) > last, "tokens grow");
            tokio::task::yield_now().await;
            self.holders.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.expect("the lock is held");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_herd_lock_is_held_by_one_at_a_time_over_all_sessions_and_within_one() {
    for make in HERDS {
        let server = server().await;
        let exclusion = Arc::new(Exclusion::default());
        let mut tasks = Vec::new();
        for _ in 0..5 {
            let client = connect(&server).await;
            for _ in 0..2 {
                tasks.push(tokio::spawn(Arc::clone(&exclusion).contend(make(&client))));
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_clean(&server).await;
    }
}

/// Counts the requests and events of all waiters from the first release until each has held the
/// lock.
async fn drained(make: Make, waiters: usize) -> (usize, usize) {
    let server = server().await;
    let holder = connect(&server).await;
    let guard = make(&holder).acquire().await.expect("the lock is free");
    let mut waiting = Vec::new();
    for _ in 0..waiters {
        let (client, counting) = counted(&server).await;
        let lock = make(&client);
        let task = tokio::spawn(async move {
            let guard = lock.acquire().await.expect("each waiter acquires the lock");
            // Holds the lock until all woken waiters have sent their requests.
            settled().await;
            guard.release().await.expect("it is held");
            client
        });
        settled().await;
        waiting.push((task, counting));
    }
    for (_, counting) in &waiting {
        counting.take_requests();
        counting.take_events();
    }
    guard.release().await.expect("it is held");
    let (mut requests, mut events) = (0, 0);
    let mut clients = Vec::new();
    for (task, _) in &mut waiting {
        clients.push(task.await.expect("the task ends"));
    }
    assert_clean(&server).await;
    for (_, counting) in &waiting {
        requests += counting.take_requests().iter().map(|(_, count)| count).sum::<usize>();
        events += counting.take_events();
    }
    (requests, events)
}

#[tokio::test(start_paused = true)]
async fn a_herd_lock_costs_the_square_of_its_waiters_and_a_mutex_two_requests_each() {
    const FEW: usize = 20;
    const MANY: usize = 60;
    for make in HERDS {
        let (few, many) = (drained(make, FEW).await, drained(make, MANY).await);
        // Each release wakes all remaining waiters.
        for (count, (requests, events)) in [(FEW, few), (MANY, many)] {
            let square = count * count;
            assert!(events >= square / 2, "{count}: {events} events");
            assert!(requests >= square / 2, "{count}: {requests} requests");
            assert!(requests <= 4 * square, "{count}: {requests} requests");
        }
        assert!(many.1 > 7 * few.1, "thrice as many hear {few:?}, {many:?}");
    }
    for count in [FEW, MANY] {
        let (requests, events) = drained(MUTEX, count).await;
        assert!(requests <= 2 * count, "{count}: {requests} requests");
        assert!(events <= 3 * count, "{count}: {events} events");
    }
}

#[tokio::test(start_paused = true)]
async fn one_release_wakes_all_waiters() {
    const WAITERS: usize = 30;
    for make in HERDS {
        let server = server().await;
        let holder = connect(&server).await;
        let guard = make(&holder).acquire().await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..WAITERS {
            let (client, counting) = counted(&server).await;
            let lock = make(&client);
            waiting.push((tokio::spawn(async move { lock.acquire().await }), client, counting));
            settled().await;
        }
        for (_, _, counting) in &waiting {
            counting.take_requests();
            counting.take_events();
        }
        guard.release().await.unwrap();
        settled().await;
        for (_, _, counting) in &waiting {
            assert!(counting.take_events() >= 1, "each waiter receives an event of the release");
            assert!(!counting.take_requests().is_empty(), "and sends a request");
        }
        let have_it = waiting.iter().filter(|(task, ..)| task.is_finished()).count();
        assert_eq!(have_it, 1, "one of them has it");
        waiting.iter().for_each(|(task, ..)| task.abort());
    }
}

#[tokio::test(start_paused = true)]
async fn trying_a_held_lock_costs_one_request_and_creates_no_znode() {
    for make in HERDS {
        let server = server().await;
        let (holder, (other, counting)) = (connect(&server).await, counted(&server).await);
        let guard = make(&holder).acquire().await.unwrap();
        let lock = make(&other);
        let tried = tokio::spawn(async move { lock.try_acquire().await.unwrap().is_none() });
        assert!(tried.await.unwrap());
        assert_eq!(counting.take_requests().iter().map(|(_, count)| count).sum::<usize>(), 1);
        assert_eq!(holder.children(PATH).await.unwrap().len(), 1);
        guard.release().await.unwrap();
        assert!(make(&other).try_acquire().await.unwrap().is_some());
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_acquires_its_lock_again_and_does_not_wait_for_itself() {
    let server = server().await;
    let client = connect(&server).await;
    let lock = HerdLock::watching_one_znode(&client, PATH).unwrap();
    let owner = Owner::new();
    let guard = lock.acquire_as(owner).await.unwrap();
    let again = lock.acquire_within_as(SECOND, owner).await.unwrap();
    drop(lock.try_acquire_as(owner).await.unwrap().expect("it holds it"));
    assert!(lock.is_held_by(owner));
    guard.release().await.unwrap();
    assert_eq!(again.state(), LockState::Held);
    let other = HerdLock::watching_one_znode(&client, PATH).unwrap();
    assert!(matches!(other.acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    let stranger = tokio::time::timeout(SECOND, other.acquire()).await;
    assert!(stranger.is_err(), "another owner of the same session waits");
    drop(again);
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_loses_the_lock_to_a_waiter() {
    for make in HERDS {
        let server = server().await;
        let ((holder, counting), next) = (counted(&server).await, connect(&server).await);
        let guard = make(&holder).acquire().await.unwrap();
        let lock = make(&next);
        let task = tokio::spawn(async move { lock.acquire().await.unwrap() });
        settled().await;
        counting.refuse(true);
        counting.cut();
        let theirs = task.await.unwrap();
        assert!(theirs.fencing_token() > guard.fencing_token());
        assert_ne!(guard.state(), LockState::Held);
        // The lost guard must not delete the znode of the next holder, not even in a new session.
        counting.refuse(false);
        guard.lost().await;
        assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
        settled().await;
        assert_eq!(holder.children(PATH).await.unwrap().len(), 1);
        assert_eq!(theirs.state(), LockState::Held);
        theirs.release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_expired_waits_in_its_next_session() {
    for make in HERDS {
        let server = server().await;
        let (holder, (waiter, counting)) = (connect(&server).await, counted(&server).await);
        let guard = make(&holder).acquire().await.unwrap();
        let lock = make(&waiter);
        let task = tokio::spawn(async move { lock.acquire().await.unwrap() });
        settled().await;
        counting.refuse(true);
        counting.cut();
        tokio::time::sleep(200 * SECOND).await;
        counting.refuse(false);
        tokio::time::sleep(10 * SECOND).await;
        assert!(!task.is_finished());
        guard.release().await.unwrap();
        task.await.unwrap().release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lost_replies_leave_one_znode_and_delete_none_of_other_clients() {
    for make in HERDS {
        let server = server().await;
        let ((client, counting), other) = (counted(&server).await, connect(&server).await);
        make(&client).acquire().await.unwrap().release().await.unwrap();
        let (lock, theirs) = (make(&client), make(&other));
        // The server carries out the create, and its reply is lost.
        counting.cut();
        let guard = lock.acquire().await.unwrap();
        assert_eq!(other.children(PATH).await.unwrap().len(), 1);
        // So is the reply to the delete, and another client acquires the lock before the delete is
        // repeated.
        let waiting = tokio::spawn(async move { theirs.acquire().await.unwrap() });
        settled().await;
        counting.refuse(true);
        counting.cut();
        let release = tokio::spawn(guard.release());
        let held = waiting.await.unwrap();
        counting.refuse(false);
        release.await.unwrap().unwrap();
        settled().await;
        assert_eq!(other.children(PATH).await.unwrap().len(), 1, "another's is not deleted");
        held.release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_does_not_delete_the_znode_of_the_next_holder() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let guard = HerdLock::watching_one_znode(&client, PATH).unwrap().acquire().await.unwrap();
    let path = guard.path().to_owned();
    let (_, ()) = tokio::join!(guard.lost(), async {
        settled().await;
        other.delete(&path).await.unwrap();
    });
    let theirs = HerdLock::watching_one_znode(&other, PATH).unwrap();
    let held = theirs.acquire().await.unwrap();
    let set = SetData { path: "/".into(), data: None, version: (-1).into() };
    let written = guard.transaction(vec![MultiOp::SetData(set)]).await;
    assert!(matches!(written, Err(LockError::Lost(_))));
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
    settled().await;
    assert!(other.exists(held.path()).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lock_is_released_after_a_lost_reply() {
    let server = server().await;
    let ((client, counting), other) = (counted(&server).await, connect(&server).await);
    let guard = HerdLock::watching_one_znode(&client, PATH).unwrap().acquire().await.unwrap();
    Revoker::attempt_revoke(&other, guard.path()).await.unwrap();
    guard.revocation_requested().await.unwrap();
    // The server carries out the delete without a reply; the client repeats it although the data
    // has changed.
    counting.refuse(true);
    counting.cut();
    let release = tokio::spawn(guard.release());
    settled().await;
    counting.refuse(false);
    release.await.unwrap().unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_acquire_at_any_poll_leaves_nothing() {
    for make in HERDS {
        let server = server().await;
        let (holder, waiter) = (connect(&server).await, connect(&server).await);
        for polls in 0..12 {
            for is_held in [false, true] {
                let guard = match is_held {
                    true => Some(make(&holder).acquire().await.unwrap()),
                    false => None,
                };
                let lock = make(&waiter);
                let task = tokio::spawn(async move {
                    let mut acquire = lock.acquire();
                    poll_times(acquire.as_mut(), polls).await;
                });
                task.await.unwrap();
                if let Some(guard) = guard {
                    guard.release().await.unwrap();
                }
                assert_clean(&server).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_acquire_while_replies_are_lost_leaves_nothing() {
    for make in HERDS {
        let server = server().await;
        for answers in 0..6 {
            let (client, counting) = counted(&server).await;
            let lock = make(&client);
            counting.cut_after(answers);
            let task = tokio::spawn(async move {
                let _ = tokio::time::timeout(Duration::from_millis(1), lock.acquire()).await;
            });
            task.await.unwrap();
            counting.cut_after(-1);
            client.sync("/").await.unwrap();
            tokio::time::sleep(SECOND).await;
            assert_clean(&server).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_herd_lock_that_watches_all_children_and_a_mutex_exclude_each_other() {
    let server = server().await;
    let exclusion = Arc::new(Exclusion::default());
    let mut tasks = Vec::new();
    for number in 0..8 {
        let client = connect(&server).await;
        let lock = if number % 2 == 0 { ALL_CHILDREN(&client) } else { MUTEX(&client) };
        tasks.push(tokio::spawn(Arc::clone(&exclusion).contend(lock)));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_clean(&server).await;
}
