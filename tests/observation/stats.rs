use std::time::Duration;

use zoolet::protocol::{ErrorCode, OpCode, SessionId, WatchMode};
use zoolet::testing::{Faults, Observer, SessionStats, TestHooks};

use super::{LOCK, connect, mutex, server};

#[tokio::test(start_paused = true)]
async fn a_contended_acquisition_costs_four_requests() {
    let server = server().await;
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = mutex(&one).acquire().await.unwrap();

    let before = server.session_stats(other.session_id());
    let waiting = {
        let mutex = mutex(&other);
        tokio::spawn(async move { mutex.acquire().await })
    };
    server.wait_until(|stats| stats.session(other.session_id()).watches > 0).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();

    let cost = server.session_stats(other.session_id()) - before;
    assert_eq!(cost.requests.total(), 4, "{}", cost.requests);
    assert_eq!(cost.requests.of(OpCode::CREATE) + cost.requests.of(OpCode::CREATE2), 1);
    assert_eq!(cost.requests.of(OpCode::GET_CHILDREN), 1);
    // The deletion of the znode ahead, and that of its own.
    assert_eq!(cost.events, 2);
    assert_eq!((cost.connections, cost.refusals, cost.watches), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn counts_by_session_add_up_to_the_totals() {
    let server = server().await;
    let (one, other) = (connect(&server).await, connect(&server).await);
    one.create("/a").await.unwrap();
    let error = other.create("/a").await.unwrap_err();
    assert!(error.is(ErrorCode::NODE_EXISTS));

    let (first, second) =
        (server.session_stats(one.session_id()), server.session_stats(other.session_id()));
    assert_eq!((first.refusals, second.refusals), (0, 1));
    assert_eq!((first.connections, first.replies), (1, 1));
    assert_eq!(first.requests, second.requests);
    assert_eq!(first.bytes_received, second.bytes_received);
    assert!(first.bytes_sent > second.bytes_sent, "a refusal has no body");
    let totals = server.totals();
    assert_eq!(totals.requests.total(), 2);
    assert_eq!(totals.bytes_received, first.bytes_received + second.bytes_received);
    assert_eq!(totals.bytes_sent, first.bytes_sent + second.bytes_sent);
    assert_eq!(server.session_stats(SessionId(1)), SessionStats::default());
}

#[tokio::test(start_paused = true)]
async fn requests_events_and_watches_are_counted_by_path() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/a").await.unwrap();
    let mut watcher = client.watch("/a", WatchMode::PERSISTENT_RECURSIVE).await.unwrap();
    client.create("/a/b").await.unwrap();
    client.set("/a/b", "x").await.unwrap();
    watcher.next().await.unwrap();

    let (parent, child) = (server.path_stats("/a"), server.path_stats("/a/b"));
    assert_eq!(parent.requests.of(OpCode::ADD_WATCH), 1);
    assert_eq!((parent.watches, parent.events), (1, 0));
    assert_eq!((child.watches, child.events), (0, 2));
    assert_eq!(child.requests.of(OpCode::SET_DATA), 1);
    let subtree = server.subtree_stats("/a");
    assert_eq!(subtree.requests.total(), parent.requests.total() + child.requests.total());
    assert_eq!((subtree.watches, subtree.events), (1, 2));
    assert_eq!(server.subtree_stats("/").watches, server.totals().watches);

    client.close().await.unwrap();
    assert_eq!(server.path_stats("/a").watches, 0);
}

#[tokio::test(start_paused = true)]
async fn each_operation_of_a_multi_counts_for_its_path_and_the_multi_for_its_session() {
    let server = server().await;
    let client = connect(&server).await;
    let before = server.stats();
    let set = |path: &str| {
        zoolet::protocol::MultiOp::SetData(zoolet::protocol::SetData {
            path: path.into(),
            data: None,
            version: zoolet::protocol::Expect::Any,
        })
    };
    client.create("/a").await.unwrap();
    client.multi(vec![set("/a"), set("/a")]).await.unwrap();
    let session = client.session_id();
    let cost = server.session_stats(session) - before.session(session);
    assert_eq!(cost.requests.of(OpCode::MULTI), 1);
    assert_eq!(cost.requests.of(OpCode::SET_DATA), 0);
    assert_eq!(server.path_stats("/a").requests.of(OpCode::SET_DATA), 2);
}

#[tokio::test(start_paused = true)]
async fn wait_until_returns_without_advancing_the_clock() {
    let server = server().await;
    let holder = connect(&server).await;
    let _guard = mutex(&holder).acquire().await.unwrap();
    let began = tokio::time::Instant::now();
    let mut waiting = Vec::new();
    for _ in 0..10 {
        let client = connect(&server).await;
        let mutex = mutex(&client);
        waiting.push((client, tokio::spawn(async move { mutex.acquire().await })));
    }
    let each_waits = |stats: &zoolet::testing::Stats| {
        waiting.iter().all(|(client, _)| stats.session(client.session_id()).watches >= 1)
    };
    let stats = server.wait_until(each_waits).await;
    assert!(stats.subtree(LOCK).watches >= 10);
    assert_eq!(began.elapsed(), Duration::ZERO);
    for (_, task) in waiting {
        task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_until_does_not_affect_another() {
    let server = server().await;
    let client = connect(&server).await;
    let waits = |count| {
        let server = server.clone();
        async move { server.wait_until(|stats| stats.path("/a").requests.total() >= count).await }
    };
    let patience = Duration::from_secs(1);
    assert!(tokio::time::timeout(patience, waits(1)).await.is_err());
    let waiting = tokio::spawn(waits(1));
    client.create("/a").await.unwrap();
    assert_eq!(waiting.await.unwrap().path("/a").requests.total(), 1);
}

#[tokio::test(start_paused = true)]
async fn wait_until_notices_the_end_of_a_session() {
    let server = server().await;
    let client = connect(&server).await;
    let session = client.session_id();
    let watched = client.exists("/a").and_watch().await.unwrap();
    server.wait_until(|stats| stats.session(session).watches == 1).await;
    drop((client, watched));
    server.wait_until(|stats| stats.session(session).watches == 0).await;
}

#[tokio::test(start_paused = true)]
async fn counts_continue_after_a_restart() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/a").await.unwrap();
    let watched = client.exists("/a").and_watch().await.unwrap();
    server.restart().await.unwrap();
    let session = client.session_id();
    server.wait_until(|stats| stats.session(session).connections == 2).await;
    client.sync("/").await.unwrap();
    let stats = server.stats();
    assert_eq!(stats.path("/a").requests.of(OpCode::CREATE2), 1);
    assert_eq!(stats.path("/a").requests.of(OpCode::SET_WATCHES), 1, "it watches again");
    assert_eq!(stats.session(session).watches, 1);
    drop(watched);
}

#[test]
fn blocking_wait_until_waits_on_a_thread() {
    let observer = Observer::default();
    let hooks = TestHooks::new(&Faults::default(), &observer);
    let builder = zoolet::server::Server::builder().hooks(hooks);
    let server = zoolet::server::blocking::Server::start(builder).unwrap();
    let second = Duration::from_secs(1);
    let never = observer.blocking_wait_until(Duration::from_millis(20), |_| false);
    assert_eq!(never, None);
    let dialer = server.dialer();
    let connecting = std::thread::spawn(move || {
        let client = zoolet::client::blocking::Client::connect(dialer).unwrap();
        client.create("/a", "").unwrap();
    });
    let asked = |stats: &zoolet::testing::Stats| stats.totals().requests.of(OpCode::CREATE2) == 1;
    let stats =
        observer.blocking_wait_until(60 * second, asked).expect("the client sends the request");
    assert_eq!(stats.path("/a").requests.to_string(), "1 create2");
    connecting.join().unwrap();
}
