//! Servers that take shorter requests than the client sends: they close the connection at each of them.

use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::recipes::{
    Guard, InterProcessMultiLock, InterProcessMutex, InterProcessSemaphoreV2, LockError, LockState,
};
use zoolet::testing::TestServer;

const SECOND: Duration = Duration::from_secs(1);

/// A server that takes requests of so many bytes.
async fn server_of(frame_bytes_max: usize) -> TestServer {
    let builder = TestServer::builder();
    let builder = builder.configure(move |config| config.frame_bytes_max = frame_bytes_max);
    builder.start().await.expect("it starts")
}

/// A client that holds a lock.
async fn holder(server: &TestServer) -> (Client, Guard) {
    let client = Client::builder()
        .session_timeout(10 * SECOND)
        .connect(server.dialer())
        .await
        .expect("it listens");
    let lock = InterProcessMutex::new(&client, "/lock").expect("a path");
    let guard = lock.acquire().await.expect("it is free");
    (client, guard)
}

/// Waits until another client has the lock, and checks that the holder knows that it has lost it.
async fn comes_free(server: &TestServer, guard: &Guard) {
    let other = server.connect().await.expect("it listens");
    let lock = InterProcessMutex::new(&other, "/lock").expect("a path");
    let next = lock.acquire_within(60 * SECOND).await;
    assert_eq!(guard.state(), LockState::Lost);
    next.expect("the session of the holder ends").release().await.expect("it is held");
}

#[tokio::test(start_paused = true)]
async fn the_lock_of_a_client_whose_credentials_no_server_takes_comes_free() {
    let server = server_of(600_000).await;
    let (client, guard) = holder(&server).await;
    client.authenticate("digest", "me:secret").await.unwrap();
    let error = client.authenticate("digest", vec![b'x'; 700_000]).await.unwrap_err();
    assert!(matches!(error, Error::ConnectionLoss { .. }), "{error}");
    comes_free(&server, &guard).await;
    // It goes on with the credentials that were accepted, and without the others.
    let identities = client.who_am_i().await.unwrap();
    assert!(
        identities.iter().any(|identity| identity.scheme.as_deref() == Some("digest")),
        "{identities:?}"
    );
    let connections = client.connection_count();
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(client.connection_count(), connections);
}

#[tokio::test(start_paused = true)]
async fn the_lock_of_a_client_whose_watches_no_server_takes_comes_free() {
    let server = server_of(100_000).await;
    let (client, guard) = holder(&server).await;
    let mut watchers = Vec::new();
    for number in 0..1_800 {
        let path = format!("/{number:060}");
        watchers.push(client.exists(&path).and_watch().await.unwrap().watcher);
    }
    server.session(client.session_id()).cut().unwrap();
    comes_free(&server, &guard).await;
    let event = watchers.pop().unwrap().await;
    assert!(matches!(event, Err(Error::SessionExpired)), "{event:?}");
    assert!(client.exists("/").await.unwrap().is_some());
}

/// Connections that are lost now and then, also before the watches are registered, are no refusal.
#[tokio::test(start_paused = true)]
async fn a_client_whose_connections_are_cut_again_and_again_keeps_its_session() {
    let server = TestServer::start().await.unwrap();
    let (client, guard) = holder(&server).await;
    let session = client.session_id();
    let _watcher = client.exists("/watched").and_watch().await.unwrap().watcher;
    for _ in 0..1_000 {
        // Mostly there is no connection, or one whose answers are under way.
        let _ = server.session(session).cut();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.session_id(), session);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_could_not_be_registered_again_is_refused() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let limit = client.jute_max_buffer();
    let path = |shorter: usize| format!("/{}", "a".repeat(limit - shorter - 1));
    // `exists` has 13 bytes beside its path, and the longest `setWatches` of one path 40.
    assert!(client.exists(&path(13)).await.unwrap().is_none());
    let refused = client.exists(&path(13)).and_watch().await;
    assert!(matches!(refused, Err(Error::TooLong { .. })));
    assert!(matches!(client.exists(&path(39)).and_watch().await, Err(Error::TooLong { .. })));
    let watcher = client.exists(&path(40)).and_watch().await.unwrap().watcher;
    assert_eq!(client.connection_count(), 1);
    server.session(client.session_id()).cut().unwrap();
    client.sync("/").await.unwrap();
    assert_eq!(client.connection_count(), 2);
    drop(watcher);
}

/// As a mutex does: each attempt costs a connection, so that there are not many.
#[tokio::test(start_paused = true)]
async fn a_request_of_a_lock_that_no_server_takes_is_an_error() {
    let server = server_of(100_000).await;
    let client = server.connect().await.unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, "/s", 10_000).unwrap();
    let error = semaphore.acquire_within(1_500, 60 * SECOND).await.unwrap_err();
    assert!(matches!(error, LockError::Client(Error::ConnectionLoss { .. })), "{error}");
    let tried = tokio::time::timeout(60 * SECOND, semaphore.try_acquire(1_500)).await;
    let error = tried.expect("it ends").unwrap_err();
    assert!(matches!(error, LockError::Client(Error::ConnectionLoss { .. })), "{error}");
    let paths: Vec<_> = (0..1_500).map(|number| format!("/m/{number}")).collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    let lock = InterProcessMultiLock::new(&client, &paths).unwrap();
    let error = lock.acquire_within(60 * SECOND).await.unwrap_err();
    assert!(matches!(error, LockError::Client(Error::ConnectionLoss { .. })), "{error}");
    assert_eq!(semaphore.acquire(2).await.unwrap().len(), 2, "nobody is in front");
}
