//! Sessions under a clock that jumps: how they expire, what goes with them, and that a test need
//! not wait for it.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::time::Duration;

use tokio::time::{Instant, advance};
use zoolet::protocol::{
    ConnectRequest, CreateFlags, CreateKind, Delete, ErrorCode, EventType, Expect, Lookup, MultiOp,
    Read, Request, SessionId, WatchedEvent, Write, Xid, Zxid, encode_request,
};
use zoolet::server::{Config, Server, WallTime};
use zoolet_test_support::{
    Local, Tcp, create, create_as, exists_and_watch, is_there, listening_server, ping, set_data,
};

fn deleted(path: &str) -> Option<WatchedEvent> {
    Some(WatchedEvent::new(EventType::NODE_DELETED, path))
}

fn delete(path: &str) -> Request {
    Request::Write(Write::Op(MultiOp::Delete(Delete { path: path.into(), version: Expect::Any })))
}

#[tokio::test(start_paused = true)]
async fn a_silent_session_expires_within_a_tick_of_its_timeout_and_takes_its_ephemerals() {
    let server = Server::builder().start().await.unwrap();
    let (mut owner, response) = Local::connect(&server, 30_000).await;
    assert_eq!(response.timeout_ms, 30_000);
    owner.call(&create("/lock", CreateFlags::EPHEMERAL)).await;
    let heard_of = Instant::now();

    let (mut waiter, _) = Local::connect(&server, 60_000).await;
    waiter.call(&exists_and_watch("/lock")).await;
    assert_eq!(waiter.event().await, deleted("/lock"));
    let waited = heard_of.elapsed();
    assert!(waited >= Duration::from_secs(30) && waited <= Duration::from_secs(33), "{waited:?}");

    // The owner is told nothing: its connection is closed, and its session is not to be had again.
    assert_eq!(owner.receive().await, None);
    let again = ConnectRequest {
        session: response.session,
        password: response.password,
        ..ConnectRequest::new(30_000)
    };
    let (_, refusal) = Local::connect_with(&server, again).await;
    assert!(refusal.is_refused());
    assert_eq!(refusal.session, SessionId::NONE);
}

#[tokio::test(start_paused = true)]
async fn pings_keep_a_session_alive() {
    let server = Server::builder().start().await.unwrap();
    let (mut client, _) = Local::connect(&server, 6_000).await;
    for _ in 0..20 {
        advance(Duration::from_secs(3)).await;
        let (header, _) = client.call(&ping()).await;
        assert_eq!(header.err, ErrorCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_in_process_that_was_not_scheduled_in_time_has_its_turn_before_its_session_expires()
 {
    let server = Server::builder().start().await.unwrap();
    let (mut client, _) = Local::connect(&server, 6_000).await;
    client.call(&create("/mine", CreateFlags::EPHEMERAL)).await;
    let (mut other, _) = Local::connect(&server, 40_000).await;
    let pinging = tokio::spawn(async move {
        loop {
            // Later than the tick that would end the session, when both are late.
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            client.call(&ping()).await;
        }
    });
    tokio::task::yield_now().await;
    // The thread was busy with something else, and all timers are due at once.
    advance(Duration::from_secs(20)).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(is_there(&mut other, "/mine").await);
    pinging.abort();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_its_answers_slowly_is_heard_of_and_one_that_takes_none_is_not() {
    static LARGE: [u8; 900_000] = [7; 900_000];
    const ANSWERS: usize = 60;
    let (server, address) = listening_server(Config::default()).await;
    let (mut other, _) = Local::connect(&server, 40_000).await;
    let (mut client, _) = Tcp::connect(address, ConnectRequest::new(6_000)).await;
    client.call(&create("/mine", CreateFlags::EPHEMERAL)).await;
    client.call(&create("/large", CreateFlags::PERSISTENT)).await;
    client.call(&Request::Write(Write::Op(set_data("/large", &LARGE)))).await;
    let get = Request::Read(Read::Lookup(Lookup::GetData("/large".into())));
    for number in 0..ANSWERS {
        client.send(&encode_request(Xid(100 + number as i32), &get)).await;
    }
    // It takes an answer every two seconds. Its pings are not read: too many answers wait for it.
    for _ in 0..ANSWERS / 4 {
        client.send(&encode_request(Xid::PING, &ping())).await;
        assert!(client.receive().await.is_some());
        tokio::time::sleep(Duration::from_secs(2)).await;
        other.call(&ping()).await;
        assert!(is_there(&mut other, "/mine").await);
    }
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        other.call(&ping()).await;
    }
    assert!(!is_there(&mut other, "/mine").await);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_not_a_lost_session() {
    let server = Server::builder().start().await.unwrap();
    let (mut first, response) = Local::connect(&server, 30_000).await;
    first.call(&create("/mine", CreateFlags::EPHEMERAL)).await;
    drop(first);
    advance(Duration::from_secs(20)).await;
    let again = ConnectRequest {
        session: response.session,
        password: response.password.clone(),
        ..ConnectRequest::new(30_000)
    };
    let (mut second, again) = Local::connect_with(&server, again).await;
    assert_eq!(again, response);
    advance(Duration::from_secs(20)).await;
    assert!(is_there(&mut second, "/mine").await);
}

#[tokio::test]
async fn a_client_that_comes_back_cuts_its_own_old_connection() {
    let server = Server::builder().start().await.unwrap();
    let (mut old, response) = Local::connect(&server, 30_000).await;
    old.call(&exists_and_watch("/a")).await;
    let again = ConnectRequest {
        session: response.session,
        password: response.password,
        ..ConnectRequest::new(30_000)
    };
    let (mut new, _) = Local::connect_with(&server, again).await;
    assert_eq!(old.receive().await, None);
    assert!(!old.send(&ping()));
    // Watches belong to the connection: the new one hears nothing.
    new.call(&create("/a", CreateFlags::PERSISTENT)).await;
    new.call(&ping()).await;
    assert!(new.events.is_empty());
}

#[tokio::test]
async fn closing_a_session_is_one_change_that_all_hear_of_before_it_is_answered() {
    let server = Server::builder().start().await.unwrap();
    let (mut owner, _) = Local::connect(&server, 30_000).await;
    let (mut other, _) = Local::connect(&server, 30_000).await;
    for path in ["/a", "/b", "/c"] {
        owner.call(&create(path, CreateFlags::EPHEMERAL)).await;
        other.call(&exists_and_watch(path)).await;
    }
    owner.call(&exists_and_watch("/b")).await;
    let (header, _) = owner.call(&Request::Write(Write::CloseSession)).await;
    // Two sessions, three creates, one close.
    assert_eq!(header.zxid, Zxid(6));
    assert_eq!(owner.events.pop_front(), deleted("/b"));
    assert_eq!(owner.receive().await, None);
    for path in ["/a", "/b", "/c"] {
        assert_eq!(other.event().await, deleted(path));
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_negotiated_into_the_limits() {
    let config = Config { tick_time_ms: 2_000, ..Config::default() };
    let server = Server::builder().config(config).start().await.unwrap();
    for (wished, granted) in [(0, 4_000), (-5, 4_000), (10_000, 10_000), (i32::MAX, 40_000)] {
        let (_, response) = Local::connect(&server, wished).await;
        assert_eq!(response.timeout_ms, granted, "{wished}");
    }
}

#[tokio::test(start_paused = true)]
async fn containers_and_ttl_znodes_go_when_their_time_has_come() {
    let wall_time = WallTime::Virtual { start_ms: 1_700_000_000_000 };
    let config = Config { wall_time, ..Config::default() };
    let server = Server::builder().config(config).start().await.unwrap();
    let (mut client, _) = Local::connect(&server, 60_000).await;
    let container = create_as(CreateKind::Container, "/container", CreateFlags::CONTAINER);
    client.call(&container).await;
    client.call(&create("/container/child", CreateFlags::PERSISTENT)).await;
    let ttl = CreateKind::Ttl { ttl_ms: 90_000 };
    client.call(&create_as(ttl, "/ttl", CreateFlags::PERSISTENT_WITH_TTL)).await;
    client.call(&exists_and_watch("/container")).await;
    client.call(&exists_and_watch("/ttl")).await;

    let minutes = async |client: &mut Local, count: u32| {
        for _ in 0..count * 6 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            client.call(&ping()).await;
        }
    };
    minutes(&mut client, 3).await;
    // The container has a child; the other's time is over.
    assert_eq!(client.events.pop_front(), deleted("/ttl"));
    assert!(is_there(&mut client, "/container").await);
    client.call(&delete("/container/child")).await;
    minutes(&mut client, 2).await;
    assert_eq!(client.events.pop_front(), deleted("/container"));
    assert!(!is_there(&mut client, "/container").await);
}

#[tokio::test]
async fn shutting_down_gives_each_client_what_waits_for_it_and_ends() {
    let (server, address) = listening_server(Config::default()).await;
    let (mut client, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    let (local, _) = Local::connect(&server, 30_000).await;
    client.call(&ping()).await;
    server.shutdown().await;
    assert_eq!(client.receive().await, None);
    assert_eq!(local.receive().await, None);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
