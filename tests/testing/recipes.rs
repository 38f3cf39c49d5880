//! Recipes under the faults of the test kit.

use std::time::Duration;

use zoolet::client::{Client, ConnectionState, RetryPolicy};
use zoolet::protocol::{ErrorCode, Zxid};
use zoolet::recipes::{InterProcessMutex, InterProcessSemaphoreV2, LeaderLatch};
use zoolet::testing::{RequestFilter, TestServer};

use super::{TRANSPORTS, wait_for};

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, "/locks/stock").expect("a path")
}

#[tokio::test]
async fn a_lost_create_reply_leaves_one_znode_in_line() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
        let requests = RequestFilter::next(1).creates().below("/locks/stock");
        let fault = server.everyone().cut_before_reply(requests).unwrap();
        let guard = mutex(&client).acquire().await.unwrap();
        assert_eq!(fault.hits(), 1);
        let places = client.children("/locks/stock").await.unwrap().to_vec();
        assert_eq!(places.len(), 1, "{places:?}");
        guard.release().await.unwrap();
        assert!(client.children("/locks/stock").await.unwrap().to_vec().is_empty());
    }
}

/// A store that refuses a write with an older token than the last one.
#[derive(Debug, Default)]
struct Store {
    last: Option<Zxid>,
}

impl Store {
    fn write(&mut self, token: Zxid) -> bool {
        let is_taken = self.last.is_none_or(|last| token >= last);
        if is_taken {
            self.last = Some(token);
        }
        is_taken
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_holder_loses_the_lock_and_its_token_is_refused() {
    let server = TestServer::start().await.unwrap();
    let (owner, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let mut store = Store::default();
    let stale = mutex(&owner).acquire().await.unwrap();
    assert!(store.write(stale.fencing_token()));
    server.session(owner.session_id()).freeze().unwrap();
    let guard = mutex(&other).acquire().await.unwrap();
    assert!(store.write(guard.fencing_token()));
    server.heal();
    assert!(!store.write(stale.fencing_token()));
    wait_for(&owner, ConnectionState::Reconnected).await;
    assert!(stale.state() != zoolet::recipes::LockState::Held);
    assert!(guard.release().await.is_ok());
}

#[tokio::test]
async fn expiring_the_holders_session_reports_the_loss_and_admits_the_waiter() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (owner, waiter) = (transport.connect(&server).await, transport.connect(&server).await);
        let guard = mutex(&owner).acquire().await.unwrap();
        let waiting = tokio::spawn(async move { mutex(&waiter).acquire().await.map(|_| ()) });
        server.session(owner.session_id()).expire().unwrap();
        waiting.await.unwrap().unwrap();
        guard.lost().await;
    }
}

#[tokio::test]
async fn a_waiter_acquires_the_lock_after_a_server_crash() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (owner, waiter) = (transport.connect(&server).await, transport.connect(&server).await);
        let guard = mutex(&owner).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let waiter = waiter.clone();
            async move { mutex(&waiter).acquire().await.map(|_| ()) }
        });
        while owner.children("/locks/stock").await.unwrap().to_vec().len() < 2 {
            tokio::task::yield_now().await;
        }
        server.crash().await.unwrap();
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_timeout_of_a_minute_takes_no_real_time() {
    let server = TestServer::start().await.unwrap();
    let (owner, waiter) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let _guard = mutex(&owner).acquire().await.unwrap();
    let began = std::time::Instant::now();
    let limit = Duration::from_secs(60);
    assert!(mutex(&waiter).acquire_within(limit).await.is_err());
    println!("an acquisition gave up after {limit:?} in {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn retry_delays_take_no_real_time() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let policy = RetryPolicy::forever(Duration::from_secs(1));
    let client = client.with_retry_policy(policy);
    let fault = server.everyone().cut_before_reply(RequestFilter::next(20).reads()).unwrap();
    let began = std::time::Instant::now();
    assert!(client.exists("/").await.unwrap().is_some());
    assert_eq!(fault.hits(), 20);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn session_expiry_frees_its_permits() {
    let server = TestServer::start().await.unwrap();
    let (one, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let permits = InterProcessSemaphoreV2::new(&one, "/permits", 1).unwrap();
    let _permit = permits.acquire(1).await.unwrap();
    let permits = InterProcessSemaphoreV2::new(&other, "/permits", 1).unwrap();
    assert!(permits.try_acquire(1).await.unwrap().is_none());
    server.session(one.session_id()).expire().unwrap();
    assert!(permits.try_acquire(1).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_next_participant_leads_when_the_leader_is_cut_off() {
    let server = TestServer::start().await.unwrap();
    let (one, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let first = LeaderLatch::start(&one, "/leader", "one").unwrap();
    first.await_leadership().await.unwrap();
    let second = LeaderLatch::start(&other, "/leader", "other").unwrap();
    server.session(one.session_id()).freeze().unwrap();
    second.await_leadership().await.unwrap();
    assert!(!first.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_session_expired_reply_makes_the_client_open_a_new_session() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
        let before = client.session_id();
        let creates = RequestFilter::next(1).creates().below("/locks/stock");
        server.everyone().fail(creates, ErrorCode::SESSION_EXPIRED).unwrap();
        let guard = mutex(&client).acquire().await.unwrap();
        assert_ne!(client.session_id(), before);
        guard.release().await.unwrap();
        let reads = RequestFilter::next(1).below("/a");
        server.everyone().fail(reads, ErrorCode::SESSION_EXPIRED).unwrap();
        assert_eq!(client.exists("/a").await, Err(zoolet::client::Error::SessionExpired));
    }
}
