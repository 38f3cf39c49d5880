//! Tests of the blocking client and mutex: threads as owners, timeouts, and clean-up.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use zoolet::client::Error;
use zoolet::client::blocking::Client;
use zoolet::protocol::{CreateMode, ErrorCode};
use zoolet::recipes::blocking::InterProcessMutex;
use zoolet::recipes::{LockError, LockState};
use zoolet::server::Server;

/// Long enough on a busy machine.
const LONG: Duration = Duration::from_secs(20);

fn server() -> (Runtime, Server) {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::builder().start()).expect("it starts");
    (runtime, server)
}

/// A server on a port, so that its clients do not notice at once when it shuts down.
fn over_tcp() -> (Runtime, Server, Client) {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = Server::builder().listen(([127, 0, 0, 1], 0).into());
    let server = runtime.block_on(server.start()).expect("it starts");
    let address = server.local_addr().expect("it listens").to_string();
    let client = Client::connect(address.as_str()).expect("the server listens");
    (runtime, server, client)
}

fn assert_clean(server: &Server, client: &Client, path: &str) {
    let is_clean = || {
        client.children(path).is_ok_and(|names| names.is_empty()) && server.totals().watches == 0
    };
    let start = Instant::now();
    while !is_clean() {
        assert!(start.elapsed() < LONG, "a znode or a watch is left");
        std::thread::yield_now();
    }
}

#[test]
fn eight_threads_hold_the_mutex_one_at_a_time() {
    let (_runtime, server) = server();
    let client = Client::connect(server.dialer()).unwrap();
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // All threads share one session: each thread is an owner.
                let mutex = InterProcessMutex::new(&client, "/a").unwrap();
                for _ in 0..20 {
                    let guard = mutex.acquire().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().unwrap();
                }
            });
        }
    });
    assert_clean(&server, &client, "/a");
}

#[test]
fn a_thread_reenters_its_mutex_and_another_does_not() {
    let (_runtime, server) = server();
    let client = Client::connect(server.dialer()).unwrap();
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let first = mutex.acquire().unwrap();
    let again = mutex.acquire().unwrap();
    assert_eq!(first.fencing_token(), again.fencing_token());
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_acquire().unwrap().is_none()));
    });
    drop(first);
    assert_eq!(again.state(), LockState::Held);
    again.release().unwrap();
    assert_clean(&server, &client, "/a");
}

#[test]
fn acquire_within_times_out_without_a_server() {
    let (runtime, server, client) = over_tcp();
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    runtime.block_on(server.shutdown());
    let time = Duration::from_millis(200);
    let start = Instant::now();
    assert!(matches!(mutex.acquire_within(time), Err(LockError::TimedOut(_))));
    assert!((time..LONG).contains(&start.elapsed()));
}

#[test]
fn release_within_times_out_without_a_server() {
    let (runtime, server, client) = over_tcp();
    let guard = InterProcessMutex::new(&client, "/a").unwrap().acquire().unwrap();
    runtime.block_on(server.shutdown());
    let time = Duration::from_millis(200);
    let start = Instant::now();
    assert!(matches!(guard.release_within(time), Err(LockError::TimedOut(_))));
    assert!((time..LONG).contains(&start.elapsed()));
}

#[test]
fn acquire_fails_at_once_when_the_server_in_process_has_shut_down() {
    let (runtime, server) = server();
    let client = Client::connect(server.dialer()).unwrap();
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    runtime.block_on(server.shutdown());
    let start = Instant::now();
    assert_eq!(mutex.acquire().map(drop), Err(LockError::Client(Error::Closed)));
    assert!(start.elapsed() < LONG);
}

#[test]
fn a_panic_of_the_holding_thread_releases_the_mutex() {
    let (_runtime, server) = server();
    let client = Client::connect(server.dialer()).unwrap();
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let holder = mutex.clone();
    let thread = std::thread::spawn(move || {
        let _guard = holder.acquire().unwrap();
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    mutex.acquire_within(LONG).unwrap().release().unwrap();
    assert_clean(&server, &client, "/a");
}

#[test]
fn reads_and_writes_work_over_tcp() {
    let runtime = Runtime::new().expect("a runtime starts");
    let starting = Server::builder().listen(([127, 0, 0, 1], 0).into()).start();
    let server = runtime.block_on(starting).unwrap();
    let address = server.local_addr().unwrap().to_string();
    let client = Client::connect(address.as_str()).unwrap();
    client.create("/a", "one").unwrap();
    assert_eq!(client.set("/a", "two").unwrap().version, 1);
    assert_eq!(&client.get("/a").unwrap().0[..], b"two");
    assert!(client.children("/").unwrap().iter().any(|name| name == "a"));
    client.delete("/a").unwrap();
    assert_eq!(client.exists("/a").unwrap(), None);
    drop(client);
    let start = Instant::now();
    while server.totals().sessions > 0 {
        assert!(start.elapsed() < LONG, "the session outlives its client");
        std::thread::yield_now();
    }
}

#[test]
#[should_panic(expected = "runtime")]
fn a_blocking_call_within_async_code_panics() {
    let (runtime, server) = server();
    let client = Client::connect(server.dialer()).unwrap();
    runtime.block_on(async { drop(client.get("/")) });
}

#[test]
fn a_refused_transaction_names_its_operation_and_changes_nothing() {
    let (_runtime, server) = server();
    let client = Client::connect(server.dialer()).unwrap();
    client.create("/config", "one").unwrap();
    let transaction = |version: i32| {
        let checked = client.transaction().set("/config", "two", 0).check("/config", version);
        checked.create("/running", "host-1", CreateMode::Ephemeral).delete("/running", 0)
    };
    let error = transaction(2).commit().unwrap_err();
    assert!(error.is(ErrorCode::BAD_VERSION) && error.operation_index() == Some(1), "{error}");
    assert_eq!(client.get("/config").unwrap().1.version, 0);
    assert_eq!(transaction(1).commit().unwrap().len(), 4);
    assert_eq!(client.get("/config").unwrap().0, "two");
}
