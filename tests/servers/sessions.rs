//! Tests of sessions under a paused clock: how they expire, and what ends with them.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::time::Duration;

use tokio::time::{Instant, advance};
use zoolet::protocol::{
    ConnectRequest, ConnectResponse, CreateFlags, CreateKind, Delete, ErrorCode, EventType, Expect,
    Lookup, MultiOp, Read, Request, SessionId, WatchedEvent, Write, Xid, Zxid, encode_request,
};
use zoolet::server::{Config, Server, WallTime};
use zoolet_test_support::{
    Local, Tcp, create, create_as, exists_and_watch, is_there, listening_server, ping, set_data,
};

/// So many sessions expire before other tasks get their turn.
const EXPIRIES_PER_TURN: usize = 64;

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

    // The owner receives no message: its connection is closed, and its session cannot be
    // reattached.
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

/// Sessions that expire with the same tick, each with two ephemerals: /0-a and /0-b, and so on.
async fn that_expire_together(server: &Server, count: usize) -> Vec<(Local, ConnectResponse)> {
    let mut owners = Vec::new();
    for number in 0..count {
        let (mut owner, response) = Local::connect(server, 6_000).await;
        for name in ["a", "b"] {
            owner.call(&create(&format!("/{number}-{name}"), CreateFlags::EPHEMERAL)).await;
        }
        owners.push((owner, response));
    }
    owners
}

#[tokio::test(start_paused = true)]
async fn sessions_that_expire_together_let_others_have_their_turn() {
    const COUNT: usize = 500;
    let server = Server::builder().start().await.unwrap();
    let (mut other, _) = Local::connect(&server, 40_000).await;
    drop(that_expire_together(&server, COUNT).await);
    advance(Duration::from_secs(10)).await;
    let mut lengths = Vec::new();
    while lengths.last() != Some(&0) {
        tokio::task::yield_now().await;
        let mut left = 0;
        for number in 0..COUNT {
            let is_there_yet = is_there(&mut other, &format!("/{number}-a")).await;
            let beside = is_there(&mut other, &format!("/{number}-b")).await;
            assert_eq!(is_there_yet, beside, "the ephemerals of a session go together");
            left += usize::from(is_there_yet);
        }
        lengths.push(left);
    }
    lengths.dedup();
    let most = lengths.windows(2).map(|pair| pair[0] - pair[1]).max();
    assert_eq!(most, Some(EXPIRIES_PER_TURN), "{lengths:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_heard_of_before_its_turn_lives_on_and_none_is_revived() {
    const COUNT: usize = 2 * EXPIRIES_PER_TURN;
    let server = Server::builder().start().await.unwrap();
    let (mut other, _) = Local::connect(&server, 40_000).await;
    let owners = that_expire_together(&server, COUNT).await;
    advance(Duration::from_secs(10)).await;
    while is_there(&mut other, "/0-a").await {
        tokio::task::yield_now().await;
    }
    // The first turn is over. No session has another one until this task waits.
    let mut living = Vec::new();
    for (number, (mut owner, response)) in owners.into_iter().enumerate() {
        let is_due_yet = is_there(&mut other, &format!("/{number}-a")).await;
        assert_eq!(is_due_yet, number >= EXPIRIES_PER_TURN, "{number}");
        if number % 2 == 0 {
            let is_answered = owner.send(&ping()) && owner.receive().await.is_some();
            assert_eq!(is_answered, is_due_yet, "a ping of {number}");
            living.extend(is_due_yet.then_some((number, owner)));
        } else {
            drop(owner);
            let again = ConnectRequest {
                session: response.session,
                password: response.password,
                ..ConnectRequest::new(6_000)
            };
            let (client, answer) = Local::connect_with(&server, again).await;
            assert_eq!(answer.is_refused(), !is_due_yet, "{number} reconnects");
            living.extend(is_due_yet.then_some((number, client)));
        }
    }
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        other.call(&ping()).await;
        for (_, client) in &mut living {
            client.call(&ping()).await;
        }
    }
    for number in 0..COUNT {
        let is_alive = is_there(&mut other, &format!("/{number}-b")).await;
        assert_eq!(is_alive, number >= EXPIRIES_PER_TURN, "{number}");
    }
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
async fn a_client_in_process_runs_before_an_overdue_session_expires() {
    let server = Server::builder().start().await.unwrap();
    let (mut client, _) = Local::connect(&server, 6_000).await;
    client.call(&create("/mine", CreateFlags::EPHEMERAL)).await;
    let (mut other, _) = Local::connect(&server, 40_000).await;
    let pinging = tokio::spawn(async move {
        loop {
            // Later than the tick that expires the session, if both are late.
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            client.call(&ping()).await;
        }
    });
    tokio::task::yield_now().await;
    // The thread was busy, and all timers are due at once.
    advance(Duration::from_secs(20)).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(is_there(&mut other, "/mine").await);
    pinging.abort();
}

#[tokio::test(start_paused = true)]
async fn slow_reading_keeps_a_session_alive_and_no_reading_lets_it_expire() {
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
    // It reads one reply every two seconds. The server does not read its pings: too many replies
    // wait.
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
async fn a_session_survives_the_loss_of_its_connection() {
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
async fn reattaching_a_session_closes_its_old_connection() {
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
    // Watches belong to the connection: the new one receives no event.
    new.call(&create("/a", CreateFlags::PERSISTENT)).await;
    new.call(&ping()).await;
    assert!(new.events.is_empty());
}

#[tokio::test]
async fn closing_a_session_is_one_transaction_whose_events_precede_the_reply() {
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
async fn session_timeouts_are_negotiated_into_the_limits() {
    let config = Config { tick_time_ms: 2_000, ..Config::default() };
    let server = Server::builder().config(config).start().await.unwrap();
    for (wished, granted) in [(0, 4_000), (-5, 4_000), (10_000, 10_000), (i32::MAX, 40_000)] {
        let (_, response) = Local::connect(&server, wished).await;
        assert_eq!(response.timeout_ms, granted, "{wished}");
    }
}

#[tokio::test(start_paused = true)]
async fn containers_and_ttl_znodes_are_deleted_when_they_are_due() {
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
    // The container has a child; the TTL of the other znode has passed.
    assert_eq!(client.events.pop_front(), deleted("/ttl"));
    assert!(is_there(&mut client, "/container").await);
    client.call(&delete("/container/child")).await;
    minutes(&mut client, 2).await;
    assert_eq!(client.events.pop_front(), deleted("/container"));
    assert!(!is_there(&mut client, "/container").await);
}

#[tokio::test]
async fn shutdown_sends_each_client_its_waiting_messages() {
    let (server, address) = listening_server(Config::default()).await;
    let (mut client, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    let (local, _) = Local::connect(&server, 30_000).await;
    client.call(&ping()).await;
    server.shutdown().await;
    assert_eq!(client.receive().await, None);
    assert_eq!(local.receive().await, None);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
