//! Tests that a lock is proved before it is held: after a long wait, and after a lost reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use zoolet::client::{self, Client};
use zoolet::protocol::OpCode;
use zoolet::recipes::{
    HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreV2, LeaderLatch, LeaderSelector, LockError,
    LockState, Requeue, SequentialMultiLock,
};
use zoolet::server::Server;
use zoolet_test_support::follower::{Follower, Quorum};
use zoolet_test_support::stage::{connect, server};

const SECOND: Duration = Duration::from_secs(1);
/// The session timeout.
const TIMEOUT: Duration = Duration::from_secs(12);
/// For how long a proof lasts at most.
const PROVEN: Duration = Duration::from_millis(12_000 - 120);

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, "/a").expect("a path")
}

/// A selector whose function takes a second, with the numbers of its calls and returns.
fn selector(client: &Client, requeue: Requeue) -> (LeaderSelector, Arc<[AtomicU32; 2]>) {
    let counts: Arc<[AtomicU32; 2]> = Arc::default();
    let lead = {
        let counts = Arc::clone(&counts);
        move |_term| {
            let counts = Arc::clone(&counts);
            async move {
                counts[0].fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(SECOND).await;
                counts[1].fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    (LeaderSelector::start(client, "/a", "one", requeue, lead).expect("a path"), counts)
}

fn read(counts: &[AtomicU32; 2]) -> [u32; 2] {
    counts.each_ref().map(|count| count.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_selector_calls_its_function_after_a_wait_of_any_length() {
    let server = server().await;
    let other = connect(&server).await;
    let (client, _follower) = Follower::connect(&server, TIMEOUT).await;
    // The last proof ended long ago, is about to end, or has just ended.
    for waited in [5 * TIMEOUT, PROVEN - Duration::from_millis(100), PROVEN] {
        let held = mutex(&other).acquire().await.unwrap();
        let (selector, counts) = selector(&client, Requeue::OnRequest);
        tokio::time::sleep(waited).await;
        held.release().await.unwrap();
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(read(&counts), [1, 1], "{waited:?}");
        selector.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_participant_without_a_quorum_does_not_lead_and_can_be_closed() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let other = connect(&server).await;
    let held = mutex(&other).acquire().await.unwrap();
    let first = LeaderLatch::start(&other, "/latch", "other").unwrap();
    first.await_leadership().await.unwrap();
    let (selector, counts) = selector(&client, Requeue::OnRequest);
    let latch = LeaderLatch::start(&client, "/latch", "one").unwrap();
    tokio::time::sleep(5 * TIMEOUT).await;
    follower.set_quorum(Quorum::CutOff);
    held.release().await.unwrap();
    first.close().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!((read(&counts), selector.has_leadership()), ([0, 0], false));
    assert!(!latch.is_leader());
    // It closes although it was not proved: its deletion waits with the others for the quorum.
    let leaving = tokio::spawn(selector.close());
    tokio::time::sleep(SECOND).await;
    follower.set_quorum(Quorum::Present);
    tokio::time::sleep(SECOND + TIMEOUT / 3).await;
    leaving.await.unwrap().unwrap();
    assert_eq!(read(&counts), [0, 0]);
    assert!(latch.is_leader(), "it is proved now");
    assert!(mutex(&other).try_acquire().await.unwrap().is_some(), "the selector has left");
}

/// A client that is first in the line of a mutex and waits for the proof, since its follower is cut
/// off from the quorum.
async fn waiting(server: &Server) -> (Client, Follower, JoinHandle<Result<LockState, LockError>>) {
    let (client, follower) = Follower::connect(server, TIMEOUT).await;
    let other = connect(server).await;
    let held = mutex(&other).acquire().await.expect("it is free");
    let acquiring = {
        let mutex = mutex(&client);
        tokio::spawn(async move { mutex.acquire().await.map(|guard| guard.state()) })
    };
    tokio::time::sleep(5 * TIMEOUT).await;
    follower.set_quorum(Quorum::CutOff);
    held.release().await.expect("it is held");
    tokio::time::sleep(SECOND).await;
    assert!(!acquiring.is_finished(), "it waits for the proof");
    (client, follower, acquiring)
}

#[tokio::test(start_paused = true)]
async fn acquire_ends_at_once_when_the_client_is_closed_during_the_proof() {
    let closed = Err(LockError::Client(client::Error::Closed));
    // With a connection: the requests so far are not answered.
    let server = server().await;
    let (client, _follower, acquiring) = waiting(&server).await;
    let closing = tokio::spawn(async move { client.close().await });
    let ended = tokio::time::timeout(SECOND, acquiring).await;
    assert_eq!(ended.expect("it ends at once").unwrap(), closed);
    closing.abort();

    // Without a connection. The closeSession is not sent, so the znode stays in line on the other
    // servers.
    let server = self::server().await;
    let (client, follower, acquiring) = waiting(&server).await;
    follower.refuse(true);
    follower.cut_at(OpCode::PING);
    tokio::time::sleep(TIMEOUT / 2).await;
    assert!(!acquiring.is_finished(), "the session may live");
    // The result of the close does not matter here.
    let _ = client.close().await;
    let ended = tokio::time::timeout(SECOND, acquiring).await;
    assert_eq!(ended.expect("it ends at once").unwrap(), closed);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_during_the_proof_makes_acquire_enter_again() {
    let server = server().await;
    let (client, follower, acquiring) = waiting(&server).await;
    let session = client.session_id();
    follower.refuse(true);
    follower.cut_at(OpCode::PING);
    tokio::time::sleep(2 * TIMEOUT).await;
    assert!(!acquiring.is_finished());
    follower.set_quorum(Quorum::Present);
    follower.refuse(false);
    let ended = tokio::time::timeout(2 * SECOND, acquiring)
        .await
        .expect("the client enters the line again");
    assert_eq!(ended.unwrap(), Ok(LockState::Held));
    assert_ne!(client.session_id(), session);
}

/// Loses the reply to the next request of an operation, and refuses connections for so long that
/// the proof ends and the session does not.
async fn lose_answer<T>(
    follower: &Follower,
    op: OpCode,
    outage: Duration,
    request: impl Future<Output = T>,
) -> T {
    follower.cut_behind(op);
    follower.refuse(true);
    let ends = async {
        tokio::time::sleep(outage).await;
        follower.refuse(false);
    };
    tokio::join!(request, ends).0
}

#[tokio::test(start_paused = true)]
async fn a_znode_found_after_a_lost_reply_is_proved_before_the_lock_is_held() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let session = client.session_id();
    let outage = TIMEOUT / 2;
    let multi = InterProcessMultiLock::new(&client, &["/m1", "/m2"]).unwrap();
    let herd = HerdLock::watching_one_znode(&client, "/one").unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, "/semaphore", 2).unwrap();
    let locks: [(OpCode, Box<dyn InterProcessLock>); 3] = [
        (OpCode::CREATE2, Box::new(mutex(&client))),
        (OpCode::MULTI, Box::new(multi.clone())),
        (OpCode::CREATE2, Box::new(herd.clone())),
    ];
    for (op, lock) in &locks {
        // Its directory exists from now on, and this is the last proof.
        lock.acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(PROVEN - TIMEOUT / 3).await;
        let guard = lose_answer(&follower, *op, outage, lock.try_acquire()).await.unwrap();
        let guard = guard.expect("it is free");
        assert_eq!(guard.state(), LockState::Held, "try_acquire with {op:?}");
        guard.release().await.unwrap();
        tokio::time::sleep(PROVEN - TIMEOUT / 3).await;
        let guard = lose_answer(&follower, *op, outage, lock.acquire()).await.unwrap();
        assert_eq!(guard.state(), LockState::Held, "acquire with {op:?}");
        guard.release().await.unwrap();
    }
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    tokio::time::sleep(PROVEN - TIMEOUT / 3).await;
    let permits =
        lose_answer(&follower, OpCode::MULTI, outage, semaphore.acquire(1)).await.unwrap();
    assert_eq!(permits.state(), LockState::Held, "permits");
    permits.release().await.unwrap();
    assert_eq!(client.session_id(), session, "all of that was one session");
}

#[tokio::test(start_paused = true)]
async fn a_read_lock_beside_a_write_lock_is_proved_after_a_lost_reply() {
    let server = server().await;
    let (client, follower) = Follower::connect(&server, TIMEOUT).await;
    let session = client.session_id();
    let lock = InterProcessReadWriteLock::new(&client, "/rw").unwrap();
    let writing = lock.write_lock().acquire().await.unwrap();
    let read_lock = lock.read_lock();
    // The client checks the guard every four seconds.
    let (idle, outage) = (TIMEOUT / 3 + SECOND / 10, TIMEOUT * 2 / 3);
    tokio::time::sleep(idle).await;
    let beside = read_lock.acquire_beside(&writing);
    let reading = lose_answer(&follower, OpCode::MULTI, outage, beside).await.unwrap();
    assert_eq!(reading.state(), LockState::Held, "beside");
    reading.release().await.unwrap();
    tokio::time::sleep(idle).await;
    let reading =
        lose_answer(&follower, OpCode::MULTI, outage, lock.downgrade(writing)).await.unwrap();
    assert_eq!(reading.state(), LockState::Held, "instead");
    reading.release().await.unwrap();
    assert_eq!(client.session_id(), session, "all of that was one session");
}

#[tokio::test(start_paused = true)]
async fn a_sequential_multi_lock_returns_with_all_locks_proved() {
    let server = server().await;
    let other = connect(&server).await;
    let (client, _follower) = Follower::connect(&server, TIMEOUT).await;
    let (second, _other_follower) = Follower::connect(&server, TIMEOUT).await;
    // Two clients with sessions of their own wait for them.
    let of = |client: &Client, path: &str| InterProcessMutex::new(client, path).unwrap();
    let held =
        [of(&other, "/x").acquire().await.unwrap(), of(&other, "/y").acquire().await.unwrap()];
    let locks: Vec<Arc<dyn InterProcessLock>> =
        vec![Arc::new(of(&client, "/x")), Arc::new(of(&second, "/y"))];
    let all = SequentialMultiLock::new(locks);
    let releases = async {
        for guard in held {
            tokio::time::sleep(5 * TIMEOUT).await;
            guard.release().await.unwrap();
        }
    };
    let (guard, ()) = tokio::join!(all.acquire(), releases);
    let guard = guard.unwrap();
    assert_eq!(guard.state(), LockState::Held);
    let lost = tokio::time::timeout(3 * TIMEOUT, guard.lost());
    assert!(lost.await.is_err());
    guard.release().await.unwrap();
}
