//! Faults of the test kit that freeze a server, a session or a connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet::client::{Client, ConnectionState, Error, RetryPolicy};
use zoolet::protocol::CreateMode;
use zoolet::testing::TestServer;

use super::{TRANSPORTS, TransportKind, wait_for};

#[tokio::test]
async fn a_frozen_server_answers_its_requests_after_thaw() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
        let session = client.session_id();
        let frozen = server.freeze().unwrap();
        let sent: Vec<_> = (0..3).map(|n| client.create(&format!("/{n}")).send()).collect();
        let waiting = tokio::time::timeout(Duration::from_millis(20), client.exists("/")).await;
        assert!(waiting.is_err());
        server.thaw();
        for (number, sent) in sent.into_iter().enumerate() {
            assert_eq!(sent.await.unwrap().path, format!("/{number}"));
        }
        assert_eq!(client.session_id(), session);
        frozen.lift();
    }
}

#[tokio::test]
async fn a_client_that_connects_to_a_frozen_server_is_served_after_thaw() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        server.freeze().unwrap();
        let connecting = tokio::spawn({
            let server = server.clone();
            async move { transport.connect(&server).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!connecting.is_finished());
        server.thaw();
        connecting.await.unwrap().create("/a").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_expires_overdue_sessions_after_thaw() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    let session = client.session_id();
    server.freeze().unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!client.state().borrow().unwrap().is_connected(), "it has noticed");
    server.thaw();
    let other = server.connect().await.unwrap();
    assert_eq!(other.exists("/mine").await.unwrap(), None);
    client.create("/again").mode(CreateMode::Ephemeral).await.unwrap();
    assert_ne!(client.session_id(), session);
}

#[tokio::test(start_paused = true)]
async fn a_freeze_shorter_than_the_timeout_keeps_the_session() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let session = client.session_id();
    server.freeze().unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    wait_for(&client, ConnectionState::Suspended).await;
    server.thaw();
    client.create("/a").await.unwrap();
    assert_eq!(client.session_id(), session);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_session_carries_out_its_requests_after_the_client_gave_up() {
    let server = TestServer::start().await.unwrap();
    let builder = Client::builder().session_timeout(Duration::from_secs(10));
    let client = builder.connect(server.dialer()).await.unwrap();
    let frozen = server.session(client.session_id()).freeze().unwrap();
    let error = client.create("/late").await.unwrap_err();
    assert!(matches!(error, Error::ConnectionLoss { .. }), "{error}");
    let other = server.connect().await.unwrap();
    assert_eq!(other.exists("/late").await.unwrap(), None);
    assert!(frozen.hits() >= 1);
    frozen.lift();
    assert!(other.exists("/late").await.unwrap().is_some(), "as from a socket");
    assert!(client.exists("/late").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_frozen_session_expires_after_its_timeout_and_others_stay_alive() {
    let server = TestServer::start().await.unwrap();
    let (gone, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    gone.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    server.session(gone.session_id()).freeze().unwrap();
    tokio::time::sleep(Duration::from_secs(58)).await;
    assert!(other.exists("/mine").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(other.exists("/mine").await.unwrap(), None);
    server.heal();
    wait_for(&gone, ConnectionState::Reconnected).await;
}

#[tokio::test]
async fn freezing_one_connection_leaves_the_others_running() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (one, other) = (transport.connect(&server).await, transport.connect(&server).await);
        let frozen = server.connection(server.connections().unwrap()[0].id).freeze().unwrap();
        let sent = one.create("/one").send();
        other.create("/other").await.unwrap();
        assert_eq!(other.exists("/one").await.unwrap(), None);
        frozen.lift();
        sent.await.unwrap();
    }
}

#[tokio::test]
async fn a_frozen_server_does_not_answer_ruok() {
    let server = TransportKind::Tcp.server().await;
    let ask = async |address: std::net::SocketAddr| {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"ruok").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    };
    let address = server.address().unwrap();
    assert_eq!(ask(address).await.unwrap(), "imok");
    server.freeze().unwrap();
    let mut asking = std::pin::pin!(ask(address));
    let answer = tokio::time::timeout(Duration::from_millis(30), &mut asking).await;
    assert!(answer.is_err(), "{answer:?}");
    server.thaw();
    assert_eq!(asking.await.unwrap(), "imok");
}

#[tokio::test(start_paused = true)]
async fn cutting_a_frozen_connection_discards_its_requests() {
    let server = TestServer::start().await.unwrap();
    let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let client = client.with_retry_policy(RetryPolicy::never());
    let session = server.session(client.session_id());
    session.freeze().unwrap();
    let sent = client.create("/never").send();
    assert_eq!((session.cut(), server.connections().unwrap().len()), (Ok(1), 1));
    assert!(matches!(sent.await, Err(Error::ConnectionLoss { .. })));
    session.thaw();
    assert_eq!(other.exists("/never").await.unwrap(), None);
    assert_eq!(client.exists("/never").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn two_freezes_last_until_both_are_lifted() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let all = server.freeze().unwrap();
    let one = server.session(client.session_id()).freeze().unwrap();
    let (all_sent, begun) = (client.create("/a").send(), tokio::time::Instant::now());
    all.lift();
    let other = server.connect().await.unwrap();
    assert_eq!(other.exists("/a").await.unwrap(), None);
    one.lift();
    all_sent.await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
