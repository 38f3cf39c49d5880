//! The recipes on servers that lag, are cut off and fail over.

use std::time::Duration;

use tokio::task::JoinSet;
use zoolet::client::{Client, RetryPolicy};
use zoolet::recipes::{InterProcessMutex, InterProcessSemaphoreV2, LeaderLatch, LockState};
use zoolet::testing::{ServerRole, TestEnsemble};

use super::start;

const LAG: Duration = Duration::from_millis(650);

/// A client of one server, which repeats what was lost with a connection.
async fn connect_to(ensemble: &TestEnsemble, server: usize) -> Client {
    let retry = RetryPolicy::n_times(1_000, Duration::from_millis(100));
    let builder = Client::builder().retry_policy(retry).session_timeout(Duration::from_secs(4));
    builder.connect(ensemble.server(server).dialer()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_mutex_excludes_on_lagging_followers() {
    let ensemble = start().await;
    ensemble.server(1).lag_by(LAG);
    let clients = [connect_to(&ensemble, 0).await, connect_to(&ensemble, 1).await];
    let mut last = None;
    for round in 0..6 {
        let client = &clients[round % 2];
        let guard = InterProcessMutex::new(client, "/lock").unwrap().acquire().await.unwrap();
        assert!(last < Some(guard.fencing_token()), "tokens grow");
        last = Some(guard.fencing_token());
        let other = InterProcessMutex::new(&clients[(round + 1) % 2], "/lock").unwrap();
        assert!(other.try_acquire().await.unwrap().is_none(), "another client holds it");
        guard.release().await.unwrap();
    }
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_on_a_cut_off_follower_loses_its_lock_before_another_has_it() {
    let ensemble = TestEnsemble::builder().sync_limit(100).start().await.unwrap();
    let (holder, heir) = (connect_to(&ensemble, 1).await, connect_to(&ensemble, 2).await);
    let guard = InterProcessMutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    ensemble.server(1).cut_off();
    let next = InterProcessMutex::new(&heir, "/lock").unwrap().acquire().await.unwrap();
    // The follower still answers the holder's pings and reads.
    assert_eq!(ensemble.server(1).role(), ServerRole::Follower);
    assert_ne!(guard.state(), LockState::Held, "two clients would hold the lock");
    assert!(next.fencing_token() > guard.fencing_token());
    ensemble.server(1).rejoin();
    guard.lost().await;
    next.release().await.unwrap();
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_mutex_survives_the_loss_of_the_leader() {
    let ensemble = start().await;
    let (holder, waiter) = (connect_to(&ensemble, 1).await, connect_to(&ensemble, 2).await);
    let guard = InterProcessMutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move {
        InterProcessMutex::new(&waiter, "/lock").unwrap().acquire().await.unwrap()
    });
    ensemble.server(2).wait_until(|stats| stats.path(guard.path()).watches > 0).await;
    ensemble.lose_leader().unwrap();
    ensemble.serving().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(guard.state(), LockState::Held, "its session has moved to the new leader");
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_latch_leads_through_a_partition() {
    let ensemble = start().await;
    let (one, two) = (connect_to(&ensemble, 0).await, connect_to(&ensemble, 1).await);
    let first = LeaderLatch::start(&one, "/leader", "one").unwrap();
    first.await_leadership().await.unwrap();
    let second = LeaderLatch::start(&two, "/leader", "two").unwrap();
    ensemble.cut_off_leader().unwrap();
    second.await_leadership().await.unwrap();
    assert!(!first.is_leader(), "two would lead");
    ensemble.server(0).rejoin();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(second.is_leader() && !first.is_leader());
    first.close().await.unwrap();
    second.close().await.unwrap();
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_gives_no_more_permits_than_it_has() {
    let ensemble = start().await;
    ensemble.server(1).lag_by(LAG);
    ensemble.server(2).lag_by(2 * LAG);
    let mut holders = Vec::new();
    for server in [0, 1] {
        let client = connect_to(&ensemble, server).await;
        let semaphore = InterProcessSemaphoreV2::new(&client, "/permits", 2).unwrap();
        holders.push(semaphore.acquire(1).await.unwrap());
    }
    let third = connect_to(&ensemble, 2).await;
    let semaphore = InterProcessSemaphoreV2::new(&third, "/permits", 2).unwrap();
    let none = semaphore.acquire_within(1, Duration::from_secs(10)).await;
    assert!(none.is_err(), "both permits are held");
    holders.pop().unwrap().release().await.unwrap();
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    ensemble.check().unwrap();
}

/// Reads now and then, so that the server always hears from the client.
fn read_on(client: &Client) -> JoinSet<()> {
    let client = client.clone();
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        loop {
            drop(client.exists("/").send());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    reading
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stands_still_twice_in_a_row_lets_time_pass() {
    let ensemble = TestEnsemble::builder().sync_limit(100).start().await.unwrap();
    for _ in 0..2 {
        ensemble.server(0).freeze().unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        ensemble.server(0).thaw();
        // It has not pinged its followers yet.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(ensemble.leader(), Some(0));
    ensemble.connect_to(1).await.unwrap().create("/a").await.unwrap();
    ensemble.check().unwrap();
}

/// What is done while the leader stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Acquire,
    /// The lock is held already, and its holder sends another write.
    Write,
    /// The lock is held already.
    Nothing,
}

/// The leader stands still, and the holder's follower is cut off when it has just gone on. Returns
/// whether the holder was told that it holds the lock.
async fn stand_still(meanwhile: Meanwhile, before: Duration, after: Duration) -> bool {
    let ensemble = TestEnsemble::builder().sync_limit(100).start().await.unwrap();
    let (holder, heir) = (connect_to(&ensemble, 1).await, connect_to(&ensemble, 2).await);
    let _reading = read_on(&holder);
    holder.create("/data").await.unwrap();
    let mutex = InterProcessMutex::new(&holder, "/lock").unwrap();
    let acquiring = tokio::spawn({
        let ensemble = ensemble.clone();
        async move {
            let held = match meanwhile {
                Meanwhile::Acquire => None,
                Meanwhile::Write | Meanwhile::Nothing => Some(mutex.acquire().await.unwrap()),
            };
            tokio::time::sleep(Duration::from_millis(9_300)).await;
            ensemble.server(0).freeze().unwrap();
            tokio::time::sleep(before).await;
            match held {
                Some(held) => held,
                None => mutex.acquire().await.unwrap(),
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(9_300) + before).await;
    if meanwhile == Meanwhile::Write {
        drop(holder.set("/data", "x").send());
    }
    tokio::time::sleep(after).await;
    ensemble.server(0).thaw();
    // The leader handles what waits for it, and is about to ping.
    tokio::time::sleep(Duration::from_millis(5)).await;
    ensemble.server(1).cut_off();
    let next = InterProcessMutex::new(&heir, "/lock").unwrap().acquire().await.unwrap();
    let was_told = acquiring.is_finished();
    if was_told {
        let guard = acquiring.await.unwrap();
        assert!(guard.fencing_token() < next.fencing_token());
        let state = guard.state();
        assert_ne!(state, LockState::Held, "two hold it: {meanwhile:?}, {before:?}, {after:?}");
    }
    was_told
}

#[tokio::test(start_paused = true)]
async fn one_holds_a_lock_when_its_leader_stood_still_and_its_follower_is_cut_off_right_after() {
    let mut told = 0;
    for meanwhile in [Meanwhile::Acquire, Meanwhile::Write, Meanwhile::Nothing] {
        for tenths_of_a_second in [5, 10, 15, 20, 25, 30, 35] {
            for after in [1, 30, 300, 900] {
                let before = Duration::from_millis(100 * tenths_of_a_second);
                let after = Duration::from_millis(after);
                told += u32::from(stand_still(meanwhile, before, after).await);
            }
        }
    }
    assert!(told > 28, "{told} of 84: most held the lock before, and some acquired it");
}
