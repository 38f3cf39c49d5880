//! Tests that dropping one watcher of a path does not take the next event from another, whatever
//! replies are in flight. The network delays messages by 20 ms of virtual time.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zoolet::client::Client;
use zoolet::protocol::{EventType, WatchMode};
use zoolet::recipes::{
    DistributedBarrier, DistributedDoubleBarrier, InterProcessMutex, LockError, Revoker,
};
use zoolet::testing::TestServer;

const NETWORK: Duration = Duration::from_millis(20);
/// Longer than a few replies take.
const SETTLED: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
/// After how many milliseconds the first watcher is dropped: before, during and after the reply to
/// the second one.
const GOES_AFTER_MS: std::ops::Range<u64> = 0..100;

async fn slow_server() -> TestServer {
    let server = TestServer::start().await.expect("a server in memory starts");
    let _delay = server.everyone().delay(NETWORK).expect("the server is there");
    server
}

async fn connect(server: &TestServer) -> Client {
    server.connect().await.expect("the server is there")
}

/// Starts `second` while `first` waits, ends `first` after some time, and returns `second`.
async fn relieve<A, B>(
    first: impl Future<Output = A> + Send + 'static,
    second: impl Future<Output = B> + Send + 'static,
    after_ms: u64,
) -> JoinHandle<B>
where
    A: Send + 'static,
    B: Send + 'static,
{
    let first = tokio::spawn(first);
    tokio::time::sleep(SETTLED).await;
    let second = tokio::spawn(second);
    tokio::time::sleep(Duration::from_millis(after_ms)).await;
    first.abort();
    tokio::time::sleep(SETTLED).await;
    second
}

async fn soon<T>(task: JoinHandle<T>, after_ms: u64) -> T {
    let done = tokio::time::timeout(SECOND, task).await;
    done.unwrap_or_else(|_| panic!("stuck after {after_ms} ms")).expect("the task does not panic")
}

#[tokio::test(start_paused = true)]
async fn removing_a_barrier_releases_waiters_although_another_gave_up() {
    let server = slow_server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let gate = DistributedBarrier::new(&other, "/barrier").unwrap();
    let barrier = Arc::new(DistributedBarrier::new(&client, "/barrier").unwrap());
    for after_ms in GOES_AFTER_MS {
        gate.set().await.unwrap();
        let wait = |barrier: &Arc<DistributedBarrier>| {
            let barrier = Arc::clone(barrier);
            async move { barrier.wait().await }
        };
        let waiting = relieve(wait(&barrier), wait(&barrier), after_ms).await;
        gate.remove().await.unwrap();
        soon(waiting, after_ms).await.unwrap();
        assert_eq!(client.watcher_count(), 0);
        assert_eq!(server.watch_graph().paths.len(), 0, "after {after_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn members_leave_a_double_barrier_although_another_gave_up() {
    let server = slow_server().await;
    let client = connect(&server).await;
    for after_ms in GOES_AFTER_MS {
        let path = format!("/barriers/{after_ms}");
        let entering = [(); 3].map(|()| {
            let barrier = DistributedDoubleBarrier::new(&client, &path, 3).unwrap();
            tokio::spawn(async move { barrier.enter().await })
        });
        let mut inside = Vec::new();
        for entering in entering {
            inside.push(soon(entering, after_ms).await.unwrap());
        }
        // All other members wait for the one with the lowest name.
        inside.sort_by(|one, other| one.path().cmp(other.path()));
        let others: [_; 2] = inside.split_off(1).try_into().expect("there are three");
        let [first, second] = others.map(|member| member.leave());
        let leaving = relieve(first, second, after_ms).await;
        inside.remove(0).leave().await.unwrap();
        soon(leaving, after_ms).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_hears_a_revocation_although_an_earlier_wait_was_dropped() {
    let server = slow_server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let guard = InterProcessMutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let guard = Arc::new(guard);
    for after_ms in GOES_AFTER_MS {
        let requested = |guard: &Arc<_>| {
            let guard: Arc<zoolet::recipes::Guard> = Arc::clone(guard);
            async move { guard.revocation_requested().await }
        };
        let waiting = relieve(requested(&guard), requested(&guard), after_ms).await;
        assert!(Revoker::attempt_revoke(&other, guard.path()).await.unwrap());
        soon(waiting, after_ms).await.unwrap();
        other.set(guard.path(), "not asked for").await.unwrap();
    }
    let guard = Arc::into_inner(guard).expect("no task holds the guard any more");
    assert_eq!(guard.release().await, Ok::<(), LockError>(()));
}

#[tokio::test(start_paused = true)]
async fn a_persistent_watcher_receives_events_after_one_shot_watchers_were_dropped() {
    let server = slow_server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.create("/a").await.unwrap();
    for mode in [WatchMode::PERSISTENT, WatchMode::PERSISTENT_RECURSIVE] {
        let mut lasting = client.watch("/a", mode).await.unwrap();
        for _ in 0..3 {
            let data = client.get("/a").and_watch().await.unwrap();
            let child = client.children("/a").and_watch().await.unwrap();
            drop((data, child));
            other.set("/a", "x").await.unwrap();
            let event =
                tokio::time::timeout(SECOND, lasting.next()).await.expect("the watch fires");
            assert_eq!(event.unwrap().event_type, EventType::NODE_DATA_CHANGED);
        }
        drop(lasting);
        tokio::time::sleep(SETTLED).await;
        assert_eq!(server.watch_graph().paths.len(), 0, "{mode}");
    }
}
