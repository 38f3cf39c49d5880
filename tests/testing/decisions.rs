//! Faults about which a test decides at each request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::{CreateMode, ErrorCode, Expect, OpCode};
use zoolet::testing::{Fate, TestServer};

use super::TRANSPORTS;

/// Decides on a fate for the first create.
fn decide_on(server: &TestServer, fate: Fate) -> zoolet::testing::Fault {
    let mut is_over = false;
    let fault = server.everyone().decide(move |request| {
        if is_over || request.op == OpCode::GET_DATA || request.op == OpCode::EXISTS {
            return Fate::Pass;
        }
        is_over = true;
        fate
    });
    fault.expect("the server runs")
}

async fn is_there(server: &TestServer, path: &str) -> bool {
    let client = server.connect().await.expect("the server runs");
    client.exists(path).await.expect("it answers").is_some()
}

#[tokio::test]
async fn a_request_is_lost_before_or_after_it_is_carried_out() {
    for transport in TRANSPORTS {
        for (fate, is_carried_out) in [(Fate::CutBefore, false), (Fate::CutReply, true)] {
            let server = transport.server().await;
            let client = transport.connect_once(&server).await;
            let fault = decide_on(&server, fate);
            let session = client.session_id();
            let error = client.create("/a").await.unwrap_err();
            assert!(matches!(error, Error::ConnectionLoss { .. }), "{fate:?}: {error}");
            assert_eq!(is_there(&server, "/a").await, is_carried_out, "{fate:?}");
            client.exists("/").await.unwrap();
            assert_eq!(client.session_id(), session, "the session lives on");
            assert_eq!(fault.hits(), 1);
        }
    }
}

#[tokio::test]
async fn the_connection_closes_after_the_reply() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        decide_on(&server, Fate::CutAfter);
        client.create("/a").await.unwrap();
        let session = client.session_id();
        server.observer().wait_until(|stats| stats.session(session).connections == 2).await;
        client.exists("/a").await.unwrap();
        assert_eq!(client.session_id(), session);
    }
}

#[tokio::test]
async fn a_session_expires_before_or_after_a_request_is_carried_out() {
    for transport in TRANSPORTS {
        for (fate, is_carried_out) in [(Fate::ExpireBefore, false), (Fate::ExpireAfter, true)] {
            let server = transport.server().await;
            let client = transport.connect_once(&server).await;
            client.create("/own").mode(CreateMode::Ephemeral).await.unwrap();
            let session = client.session_id();
            decide_on(&server, fate);
            let created = client.create("/a").await;
            assert_eq!(created.is_ok(), is_carried_out, "{fate:?}: {created:?}");
            assert_eq!(is_there(&server, "/a").await, is_carried_out, "{fate:?}");
            assert!(!is_there(&server, "/own").await, "{fate:?}: the ephemeral is gone");
            assert_eq!(server.at(session).cut().ok(), None, "{fate:?}: the session is over");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_delayed_and_those_behind_it_wait() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let other = server.connect().await.unwrap();
    decide_on(&server, Fate::Delay(Duration::from_secs(5)));
    let start = tokio::time::Instant::now();
    let (created, read) = (client.create("/a").send(), client.exists("/").send());
    assert!(other.exists("/a").await.unwrap().is_some(), "it is carried out at once");
    assert_eq!(start.elapsed(), Duration::ZERO, "other clients do not wait");
    created.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 5);
    read.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_server_freezes_with_a_request_until_it_is_thawed() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let fault = decide_on(&server, Fate::Freeze);
    let start = tokio::time::Instant::now();
    let created = client.create("/a").send();
    fault.has_hit(1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.thaw();
    created.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn requests_are_shown_in_their_order_with_their_session_and_paths() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let fault = server.everyone().decide(move |request| {
            let mut text = format!("{} {}", request.session_number, request.op);
            request.each_path(|op, path| text.push_str(&format!(" {op}:{path}")));
            kept.lock().unwrap().push(text);
            match request.op {
                OpCode::DELETE => Fate::Fail(ErrorCode::NO_AUTH),
                _ => Fate::Pass,
            }
        });
        let fault = fault.unwrap();
        let one: Client = transport.connect_once(&server).await;
        let other: Client = transport.connect_once(&server).await;
        other.create("/b").await.unwrap();
        one.transaction()
            .create("/a", "", CreateMode::Persistent)
            .set("/b", "1", Expect::Any)
            .commit()
            .await
            .unwrap();
        assert!(one.delete("/b").await.unwrap_err().is(ErrorCode::NO_AUTH));
        fault.lift();
        one.delete("/b").await.unwrap();
        let seen = seen.lock().unwrap().clone();
        let expected =
            ["2 create2 create2:/b", "1 multi create2:/a setData:/b", "1 delete delete:/b"];
        assert_eq!(seen, expected);
        assert_eq!(fault.hits(), 1, "those that passed are not counted");
    }
}
