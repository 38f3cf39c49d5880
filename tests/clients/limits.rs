//! Requests that are too long, time limits that are too long for a clock, and wakers that call the
//! client.

use std::future::ready;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::duplex;
use zoolet::client::{Client, ConnectionState, Error, StreamDialer};
use zoolet::protocol::{Expect, MultiOp, OpCode, SetData};
use zoolet::recipes::{InterProcessMutex, InterProcessSemaphoreV2, LockError, LockState};
use zoolet::server::{Config, Server};
use zoolet::testing::TestServer;
use zoolet_test_support::listening_server;

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_request_that_is_too_long_is_not_sent() {
    let (server, address) = listening_server(Config::default()).await;
    let remote = Client::connect(address.to_string().as_str()).await.unwrap();
    let local = Client::connect(server.dialer()).await.unwrap();
    for (client, path) in [(local, "/local"), (remote, "/remote")] {
        let error = client.create(path).data(vec![0; 2 * MIB]).await.unwrap_err();
        let Error::TooLong { op, path: of, bytes, limit } = &error else { panic!("{error}") };
        assert_eq!((*op, of.as_str(), *limit), (OpCode::CREATE2, path, 0xf_ffff));
        assert!(*bytes > 2 * MIB && *bytes < 2 * MIB + 200, "{bytes}");
        assert!(error.has_no_effect() && !error.is_retryable());
        assert!(error.to_string().ends_with("jute.maxbuffer of the servers)"), "{error}");
        assert_eq!(client.connection_count(), 1);
        client.create(path).data(vec![0; MIB - 200]).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_and_a_server_with_a_greater_jute_maxbuffer_take_longer_requests() {
    let config = Config { frame_bytes_max: 4 * MIB, ..Config::default() };
    let (_server, address) = listening_server(config).await;
    let builder = Client::builder().jute_max_buffer(4 * MIB);
    let client = builder.connect(address.to_string().as_str()).await.unwrap();
    assert_eq!(client.jute_max_buffer(), 4 * MIB);
    client.create("/a").data(vec![1; 3 * MIB]).await.unwrap();
    assert_eq!(client.get("/a").await.unwrap().0.len(), 3 * MIB);
    assert!(matches!(client.set("/a", vec![1; 5 * MIB]).await, Err(Error::TooLong { .. })));
    assert_eq!(client.connection_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_requests_of_the_client_itself_are_never_too_long() {
    let server = TestServer::start().await.unwrap();
    let client = Client::builder().jute_max_buffer(1).connect(server.dialer()).await.unwrap();
    assert_eq!(client.jute_max_buffer(), 512 << 10);
    let (data, mut guards) = (Bytes::from_static(b"me"), Vec::new());
    for number in 0..4_000 {
        let mutex = InterProcessMutex::new(&client, &format!("/locks/{number}")).unwrap();
        guards.push(mutex.with_data(data.clone()).acquire().await.unwrap());
    }
    tokio::time::sleep(2 * client.session_timeout()).await;
    assert!(guards.iter().all(|guard| guard.state() == LockState::Held));
    assert_eq!(client.connection_count(), 1);
}

#[tokio::test]
async fn credentials_that_are_too_long_are_refused() {
    let (_server, address) = listening_server(Config::default()).await;
    let (address, long) = (address.to_string(), vec![b'x'; 2 * MIB]);
    let is_too_long = |error: Error| matches!(error, Error::TooLong { op: OpCode::AUTH, .. });
    let with_long = Client::builder().auth("digest", long.clone());
    assert!(with_long.connect(address.as_str()).await.is_err_and(is_too_long));
    let client = Client::connect(address.as_str()).await.unwrap();
    assert!(client.authenticate("digest", long).await.is_err_and(is_too_long));
    assert!(client.exists("/").await.unwrap().is_some());
    assert_eq!(client.connection_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_a_request_is_no_longer_than_a_frame() {
    let server = TestServer::start().await.unwrap();
    let builder = Client::builder().jute_max_buffer(usize::MAX);
    let client = builder.connect(server.dialer()).await.unwrap();
    assert_eq!(client.jute_max_buffer(), i32::MAX as usize);
    let permits = InterProcessSemaphoreV2::new(&client, "/permits", usize::MAX).unwrap();
    let error = permits.acquire(usize::MAX).await.unwrap_err();
    assert!(matches!(error, LockError::Client(Error::TooLong { .. })), "{error}");
    let gibibyte = Bytes::from(vec![0; 1 << 30]);
    let set = || SetData { path: "/".into(), data: Some(gibibyte.clone()), version: Expect::Any };
    let ops = [set(), set()].map(MultiOp::SetData).to_vec();
    let error = client.multi(ops).await.unwrap_err();
    assert!(error.to_string().contains("2147483647"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_time_limits_a_client_leaves_a_server_that_does_not_answer() {
    let server = Arc::new(Server::builder().start().await.unwrap());
    let (ours, silent) = (Arc::clone(&server), Arc::new(Mutex::new(None)));
    let open = move |_address| {
        let (near, far) = duplex(1 << 16);
        let mut silent = silent.lock().unwrap();
        match &*silent {
            // The first one accepts the connection, and does nothing more.
            None => *silent = Some(far),
            Some(_) => drop(tokio::spawn(ours.serve_stream(far, ([127, 0, 0, 1], 7).into()))),
        }
        ready(io::Result::Ok(near))
    };
    let dialer = StreamDialer::new("one,two", open).unwrap();
    let builder = Client::builder().connection_timeout(Duration::MAX);
    let connecting = builder.session_timeout(Duration::MAX).connect(dialer);
    let client = tokio::time::timeout(Duration::from_secs(120), connecting).await;
    assert!(client.expect("it goes on to the next").unwrap().exists("/").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_longest_duration_stands_for_no_time_limit() {
    let server = TestServer::start().await.unwrap();
    let builder = Client::builder().connection_timeout(Duration::MAX);
    let client = builder.session_timeout(Duration::MAX).connect(server.dialer()).await.unwrap();
    server.session(client.session_id()).cut().unwrap();
    // It is sent once there is a connection again.
    assert!(client.exists("/").await.unwrap().is_some());
    assert_eq!(client.connection_count(), 2);
}

#[tokio::test]
async fn the_longest_duration_stands_for_no_time_limit_over_tcp() {
    let (_server, address) = listening_server(Config::default()).await;
    let builder = Client::builder().connection_timeout(Duration::MAX);
    let client = builder.session_timeout(Duration::MAX).connect(address.to_string().as_str()).await;
    assert!(client.unwrap().exists("/").await.unwrap().is_some());
}

/// Calls the client when it is woken, as an executor on one thread may.
struct CallsTheClient {
    client: Client,
    has_told: AtomicBool,
}

impl Wake for CallsTheClient {
    fn wake(self: Arc<Self>) {
        let _session = self.client.session_id();
        self.has_told.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_call_the_client() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let (mut states, mut proofs) = (client.state(), client.proof_changes());
    let session = client.session_id();
    let wakers = [client.clone(), client.clone()]
        .map(|client| Arc::new(CallsTheClient { client, has_told: AtomicBool::new(false) }));
    states.mark_unchanged();
    proofs.mark_unchanged();
    let mut changed = (pin!(states.changed()), pin!(proofs.changed()));
    let [of_states, of_proofs] = wakers.clone().map(Waker::from);
    assert!(changed.0.as_mut().poll(&mut Context::from_waker(&of_states)).is_pending());
    assert!(changed.1.as_mut().poll(&mut Context::from_waker(&of_proofs)).is_pending());
    server.session(session).expire().unwrap();
    client
        .state()
        .wait_for(|state| state.is_some_and(ConnectionState::is_connected))
        .await
        .unwrap();
    client.sync("/").await.unwrap();
    for waker in wakers {
        assert!(waker.has_told.load(Ordering::SeqCst), "it was woken, and the client answered");
    }
}
