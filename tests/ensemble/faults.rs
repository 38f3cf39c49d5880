//! The faults of `TestServer`, at one server of an ensemble.

use std::time::Duration;

use tokio::time::Instant;
use zoolet::client::{Client, Error};
use zoolet::protocol::{CreateMode, ErrorCode, OpCode};
use zoolet::testing::{Fate, FaultError, RequestFilter, ServerRole};

use super::{TRANSPORTS, start};

const LAG: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_reply_that_comes_late_is_lost_or_ends_the_connection() {
    let ensemble = start().await;
    let client = ensemble.connect_to(1).await.unwrap();
    let server = ensemble.server(1);
    server.lag_by(LAG);
    let session = server.session(client.session_id());
    let creates = || RequestFilter::next(1).of(&[OpCode::CREATE2]);
    let cut = session.cut_before_reply(creates()).unwrap();
    let lost = client.create("/a").send().await.unwrap_err();
    assert!(matches!(lost, Error::ConnectionLoss { .. }), "{lost}");
    assert_eq!(cut.hits(), 1);
    assert!(server.data("/a").is_some(), "it was carried out");
    client.sync("/").await.unwrap();
    let dropped = session.drop_replies(creates()).unwrap();
    let lost = client.create("/b").send();
    // The reply to a later request comes first.
    let reply = client.exists("/b").send().await;
    assert!(reply.is_err() && lost.await.is_err(), "the client reconnects");
    assert_eq!(dropped.hits(), 1);
    assert!(server.data("/b").is_some());
    // What went before is over.
    client.create("/c").await.unwrap();
}

#[tokio::test]
async fn requests_are_refused_dropped_and_counted_by_server() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (one, two) = (kind.connect(&ensemble, 1).await, kind.connect(&ensemble, 2).await);
        let before = ensemble.committed_zxid();
        let writes = RequestFilter::all().of(&[OpCode::CREATE2]);
        let fail = ensemble.server(1).everyone().fail(writes, ErrorCode::QUOTA_EXCEEDED).unwrap();
        let error = one.create("/a").await.unwrap_err();
        assert!(error.is(ErrorCode::QUOTA_EXCEEDED), "{kind:?}: {error}");
        assert_eq!(ensemble.committed_zxid().0, before.0 + 1, "{kind:?}: it takes a zxid");
        two.create("/a").await.unwrap();
        fail.lift();
        let stats = ensemble.server(1).stats();
        let own = stats.session(one.session_id());
        assert_eq!((own.requests.of(OpCode::CREATE2), own.refusals), (1, 1), "{kind:?}");
        assert_eq!(stats.session(two.session_id()).requests.total(), 0, "it is on another");
        assert_eq!(ensemble.server(2).stats().path("/a").requests.of(OpCode::CREATE2), 1);
    }
}

#[tokio::test]
async fn a_session_expires_at_once_and_everywhere() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (owner, other) = (kind.connect(&ensemble, 1).await, kind.connect(&ensemble, 2).await);
        owner.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
        let watch = other.exists("/mine").and_watch().await.unwrap().watcher;
        let session = owner.session_id();
        assert_eq!(ensemble.session(session).expire().unwrap(), 1);
        assert!(ensemble.servers().iter().all(|server| server.data("/mine").is_none()), "{kind:?}");
        watch.await.unwrap();
        let unknown = ensemble.session(session).expire().unwrap_err();
        assert!(matches!(unknown, FaultError::UnknownSession { .. }), "{unknown}");
        // Only the sessions of that server.
        assert_eq!(ensemble.server(2).everyone().expire().unwrap(), 1);
        ensemble.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_without_a_leader_ends_under_the_next() {
    let ensemble = start().await;
    let client = ensemble.connect_to(1).await.unwrap();
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    ensemble.lose_leader().unwrap();
    ensemble.server(1).session(client.session_id()).expire().unwrap();
    assert!(ensemble.server(1).data("/mine").is_some());
    ensemble.serving().await;
    assert!(ensemble.server(1).data("/mine").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_frozen_leader_is_replaced_and_learns_of_it_when_it_goes_on() {
    let ensemble = start().await;
    let client = ensemble.connect_to(0).await.unwrap();
    client.create("/a").data("one").await.unwrap();
    ensemble.server(0).freeze().unwrap();
    let read = client.get("/a").send();
    ensemble.wait_until(|ensemble| ensemble.leader().is_some_and(|leader| leader != 0)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ensemble.server(0).role(), ServerRole::Leader, "as it believes");
    ensemble.server(0).thaw();
    assert_eq!(ensemble.server(0).role(), ServerRole::Follower);
    assert_eq!(&read.await.unwrap().0[..], b"one", "it answered what it had received");
    assert!(client.exists("/a").await.unwrap().is_some());
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_are_held_and_delayed_at_one_server() {
    let ensemble = start().await;
    let (one, two) = (ensemble.connect_to(1).await.unwrap(), ensemble.connect_to(2).await.unwrap());
    let held = ensemble.server(1).everyone().hold().unwrap();
    let create = one.create("/a").send();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(two.exists("/a").await.unwrap().is_some(), "it is carried out");
    held.lift();
    create.await.unwrap();
    ensemble.server(1).everyone().delay(LAG).unwrap();
    let before = Instant::now();
    one.exists("/a").await.unwrap();
    assert_eq!(before.elapsed(), LAG);
    ensemble.heal();
    let before = Instant::now();
    one.exists("/a").await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_passed_over() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        ensemble.server(0).everyone().refuse().unwrap();
        let client = kind.connect_to_all(&ensemble).await;
        assert_ne!(ensemble.server_of(client.session_id()).unwrap().index(), 0, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_expire_by_the_clock_of_the_leader() {
    let ensemble = start().await;
    let builder = Client::builder().session_timeout(Duration::from_secs(30));
    let client = builder.connect(ensemble.server(1).dialer()).await.unwrap();
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    ensemble.server(1).faults().advance(Duration::from_secs(60)).unwrap();
    assert!(ensemble.server(1).data("/mine").is_some(), "a follower's clock does not count");
    ensemble.advance(Duration::from_secs(60)).unwrap();
    assert!(ensemble.server(1).data("/mine").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_recording_of_one_server_shows_late_replies() {
    let ensemble = start().await;
    let recorder = ensemble.server(1).observer().record();
    let client = ensemble.connect_to(1).await.unwrap();
    ensemble.server(1).lag_by(LAG);
    let first = client.create("/a").send();
    client.create("/b").await.unwrap();
    first.await.unwrap();
    let script = recorder.script();
    assert!(script.contains("> create2 /a") && script.contains("> create2 /b"), "{script}");
    let replies = script.lines().filter(|line| line.starts_with("a: z+"));
    assert_eq!(replies.count(), 2, "{script}");
}

#[tokio::test(start_paused = true)]
async fn a_test_decides_about_each_request_of_a_lagging_follower() {
    let fates = [
        Fate::CutAfter,
        Fate::ExpireAfter,
        Fate::Delay(LAG),
        Fate::Freeze,
        Fate::CutReply,
        Fate::LoseReply,
    ];
    for fate in fates {
        let ensemble = start().await;
        let server = ensemble.server(1);
        let client = server.connect().await.unwrap();
        let session = client.session_id();
        client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
        server.lag_by(LAG);
        let mut is_over = false;
        let decided = server.session(session).decide(move |request| match request.op {
            OpCode::CREATE2 if !std::mem::replace(&mut is_over, true) => fate,
            _ => Fate::Pass,
        });
        let decided = decided.unwrap();
        let before = Instant::now();
        let create = client.create("/a").send();
        assert_eq!(decided.hits(), 1);
        assert!(ensemble.server(2).data("/a").is_some(), "{fate:?}: it is carried out");
        let reply = tokio::time::timeout(Duration::from_secs(3), create).await;
        match fate {
            Fate::CutAfter => {
                assert!(matches!(reply, Ok(Ok(_))), "{fate:?}: {reply:?}");
                assert!(server.connections().unwrap().is_empty(), "{fate:?}");
            }
            Fate::ExpireAfter => {
                assert!(matches!(reply, Ok(Ok(_))), "{fate:?}: {reply:?}");
                ensemble.wait_until(|_| server.data("/mine").is_none()).await;
            }
            Fate::Delay(_) => {
                assert!(matches!(reply, Ok(Ok(_))), "{fate:?}: {reply:?}");
                assert_eq!(before.elapsed(), 2 * LAG);
            }
            Fate::CutReply => assert!(matches!(reply, Ok(Err(_))), "{fate:?}: {reply:?}"),
            _ => assert!(!matches!(reply, Ok(Ok(_))), "{fate:?}: {reply:?}"),
        }
        ensemble.check().unwrap();
    }
}
