//! Faults of the test kit that move the clocks of the server.

use std::time::{Duration, Instant};

use zoolet::client::ConnectionState;
use zoolet::protocol::CreateMode;
use zoolet::recipes::InterProcessMutex;
use zoolet::testing::{FaultError, TestServer};

use super::{TRANSPORTS, wait_for};

#[tokio::test]
async fn advance_expires_sessions_at_once() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
        let session = client.session_id();
        client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
        server.advance(Duration::from_secs(59)).unwrap();
        assert_eq!(client.session_id(), session);
        assert!(client.exists("/mine").await.unwrap().is_some(), "the client pinged in time");
        server.advance(Duration::from_secs(61)).unwrap();
        let other = transport.connect(&server).await;
        assert_eq!(other.exists("/mine").await.unwrap(), None);
        wait_for(&client, ConnectionState::Reconnected).await;
    }
}

#[tokio::test]
async fn all_overdue_sessions_have_expired_when_advance_returns() {
    let server = TestServer::start().await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..200 {
        clients.push(server.connect().await.unwrap());
    }
    server.advance(Duration::from_secs(61)).unwrap();
    assert_eq!(server.everyone().expire().unwrap(), 0, "no session is left");
}

#[tokio::test]
async fn the_ticker_continues_from_the_advanced_clock() {
    let server = TestServer::builder().configure(|config| config.tick_time_ms = 20).start().await;
    let server = server.unwrap();
    server.advance(Duration::from_secs(1_000)).unwrap();
    let other = server.connect().await.unwrap();
    let builder = zoolet::client::Client::builder().session_timeout(Duration::from_secs(2));
    let client = builder.connect(server.dialer()).await.unwrap();
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    let watch = other.exists("/mine").and_watch().await.unwrap();
    let frozen = server.session(client.session_id()).freeze().unwrap();
    let gone = tokio::time::timeout(Duration::from_secs(20), watch.watcher).await;
    assert!(gone.is_ok(), "the session expired in its time");
    frozen.lift();
}

#[tokio::test]
async fn skew_wall_time_affects_ttl_znodes_and_not_sessions() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let session = client.session_id();
    client
        .create("/soon")
        .mode(CreateMode::PersistentWithTtl(Duration::from_secs(3_600)))
        .await
        .unwrap();
    client
        .create("/later")
        .mode(CreateMode::PersistentWithTtl(Duration::from_secs(9_000)))
        .await
        .unwrap();
    server.sweep().unwrap();
    assert!(client.exists("/soon").await.unwrap().is_some());
    server.skew_wall_time(3_601_000).unwrap();
    server.sweep().unwrap();
    assert_eq!(client.exists("/soon").await.unwrap(), None);
    assert!(client.exists("/later").await.unwrap().is_some());
    assert_eq!(client.session_id(), session);
    server.advance(Duration::from_secs(9_000)).unwrap();
    assert_eq!(client.exists("/later").await.unwrap(), None);
}

#[tokio::test]
async fn skew_wall_time_shifts_stat_times_until_heal() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let stat = client.create("/now").await.unwrap().stat;
    server.skew_wall_time(-1_000_000).unwrap();
    let earlier = client.create("/earlier").await.unwrap().stat;
    assert!((-1_000_000..-900_000).contains(&(earlier.ctime - stat.ctime)));
    server.heal();
    let again = client.create("/again").await.unwrap().stat;
    assert!((0..100_000).contains(&(again.ctime - stat.ctime)));
}

#[tokio::test(start_paused = true)]
async fn the_virtual_wall_clock_continues_over_a_restart() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let before = client.create("/before").await.unwrap().stat.ctime;
    tokio::time::sleep(Duration::from_secs(30)).await;
    server.stop().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    server.restart().await.unwrap();
    let after = server.connect().await.unwrap().create("/after").await.unwrap().stat.ctime;
    assert!((60_000..61_000).contains(&(after - before)), "{}", after - before);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_after_thirty_seconds_takes_no_real_time() {
    let server = TestServer::start().await.unwrap();
    let builder = zoolet::client::Client::builder().session_timeout(Duration::from_secs(30));
    let owner = builder.connect(server.dialer()).await.unwrap();
    let guard = InterProcessMutex::new(&owner, "/lock").unwrap().acquire().await.unwrap();
    let waiter = server.connect().await.unwrap();
    let mutex = InterProcessMutex::new(&waiter, "/lock").unwrap();
    server.session(owner.session_id()).freeze().unwrap();
    let began = Instant::now();
    let begun = tokio::time::Instant::now();
    let next = mutex.acquire().await.unwrap();
    let took = began.elapsed();
    assert!(begun.elapsed() >= Duration::from_secs(20), "{:?}", begun.elapsed());
    println!("a session of thirty seconds expired in {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(next.fencing_token() > guard.fencing_token());
}

#[tokio::test]
async fn durations_above_a_thousand_years_are_refused_without_effect() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let stat = client.create("/a").await.unwrap().stat;
    let far = Duration::from_secs(900 * 365 * 86_400);
    for refused in [
        server.advance(Duration::MAX),
        server.skew_wall_time(i64::MIN),
        server.skew_wall_time(i64::MAX),
        server.everyone().delay(Duration::MAX).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(error.to_string().contains("the limit is a thousand years"), "{error}");
    }
    let soon = client.create("/b").await.unwrap().stat;
    assert!((0..100_000).contains(&(soon.ctime - stat.ctime)));
    server.advance(far).unwrap();
    assert!(matches!(server.advance(far), Err(FaultError::TooLong(_))));
    let other = server.connect().await.unwrap();
    let late = other
        .create("/c")
        .mode(CreateMode::PersistentWithTtl(Duration::from_secs(1)))
        .await
        .unwrap()
        .stat;
    assert!(late.ctime > stat.ctime + 800 * 365 * 86_400_000);
    server.skew_wall_time(-(far.as_millis() as i64)).unwrap();
    server.sweep().unwrap();
    assert!(other.exists("/c").await.unwrap().is_some());
}
