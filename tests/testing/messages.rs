//! Faults of the test kit that lose, delay, refuse or corrupt messages.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zoolet::client::{ConnectionState, Error};
use zoolet::protocol::{
    ConnectRequest, Dial, Encode, ErrorCode, EventType, Incoming, Lookup, OpCode, Read,
    ReplyHeader, Request, Transport, Write, Xid, Zxid, decode_incoming, encode_request,
};
use zoolet::testing::{FaultError, RequestFilter, TestServer};

use super::{TRANSPORTS, settle, wait_for};

#[tokio::test]
async fn fail_refuses_the_next_matching_requests_without_effect() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        client.create("/a").await.unwrap();
        let which = RequestFilter::next(2).of(&[OpCode::SET_DATA]).below("/a");
        let fault = server.everyone().fail(which, ErrorCode::NO_AUTH).unwrap();
        client.create("/b").await.unwrap();
        client.set("/b", "other").await.unwrap();
        let before = client.exists("/a").await.unwrap().unwrap();
        for _ in 0..2 {
            assert!(client.set("/a", "x").await.unwrap_err().is(ErrorCode::NO_AUTH));
        }
        assert_eq!(client.exists("/a").await.unwrap(), Some(before));
        let after = client.set("/a", "x").await.unwrap();
        assert_eq!(after.mzxid.0, before.mzxid.0 + 5, "each refusal took a zxid");
        assert_eq!(fault.hits(), 2);
    }
}

#[tokio::test]
async fn a_fault_can_apply_to_one_session_or_one_connection() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (one, other) =
            (transport.connect_once(&server).await, transport.connect_once(&server).await);
        let connection = server.connections().unwrap()[1].id;
        server.session(one.session_id()).fail(RequestFilter::next(1), ErrorCode::NO_AUTH).unwrap();
        server
            .connection(connection)
            .fail(RequestFilter::next(1), ErrorCode::BAD_ARGUMENTS)
            .unwrap();
        assert!(other.create("/a").await.unwrap_err().is(ErrorCode::BAD_ARGUMENTS));
        assert!(one.create("/a").await.unwrap_err().is(ErrorCode::NO_AUTH));
        other.create("/a").await.unwrap();
    }
}

#[tokio::test]
async fn filters_skip_requests_and_match_operations_within_a_multi() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        let lists =
            RequestFilter::next(1).after(2).of(&[OpCode::GET_CHILDREN, OpCode::GET_CHILDREN2]);
        server.everyone().fail(lists, ErrorCode::NO_NODE).unwrap();
        for is_refused in [false, false, true, false] {
            assert_eq!(client.children("/").await.is_err(), is_refused);
        }
        server
            .everyone()
            .fail(RequestFilter::next(1).creates().at("/a/b"), ErrorCode::NO_AUTH)
            .unwrap();
        client.create("/a").await.unwrap();
        let op = |path: &str| {
            zoolet::protocol::MultiOp::Delete(zoolet::protocol::Delete {
                path: path.into(),
                version: zoolet::protocol::Expect::Any,
            })
        };
        client.multi(vec![op("/a")]).await.unwrap();
        client.create("/a").await.unwrap();
        assert!(client.create("/a/b").await.unwrap_err().is(ErrorCode::NO_AUTH));
        server.everyone().fail(RequestFilter::all().deletes(), ErrorCode::NOT_EMPTY).unwrap();
        assert!(client.multi(vec![op("/a")]).await.unwrap_err().is(ErrorCode::NOT_EMPTY));
        assert!(client.delete("/a").await.unwrap_err().is(ErrorCode::NOT_EMPTY));
        assert!(client.exists("/a").await.unwrap().is_some());
        server.everyone().heal();
        client.delete("/a").await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_request_has_no_effect_and_the_next_reply_ends_the_connection() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        let session = client.session_id();
        let fault = server.everyone().drop_requests(RequestFilter::next(1).writes()).unwrap();
        let (lost, next) = (client.create("/lost").send(), client.create("/next").send());
        assert!(matches!(lost.await, Err(Error::ConnectionLoss { .. })));
        assert!(matches!(next.await, Err(Error::ConnectionLoss { .. })));
        assert_eq!(fault.hits(), 1);
        assert_eq!(client.children("/").await.unwrap().to_vec(), ["next", "zookeeper"]);
        assert_eq!(client.session_id(), session);
    }
}

#[tokio::test]
async fn a_request_whose_reply_is_dropped_was_carried_out() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        server.everyone().drop_replies(RequestFilter::next(1)).unwrap();
        let (first, second) = (client.create("/a").send(), client.create("/b").send());
        assert!(matches!(first.await, Err(Error::ConnectionLoss { .. })));
        assert!(matches!(second.await, Err(Error::ConnectionLoss { .. })));
        assert_eq!(client.children("/").await.unwrap().to_vec(), ["a", "b", "zookeeper"]);
    }
}

#[tokio::test]
async fn held_messages_leave_in_order_after_release() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (client, other) = (transport.connect(&server).await, transport.connect(&server).await);
        let mut watcher = client.watch("/", zoolet::protocol::WatchMode::PERSISTENT).await.unwrap();
        let held = server.session(client.session_id()).hold().unwrap();
        let sent: Vec<_> = (0..5).map(|n| client.create(&format!("/{n}")).send()).collect();
        held.has_hit(10).await;
        assert_eq!(other.children("/").await.unwrap().to_vec().len(), 6, "they are carried out");
        settle().await;
        let mut sent = sent.into_iter();
        let mut first = sent.next().unwrap();
        let waiting = tokio::time::timeout(Duration::from_millis(20), &mut first).await;
        assert!(waiting.is_err(), "nothing leaves");
        server.session(client.session_id()).release();
        assert_eq!(first.await.unwrap().path, "/0");
        for (number, sent) in (1..).zip(sent) {
            assert_eq!(sent.await.unwrap().path, format!("/{number}"));
        }
        for _ in 0..5 {
            let event = watcher.next().await.unwrap();
            assert_eq!(event.event_type, EventType::NODE_CHILDREN_CHANGED);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_lasts_in_virtual_time_and_ends_when_lifted() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let (began, begun) = (Instant::now(), tokio::time::Instant::now());
    let fault = server.everyone().delay(Duration::from_secs(3)).unwrap();
    client.create("/a").await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    let sent = client.create("/b").send();
    fault.lift();
    sent.await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(3), "the rest of a delay is waived");
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn delays_keep_the_order_of_replies() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
        server.session(client.session_id()).delay(Duration::from_millis(30)).unwrap();
        let began = Instant::now();
        let slow = client.create("/a").send();
        let shorter = server.everyone().delay(Duration::from_millis(1)).unwrap();
        server.session(client.session_id()).heal();
        let fast = client.create("/b").send();
        assert_eq!(
            (slow.await.unwrap().path, fast.await.unwrap().path),
            ("/a".into(), "/b".into())
        );
        assert!(began.elapsed() < Duration::from_secs(5));
        shorter.lift();
    }
}

#[tokio::test]
async fn a_corrupted_reply_ends_the_connection_and_not_the_session() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        let session = client.session_id();
        let fault = server.everyone().corrupt(1).unwrap();
        let error = client.create("/a").await.unwrap_err();
        assert!(matches!(error, Error::ConnectionLoss { .. } | Error::Protocol(_)), "{error}");
        assert_eq!(fault.hits(), 1);
        assert!(client.exists("/a").await.unwrap().is_some());
        assert_eq!(client.session_id(), session);
    }
}

#[tokio::test]
async fn a_watch_whose_event_is_corrupted_fires_after_the_client_reconnects() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (client, other) = (transport.connect(&server).await, transport.connect(&server).await);
        let watch = client.exists("/a").and_watch().await.unwrap();
        server.session(client.session_id()).corrupt(1).unwrap();
        other.create("/a").await.unwrap();
        assert_eq!(watch.watcher.await.unwrap().event_type, EventType::NODE_CREATED);
        wait_for(&client, ConnectionState::Reconnected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn filters_that_match_no_request_are_refused_or_end_at_once() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let everyone = server.everyone();
    for path in ["locks", "/locks/", ""] {
        let error = everyone.drop_requests(RequestFilter::all().below(path)).unwrap_err();
        assert!(error.to_string().contains("as the server sees it"), "{error}");
    }
    let error = everyone.fail(RequestFilter::all(), ErrorCode::OK).unwrap_err();
    assert_eq!(error, FaultError::NoError);
    let none = everyone.fail(RequestFilter::next(0), ErrorCode::NO_AUTH).unwrap();
    let nothing = everyone.corrupt(0).unwrap();
    client.create("/a").await.unwrap();
    assert_eq!((none.hits(), nothing.hits()), (0, 0));
    none.lift();
    none.lift();
}

/// Sends a frame to the server and receives the reply, without a client in between.
async fn exchange(connection: &dyn Transport, frame: Bytes) -> Bytes {
    connection.send(frame).expect("it is open");
    let received = std::future::poll_fn(|context| connection.poll_receive(context)).await;
    received.expect("it is answered")
}

#[tokio::test(start_paused = true)]
async fn fail_answers_with_the_reply_header_of_the_server() {
    let server = TestServer::start().await.unwrap();
    let connection = server.dialer().dial().await.unwrap();
    let mut handshake = BytesMut::new();
    ConnectRequest::new(10_000).encode(&mut handshake);
    exchange(&*connection, handshake.freeze()).await;
    let mut last = Zxid(1);
    for (xid, path) in [(Xid(1), "/a"), (Xid(2), "/b"), (Xid(3), "/a")] {
        for (request, takes) in [
            (Request::Read(Read::Lookup(Lookup::Exists(path.into()))), 0),
            (Request::Write(Write::DeleteContainer(path.into())), 1),
        ] {
            let filter = RequestFilter::next(1).at(path);
            let fault = server.everyone().fail(filter, ErrorCode::QUOTA_EXCEEDED).unwrap();
            let answer = exchange(&*connection, encode_request(xid, &request)).await;
            last = Zxid(last.0 + takes);
            let Incoming::Reply { header, body } = decode_incoming(&answer).unwrap() else {
                panic!("it is no event");
            };
            let expected = ReplyHeader { xid, zxid: last, err: ErrorCode::QUOTA_EXCEEDED };
            assert_eq!((header, body.len(), fault.hits()), (expected, 0, 1));
        }
    }
}
