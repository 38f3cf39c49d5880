//! Tests that a client never sees a state older than one it has seen: which zxid a handshake
//! reports, and what a recipe reads after an event without a zxid before it returns.

use std::time::Duration;

use zoolet::client::{Client, Watched};
use zoolet::protocol::{Delete, EventType, Expect, MultiOp, OpCode, Zxid};
use zoolet::recipes::{
    DistributedDoubleBarrier, Guard, InterProcessMutex, InterProcessReadWriteLock, LockError,
};
use zoolet::server::Server;
use zoolet_test_support::follower::Follower;
use zoolet_test_support::stage::{connect, server};

/// Enough for everything that does not wait: the paused clock advances when no task can run.
const SOON: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

async fn behind_follower(server: &Server) -> (Client, Follower) {
    let follower = Follower::new(server.dialer());
    let client = Client::connect(follower.clone()).await.expect("the server is there");
    (client, follower)
}

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, "/a").expect("a path")
}

fn set(path: &str) -> MultiOp {
    zoolet_test_support::set_data(path, b"new")
}

fn delete(path: &str) -> MultiOp {
    MultiOp::Delete(Delete { path: path.into(), version: Expect::Any })
}

/// Changes a znode and returns the zxid of the change.
async fn change(client: &Client) -> Zxid {
    client.set("/x", "new").await.expect("it is there").mzxid
}

#[tokio::test(start_paused = true)]
async fn a_handshake_reports_the_zxid_of_the_last_event() {
    let server = server().await;
    let other = connect(&server).await;
    other.create("/x").await.unwrap();
    let (client, follower) = behind_follower(&server).await;
    let Watched { watcher, .. } = client.get("/x").and_watch().await.unwrap();
    let changed = change(&other).await;
    assert_eq!(watcher.await.unwrap().zxid, changed);
    follower.cut_at(OpCode::GET_DATA);
    client.get("/x").await.unwrap();
    let handshakes = follower.handshakes();
    assert_eq!(handshakes.len(), 2);
    assert_eq!(handshakes[1].last_zxid_seen, changed);
}

#[tokio::test(start_paused = true)]
async fn a_lock_acquired_by_an_event_makes_the_client_report_its_zxid() {
    let server = server().await;
    let other = connect(&server).await;
    let holder = mutex(&other).acquire().await.unwrap();
    let (client, follower) = behind_follower(&server).await;
    let mutex = mutex(&client);
    let waits = tokio::spawn(async move { mutex.acquire().await });
    tokio::time::sleep(SOON).await;
    follower.take_requests();
    holder.release().await.unwrap();
    let _held = waits.await.unwrap().unwrap();
    assert_eq!(follower.take_requests(), [], "the event has a zxid, so no request is needed");
    follower.cut_at(OpCode::GET_DATA);
    client.get("/a").await.unwrap();
    let next_change = other.create("/z").await.unwrap().stat.czxid;
    assert_eq!(
        follower.handshakes()[1].last_zxid_seen.0 + 1,
        next_change.0,
        "the release is known"
    );
}

#[tokio::test(start_paused = true)]
async fn the_second_event_of_a_multi_arrives_after_a_cut_behind_the_first() {
    let server = server().await;
    let other = connect(&server).await;
    other.create("/x").await.unwrap();
    other.create("/y").await.unwrap();
    let (client, follower) = behind_follower(&server).await;
    let Watched { watcher: first, .. } = client.get("/x").and_watch().await.unwrap();
    let Watched { watcher: second, .. } = client.get("/y").and_watch().await.unwrap();
    follower.cut_after_events(1);
    other.multi(vec![set("/x"), delete("/y")]).await.unwrap();
    assert_eq!(first.await.unwrap().event_type, EventType::NODE_DATA_CHANGED);
    let second = tokio::time::timeout(SECOND, second).await.expect("the watch fires").unwrap();
    assert_eq!(second.event_type, EventType::NODE_DELETED);
}

#[tokio::test(start_paused = true)]
async fn events_arrive_after_a_cut_between_two_set_watches() {
    let server = server().await;
    let other = connect(&server).await;
    let (client, follower) = behind_follower(&server).await;
    let long = "x".repeat(500);
    let paths: Vec<_> = (100..500).map(|n| format!("/{n}{long}")).collect();
    let mut watchers = Vec::new();
    for path in &paths {
        other.create(path).await.unwrap();
        watchers.push(client.get(path).and_watch().await.unwrap().watcher);
    }
    follower.refuse(true);
    follower.cut_at(OpCode::GET_DATA);
    let reads = tokio::spawn({
        let (client, path) = (client.clone(), paths[0].clone());
        async move { client.get(&path).await.map(drop) }
    });
    tokio::time::sleep(SOON).await;
    // The last `setWatches` request contains the last watch.
    other.set(paths.last().unwrap(), "new").await.unwrap();
    follower.cut_after_set_watches();
    follower.refuse(false);
    reads.await.unwrap().unwrap();
    assert_eq!(follower.handshakes().len(), 3, "the connection went between the two");
    let told = tokio::time::timeout(SECOND, watchers.pop().unwrap()).await;
    assert_eq!(told.expect("the watch fires").unwrap().event_type, EventType::NODE_DATA_CHANGED);
}

/// Spawns a waiter behind one holder, and lets it receive no zxids in events.
async fn waits_without_zxids(
    acquire: impl Future<Output = Result<Guard, LockError>> + Send + 'static,
    follower: &Follower,
) -> tokio::task::JoinHandle<Result<Guard, LockError>> {
    follower.send_no_event_zxid();
    let waits = tokio::spawn(acquire);
    tokio::time::sleep(SOON).await;
    follower.take_requests();
    waits
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_zxid_costs_one_read_before_acquire_returns() {
    let server = server().await;
    let holder = mutex(&connect(&server).await).acquire().await.unwrap();
    let (client, follower) = behind_follower(&server).await;
    let mutex = mutex(&client);
    let waits = waits_without_zxids(async move { mutex.acquire().await }, &follower).await;
    holder.release().await.unwrap();
    let held = waits.await.unwrap().unwrap();
    assert_eq!(follower.take_requests(), [OpCode::EXISTS]);
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiting_reader_sends_a_read_where_events_have_no_zxid() {
    let server = server().await;
    let lock = |client| InterProcessReadWriteLock::new(&client, "/a").unwrap();
    let writer = lock(connect(&server).await).write_lock().acquire().await.unwrap();
    let (client, follower) = behind_follower(&server).await;
    let read = lock(client).read_lock();
    let waits = waits_without_zxids(async move { read.acquire().await }, &follower).await;
    writer.release().await.unwrap();
    drop(waits.await.unwrap().unwrap());
    let reads = follower.take_requests();
    assert!(reads.contains(&OpCode::GET_CHILDREN) || reads.contains(&OpCode::EXISTS), "{reads:?}");
}

#[tokio::test(start_paused = true)]
async fn the_line_is_listed_again_when_the_connection_ends_before_that_read_is_answered() {
    let server = server().await;
    let holder = mutex(&connect(&server).await).acquire().await.unwrap();
    let (client, follower) = behind_follower(&server).await;
    let mutex = mutex(&client);
    let waits = waits_without_zxids(async move { mutex.acquire().await }, &follower).await;
    follower.cut_at(OpCode::EXISTS);
    holder.release().await.unwrap();
    let held = waits.await.unwrap().unwrap();
    let requests = follower.take_requests();
    assert!(requests.contains(&OpCode::GET_CHILDREN), "{requests:?}");
    assert_eq!(follower.handshakes().len(), 2);
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_double_barrier_is_entered_after_a_reply_where_events_have_no_zxid() {
    let server = server().await;
    let barrier = |client| DistributedDoubleBarrier::new(&client, "/b", 2).unwrap();
    let (client, follower) = behind_follower(&server).await;
    follower.send_no_event_zxid();
    let first = barrier(client);
    let waits = tokio::spawn(async move { first.enter().await?.leave().await });
    tokio::time::sleep(SOON).await;
    follower.take_requests();
    let second = barrier(connect(&server).await).enter().await.unwrap();
    tokio::time::sleep(SOON).await;
    let requests = follower.take_requests();
    assert!(requests.contains(&OpCode::MULTI), "{requests:?}");
    second.leave().await.unwrap();
    waits.await.unwrap().unwrap();
}
